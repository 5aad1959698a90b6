"""Starts queued runs in free slots, watches them, and ends them: exit, time limit, cancel, log cap.

A slot is free again only when the process group of its job and all it left behind are dead and its scratch directory
is empty. The end of a job waits only for those processes to be dead: it is written to the open log, whatever the
disk says of the directory.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import sys
import time
from contextlib import suppress
from itertools import count

from diana.adapters.lrm.spawner import processes
from diana.adapters.lrm.spawner.claims.records import EXIT_UNKNOWN, LOST_WHILE_RUNNING, End
from diana.adapters.lrm.spawner.contained import Contained
from diana.adapters.lrm.spawner.devices import Devices
from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.jobs import Job, JobState, SlotPool
from diana.adapters.lrm.spawner.launching import NOT_FOUND_EXIT, Launcher, NotStarted, TryLater
from diana.adapters.lrm.spawner.leases import Leases
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.adapters.lrm.spawner.place import Place
from diana.adapters.lrm.spawner.protocol import UNREADY, UNREADY_FILE
from diana.adapters.lrm.spawner.segments import Segments
from diana.adapters.lrm.spawner.strays import Strays
from diana.adapters.lrm.spawner.table import ClaimTable
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir

GRACE_S = 5.0
"""Seconds between TERM and KILL."""
WATCH_S = 0.25
"""Seconds between two measures of the logs of running jobs."""
_DRAIN_POLL_S = 0.005
_LAST_ROUNDS = 10
_RETRY_S = 0.2


class JobRunner:
    def __init__(
        self,
        data: DataDir,
        table: ClaimTable,
        launcher: Launcher,
        epoll: select.epoll,
        slots: int,
        others: OtherAccounts,
        place: Place,
    ) -> None:
        self.others = others
        self._place = place
        self._table = table
        self._launcher = launcher
        self._epoll = epoll
        self._segments = Segments(data.logs_root)
        self._scratch = processes.Scratch(data.root / "slots")
        self.slots = SlotPool(slots)
        self.gpus = Devices()
        self.running: dict[int, Job] = {}
        """Running jobs by pidfd."""
        self._pids: set[int] = set()
        """Pids of our own unreaped children."""
        self._strays = Strays(launcher, others)
        self._contained = Contained(launcher, others)
        self._draining: list[tuple[Job, End]] = []
        self._untidy: list[Job] = []
        """Ended jobs whose scratch directories are not yet empty."""
        self._timers: list[tuple[float, int, Job, int]] = []
        """(boot_s, tie-break, job, signal); TERM stands for the time limit."""
        self._count = count()
        self._next_watch_s = 0.0
        self._not_before_s = 0.0
        self.to_tell: list[Job] = []
        self.leases = Leases(table)

    def of_machine(self, machine: str) -> None:
        """Set the name of this machine within its site."""
        self._launcher.machine = machine
        self._segments.of_machine(machine)

    def busy(self) -> bool:
        return bool(self.running or self._draining or self._untidy or self._table.queue)

    # --- starting --------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Start queued runs in free slots."""
        queue = self._table.queue
        now = boot_s()
        if not queue or now < self._not_before_s:
            return
        self._not_before_s = 0.0
        if not self._place.look():
            return
        ready: list[Job] = []
        while queue:
            job = queue[0]
            if job.state is JobState.QUEUED:
                if not self._table.is_durable(job):
                    break
                want = max(job.claim.record.processors, 1)
                lease = job.claim.record.lease
                if lease and not self.leases.stands(lease, now):
                    self._end_unstarted(job, Outcome.LEASE_OVER, 0, "")
                elif want > self.slots.total > 0:
                    self._refuse(job, f"wants {want} processors, site {self._launcher.site} has {self.slots.total}")
                elif (devices := job.claim.record.gpus) > self.gpus.total:
                    self._refuse(job, f"wants {devices} GPUs, machine {self._launcher.machine} has {self.gpus.total}")
                elif not self.gpus.enough(devices):
                    break
                else:
                    job.slots = self.slots.take(want)
                    if not self.slots.total and job.claim.directory:
                        # A merge command belongs to this machine, though all slots be other machines'.
                        job.slots = self.slots.beyond(want)
                    if not job.slots:
                        break
                    job.gpus = self.gpus.take(devices)
                    if self._make_ready(job, now):
                        ready.append(job)
            queue.popleft()
        if ready:
            self._start(ready)

    def _make_ready(self, job: Job, now: float) -> bool:
        try:
            job.segment = self._segments.at(job.claim.record.group, job.slots[0])
        except OSError as fault:
            self._refuse(job, f"its log cannot be opened: {fault.filename}: {fault.strerror}")
            return False
        try:
            self.others.let_log(job, job.segment)
        except OSError as fault:
            self._refuse(job, f"its log: {fault.strerror}")
            return False
        job.segment.users += 1
        job.log_offset = job.segment.size_bytes
        job.own_out = bool(job.stdout and job.stderr)
        job.started_s = now
        return True

    def _start(self, ready: list[Job]) -> None:
        self._table.starting(ready)
        started: list[Job] = []
        for at, job in enumerate(ready):
            assert job.segment is not None
            try:
                job.started_s = boot_s()
                scratch = self._scratch.path(job.slots[0])
                self.others.lend(job, scratch)
                job.pid = self._launcher.launch(job, job.segment, scratch)
            except (NotStarted, OSError) as fault:
                if not self._place.look():
                    # The fault is not the job's.
                    self._put_back(ready[at:])
                    break
                if isinstance(fault, NotStarted):
                    self._refuse(job, str(fault), named=True)
                else:
                    self._refuse(job, f"scratch directory: {fault.filename}: {fault.strerror}")
                continue
            except TryLater as fault:
                print(fault, file=sys.stderr, flush=True)
                self._put_back(ready[at:])
                break
            job.started_by_s = boot_s()
            job.state = JobState.RUNNING
            self._strays.caretakers |= job.claim.record.contained
            self._pids.add(job.pid)
            self._watch(job, os.pidfd_open(job.pid))
            started.append(job)
        if started:
            self._table.started(started)

    def _watch(self, job: Job, pidfd: int) -> None:
        job.pidfd = pidfd
        self.running[pidfd] = job
        self._epoll.register(pidfd, select.EPOLLIN)
        if job.claim.record.time_limit_s:
            self._at(job.started_s + job.claim.record.time_limit_s, job, signal.SIGTERM)

    def _put_back(self, jobs: list[Job]) -> None:
        for job in reversed(jobs):
            self._free(job)
            self._table.queue.appendleft(job)
        self._not_before_s = boot_s() + _RETRY_S

    def _free(self, job: Job) -> None:
        self._leave_log(job)
        self.slots.release(job.slots)
        self.gpus.release(job.gpus)
        job.slots, job.gpus = [], []

    def _leave_log(self, job: Job) -> None:
        if job.segment is not None:
            job.segment.users -= 1
            job.segment = None

    def _refuse(self, job: Job, why: str, *, named: bool = False) -> None:
        text = why if named else f"{job.claim.record.group}.{job.index}: {why}"
        self._free(job)
        self._end_unstarted(job, Outcome.NOT_STARTED, NOT_FOUND_EXIT, text)

    def _end_unstarted(self, job: Job, outcome: Outcome, exit_code: int, error: str) -> None:
        now = boot_s()
        number = job.claim.record.number
        end = End(number, job.index, outcome, exit_code, now, now, 0.0, 0, "", 0, 0, False, error)
        self._table.ended(job, end)
        self.to_tell.append(job)

    def adopt(self, job: Job, pidfd: int, segment: str) -> None:
        """Adopt a living run of an earlier spawner."""
        record = job.claim.record
        job.adopted = True
        self._strays.caretakers |= record.contained
        job.state = JobState.RUNNING
        self.slots.hold(job.slots)
        self.gpus.hold(job.gpus)
        job.segment = self._segments.named(segment, record.group, job.slots[0])
        job.segment.users += 1
        self._watch(job, pidfd)

    # --- ending ----------------------------------------------------------------------------------------

    def exited(self, pidfd: int) -> None:
        """Note that a leader is gone; kill what is left of its group while its number is still surely its own."""
        job = self.running.pop(pidfd)
        # A child between vfork and exec still holds a copy of every descriptor, so that closing one does not take it
        # out of the poll; its number, used again, would then bring this exit to another job.
        self._epoll.unregister(pidfd)
        now = boot_s()
        record = job.claim.record
        if job.adopted:
            os.close(pidfd)
            outcome, code, cpu_s, rss = job.verdict or Outcome.UNKNOWN, EXIT_UNKNOWN, 0.0, 0
        else:
            processes.signal_group(job.pid, signal.SIGKILL)
            _, status, used = os.wait4(job.pid, 0)
            os.close(pidfd)
            self._pids.discard(job.pid)
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                code = 128 - code
            outcome = job.verdict or (Outcome.FAILED if code else Outcome.DONE)
            cpu_s, rss = used.ru_utime + used.ru_stime, used.ru_maxrss << 10
        error = ""
        if outcome in (Outcome.DONE, Outcome.FAILED) and self._is_unready(job):
            outcome, error = Outcome.NOT_STARTED, f"{record.group}.{job.index}: {UNREADY}"
        if outcome == Outcome.UNKNOWN:
            error = f"{record.group}.{job.index}: {LOST_WHILE_RUNNING}"
        job.state = JobState.DRAINING
        end = End(record.number, job.index, outcome, code, job.started_s, now, cpu_s, rss, "", 0, 0, False, error)
        self._draining.append((job, end))

    def _is_unready(self, job: Job) -> bool:
        """True if the words before its command said that it could not be executed."""
        record = job.claim.record
        if not record.made_ready:
            return False
        told = f"{UNREADY_FILE}.{record.group}.{job.index}.{job.attempt}"
        return os.path.exists(f"{self._scratch.path(job.slots[0])}/{told}")

    def settle(self) -> None:
        """Complete the jobs of which nothing is left. NotInPlace."""
        self._settle()
        self._tidy()

    def _settle(self) -> None:
        if not self._draining:
            return
        jobs = [job for job, _ in self._draining]
        held_up = self._strays.kill(self._pids | self.others.helpers(), jobs, self.running.values())
        contained = [job for job in jobs if job.claim.record.contained and not job.adopted]
        held_up.update(self._contained.left(contained))
        left = []
        for job, end in self._draining:
            if job.claim.record.account and self.others.separate:
                alive = job in held_up or (not job.adopted and processes.group_alive(job.pid))
                if alive:
                    self.others.signal(job, self._launcher.marker(job), signal.SIGKILL)
            elif job.adopted:
                alive = processes.kill_family(0, self._launcher.marker(job), signal.SIGKILL)
            else:
                alive = job in held_up or processes.group_alive(job.pid)
            if alive:
                left.append((job, end))
            else:
                self._complete(job, end)
        self._draining = left

    def _complete(self, job: Job, end: End) -> None:
        segment = job.segment
        if segment is not None and not job.own_out:
            end.segment, end.offset = segment.name, job.log_offset
            try:
                limit = job.claim.record.log_limit_bytes
                end.length, end.truncated = segment.close_stretch(job.log_offset, limit, job.cut)
            except OSError as fault:
                end.truncated = True
                print(f"{segment.name}: {fault.strerror}", file=sys.stderr, flush=True)
        self._leave_log(job)
        self._table.ended(job, end)
        self.to_tell.append(job)
        self._untidy.append(job)

    def _tidy(self) -> None:
        """Tidy scratch directories, by path: one that is not there is made anew."""
        if not self._untidy or not self._place.look():
            return
        jobs, self._untidy = self._untidy, []
        for job in jobs:
            try:
                if self.others.take_back(job, self._scratch) or self._scratch.empty(job.slots[0]):
                    self._launcher.leave()
            except OSError as fault:
                print(f"scratch of slot {job.slots[0]}: {fault}", file=sys.stderr, flush=True)
            self._free(job)

    def kill(self, subgroup: str, epoch: int, indices: IndexSet) -> None:
        for job in self._table.matching(subgroup, epoch, indices):
            if job.state is JobState.QUEUED:
                self._end_unstarted(job, Outcome.CANCELLED, 0, "")
            elif job.state is JobState.RUNNING:
                self._stop(job, Outcome.CANCELLED)

    def recall(self, subgroup: str, epoch: int, indices: IndexSet) -> None:
        """End those that have not begun: from here on they are over, as much as if they had run."""
        for job in self._table.matching(subgroup, epoch, indices):
            if job.state is JobState.QUEUED:
                self._end_unstarted(job, Outcome.UNBEGUN, 0, "")

    def without_lease(self) -> None:
        """At the take-over, end jobs under a lease that nobody knows of: it is past."""
        self.leases.begin()
        for name in {job.claim.record.lease for job in self._table.runs.values()} - self.leases.names() - {""}:
            self._lease_over(name, late=True)

    def _lease_over(self, name: str, *, late: bool) -> None:
        """End jobs under a lease. `late`: their grace is over, too, for the machine stood still or nobody was here
        to end them."""
        for job in self._table.runs.values():
            if job.claim.record.lease != name:
                continue
            if job.state is JobState.QUEUED:
                self._end_unstarted(job, Outcome.LEASE_OVER, 0, "")
            elif job.state is JobState.RUNNING:
                self._stop(job, Outcome.LEASE_OVER)
                if late:
                    self._signal(job, signal.SIGKILL)

    def end_last(self) -> None:
        """Write down the ends there are when the directory was moved, also of jobs that left something behind to
        kill. Jobs that run on are another spawner's."""
        for fd, _ in self._epoll.poll(0):
            if fd in self.running:
                self.exited(fd)
        for _ in range(_LAST_ROUNDS):
            self._contained.hurry()
            self._settle()
            if not self._draining:
                return
            self.others.flush()
            time.sleep(_DRAIN_POLL_S)

    def end_all(self) -> None:
        """Kill all jobs when the data directory is no more; nobody hears of them."""
        jobs = [*self.running.values(), *(job for job, _ in self._draining)]
        for _ in range(_LAST_ROUNDS):
            # A grandchild in one round is a stray in the next.
            for job in jobs:
                self._signal(job, signal.SIGKILL)
            self._strays.kill(self._pids | self.others.helpers(), jobs, [])
            self._contained.kill([job for job in jobs if job.claim.record.contained])
            self.others.flush()
            time.sleep(_DRAIN_POLL_S)

    def _stop(self, job: Job, verdict: Outcome) -> None:
        if job.verdict == 0:
            job.verdict = verdict
            self._signal(job, signal.SIGTERM)
            # A stopped group would sleep through its grace.
            self._signal(job, signal.SIGCONT)
            self._at(boot_s() + GRACE_S, job, signal.SIGKILL)

    def _signal(self, job: Job, number: int) -> None:
        if job.claim.record.account and self.others.separate:
            self.others.signal(job, self._launcher.marker(job), number)
        elif job.adopted:
            processes.kill_family(job.pid, self._launcher.marker(job), number)
        else:
            processes.signal_group(job.pid, number)

    # --- time ------------------------------------------------------------------------------------------

    def _at(self, at_s: float, job: Job, number: int) -> None:
        heapq.heappush(self._timers, (at_s, next(self._count), job, number))
        if len(self._timers) > 1000 + 4 * len(self.running):
            # Most are limits of jobs that ended long before theirs.
            self._timers = [timer for timer in self._timers if timer[2].state is not JobState.ENDED]
            heapq.heapify(self._timers)

    def deadline_s(self) -> float:
        """Return the time at which `on_time` has something to do at the latest; infinite: never."""
        if self._draining:
            return boot_s() + _DRAIN_POLL_S
        at = self._next_watch_s if self.running else float("inf")
        if self._timers:
            at = min(at, self._timers[0][0])
        if self._not_before_s:
            at = min(at, self._not_before_s)
        if self._place.again_s:
            at = min(at, self._place.again_s)
        return min(at, self.leases.next_s())

    def on_time(self) -> None:
        now = boot_s()
        for name, until_s in self.leases.over(now):
            self._lease_over(name, late=now - until_s >= GRACE_S)
        while self._timers and self._timers[0][0] <= now:
            _, _, job, number = heapq.heappop(self._timers)
            if job.state is not JobState.RUNNING:
                continue
            if number == signal.SIGKILL:
                self._signal(job, signal.SIGKILL)
            else:
                self._stop(job, Outcome.TIMED_OUT)
        if self.running and now >= self._next_watch_s:
            self._next_watch_s = now + WATCH_S
            self._place.look()
            self._cut_logs()
            self._strays.reap(self._pids | self.others.helpers())
        if self._place.again_s:
            self._place.look()

    def _cut_logs(self) -> None:
        for job in self.running.values():
            if job.segment is not None and not job.own_out:
                with suppress(OSError):
                    _, cut = job.segment.written(job.log_offset, job.claim.record.log_limit_bytes)
                    job.cut = job.cut or cut
