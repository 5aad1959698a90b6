"""Checkpoints under faults (SPEC G6): never two live attempts, never a start from a part of one, and no work before the
last whole one is done twice. Engines that break a sentence are caught."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from diana.engine.data import checkpoints
from diana.engine.journal import fold_checkpoints
from diana.engine.journal.effects import Start
from diana.engine.journal.events import Run
from diana.engine.journal.state import Group, Saving
from diana.model.facts import Outcome
from diana.model.ids import group_of
from diana.model.indexset import IndexSet
from diana.sim.experiments.failure import failure
from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.twins.lrm import SAVE_S, SimLrm, _Claim
from diana.sim.world.runner import simulate

TEXT = """version = 1
report = ["faults"]
settings = {offer_wait_s = 3.0, resend_most_s = 3.0}
sites = [{name = "a", slots = 4}, {name = "b", slots = 5}, {name = "c", slots = 5}]
[[workload]]
name = "long"
site = "a"
jobs = 12
work_s = 60.0
spread = 0.3
submit_s = 3.0
checkpoint = true
moves = [
    {to = "b", at_s = 12.0}, {to = "c", at_s = 30.0, jobs = 8}, {to = "a", at_s = 55.0, first = 4},
    {to = "b", at_s = 90.0, jobs = 9}, {to = "c", at_s = 120.0},
]
[[workload]]
name = "left"
site = "b"
jobs = 6
work_s = 40.0
submit_s = 5.0
checkpoint = true
output_bytes = 1000
fail_fraction = 0.2
moves = [{to = "c", at_s = 25.0}, {to = "a", at_s = 50.0}]
cancel_s = 70.0
[[workload]]
name = "others"
site = "c"
jobs = 20
work_s = 9.0
submit_s = 4.0
[faults]
draw = true
until_s = 180.0
heal_s = 1500.0
loss = 0.2
duplicate = 0.2
delay = 0.2
delay_s = 5.0
crash = 0.01
restart_s = 8.0
cut_every_s = 30.0
cut_s = 20.0
stage_error = 0.05
retell = 0.2
disk_full_every_s = 40.0
disk_full_s = 10.0
"""
SCENARIO = sc.parse(TEXT)
GANGS = sc.load(Path(__file__).parents[3] / "scenarios" / "checkpoints.toml")
MOST_WORK_S = 60.0 * 1.3


class Work:
    """The work that jobs with checkpoints really do, and where each attempt of theirs begins."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.worked_s: dict[tuple[str, int], float] = defaultdict(float)
        self.begun_at_s: dict[tuple[str, int], list[float]] = defaultdict(list)
        begin, end = SimLrm._begin, SimLrm._end

        def begins(lrm: SimLrm, claim: _Claim) -> None:
            if claim.spec.checkpoint is not None:
                self.begun_at_s[_job(claim)].append(claim.saved_s)
            begin(lrm, claim)

        def ends(lrm: SimLrm, claim: _Claim, outcome: Outcome, exit_code: int) -> None:
            end(lrm, claim, outcome, exit_code)
            if claim.started_s >= 0:
                self.worked_s[_job(claim)] += claim.ended_s - claim.started_s

        patch.setattr(SimLrm, "_begin", begins)
        patch.setattr(SimLrm, "_end", ends)

    def wrong(self) -> str:
        for key, begun in self.begun_at_s.items():
            if begun != sorted(begun):
                return f"{key}: a later attempt began before an earlier one: {begun}"
            # Every stop was at a checkpoint, so nothing but the writing of it comes on top.
            if self.worked_s[key] > MOST_WORK_S + 2 * SAVE_S * len(begun):
                return f"{key}: {self.worked_s[key]:.1f} s of work were done, for attempts from {begun}"
        return ""


class Wholes:
    """The checkpoints that components of gangs begin from."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.wrong = ""
        self._of: dict[tuple[str, int, int], tuple[str, ...]] = {}
        start = SimLrm.start

        def starts(lrm: SimLrm, order: Start) -> None:
            for job in order.saved if order.spec.is_gang else ():
                self._look(order, job.index, job.attempt, tuple(file.sha256 for file in job.files))
            start(lrm, order)

        patch.setattr(SimLrm, "start", starts)

    def _look(self, order: Start, index: int, attempt: int, files: tuple[str, ...]) -> None:
        self.begun += 1
        spec, name = order.spec, group_of(order.subgroup)
        if spec.flexible is None and len(files) != spec.gang_size:
            self.wrong = f"{name}.{index} begins from {len(files)} of {spec.gang_size} parts"
        if self._of.setdefault((name, index // spec.gang_size, order.epoch), files) != files:
            self.wrong = f"{name}.{index} begins from other parts than those beside it"


def run_gangs(seed: int, patch: pytest.MonkeyPatch) -> tuple[str, Wholes]:
    """Return what is wrong with a run of jobs and gangs, empty if nothing is, and what gangs began from."""
    with patch.context() as within:
        wholes = Wholes(within)
        report = simulate(GANGS, seed)
    return ("" if report.good() else failure(GANGS, report)) or wholes.wrong, wholes


def _job(claim: _Claim) -> tuple[str, int]:
    return group_of(claim.run.subgroup), claim.run.index


def run(seed: int, patch: pytest.MonkeyPatch) -> tuple[str, Work]:
    """Return what is wrong with a run, empty if nothing is, and the work that was done."""
    with patch.context() as within:
        work = Work(within)
        report = simulate(SCENARIO, seed)
    return ("" if report.good() else failure(SCENARIO, report)) or work.wrong(), work


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (2, 3))])
def test_jobs_that_go_on_from_checkpoints_are_lost_nowhere_and_run_nowhere_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, work = run(seed, monkeypatch)
    assert not wrong
    assert any(max(begun) > 0 for begun in work.begun_at_s.values()), "some job went on from a checkpoint"


class Spoilt:
    """Machines that find one checkpoint in three changed, whoever reads it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.refused: dict[tuple[str, int, int], set[Run]] = defaultdict(set)
        """(group, index, attempt that wrote it) -> attempts that could not begin from it."""
        start = SimLrm.start

        def starts(lrm: SimLrm, order: Start) -> None:
            bad = {job.index: job.attempt for job in order.saved if int(job.files[0].sha256, 16) % 3 == 0}
            spoilt = order.indices & IndexSet.of(bad)
            if order.indices - spoilt:
                start(lrm, msgspec.structs.replace(order, indices=order.indices - spoilt))
            attempts = dict(order.attempts)
            for index in spoilt if lrm._alive and order.session == lrm._session else ():
                run = Run(order.subgroup, order.epoch, index, attempts.get(index, 1))
                if run not in lrm._claims:
                    claim = lrm._claims[run] = _Claim(run, order.spec, False, order.lease, order.barrier_s)
                    lrm._watch.claimed(lrm._site, lrm._worker, run, claim.spec.resources)
                    self.refused[(group_of(run.subgroup), index, bad[index])].add(run)
                    lrm._end(claim, Outcome.UNRESTORED, 0)

        patch.setattr(SimLrm, "start", starts)


