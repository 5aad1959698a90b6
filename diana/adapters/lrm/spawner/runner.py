"""Starts queued runs in free slots, watches them, and ends them: exit, time limit, cancel, log cap.

A slot is free again only when the process group of its job and all it left behind are dead and its scratch directory
is empty. The end of a job waits only for those processes to be dead: it is written to the open log, whatever the
disk says of the directory.
"""

from __future__ import annotations

import heapq
import os
import resource
import select
import signal
import stat
import sys
import time
from contextlib import suppress
from itertools import count

from diana.adapters.lrm.spawner import processes, steps
from diana.adapters.lrm.spawner.behind.disk import DiskWatch
from diana.adapters.lrm.spawner.behind.strays import Strays
from diana.adapters.lrm.spawner.behind.sweep import sweep
from diana.adapters.lrm.spawner.capped import hold
from diana.adapters.lrm.spawner.claims.records import EXIT_UNKNOWN, LOST_WHILE_RUNNING, End
from diana.adapters.lrm.spawner.contained import Contained
from diana.adapters.lrm.spawner.devices import Devices
from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.jobs import Job, JobState, SlotPool
from diana.adapters.lrm.spawner.launching import NOT_FOUND_EXIT, Launcher, NotStarted, TryLater
from diana.adapters.lrm.spawner.leases import Leases
from diana.adapters.lrm.spawner.memory import MemoryWatch, first_to_go
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.adapters.lrm.spawner.place import Place
from diana.adapters.lrm.spawner.protocol import UNREADY, UNREADY_FILE
from diana.adapters.lrm.spawner.segments import Segments
from diana.adapters.lrm.spawner.table import ClaimTable
from diana.adapters.lrm.spawner.warm.parents import Parents, WarmChild
from diana.errors import one_line
from diana.model.facts import Outcome, out_of_memory, out_of_scratch, too_many_processes
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import EXIT, SIGNALS
from diana.model.job.grace import GRACE_S
from diana.model.job.resources import GPUS, UNBOUND, ResourceOffer, amount, fits, lacking
from diana.model.layout import DataDir

