"""The history that another site tells: what an honest one says passes, and each lie is named before it counts."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from diana.errors import Denied
from diana.model.ids import GroupId, SiteId
from diana.model.views.past import PastGroup, PastMoment, PastRows, PastSite
from diana.node.api.history import MOST_TRIES, _Checking
from diana.wire.client.history import HistoryChunk

SITE = PastSite(site=SiteId("beta"), slots=2, speed=1.0)
GROUP = PastGroup(group=GroupId("beta-3"), owner="ann@lab", jobs=2, submitted_wall_s=1.8e9, submitted_s=1.8e9)
ROWS = PastRows(
    site=SiteId("gamma"),
    indices=(0, 1),
    attempts=(1, 1),
    outcomes=("DONE", "FAILED"),
    started_s=(1.8e9, 1.8e9),
    ended_s=(1.8e9 + 1, 1.8e9 + 2),
    cpu_s=(0.5, 0.5),
    max_rss_bytes=(1, 1),
    output_bytes=(0, 0),
)


def _told(*chunks: HistoryChunk) -> None:
    checking = _Checking(SiteId("beta"))
    for chunk in chunks:
        assert checking.checked(msgspec.msgpack.encode(chunk)) == chunk


HONEST = (HistoryChunk(site=SITE), HistoryChunk(group=GROUP), HistoryChunk(rows=ROWS))


def test_what_an_honest_site_tells_passes() -> None:
    _told(*HONEST, HistoryChunk(rows=ROWS), HistoryChunk(group=replace(GROUP, group=GroupId("beta-9"))))


LIES: dict[str, tuple[HistoryChunk, ...]] = {
    "of another site": (HistoryChunk(site=replace(SITE, site=SiteId("alpha"))),),
    "with settings": (HistoryChunk(site=replace(SITE, settings="{}")),),
    "twice itself": (HONEST[0], HONEST[0]),
    "groups first": (HONEST[1],),
    "another's group": (HONEST[0], HistoryChunk(group=replace(GROUP, group=GroupId("alpha-3")))),
    "no group's name": (HONEST[0], HistoryChunk(group=replace(GROUP, group=GroupId("../x")))),
    "a group again": (*HONEST, HONEST[1]),
    "an older group": (*HONEST, HistoryChunk(group=replace(GROUP, group=GroupId("beta-2")))),
    "no jobs": (HONEST[0], HistoryChunk(group=replace(GROUP, jobs=0))),
    "a time that is none": (HONEST[0], HistoryChunk(group=replace(GROUP, submitted_s=math.inf))),
    "rows of no group": (HONEST[0], HONEST[2]),
    "short columns": (*HONEST[:2], HistoryChunk(rows=replace(ROWS, cpu_s=(0.5,)))),
    "jobs it does not have": (*HONEST[:2], HistoryChunk(rows=replace(ROWS, indices=(0, 2)))),
    "ends that are none": (*HONEST[:2], HistoryChunk(rows=replace(ROWS, ended_s=(1.0, math.nan)))),
    "rows without end": (*HONEST[:2], *[HONEST[2]] * (MOST_TRIES + 1)),
    "a speed of nothing": (HistoryChunk(site=replace(SITE, speed=0.0)),),
    "slots below nothing": (HistoryChunk(site=replace(SITE, moments=(PastMoment(slots=-1, speed=1.0),))),),
    "two things at once": (HONEST[0], HistoryChunk(group=GROUP, rows=ROWS)),
    "a word for the asker": (HONEST[0], HistoryChunk(untold="alpha", why="so")),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_in_one_line(lie: str) -> None:
    with pytest.raises(Denied) as refused:
        _told(*LIES[lie])
    assert str(refused.value).startswith("site beta tells nonsense: ") and "\n" not in str(refused.value)


@given(st.binary(max_size=300))
def test_bytes_of_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(Denied):
        _Checking(SiteId("beta")).checked(data)


_VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.just([]) | st.just({"jobs": "x"})


@given(_VALUES, _VALUES)
def test_a_message_of_any_shape_is_refused_and_never_a_fault(one: Any, other: Any) -> None:
    with pytest.raises(Denied):
        _Checking(SiteId("beta")).checked(msgspec.msgpack.encode({"group": one, "rows": other}))
