"""A checkpoint that is not as it was saved: its job, or its gang, goes on from the one before, or begins anew, and says
so; nothing goes on from it a second time (SPEC G6)."""

from __future__ import annotations

import msgspec

from diana.engine.data import checkpoints
from diana.engine.handover.inputs import TRIES
from diana.engine.journal import events as ev
from diana.model.facts import JobError, Outcome, OutputFile
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import folder_of, reference
from diana.model.job.software import BARRIER, CHECKPOINT
from diana.model.job.spec import CheckpointSpec, GroupSpec
from tests.engine.bench import Grid, Site
from tests.engine.builders import facts_of, hash_of, result, spec
from tests.engine.handing import view
from tests.engine.handover.test_gangs import gang

SPOILT = "checksum differs from the one promised"


def grid_of(**slots: int) -> Grid:
    """Sites that save jobs, without a guard that lets few of them begin."""
    grid = Grid({"guard_jobs": 0}, **slots)
    for site in grid.sites.values():
        site.session += 1
        offered = (BARRIER, CHECKPOINT)
        site.handle(ev.LrmReady(session=site.session, slots=site.settings.slots, known=(), software=offered))
    grid.settle()
    return grid


def saves(jobs: int = 1, **more: object) -> GroupSpec:
    return spec(jobs, work_s=100.0, checkpoint=CheckpointSpec(paths=("state", "steps")), **more)


def save(site: Site, paths: tuple[str, ...] = ("state", "steps")) -> None:
    """Have all its running jobs write their checkpoint and stop; each file is another than those before."""
    by_part: dict[tuple[SubgroupId, int], list[ev.Run]] = {}
    for run in list(site.running):
        del site.running[run]
        site.ended[run] = Outcome.CHECKPOINTED
        by_part.setdefault((run.subgroup, run.epoch), []).append(run)
    for (part, epoch), runs in by_part.items():
        facts = facts_of(site.name, runs, Outcome.CHECKPOINTED, site.grid.now)
        for run in runs:
            names = [f"{folder_of(run.index, run.attempt)}/{path.format(run.index)}" for path in paths]
            facts.outputs.extend(OutputFile(run.index, name, 1, hash_of(name)) for name in names)
        site.handle(ev.JobsEnded(subgroup=part, epoch=epoch, facts=facts))
    site.grid.settle()


def attempts(site: Site) -> list[tuple[int, int]]:
    """(index, attempt of the checkpoint that it was given, 0: none) of the jobs that run."""
    given = {(run.index, job.index): job.attempt for run, start in site.running.items() for job in start.saved}
    return sorted((run.index, given.get((run.index, run.index), 0)) for run in site.running)


def stage(site: Site, ref: str = "", *, spoilt: bool = True) -> set[str]:
    """Bring what is asked for, but for that file, and what is asked for then without it; return what came."""
    came: set[str] = set()
    for _ in range(20 * TRIES):
        if not site.staging:
            site.grid.settle()
            site.grid.pass_time(2.0)
        if not site.staging:
            return came
        order = site.staging.pop(0)
        if ref in [fetch.file.ref for fetch in order.files]:
            told = ev.StageDone(ticket=order.ticket, bytes_moved=0, error=SPOILT, spoilt=ref if spoilt else "")
            site.handle(told)
            site.grid.pass_time(20.0)
        else:
            came.update(fetch.file.ref for fetch in order.files)
            site.handle(ev.StageDone(ticket=order.ticket, bytes_moved=1))
    raise AssertionError("staging never ends")


def files(grid: Grid, index: int = 0) -> list[str]:
    jobs = checkpoints.of(grid["alpha"].group("alpha-1"), IndexSet.span(index, index + 1))
    return [reference(file) for job in jobs for file in job.files]


def one_job(times: int) -> Grid:
    """A job of alpha that runs at beta and saved so often; its next attempt has its inputs to bring."""
    grid = grid_of(alpha=0, beta=1)
    grid["alpha"].submit(saves(sites=("beta",)), 1)
    for at in range(times):
        grid["beta"].stage_at_once = at + 1 < times
        save(grid["beta"])
    assert len(grid["beta"].staging) == 1 and not grid["beta"].running
    return grid


def test_a_spoilt_checkpoint_has_its_job_begin_anew_and_the_group_says_why() -> None:
    grid = one_job(1)
    grid["beta"].stage_at_once = False
    stage(grid["beta"], files(grid)[1])
    assert attempts(grid["beta"]) == [(0, 0)] and not files(grid)
    seen = view(grid)
    assert seen.failed == 0 and seen.note == f"checkpoint alpha-1.0@1 is not used: {SPOILT}; it begins anew"
    decision = grid["alpha"].group("alpha-1").decisions[-1]
    assert f"checkpoint alpha-1.0@1 is not used: {SPOILT}" in decision.moved
    (run,) = grid["beta"].running
    assert run.attempt == 2, "each start is an attempt of its own"
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"


