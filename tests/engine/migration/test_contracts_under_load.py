"""An origin and a job that becomes slow while it runs (SPEC G5, G6): it does not take a window of two paces,
half before a load and half under it, for the pace to come."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.engine.journal import events as ev
from diana.engine.journal.records import JobsMoved
from diana.engine.migration import rescheduling
from diana.engine.migration.rescheduling import ContractBook
from diana.model.ids import MAIN_MACHINE, GroupId
from diana.model.job.checkpoint import SavedFile, SavedJob
from diana.model.job.software import CHECKPOINT
from diana.model.job.spec import CheckpointSpec, ContractSpec
from tests.engine.bench import Grid
from tests.engine.builders import spec


class Run:
    """A job of 100 s in 1,000 steps, at beta; gamma is free. It is looked at once a second."""

    def __init__(self, sites: tuple[str, ...] = ("beta", "gamma")) -> None:
        self.grid = Grid(alpha=0, beta=1, gamma=1)
        for name in ("beta", "gamma"):
            site = self.grid[name]
            site.session += 1
            site.handle(ev.LrmReady(session=site.session, slots=1, known=(), software=(CHECKPOINT,)))
        self.grid.settle()
        held = ContractSpec(window=5)
        saved = CheckpointSpec(paths=("state",))
        wanted = spec(1, work_s=100.0, sites=sites, bind="early", contract=held, checkpoint=saved)
        self.grid["alpha"].submit(wanted, 1, 1)
        self.grid.pass_time(10.0)
        (self.at,) = [name for name in ("beta", "gamma") if self.grid[name].running]
        self.done = 0.0

    def seconds(self, count: int, steps: float) -> None:
        """Let it run for so long at so many steps a second."""
        site = self.grid[self.at]
        for _ in range(count):
            self.grid.pass_time(1.0)
            if not site.running:
                return
            (run,) = site.running
            self.done += steps
            told = ((run.index, run.attempt, self.grid.now, self.done, 1000.0),)
            site.handle(ev.StepsReported(worker=MAIN_MACHINE, subgroup=run.subgroup, epoch=run.epoch, steps=told))
            self.grid.settle()

    @property
    def moved(self) -> list[str]:
        return [record.why for record in self.grid["alpha"].records(JobsMoved)]

    @property
    def relaxed(self) -> list[str]:
        book = self.grid["alpha"].engine.core.book(ContractBook)
        return [one.why for one in book.relaxed.values()]


def test_a_load_that_begins_moves_a_job_once_its_pace_is_known_and_relaxes_nothing_before() -> None:
    job = Run()
    job.seconds(25, 10.0)
    assert not job.moved and not job.relaxed
    for second in range(1, 10):
        job.seconds(1, 10.0 / 3)
        assert not job.relaxed, f"{second} s after: {job.relaxed}"
    (why,) = job.moved
    assert why.startswith("from a checkpoint: ") and "s sooner" in why


def test_near_its_end_the_contract_is_relaxed_to_the_pace_under_load() -> None:
    job = Run()
    job.seconds(96, 10.0)
    job.seconds(9, 10.0 / 3)
    assert not job.moved and job.relaxed
    book = job.grid["alpha"].engine.core.book(ContractBook)
    (one,) = book.relaxed.values()
    assert 250 < one.foretold_s < 350, "three times the 100 s, and no mean of before and after"


def test_a_pace_that_never_settles_is_relaxed_after_a_while() -> None:
    job = Run(("beta",))
    job.seconds(20, 10.0)
    for _ in range(12):
        job.seconds(2, 0.5)
        job.seconds(1, 4.0)
    assert not job.moved and job.relaxed


def restarted(job: Run) -> None:
    """Have its second attempt run, with the checkpoint that the first wrote."""
    (run,) = job.grid[job.at].running
    core = job.grid["alpha"].engine.core
    group = core.state.groups[GroupId("alpha-1")]
    group.checkpoints[0] = SavedJob(0, 1, (SavedFile("state", 1, "0" * 64),))
    site = job.grid[job.at]
    site.engine.core.state.custodies[(run.subgroup, run.epoch)].running[0] = 2
    site.running[msgspec.structs.replace(run, attempt=2)] = site.running.pop(run)


def note(job: Run) -> str:
    told: Any = job.grid["alpha"].ask("groups")
    return str(told.groups[0].note)


def test_a_job_that_ignores_its_checkpoint_is_named_by_its_first_reports_and_is_priced_whole_elsewhere() -> None:
    job = Run()
    job.seconds(40, 10.0)
    restarted(job)
    job.done = 0.0
    job.seconds(5, 10.0)
    assert "alpha-1.0 was given its checkpoint at beta and began anew: " in note(job), note(job)
    assert " steps after 390 of 1000; " in note(job)
    contract = rescheduling.running(job.grid["alpha"].engine.core, job.grid["alpha"].group("alpha-1"))[0].kept
    assert contract.state == "kept" and 0.9 < contract.mean < 1.1, "no step was done backwards"
    job.seconds(55, 10.0)
    job.seconds(9, 10.0 / 3)
    assert not job.moved, "with its checkpoint it would end sooner at gamma, from its begin it would not"


def test_a_job_that_goes_on_from_its_checkpoint_is_not_named() -> None:
    job = Run()
    job.seconds(40, 10.0)
    restarted(job)
    job.seconds(20, 10.0)
    assert not note(job)
    job.seconds(9, 10.0 / 3)
    assert job.moved