WATCH_S = 0.25
"""Seconds between two measures of the logs of running jobs."""
_DRAIN_POLL_S = 0.005
_GRACE_POLL_S = 0.05
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
        self.warm = Parents(launcher, epoll)
        self._cgroups = launcher.cgroups
        self._memory = MemoryWatch(launcher.cgroups)
        self._disk = DiskWatch(self._folders)
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
        self._held: list[tuple[float, int, Job]] = []
        """(deadline, tie-break, job) of jobs that were held; some were let go since."""
        self.newly_held: list[Job] = []
        """Held jobs that the node has not been told of."""
        self.leases = Leases(table)
        self.new_steps: list[tuple[Job, tuple[float, float, float]]] = []
        """Reports that the node has not been told of."""
        self._next_steps_s = 0.0

    def of_machine(self, machine: str) -> None:
        """Set the name of this machine within its site."""
        self._launcher.machine = machine
        self._segments.of_machine(machine)

    def _folders(self, job: Job) -> tuple[str, str]:
        scratch = self._scratch.path(job.slots[0])
        return scratch, self._launcher.folder(job, scratch) if job.claim.record.own_directory else scratch

    def bound_processes(self, most: int) -> None:
        """Let no job have more processes than these; where the kernel counts, jobs that begin from here on."""
        self._memory.most_processes = self._cgroups.most_processes = most

    def busy(self) -> bool:
        waits = self._table.queue or self._held or self.warm.jobs()
        return bool(self.running or self._draining or self._untidy or waits)

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
        if not self._table.keep_log():
            self._not_before_s = now + _RETRY_S
            return
        ready: list[Job] = []
        has = self._offer()
        while queue:
            job = queue[0]
            if job.state is JobState.QUEUED:
                if not self._table.is_durable(job):
                    break
                request = job.claim.request
                lease = job.claim.record.lease
                if lease and not self.leases.stands(lease, now):
                    self._end_unstarted(job, Outcome.LEASE_OVER, 0, "")
                elif not fits(request, has):
                    self._refuse(job, f"machine {self._launcher.machine} {lacking(request, has)[0].why}")
                elif not self.gpus.enough(devices := amount(request.amounts, GPUS)):
                    break
                else:
                    job.slots = self.slots.take(request.processors)
                    if not self.slots.total and job.claim.directory:
                        # A merge command belongs to this machine, though all slots be other machines'.
                        job.slots = self.slots.beyond(request.processors)
                    if not job.slots:
                        break
                    job.gpus = self.gpus.take(devices)
                    if job.claim.barrier_s:
                        self._hold(job)
                    elif self._make_ready(job, now):
                        ready.append(job)
            queue.popleft()
        if ready:
            self._start(ready)

    def _offer(self) -> ResourceOffer:
        """Return what this machine has for one job. Jobs that wait while it has no slots wait for some."""
        return ResourceOffer(self.slots.total or UNBOUND, {GPUS: self.gpus.total})

    def _hold(self, job: Job) -> None:
        """Have a job wait in its slots. What can be known of its start is found out now, before others rely on it."""
        try:
            self._launcher.find(job)
        except NotStarted as fault:
            self._refuse(job, str(fault), named=True)
            return
        job.state = JobState.HELD
        heapq.heappush(self._held, (job.claim.barrier_s, next(self._count), job))
        self.newly_held.append(job)

    def held(self) -> list[Job]:
        """Return the jobs that wait to be let go."""
        return [job for _, _, job in self._held if job.state is JobState.HELD]

    def let_go(self, subgroup: str, epoch: int, told: dict[int, list[tuple[str, str]]]) -> None:
        """Begin jobs that are held, each with what it is told; one that comes too late ends unbegun."""
        now, ready = boot_s(), []
        for job in self._table.matching(subgroup, epoch, IndexSet.of(told)):
            if job.state is not JobState.HELD:
                continue
            if now >= job.claim.barrier_s:
                self._leave(job, Outcome.UNBEGUN)
                continue
            job.state, job.met = JobState.QUEUED, told[job.index]
            if self._make_ready(job, now):
                ready.append(job)
        if ready:
            self._start(ready)

    def _leave(self, job: Job, outcome: Outcome) -> None:
        """End a job that has its slots and waits: it never begins."""
        if job.state is JobState.WARMING:
            self.warm.withdraw(job)
        self._free(job)
        self._end_unstarted(job, outcome, 0, "")

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
        ready = [job for job in ready if not (job.claim.warm and self._is_warm(job))]
        if not ready:
            return
        self._table.starting(ready)
        started: list[Job] = []
        for at, job in enumerate(ready):
            assert job.segment is not None
            try:
                job.started_s = boot_s()
                scratch = self._scratch.path(job.slots[0])
                self.others.lend(job, scratch)
                self._disk.begins(job)
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
            self._runs(job)
            started.append(job)
        if started:
            self._table.started(started)

    def _runs(self, job: Job) -> None:
        job.started_by_s = boot_s()
        job.state = JobState.RUNNING
        self._strays.caretakers |= job.claim.record.contained
        self._pids.add(job.pid)
        self._watch(job, os.pidfd_open(job.pid))

    def _is_warm(self, job: Job) -> bool:
        """Ask for a child of a warm parent; False: none is to be had."""
        assert job.segment is not None
        job.started_s = boot_s()
        try:
            scratch = self._scratch.path(job.slots[0])
            log = job.segment.fd
            if not self.warm.begin(job, log, log, self._launcher.folder(job, scratch), scratch):
                return False
        except (NotStarted, TryLater, OSError):
            # Its own start tells why.
            return False
        job.state = JobState.WARMING
        return True

    def warm_heard(self, fd: int) -> None:
        """Begin what a warm parent has made ready; start the others in the ordinary way."""
        child, left = self.warm.heard(fd)
        if child is not None:
            self._begin(child)
        if left is not None:
            self._start_cold([left])

    def _begin(self, child: WarmChild) -> None:
        """Give a child its word, once it is written down that it begins."""
        job = child.job
        try:
            if self._place.look():
                self._table.starting([job])
                job.pid = child.pid
                # It has done nothing yet, so that it has no children elsewhere.
                if mark := self._launcher.mark(job):
                    self._launcher.marks.put_on_child(job.pid, mark)
                job.mark = mark
                self._disk.begins(job)
                job.cgroup = self._cgroups.put(self._launcher.run_name(job), job.pid)
                self._cgroups.limit(job.cgroup, job.claim.record.memory_bytes)
                first_to_go(job.pid)
                self._runs(job)
                self._table.started([job])
                os.write(child.go, b"!")
            else:
                self._put_back([job])
        finally:
            os.close(child.go)

    def _start_cold(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.state = JobState.QUEUED
            job.claim.warm = False
        self._start(jobs)

    def _watch(self, job: Job, pidfd: int) -> None:
        job.pidfd = pidfd
        self.running[pidfd] = job
        self._epoll.register(pidfd, select.EPOLLIN)
        if job.claim.record.time_limit_s:
            self._at(job.started_s + job.claim.record.time_limit_s, job, signal.SIGTERM)

    def _put_back(self, jobs: list[Job]) -> None:
        for job in reversed(jobs):
            self._free(job)
            job.state = JobState.QUEUED
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
        job.cgroup = self._cgroups.find(self._launcher.run_name(job))
        job.mark = self._launcher.mark(job)
        self._disk.begins(job)
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
        now, by_signal = boot_s(), 0
        record = job.claim.record
        spent = self._cgroups.spent(job.cgroup)
        job.peak_bytes = max(job.peak_bytes, spent.peak_bytes)
        if spent.over:
            job.over_bytes = job.over_bytes or max(job.peak_bytes, record.memory_bytes)
        if job.adopted:
            os.close(pidfd)
            outcome, code, cpu_s, rss = job.verdict or Outcome.UNKNOWN, EXIT_UNKNOWN, 0.0, 0
        else:
            if now >= job.kill_at_s:
                processes.signal_group(job.pid, signal.SIGKILL)
            _, status, used = os.wait4(job.pid, 0)
            os.close(pidfd)
            self._pids.discard(job.pid)
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                by_signal, code = -code, 128 - code
            saved = code == EXIT and (job.asked_signal or job.claim.stops_together)
            own = Outcome.CHECKPOINTED if saved else Outcome.FAILED if code else Outcome.DONE
            outcome = job.verdict or own
            cpu_s, rss = used.ru_utime + used.ru_stime, self._own_peak(job, used.ru_maxrss << 10)
        error = ""
        if job.over_bytes and outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            outcome, code, rss = Outcome.FAILED, 128 + signal.SIGKILL, job.peak_bytes
            by_signal = int(signal.SIGKILL)
            error = out_of_memory(f"{record.group}.{job.index}", job.over_bytes, record.memory_bytes)
        elif job.over_disk_bytes and outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            outcome, code, by_signal = Outcome.FAILED, 128 + signal.SIGKILL, int(signal.SIGKILL)
            error = out_of_scratch(f"{record.group}.{job.index}", job.over_disk_bytes, record.scratch_bytes)
        elif job.over_processes and outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            outcome, code, by_signal = Outcome.FAILED, 128 + signal.SIGKILL, int(signal.SIGKILL)
            most = self._memory.most_processes
            error = too_many_processes(f"{record.group}.{job.index}", job.over_processes, most)
        if outcome in (Outcome.DONE, Outcome.FAILED) and (why := self._unready(job)):
            outcome, error = Outcome.NOT_STARTED, f"{record.group}.{job.index}: {why}"
        if outcome == Outcome.UNKNOWN:
            error = f"{record.group}.{job.index}: {LOST_WHILE_RUNNING}"
        job.state = JobState.DRAINING
        end = End(record.number, job.index, outcome, code, job.started_s, now, cpu_s, rss, "", 0, 0, False, error)
        end.signal = by_signal
        self._draining.append((job, end))

    def _own_peak(self, job: Job, told_bytes: int) -> int:
        """Return the most memory that the job used; 0: not known. The kernel tells that of its largest process, and
        counts what this process had when it started it."""
        mine_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        return max(job.peak_bytes, told_bytes if told_bytes > mine_bytes else 0)

    def _unready(self, job: Job) -> str:
        """Return why its command could not be executed, as the words before it said; empty: they did not."""
        record = job.claim.record
        path = f"{self._scratch.path(job.slots[0])}/{UNREADY_FILE}.{record.group}.{job.index}.{job.attempt}"
        if not record.made_ready or not os.path.exists(path):
            return ""
        said = _line(path)
        return f"{said}; its log says why" if said else UNREADY

    def sweep_groups(self) -> None:
        """End what earlier spawners left in control groups, once all jobs that go on are adopted."""
        leaders = {job.pid for job in self.running.values()}
        for job in self.running.values():
            if job.cgroup and not self._cgroups.is_of(job.cgroup, job.pid, leaders):
                job.cgroup = ""
        self._cgroups.sweep([job.cgroup for job in self.running.values()], leaders)

    def settle(self) -> None:
        """Complete the jobs of which nothing is left. NotInPlace."""
        self._settle()
        self._tidy()

    def _settle(self) -> None:
        if not self._draining:
            return
        spared = self._in_grace()
        jobs = [job for job, _ in self._draining if job not in spared]
        live = [*self.running.values(), *self.warm.jobs(), *spared]
        known = self._pids | self.others.helpers() | self.warm.pids
        held_up = self._strays.kill(known, jobs, live, self.warm.marks())
        contained = [job for job in jobs if job.claim.record.contained and not job.adopted]
        held_up.update(self._contained.left(contained))
        left = []
        for job, end in self._draining:
            if job in spared:
                left.append((job, end))
                continue
            grouped = self._cgroups.kill(job.cgroup)
            if job.claim.record.account and self.others.separate:
                alive = job in held_up or (not job.adopted and processes.group_alive(job.pid))
                if alive:
                    self.others.signal(job, self._launcher.marker(job), signal.SIGKILL)
            elif job.adopted:
                alive = processes.kill_family(0, self._launcher.marker(job), signal.SIGKILL)
                if alive and job.mark:
                    sweep({job.mark})
            else:
                alive = job in held_up or processes.group_alive(job.pid)
                if alive and job.kill_at_s:
                    processes.signal_group(job.pid, signal.SIGKILL)
            if alive or grouped:
                left.append((job, end))
            else:
                self._complete(job, end)
        self._draining = left

    def _in_grace(self) -> set[Job]:
        """Return the jobs that were told to stop and whose leader is gone, as a shell that does not wait, while others
        of its group have the rest of the grace. Note how long they took."""
        now = boot_s()
        found = set()
        for job, end in self._draining:
            if now < job.kill_at_s and processes.group_alive(job.pid):
                found.add(job)
                end.ended_s = now
        return found

    def _complete(self, job: Job, end: End) -> None:
        segment = job.segment
        if segment is not None and not job.own_out:
            end.segment, end.offset = segment.name, job.log_offset
            try:
                limit = job.claim.record.log_limit_bytes
                end.length, end.truncated = segment.close_stretch(job.log_offset, limit)
            except OSError as fault:
                end.truncated = True
                print(f"{segment.name}: {fault.strerror}", file=sys.stderr, flush=True)
        self._cgroups.remove(job.cgroup)
        job.cgroup = ""
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
            elif job.state in (JobState.HELD, JobState.WARMING):
                self._leave(job, Outcome.CANCELLED)
            elif job.state is JobState.RUNNING:
                self._stop(job, Outcome.CANCELLED)

    def recall(self, subgroup: str, epoch: int, indices: IndexSet) -> None:
        """End those that have not begun: from here on they are over, as much as if they had run."""
        for job in self._table.matching(subgroup, epoch, indices):
            if job.state is JobState.QUEUED:
                self._end_unstarted(job, Outcome.UNBEGUN, 0, "")
            elif job.state in (JobState.HELD, JobState.WARMING):
                self._leave(job, Outcome.UNBEGUN)

    def save(self, subgroup: str, epoch: int, indices: IndexSet, name: str, wait_s: float) -> None:
        """Ask those that run to save their state and stop. Of an adopted one nobody would learn that it did, and one in
        a container is not reached; they run on."""
        number = signal.Signals[f"SIG{name}"] if name in SIGNALS else signal.SIGUSR1
        now = boot_s()
        for job in self._table.matching(subgroup, epoch, indices):
            out_of_reach = job.adopted or job.claim.record.contained
            if job.state is JobState.RUNNING and not out_of_reach and not job.asked_by_s:
                job.asked_signal, job.asked_by_s = number, now + wait_s
                self._next_watch_s = now

    def _ask(self, job: Job, now: float) -> None:
        """Send a job the signal it was asked by, once it heeds that: before, it would die of it."""
        if now >= job.asked_by_s:
            job.asked_by_s = 0.0
        elif job.claim.record.account and self.others.separate:
            self.others.ask(job, self._launcher.marker(job), job.asked_signal)
        elif processes.ask(job.pid, job.asked_signal):
            job.asked_by_s = 0.0

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
            elif job.state in (JobState.HELD, JobState.WARMING):
                self._leave(job, Outcome.LEASE_OVER)
            elif job.state in (JobState.RUNNING, JobState.DRAINING):
                if job.state is JobState.RUNNING:
                    self._stop(job, Outcome.LEASE_OVER)
                # Its own grace, or what is left of it, may be longer than its origin waits.
                job.kill_at_s = min(job.kill_at_s, boot_s() + (0.0 if late else GRACE_S))
                self._at(job.kill_at_s, job, signal.SIGKILL)

    def end_last(self) -> None:
        """Write down the ends there are when the directory was moved, also of jobs that left something behind to
        kill. Jobs that run on are another spawner's."""
        for fd, _ in self._epoll.poll(0):
            if fd in self.running:
                self.exited(fd)
        for job, _ in self._draining:
            job.kill_at_s = 0.0
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
            self.warm.end_all()
            self._strays.kill(self._pids | self.others.helpers(), jobs, [])
            self._contained.kill([job for job in jobs if job.claim.record.contained])
            self.others.flush()
            time.sleep(_DRAIN_POLL_S)
        for job in jobs:
            self._cgroups.remove(job.cgroup)

    def _stop(self, job: Job, verdict: Outcome) -> None:
        if job.verdict == 0:
            job.verdict = verdict
            self._signal(job, signal.SIGTERM)
            # A stopped group would sleep through its grace.
            self._signal(job, signal.SIGCONT)
            job.kill_at_s = boot_s() + job.claim.record.grace_s
            self._at(job.kill_at_s, job, signal.SIGKILL)

    def _signal(self, job: Job, number: int) -> None:
        if job.claim.record.account and self.others.separate:
            self.others.signal(job, self._launcher.marker(job), number)
        elif job.adopted:
            processes.kill_family(job.pid, self._launcher.marker(job), number)
        else:
            processes.signal_group(job.pid, number)
        if number == signal.SIGKILL:
            self._cgroups.kill(job.cgroup)

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
            now = boot_s()
            in_grace = all(now < job.kill_at_s for job, _ in self._draining)
            return now + (_GRACE_POLL_S if in_grace else _DRAIN_POLL_S)
        at = self._next_watch_s if self.running else float("inf")
        if self._timers:
            at = min(at, self._timers[0][0])
        if self._held:
            at = min(at, self._held[0][0])
        if self._not_before_s:
            at = min(at, self._not_before_s)
        if self._place.again_s:
            at = min(at, self._place.again_s)
        if self._cgroups.left:
            at = min(at, boot_s() + _RETRY_S)
        return min(at, self.leases.next_s(), self.warm.deadline_s())

    def on_time(self) -> None:
        now = boot_s()
        if late := self.warm.late(now):
            self._start_cold(late)
        for name, until_s in self.leases.over(now):
            self._lease_over(name, late=now - until_s >= GRACE_S)
        while self._held and (self._held[0][0] <= now or self._held[0][2].state is not JobState.HELD):
            _, _, job = heapq.heappop(self._held)
            if job.state is JobState.HELD:
                self._leave(job, Outcome.UNBEGUN)
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
            self._hold_logs()
            for job in self.running.values():
                if job.asked_by_s:
                    self._ask(job, now)
            if now >= self._next_steps_s:
                self._next_steps_s = now + steps.LOOK_S
                self._look_at_steps(now)
            for job in self._memory.over(self.running.values()):
                if job.over_processes and job.mark:
                    sweep({job.mark})
                self._signal(job, signal.SIGKILL)
            for job in self._disk.over(self.running.values()):
                self._signal(job, signal.SIGKILL)
            self._strays.reap(self._pids | self.others.helpers() | self.warm.pids)
        if self._place.again_s:
            self._place.look()
        self._cgroups.tidy()

    def _look_at_steps(self, now: float) -> None:
        """Read what running jobs report. One of another account has a directory that is closed to us."""
        for job in self.running.values():
            if not job.claim.reports or not job.slots:
                continue
            found = steps.read(f"{self._scratch.path(job.slots[0])}/{steps.NAME}", job.reported)
            if found is not None:
                job.reported, (ago_s, done, total) = found
                self.new_steps.append((job, (now - ago_s, done, total)))

    def _hold_logs(self) -> None:
        for job in self.running.values():
            if job.segment is not None and not job.own_out:
                with suppress(OSError):
                    hold(job.segment.fd, job.log_offset, job.claim.record.log_limit_bytes)


def _line(path: str) -> str:
    """Return the file's text as one line of 300 characters at most; empty: none that we may read. A file that has
    another name as well may be one that the job itself must not read."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                return ""
            return one_line(os.read(fd, 1200).decode(errors="replace"))[:300]
        finally:
            os.close(fd)
    return ""