def test_it_goes_on_from_the_checkpoint_before_and_never_again_from_the_spoilt_one() -> None:
    grid = one_job(2)
    bad = files(grid)
    stage(grid["beta"], bad[0])
    assert attempts(grid["beta"]) == [(0, 1)] and not set(bad) & set(files(grid))
    assert view(grid).note == f"checkpoint alpha-1.0@2 is not used: {SPOILT}; it goes on from alpha-1.0@1"
    save(grid["beta"])
    # The one before the third is the first, and not the second, which was spoilt.
    stage(grid["beta"], files(grid)[0])
    assert attempts(grid["beta"]) == [(0, 1)] and not set(bad) & set(files(grid))


def test_both_being_spoilt_it_begins_anew() -> None:
    grid = one_job(2)
    site = grid["beta"]
    for _ in range(2):
        bad = files(grid)[0]
        while any(bad in [fetch.file.ref for fetch in order.files] for order in site.staging):
            (order,) = site.staging
            site.staging.clear()
            site.handle(ev.StageDone(ticket=order.ticket, bytes_moved=0, error=SPOILT, spoilt=bad))
            grid.pass_time(20.0)
        assert bad not in files(grid)
    stage(site)
    assert attempts(site) == [(0, 0)] and not files(grid)


def test_a_checkpoint_that_is_only_out_of_reach_is_kept() -> None:
    grid = one_job(1)
    kept = files(grid)
    stage(grid["beta"], kept[0], spoilt=False)
    assert view(grid).failed == 1 and files(grid) == kept
    grid["beta"].stage_at_once = True
    grid["alpha"].retry("alpha-1")
    assert attempts(grid["beta"]) == [(0, 1)]


def test_a_machine_that_finds_the_files_changed_has_the_job_begin_without_them() -> None:
    grid = one_job(2)
    stage(grid["beta"])
    assert attempts(grid["beta"]) == [(0, 2)]
    grid["beta"].end(outcome=Outcome.UNRESTORED, error="alpha-1.0 at site beta: its checkpoint's state was changed")
    grid.settle()
    stage(grid["beta"])
    assert attempts(grid["beta"]) == [(0, 1)] and view(grid).failed == 0
    assert view(grid).note.startswith("checkpoint alpha-1.0@2 is not used: alpha-1.0 at site beta: its checkpoint's")


def test_a_machine_that_tells_it_with_the_end_of_another_job_is_heard_of_both() -> None:
    grid = grid_of(alpha=0, beta=2)
    grid["alpha"].submit(saves(2, sites=("beta",)), 2)
    save(grid["beta"])
    first, second = sorted(grid["beta"].running, key=lambda run: run.index)
    facts = facts_of(grid["beta"].name, [first, second], Outcome.DONE, grid.now, error="it was changed")
    facts.outcomes[1] = int(Outcome.UNRESTORED)
    for run in (first, second):
        del grid["beta"].running[run]
        grid["beta"].ended[run] = Outcome(facts.outcomes[run.index])
    grid["beta"].handle(ev.JobsEnded(subgroup=first.subgroup, epoch=first.epoch, facts=facts))
    grid.settle()
    assert (view(grid).done, view(grid).failed) == (1, 0) and attempts(grid["beta"]) == [(1, 0)]
    assert not grid["alpha"].warnings


def test_a_job_that_made_way_beside_one_that_could_not_begin_is_told_with_its_own_reason() -> None:
    grid = grid_of(alpha=0, beta=2)
    grid["alpha"].submit(saves(2, sites=("beta",), preemptible=True), 2)
    save(grid["beta"])
    first, second = sorted(grid["beta"].running, key=lambda run: run.index)
    facts = facts_of(grid["beta"].name, [first, second], Outcome.MADE_WAY, grid.now, error="made way for a gang")
    facts.outcomes[1] = int(Outcome.UNRESTORED)
    facts.errors[1] = JobError(1, "it was changed")
    for run in (first, second):
        del grid["beta"].running[run]
        grid["beta"].ended[run] = Outcome(facts.outcomes[run.index])
    grid["beta"].handle(ev.JobsEnded(subgroup=first.subgroup, epoch=first.epoch, facts=facts))
    grid.settle()
    group = grid["alpha"].group("alpha-1")
    assert [(way.jobs, way.line) for way in group.ways] == [(IndexSet.of([0]), "job 0 at beta made way for a gang")]
    assert "it was changed" in group.note and "made way" not in group.note


def test_others_of_the_same_unit_go_on_from_theirs() -> None:
    count = 150
    grid = grid_of(alpha=0, beta=count)
    grid["alpha"].submit(saves(count, sites=("beta",)), count)
    grid["beta"].stage_at_once = False
    save(grid["beta"])
    assert max(len(order.files) for order in grid["beta"].staging) > 2, "several jobs share a unit"
    others = {ref for index in range(count) if index != 7 for ref in files(grid, index)}
    assert others <= stage(grid["beta"], files(grid, 7)[0])
    assert attempts(grid["beta"]) == [(index, int(index != 7)) for index in range(count)]


