"""Taking over by a successor: the log is held against the processes that are really there (PROMISES 1.6).

Identity changed: runs that had not ended were interrupted. Same identity: a living process is adopted, a dead one's
outcome is unknown, a claim that was never about to start is void. Nothing is executed again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from diana.adapters.lrm.spawner.behind.marks import number_of
from diana.adapters.lrm.spawner.behind.sweep import sweep
from diana.adapters.lrm.spawner.claims.records import (
    EXIT_UNKNOWN,
    LOST_WHILE_RUNNING,
    Begin,
    Claimed,
    Dropped,
    End,
    Finished,
    Leased,
    LogOpened,
    Proc,
    Record,
    Started,
    Starting,
    Term,
)
from diana.adapters.lrm.spawner.identity import MachineIdentity, boot_s, by_marker, same_process, wall_s
from diana.adapters.lrm.spawner.jobs import Claim, Job
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.processes import is_leader
from diana.adapters.lrm.spawner.runner import JobRunner
from diana.adapters.lrm.spawner.table import ClaimTable, strip
from diana.model.facts import Outcome

_INTERRUPTED = "the machine was restarted while it ran; look at its log, then rerun or give up the job"


class _Run:
    __slots__ = ("begin", "end", "job", "proc")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.begin: Begin | None = None
        self.proc: Proc | None = None
        self.end: End | None = None


class ClaimHistory:
    """The state that a log tells: a fold over its records."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.opened: LogOpened | None = None
        self.term = 0
        self.last_number = 0
        self.leases: dict[str, float] = {}
        self.runs: dict[tuple[int, int], _Run] = {}
        for record in records:
            self._fold(record)

    def _fold(self, record: Record) -> None:
        match record:
            case LogOpened():
                self.opened = record
                self.term = record.term
            case Term(term=term):
                self.term = max(self.term, term)
            case Leased(name=name, until_s=until_s):
                self.leases[name] = until_s
            case Claimed():
                self._claimed(record)
            case Starting(runs=begins):
                for begin in begins:
                    if run := self.runs.get((begin.number, begin.index)):
                        run.begin = begin
            case Started(runs=procs):
                for proc in procs:
                    if run := self.runs.get((proc.number, proc.index)):
                        run.proc = proc
            case Finished(runs=ends):
                for end in ends:
                    if run := self.runs.get((end.number, end.index)):
                        run.end = end
            case Dropped(runs=dropped):
                for number, indices in dropped:
                    for index in indices:
                        self.runs.pop((number, index), None)

    def _claimed(self, record: Claimed) -> None:
        self.last_number = max(self.last_number, record.number)
        claim = Claim(record, None, {})
        for k, (index, attempt) in enumerate(zip(record.indices, record.attempts, strict=True)):
            job = Job(claim, index, attempt)
            if record.collects:
                job.collects = record.collects[k]
            self.runs[record.number, index] = _Run(job)
        strip(record)


def new_table(past: ClaimHistory, here: MachineIdentity, log_id: str = "", counted: int = 0) -> ClaimTable:
    """Make a table of a generation above all before."""
    generation = past.opened.generation + 1 if past.opened else 1
    table = ClaimTable(generation, past.term, here, log_id, counted)
    table.next_number = past.last_number + 1
    return table


def take_over(
    past: ClaimHistory, here: MachineIdentity, table: ClaimTable, runner: JobRunner, launcher: Launcher, logs_root: Path
) -> None:
    """Bring `table` and `runner` to what is true now. The caller makes it durable before anything is told."""
    same_machine = past.opened is None or past.opened.machine == here
    if same_machine:
        table.leases.update(past.leases)
    shift_s = _clock_shift_s(past.opened, here)
    alive = by_marker(launcher.marker_prefix) if same_machine and past.runs else {}
    lost: set[int] = set()
    for run in past.runs.values():
        job = run.job
        if run.end is not None:
            run.end.started_s += shift_s
            run.end.ended_s += shift_s
            job.finish(run.end)
        elif not same_machine:
            job.finish(_lost(run, Outcome.INTERRUPTED, logs_root))
        elif run.begin is None:
            continue
        elif not _adopt(run, runner, alive.get(launcher.marker(job), [])):
            job.finish(_lost(run, Outcome.UNKNOWN, logs_root))
            lost.add(number_of(launcher.marker(job)))
            for pid in alive.get(launcher.marker(job), []):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        table.runs[job.key] = job
    if lost:
        sweep(lost)


def end_unclaimed(past: ClaimHistory, launcher: Launcher) -> int:
    """End the runs of this directory that live and that the log knows nothing of, for it lost them; return how many.
    The site's journal knows them and holds them; one that ran on would run twice once it is tried again."""
    known = {launcher.marker(run.job) for run in past.runs.values()}
    unknown = {marker: pids for marker, pids in by_marker(launcher.marker_prefix).items() if marker not in known}
    for pids in unknown.values():
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    if unknown:
        sweep(set(map(number_of, unknown)))
    return len(unknown)


def _adopt(run: _Run, runner: JobRunner, marked: list[int]) -> bool:
    """Adopt a run and watch it from now on; True if the run's own process lives."""
    begin = run.begin
    assert begin is not None
    if run.proc is not None:
        pid, by_s = run.proc.pid, run.proc.by_s
    else:
        # Its start was not written down any more: it is the session leader that carries the run's name.
        pid, by_s = next((pid for pid in marked if is_leader(pid)), 0), boot_s()
    if not pid or not same_process(pid, begin.at_s, by_s):
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    # Looked at again now that the descriptor pins it: the number may have changed hands in between.
    if not same_process(pid, begin.at_s, by_s):
        os.close(pidfd)
        return False
    job = run.job
    job.pid, job.started_s, job.started_by_s = pid, begin.at_s, by_s
    job.slots, job.gpus, job.log_offset = begin.slots, begin.gpus, begin.offset
    runner.adopt(job, pidfd, begin.segment)
    return True


def _lost(run: _Run, outcome: Outcome, logs_root: Path) -> End:
    begin, record, now = run.begin, run.job.claim.record, boot_s()
    why = LOST_WHILE_RUNNING if outcome is Outcome.UNKNOWN else _INTERRUPTED
    error = f"{record.group}.{run.job.index}: {why}"
    end = End(record.number, run.job.index, outcome, EXIT_UNKNOWN, now, now, 0.0, 0, "", 0, 0, False, error)
    if begin is None:
        return end
    if outcome is Outcome.UNKNOWN:
        end.started_s = begin.at_s
    with suppress(OSError):
        # Its slot took no other job since, so all from its offset on is its own.
        length = os.stat(logs_root / begin.segment).st_size - begin.offset
        end.segment, end.offset, end.length = begin.segment, begin.offset, max(length, 0)
    return end


def _clock_shift_s(opened: LogOpened | None, here: MachineIdentity) -> float:
    """Return the seconds that turn an earlier boot's CLOCK_BOOTTIME into this one's, by the wall clock."""
    if opened is None or opened.machine.boot_id == here.boot_id:
        return 0.0
    return (boot_s() - wall_s()) - (opened.boot_s - opened.wall_s)
