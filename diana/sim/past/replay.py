"""A history as one run of the simulator: when each group began and ended, and where its jobs ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from diana.errors import DianaError
from diana.model import facts as fa
from diana.sim.experiments import fanout
from diana.sim.load import past
from diana.sim.load.workload import Submission
from diana.sim.sites.site import SimulatedSite
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.ahead import booted
from diana.sim.world.runner import run
from diana.sim.world.world import World

Tell = Callable[[int, int], None]
"""Told after each run how many of how many are over."""


class GroupRow(msgspec.Struct, frozen=True):
    """One group, replayed or as it truly was. Times in seconds after its submission."""

    name: str
    user: str
    submit_s: float
    """After the start of the history."""
    jobs: int
    """Jobs that ended."""
    wait_s: float
    """Mean over its jobs."""
    first_s: float
    """Start of its first job."""
    end_s: float
    """End of its last one."""
    run_s: float
    """Sum over its jobs of the time they held a slot."""
    slowdown: float
    """Mean over its jobs of turnaround over run time, of which less than 10 s counts as 10."""
    sites: dict[str, int]
    """Site -> jobs that ran there."""
    foretold_s: float = 0.0
    """End as it was foretold first; 0: it was not."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    groups: dict[str, GroupRow]
    bytes_moved: float
    unfinished: int
    """Groups that did not end, or no site took."""


class _Task(NamedTuple):
    scenario: Scenario
    seed: int


def replayed(
    scenarios: Sequence[Scenario], seeds: range, workers: int = 0, tell: Tell | None = None
) -> list[list[Replayed]]:
    """Replay each scenario under each seed, over all cores: a row per scenario, in it one per seed."""
    tasks = [_Task(scenario, seed) for scenario in scenarios for seed in seeds]
    done = []
    for number, one in enumerate(fanout.each(_done, tasks, workers), 1):
        done.append(one)
        if tell is not None:
            tell(number, len(tasks))
    return [done[at : at + len(seeds)] for at in range(0, len(done), len(seeds))]


def _done(task: _Task) -> Replayed:
    world = World(task.scenario, task.seed, booted(task.scenario, task.seed))
    report = run(world)
    if report.violations:
        raise DianaError(f"the replay broke an invariant, {report.violations[0]}: report it with this history")
    groups = {row.name: row for row in _rows(world)}
    wanted = sum(1 for _ in world.users.in_order())
    moved = float(sum(site.stager.bytes_in for site in world.sites.values()))
    return Replayed(groups=groups, bytes_moved=moved, unfinished=wanted - len(groups))


def _rows(world: World) -> Iterator[GroupRow]:
    for submission in world.users.in_order():
        if submission.group is None:
            continue
        newest: dict[int, tuple[int, float, float, str]] = {}
        for _, facts in world.sites[submission.site].store.facts(submission.group):
            rows = zip(facts.indices, facts.attempts, facts.outcomes, facts.started_s, facts.ended_s, strict=True)
            for index, attempt, outcome, started_s, ended_s in rows:
                ran = index < submission.jobs and outcome in (fa.Outcome.DONE, fa.Outcome.FAILED)
                if ran and (index not in newest or newest[index][0] <= attempt):
                    newest[index] = (attempt, started_s, ended_s, facts.site)
        if newest:
            times = [(started_s, ended_s, site) for _, started_s, ended_s, site in newest.values()]
            row = row_of(submission.name, submission.principal.name, submission.submit_s, times)
            yield replace(row, foretold_s=_foretold_s(world, submission))


def _foretold_s(world: World, submission: Submission) -> float:
    site = world.sites[submission.site]
    engine = site.engine if isinstance(site, SimulatedSite) else None
    group = engine.state.groups.get(submission.group) if engine is not None and submission.group is not None else None
    said = group.foretold if group is not None else None
    if group is None or said is None or said.end_s <= 0:
        return 0.0
    return said.at_s - group.submitted_s + said.end_s


def row_of(name: str, user: str, submit_s: float, times: Sequence[tuple[float, float, str]]) -> GroupRow:
    """The row of a group whose jobs ran at (start, end, site), in seconds of the history."""
    sites: dict[str, int] = {}
    for _, _, site in times:
        sites[site] = sites.get(site, 0) + 1
    count = len(times)
    return GroupRow(
        name=name,
        user=user,
        submit_s=submit_s,
        jobs=count,
        wait_s=sum(start - submit_s for start, _, _ in times) / count,
        first_s=min(start for start, _, _ in times) - submit_s,
        end_s=max(end for _, end, _ in times) - submit_s,
        run_s=sum(end - start for start, end, _ in times),
        slowdown=sum(max(1.0, (end - submit_s) / max(10.0, end - start)) for start, end, _ in times) / count,
        sites=sites,
    )


def as_it_was(scenario: Scenario) -> Replayed:
    """The groups of a scenario's histories as they truly ran."""
    groups: dict[str, GroupRow] = {}
    moved = unfinished = 0.0
    for work in scenario.workload:
        if work.history is None:
            continue
        history = past.read(work.history.file)
        unfinished += history.never_ran
        for one in history.groups:
            begin_s = work.submit_s + one.submit_s
            starts = (begin_s + one.wait_s).tolist()
            ends = (begin_s + one.wait_s + one.run_s).tolist()
            sites = [history.site_of.get(number, "") for number in one.partition.tolist()]
            row = row_of(one.note.name, one.note.user, begin_s, list(zip(starts, ends, sites, strict=True)))
            said_s = one.note.foretold_after_s + one.note.foretold_s if one.note.foretold_s > 0 else 0.0
            groups[row.name] = replace(row, foretold_s=said_s)
            moved += one.note.bytes_in
    return Replayed(groups=groups, bytes_moved=moved, unfinished=int(unfinished))