@pytest.mark.parametrize("scenario", [SCENARIO, GANGS], ids=["jobs", "gangs"])
def test_a_checkpoint_that_is_spoilt_costs_no_job_and_no_gang_and_is_tried_once(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as within:
        spoilt = Spoilt(within)
        report = simulate(scenario, 1)
    assert report.good(), failure(scenario, report)
    assert spoilt.refused
    if scenario is SCENARIO:
        assert {len(runs) for runs in spoilt.refused.values()} == {1}, spoilt.refused


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(100, 130))
def test_so_it_is_under_many_seeds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not run(seed, monkeypatch)[0]


@pytest.mark.wide
def test_gangs_that_stop_at_checkpoints_begin_from_whole_ones_and_are_lost_and_doubled_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [run_gangs(seed, monkeypatch) for seed in range(3)]
    assert not any(wrong for wrong, _ in runs), next(wrong for wrong, _ in runs if wrong)
    assert sum(wholes.begun for _, wholes in runs), "some gang went on from a checkpoint"


@pytest.mark.wide
@pytest.mark.parametrize("first", range(1000, 1050, 10))
def test_so_it_is_with_gangs_under_many_seeds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 10):
        assert not run_gangs(seed, monkeypatch)[0]


# --- mutants -----------------------------------------------------------------------------------------------------


class Broken(NamedTuple):
    sentence: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    late: bool = False
    """True: it takes many seeds, or long ones, to be seen."""


def _placed_before_its_checkpoint_is_home(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "placeable", lambda group: group.unplaced - group.holding)


def _begins_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "of", lambda group, indices: ())


def _keeps_its_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "attempt_base", lambda group, indices: 0)


def _the_attempt_runs_on(patch: pytest.MonkeyPatch) -> None:
    """Have a machine tell of the checkpoint and not stop the job."""
    end = SimLrm._end

    def tells(lrm: SimLrm, claim: _Claim, outcome: Outcome, exit_code: int) -> None:
        if outcome is not Outcome.CHECKPOINTED:
            end(lrm, claim, outcome, exit_code)
            return
        claim.outcome, claim.exit_code, claim.ended_s = outcome, exit_code, lrm._clock.now_s
        lrm._tell_later(claim)

    patch.setattr(SimLrm, "_end", tells)


BROKEN = [
    Broken("a job is placed when all of its checkpoint is home", _placed_before_its_checkpoint_is_home, late=True),
    Broken("it begins at its last whole checkpoint", _begins_anew),
    Broken("each start is an attempt of its own", _keeps_its_number, late=True),
    Broken("the attempt before is over", _the_attempt_runs_on, late=True),
]


@pytest.mark.parametrize(
    "broken",
    [pytest.param(each, id=each.sentence, marks=[pytest.mark.wide] if each.late else []) for each in BROKEN],
)
def test_an_engine_that_breaks_a_sentence_is_caught(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.breaks(monkeypatch)
    assert any(run(seed, monkeypatch)[0] for seed in range(6)), broken.sentence


def _parts_of_any_attempt_count_together(patch: pytest.MonkeyPatch) -> None:
    part_home = fold_checkpoints._part_home

    def takes(group: Group, coming: Saving) -> None:
        part_home(group, Saving(coming.key, coming.jobs, coming.token and "any", max(1, coming.size - 1)))

    patch.setattr(fold_checkpoints, "_part_home", takes)


BROKEN_GANGS = [
    Broken("the parts of all components of one attempt count together", _parts_of_any_attempt_count_together),
]


@pytest.mark.wide
@pytest.mark.parametrize("broken", BROKEN_GANGS, ids=[each.sentence for each in BROKEN_GANGS])
def test_an_engine_that_takes_a_part_for_the_whole_is_caught(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.breaks(monkeypatch)
    assert any(run_gangs(seed, monkeypatch)[0] for seed in range(8)), broken.sentence
