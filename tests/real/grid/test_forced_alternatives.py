"""Plans against forced alternatives on five real nodes whose links are shaped (SPEC D1, D6).

Jobs hold a slot for a known time. One repetition of a small instance; DIANA_FULL=1: larger ones, median of three, the
forecasts of which are held to what came out. In `make soak` the plan is held to the best of the others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import pytest

from diana.client import Client
from tests.e2e.grid import Grid, until
from tests.real.shaping import Network, Shape
from tests.runs import SOAK

FULL = bool(os.environ.get("DIANA_FULL"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300 if FULL else 120)]

ROUNDS = 3 if FULL else 1
CLOSE = 1.05
MB = 1_000_000
SLOTS = {"home": 6, "data": 8, "big": 12, "fair": 5, "small": 3}
LINKS = {
    ("data", "big"): Shape(8 * MB, 0.004),
    ("data", "fair"): Shape(4 * MB, 0.010),
    ("data", "home"): Shape(2 * MB, 0.005),
    ("data", "small"): Shape(1 * MB, 0.020),
}


class Case(NamedTuple):
    name: str
    jobs: int
    file_bytes: int
    work_s: float


CASES = (
    Case("data-heavy", 24 if FULL else 16, MB, 0.4),
    Case("mixed", 30, MB // 4, 2.0 if FULL else 1.2),
)


class Ran(NamedTuple):
    makespan_s: float
    bytes_moved: int
    sites: dict[str, int]
    predicted_s: float


def plans(jobs: int) -> dict[str, dict[str, int]]:
    """By name; none: the planner's own."""
    each, rest = divmod(jobs, len(SLOTS))
    return {
        "planned": {},
        "home": {"home": jobs},
        "biggest": {max(SLOTS, key=lambda s: SLOTS[s]): jobs},
        "round robin": {site: each + (k < rest) for k, site in enumerate(SLOTS)},
    }


@pytest.fixture
def shaped(grid: Grid) -> Iterator[Grid]:
    for name, slots in SLOTS.items():
        grid.add(name, slots)
    with Network(grid, LINKS, Shape(4 * MB, 0.005)) as network:
        network.join()
        grid.settings(ping_every_s=0.5)
        try:
            grid.start()
            for site in grid.sites.values():
                with site.client() as client:
                    until(lambda client=client: _measured(client), f"{site.name} has measured its links", 60.0)  # type: ignore[misc]
            yield grid
        finally:
            for site in grid.sites.values():
                site.terminate()


def _measured(client: Client) -> bool:
    return all(site.home or (site.rtt_s > 0 and site.bytes_per_s > 0) for site in client.sites())


def _dataset(grid: Grid, name: str, case: Case) -> None:
    """Content nobody has seen before: what an earlier run fetched is of no use to a later one."""
    folder = grid.root / name
    folder.mkdir()
    for k in range(case.jobs):
        with (folder / f"f{k}").open("wb") as file:
            file.write(f"{name} {k}\n".encode())
            file.truncate(case.file_bytes)
    with grid.sites["data"].client() as client:
        client.add_dataset(name, [folder])


def _run(client: Client, case: Case, dataset: str, plan: dict[str, int]) -> Ran:
    """One group, or with a forced plan one per site, submitted at home."""
    groups = []
    first = 0
    for site, jobs in plan.items() or [("", case.jobs)]:
        job = {
            "group": {"command": ["sleep", str(case.work_s)], **({"sites": [site]} if site else {})},
            "sweep": {"n": f"{first}-{first + jobs - 1}"},
            "inputs": [{"url": f"dataset:{dataset}/f{{n}}", "path": "input"}],
            "resources": {"work": case.work_s},
        }
        groups.append(client.submit(job).group)
        first += jobs
    ended = [client.wait(group, timeout_s=120) for group in groups]
    assert [view.state for view in ended] == ["done"] * len(groups), ended
    begun_s = min(view.submitted_wall_s for view in ended)
    ran: dict[str, int] = {}
    for view in ended:
        for share in view.shares:
            if share.done:
                ran[share.site] = ran.get(share.site, 0) + share.done
    return Ran(
        makespan_s=max(view.submitted_wall_s - begun_s + view.last_end_s for view in ended),
        bytes_moved=sum(view.bytes_moved for view in ended),
        sites=ran,
        predicted_s=client.explain(groups[0]).predicted_s if not plan else 0.0,
    )


def _story(case: Case, ran: dict[str, list[Ran]]) -> str:
    lines = [f"{case.name}: {case.jobs} jobs of {case.work_s:g} s, a file of {case.file_bytes / 1e6:g} MB each"]
    for name, rounds in ran.items():
        ends = ", ".join(f"{r.makespan_s:.2f}" for r in rounds)
        lines.append(f"  {name:<12} {ends} s; {rounds[0].bytes_moved / 1e6:.1f} MB; {rounds[0].sites}")
    for r in ran["planned"]:
        error = abs(r.predicted_s - r.makespan_s) / r.makespan_s
        lines.append(f"  predicted {r.predicted_s:.2f} s, achieved {r.makespan_s:.2f} s, off by {error:.0%}")
    return "\n".join(lines)


def test_the_plan_is_the_best_or_within_5_percent_of_it_on_real_nodes(shaped: Grid) -> None:
    stories: list[str] = []
    errors: list[float] = []
    with shaped.sites["home"].client() as client:
        for case in CASES:
            ran: dict[str, list[Ran]] = {name: [] for name in plans(case.jobs)}
            for number in range(ROUNDS):
                # In turns, so that a slow moment of this machine hits all alike.
                for name, plan in plans(case.jobs).items():
                    dataset = f"{case.name}-{name.replace(' ', '-')}-{number}"
                    _dataset(shaped, dataset, case)
                    ran[name].append(_run(client, case, dataset, plan))
            stories.append(_story(case, ran))
            print(stories[-1])
            ends = {name: median(r.makespan_s for r in rounds) for name, rounds in ran.items()}
            best_s = min(seconds for name, seconds in ends.items() if name != "planned")
            waves = math.ceil(case.jobs / sum(SLOTS.values()))
            for r in (one for rounds in ran.values() for one in rounds):
                assert sum(r.sites.values()) == case.jobs and r.makespan_s >= waves * case.work_s, stories[-1]
            assert all(r.predicted_s >= waves * case.work_s for r in ran["planned"]), stories[-1]
            assert not SOAK or ends["planned"] <= CLOSE * best_s, stories[-1]
            errors += [abs(r.predicted_s - r.makespan_s) / r.makespan_s for r in ran["planned"]]
            _shape_of(case, ran["planned"][0], stories[-1])
    print(f"predicted against achieved: median off by {median(errors):.0%}")
    if FULL:
        # Of a single small group one slow moment of the machine is a large part.
        assert median(errors) < 0.15, "\n".join(stories)


def _shape_of(case: Case, planned: Ran, story: str) -> None:
    if case.name == "data-heavy":
        # A link that was measured a little too fast draws some of the second wave; the first one stays.
        assert planned.sites["data"] >= case.jobs / 2 and planned.bytes_moved <= case.jobs / 2 * case.file_bytes, story
    else:
        assert len(planned.sites) > 2 and max(planned.sites.values()) <= case.jobs / 2, story
