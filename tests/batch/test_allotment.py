"""A site's share of a cluster, and several tables of one cluster are several partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.adapters.batch.allotment import processors
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import ClusterCapacity
from diana.engine.journal.events import LrmReady, LrmSized
from diana.errors import UsageError
from diana.node.config.site_file import parse_config
from tests.batch.cluster_builders import ClusterSite
from tests.batch.fake_pbs import FakePbs
from tests.batch.test_pbs_conformance import pbs as pbs


@pytest.mark.parametrize(
    ("wanted", "slots", "others", "ours"),
    [
        ({}, 16, 4, 12),
        ({}, 16, 16, 1),
        ({}, 0, 0, 0),
        ({"slots": 5}, 16, 4, 5),
        ({"share": 0.5}, 16, 4, 8),
        ({"share": 0.5}, 16, 12, 4),
        ({"share": 0.01}, 16, 0, 1),
        ({"share": 0.5, "slots": 3}, 16, 0, 3),
        ({"leave_free": 6}, 16, 4, 6),
        ({"leave_free": 6}, 16, 10, 0),
        ({"leave_free": 6}, 16, 16, 0),
        ({"leave_free": 6, "share": 0.25}, 16, 4, 4),
    ],
)
def test_the_least_of_what_is_left_to_us_counts(wanted: dict[str, float], slots: int, others: int, ours: int) -> None:
    assert processors(ClusterSettings(**wanted), ClusterCapacity(version="", slots=slots, others=others)) == ours  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "ours", "then"), [({"share": 0.5}, 4, 3), ({"leave_free": 3}, 5, 0), ({"leave_free": 8}, 0, 0)]
)
async def test_a_cluster_is_given_no_more_and_less_when_others_come(
    pbs: FakePbs, tmp_path: Path, wanted: dict[str, float], ours: int, then: int
) -> None:
    settings = ClusterSettings(kind="pbs", config=str(pbs.config), look_s=0.1, ask_s=0.2, **wanted)  # type: ignore[arg-type]
    at = ClusterSite(tmp_path / "site", settings)
    await at.up()
    try:
        (ready,) = [event for event in at.events if isinstance(event, LrmReady)]
        assert (ready.slots, ready.ahead) == (ours, 0)
        pbs.others = 5
        if then != ours:
            await at.until(lambda: any(isinstance(e, LrmSized) and e.slots == then for e in at.events))
    finally:
        await at.down()


HEAD = 'site = "alpha"\nvo = "lab"\n'


def test_two_partitions_of_one_cluster_are_two_tables() -> None:
    text = '[clusters.a]\npartition = "short"\nshare = 0.25\n[clusters.b]\npartition = "long"\n[clusters.c]\n'
    assert list(parse_config(HEAD + text).clusters) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[clusters.a]\npartition = "x"\n[clusters.b]\npartition = "x"',
            "site.toml:clusters.b.partition: 'x', as in clusters.a: its processors would count twice; name another",
        ),
        ("[clusters.a]\n[clusters.b]", "site.toml:clusters.b.partition: missing, as in clusters.a: its processors"),
        ("[clusters.a]\nshare = 0.0", "site.toml:clusters.a.share: 0.0 is out of range; want 0.001 to 1"),
        ("[clusters.a]\nleave_free = -1", "site.toml:clusters.a.leave_free: -1 is out of range; want 0 to 10000000"),
    ],
)
def test_tables_that_would_count_processors_twice_are_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_config(HEAD + text)
    assert str(refused.value).startswith(says) and "\n" not in str(refused.value)