# --- gangs -----------------------------------------------------------------------------------------------------


def one_gang(times: int) -> Grid:
    """A gang of two sites that saved so often; the inputs of its next attempt are to be brought."""
    grid = grid_of(alpha=1, beta=1)
    wanted = gang("1x1@alpha+1x1@beta")
    wanted = msgspec.structs.replace(wanted, checkpoint=CheckpointSpec(paths=("s.{component}",)))
    grid["alpha"].submit(wanted, 2)
    for at in range(times):
        assert len(grid["alpha"].gone) == len(grid["beta"].gone) == at + 1
        last = at + 1 == times
        grid["alpha"].stage_at_once = grid["beta"].stage_at_once = not last
        for name in ("alpha", "beta"):
            save(grid[name], ("s.{}",))
        grid.pass_time(5.0)
    return grid


def given(grid: Grid) -> set[int]:
    """Attempts that wrote what the components that stand or run were given; 0: nothing."""
    starts = [start for name in ("alpha", "beta") for start in grid[name].running.values()]
    assert len(starts) == 2
    return {job.attempt for start in starts for job in start.saved} or {0}


def go_on(grid: Grid, site: str, ref: str) -> None:
    """Bring what is asked for, but for that file at that site."""
    for _ in range(12):
        for name in ("alpha", "beta"):
            stage(grid[name], ref if name == site else "")
            grid[name].obey_kills()
        grid.pass_time(10.0)
        if len(grid["alpha"].running) == len(grid["beta"].running) == 1:
            return
    raise AssertionError("the gang never starts")


def test_all_components_of_a_gang_fall_back_together() -> None:
    grid = one_gang(2)
    bad = files(grid, 1)
    assert len(bad) == 2
    go_on(grid, "beta", bad[0])
    assert given(grid) == {1} and not set(bad) & set(files(grid, 0))
    decision = grid["alpha"].group("alpha-1").decisions[-1]
    assert f"checkpoint alpha-1.0@2 is not used: {SPOILT}; it goes on from alpha-1.0@1" in decision.moved
    assert view(grid).note.startswith("checkpoint alpha-1.0@2 is not used: ")
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"


def test_a_gang_whose_only_checkpoint_is_spoilt_begins_anew() -> None:
    grid = one_gang(1)
    go_on(grid, "beta", files(grid, 0)[1])
    assert given(grid) == {0} and not files(grid, 0)
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"


def test_a_component_whose_machine_finds_it_changed_gives_its_claim_up_and_the_gang_goes_on_without_it() -> None:
    grid = one_gang(2)
    bad = files(grid, 0)
    # The machine of beta makes directories before it holds anything.
    grid["beta"].settings = msgspec.structs.replace(grid["beta"].settings, slots=0)
    go_on(grid, "", "")
    assert given(grid) == {2} and len(grid["beta"].gone) == 2
    grid["beta"].end(outcome=Outcome.UNRESTORED, error="its checkpoint's s.0 was changed")
    grid["beta"].settings = msgspec.structs.replace(grid["beta"].settings, slots=1)
    grid.settle()
    go_on(grid, "", "")
    assert given(grid) == {1} and not set(bad) & set(files(grid, 0))


def test_a_component_that_comes_back_while_quotes_are_asked_is_brought_the_files_too() -> None:
    grid = one_gang(1)
    assert grid["alpha"].staging and grid["beta"].staging
    assert {fetch.file.ref for order in grid["beta"].staging for fetch in order.files} == set(files(grid, 1))


# --- what is kept, and what a site may say ------------------------------------------------------------------------


def test_the_one_before_is_kept_and_dropped_with_the_job() -> None:
    grid = one_job(2)
    group = grid["alpha"].group("alpha-1")
    assert [job.attempt for job in group.earlier.values()] == [1]
    stage(grid["beta"])
    grid["beta"].end()
    grid.settle()
    assert not group.earlier and not group.checkpoints


def test_a_restart_of_the_origin_brings_no_spoilt_checkpoint_back() -> None:
    grid = one_job(2)
    stage(grid["beta"], files(grid)[0])
    grid["alpha"].restart()
    grid.settle()
    assert {job.attempt for job in grid["alpha"].group("alpha-1").checkpoints.values()} == {1}


def test_a_group_without_checkpoints_and_a_gang_that_runs_have_none_to_lose() -> None:
    lie = result("beta", "alpha-1/0", [0])
    lie.facts.outcomes[:] = [int(Outcome.UNRESTORED)]
    for wanted in (spec(1), msgspec.structs.replace(gang("1x1@alpha+1x1@beta"), checkpoint=saves().checkpoint)):
        grid = grid_of(alpha=1, beta=1)
        grid["alpha"].submit(wanted, 1 if not wanted.is_gang else 2)
        assert checkpoints.wrong(grid["alpha"].group("alpha-1"), lie.facts)
