"""`diana history export --grid` over what a node tells: sites without a job of their own tell of themselves too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from diana.cli.past.history import _Grid
from diana.client import Client
from diana.errors import UsageError
from diana.model.ids import GroupId, SiteId
from diana.model.views.past import PastGroup, PastMachine, PastMoment, PastRows, PastSite
from diana.sim.past.merging import load
from diana.sim.past.replay import as_it_was, replayed
from diana.wire.client.history import HistoryChunk

AT_S = 1_800_000_000.0
ALPHA = HistoryChunk(site=PastSite(site=SiteId("alpha"), slots=2, speed=1.0))
BETA = HistoryChunk(
    site=PastSite(
        site=SiteId("beta"),
        slots=3,
        speed=1.0,
        machines=(PastMachine(name="m1", slots=2),),
        moments=(
            # Long before the first group of the grid, and within its history.
            PastMoment(wall_s=AT_S - 900, slots=3, speed=1.0, drained=True),
            PastMoment(wall_s=AT_S - 800, slots=3, speed=1.0),
            PastMoment(wall_s=AT_S + 5, slots=3, speed=1.0, drained=True),
            PastMoment(wall_s=AT_S + 65, slots=3, speed=1.0),
        ),
    )
)


def _work(site: str) -> list[HistoryChunk]:
    group = PastGroup(group=GroupId(f"{site}-1"), owner="ann@lab", jobs=1, submitted_wall_s=AT_S, submitted_s=AT_S)
    rows = PastRows(
        site=SiteId(site),
        indices=(0,),
        attempts=(1,),
        outcomes=("DONE",),
        started_s=(AT_S + 1,),
        ended_s=(AT_S + 4,),
        cpu_s=(3.0,),
        max_rss_bytes=(0,),
        output_bytes=(0,),
    )
    return [HistoryChunk(group=group), HistoryChunk(rows=rows)]


def _exported(out: Path, chunks: Sequence[HistoryChunk], places: str = "keep") -> _Grid:
    def told(begin: float, end: float, *, grid: bool) -> Iterator[HistoryChunk]:
        return iter(chunks)

    node: Any = SimpleNamespace(
        sites=lambda: [SimpleNamespace(site=site, slots=1, speed=1.0) for site in ("alpha", "beta", "gamma")],
        info=lambda: SimpleNamespace(vo="lab"),
        links=lambda: SimpleNamespace(links=()),
        datasets=lambda: (),
        history_chunks=told,
    )
    grid = _Grid(cast("Client", node), argparse.Namespace(grid=True, out=out, owners="keep", places=places))
    grid.export(0.0, 0.0)
    return grid


@pytest.mark.parametrize("first", ["alpha", "beta"])
def test_a_site_without_a_job_of_its_own_tells_of_its_drains_and_machines(tmp_path: Path, first: str) -> None:
    both = [[ALPHA, *_work("alpha")], [BETA]]
    chunks = [chunk for part in (both if first == "alpha" else both[::-1]) for chunk in part]
    grid = _exported(tmp_path / "all", chunks)
    assert set(grid.told) == {"alpha", "beta"} and not grid.untold
    scenario = load(tmp_path / "all")
    beta = next(site for site in scenario.sites if site.name == "beta")
    assert beta.slots == 3 and [(one.name, one.slots) for one in beta.machines] == [("m1", 2)]
    assert [(event.kind, event.at_s, event.for_s) for event in scenario.events] == [("drain", 5.0, 60.0)]
    assert set(as_it_was(scenario).groups) == {"alpha-1"}
    ((run,),) = replayed([scenario], range(1), workers=1)
    assert set(run.groups) == {"alpha-1"} and run.unfinished == 0


def test_such_a_site_is_told_under_a_hidden_name_too(tmp_path: Path) -> None:
    _exported(tmp_path / "all", [ALPHA, *_work("alpha"), BETA], places="hash")
    text = (tmp_path / "all" / "scenario.toml").read_text()
    assert "beta" not in text and "m1" in text and text.count("drain") == 1


def test_a_site_that_breaks_off_is_named_and_a_span_without_any_job_is_one_line(tmp_path: Path) -> None:
    grid = _exported(
        tmp_path / "all", [ALPHA, *_work("alpha"), BETA, HistoryChunk(untold="beta", why="it fell silent")]
    )
    assert grid.untold == {"beta": "it fell silent"} and set(grid.told) == {"alpha"}
    with pytest.raises(UsageError, match="no job of that span has ended at alpha, beta"):
        _exported(tmp_path / "none", [ALPHA, BETA])
    assert not (tmp_path / "none").exists()
