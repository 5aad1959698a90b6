"""The one loop: exits first, waiting runs into free slots, orders, one fsync for all their claims, ends told.

Turn by turn this keeps the rule of the claim: durable before executed, written before told.
"""

from __future__ import annotations

import os
import select

from diana.adapters.lrm.spawner.claims import losses, replay
from diana.adapters.lrm.spawner.claims.claimlog import NAME as LOG
from diana.adapters.lrm.spawner.claims.claimlog import ClaimLog, find
from diana.adapters.lrm.spawner.identity import boot_s, machine
from diana.adapters.lrm.spawner.jobs import Job, JobState, batches
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.adapters.lrm.spawner.place import NotInPlace, Place
from diana.adapters.lrm.spawner.protocol import (
    MOST_PROCESSES,
    VERSION,
    AskLog,
    Ended,
    Forget,
    HeldRuns,
    Hello,
    Kill,
    Lease,
    LetGo,
    LogPlace,
    Message,
    Order,
    Recall,
    Refused,
    Save,
    SetSlots,
    Shutdown,
    StepsDone,
    Welcome,
    columns,
)
from diana.adapters.lrm.spawner.runner import JobRunner
from diana.adapters.lrm.spawner.server import NodeConnection, Server
from diana.adapters.lrm.spawner.steps import own as own_of
from diana.model import kept_log
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir

GATHER_S = 0.05
"""Ends wait this long for company while enough runs are queued to keep the slots busy."""
RETELL_S = 30.0
"""An end the node has not said to forget is told again after this."""
LINGER_S = 10.0
"""Without a node and without jobs, this process ends after this long."""
_MOST_PER_MESSAGE = 10_000


class Spawner:
    def __init__(self, data: DataDir, ran_before: bool) -> None:
        """Take over where the log stands. `ran_before`: another spawner was here, so there was a log. OSError,
        claimlog.LogDamaged, records.LogNewer."""
        found = find(data.spawner / LOG)
        past = replay.ClaimHistory(found.records)
        here = machine()
        self._epoll = select.epoll()
        self._place = Place(data.spawner)
        others = OtherAccounts()
        self._launcher = Launcher(data, others)
        self._table = replay.new_table(past, here, found.goes_on_as, found.count)
        self._runner = JobRunner(data, self._table, self._launcher, self._epoll, 0, others, self._place)
        replay.take_over(past, here, self._table, self._runner, self._launcher, data.logs_root)
        self._lost = found.lost or (f"{data.spawner / LOG}: is gone" if ran_before and not found.records else "")
        # A new log where jobs run already is one that was deleted.
        if (found.lost or not found.records) and (ended := replay.end_unclaimed(past, self._launcher)):
            why = self._lost or f"{data.spawner / LOG}: is gone"
            self._lost = f"{why}; {ended} jobs that ran unknown to it were ended"
        self._runner.sweep_groups()
        if self._lost:
            losses.keep(data.spawner / LOG, self._lost)
        self._table.use(ClaimLog(data.spawner / LOG, self._table.records()))
        self._runner.without_lease()
        self._epoll.register(self._table.sync_fd, select.EPOLLIN)
        self._server = Server(data.spawner, self._epoll)
        self._greet: NodeConnection | None = None
        self._hears_steps = False
        """True if the node takes `StepsDone`."""
        self._tell_by_s = 0.0
        self._high_water = 0
        """Number of runs that waited after the last order: when half of them have started, it is time to ask for
        more."""
        self._retell_at_s = 0.0
        self._alone_since_s = boot_s()
        self._over = False

    def run(self) -> None:
        """Run until nobody needs it. OSError: the disk refused a claim; everything stops (PROMISES section 3).
        NotInPlace: running jobs are left to the spawner of where the directory lies now, or ended if that is
        nowhere."""
        try:
            while not self._over:
                self._turn(self._epoll.poll(self._wait_s()))
        except NotInPlace:
            if self._place.deleted:
                self._runner.end_all()
            else:
                self._runner.end_last()
            self._table.log.sync()
            raise
        self._launcher.cgroups.tidy()
        self._table.log.sync()

    def _wait_s(self) -> float:
        """Return the seconds to wait; -1: for ever."""
        at = self._runner.deadline_s()
        if self._server.current is None:
            if not self._runner.busy():
                at = min(at, self._alone_since_s + LINGER_S)
        elif self._runner.to_tell:
            at = min(at, self._tell_by_s)
        elif self._retell_at_s:
            at = min(at, self._retell_at_s)
        return -1.0 if at == float("inf") else max(0.0, at - boot_s())

    def _turn(self, events: list[tuple[int, int]]) -> None:
        runner, server = self._runner, self._server
        others, warm = [], []
        for fd, flags in events:
            if fd in runner.running:
                runner.exited(fd)
            elif runner.warm.owns(fd):
                warm.append(fd)
            elif fd == self._table.sync_fd:
                self._table.synced()
            else:
                others.append((fd, flags))
        for fd in warm:
            # What one says may end another, whose number then is a new descriptor's.
            if runner.warm.owns(fd):
                runner.warm_heard(fd)
        runner.settle()
        runner.fill()
        for fd, flags in others:
            link = server.link(fd)
            if link is None:
                server.accept(fd)
                continue
            if flags & select.EPOLLOUT:
                server.flush(link)
            if flags & ~select.EPOLLOUT:
                for message in server.read(link):
                    self._on_message(link, message)
        self._table.make_durable()
        runner.fill()
        runner.on_time()
        runner.settle()
        runner.others.flush()
        self._tell()

    # --- orders ----------------------------------------------------------------------------------------

    def _on_message(self, link: NodeConnection, message: Message) -> None:
        if isinstance(message, Hello):
            self._on_hello(link, message)
            return
        if link is not self._server.current:
            return
        match message:
            case Order():
                self._table.claim(message, self._launcher.base(message))
                self._high_water = len(self._table.queue)
            case LetGo(subgroup=subgroup, epoch=epoch, indices=indices, environments=environments):
                self._runner.let_go(subgroup, epoch, dict(zip(indices, environments, strict=False)))
            case Kill(subgroup=subgroup, epoch=epoch, bounds=bounds):
                self._runner.kill(subgroup, epoch, IndexSet(tuple(bounds)))
            case Recall(subgroup=subgroup, epoch=epoch, bounds=bounds):
                self._runner.recall(subgroup, epoch, IndexSet(tuple(bounds)))
            case Save(subgroup=subgroup, epoch=epoch, bounds=bounds):
                self._runner.save(subgroup, epoch, IndexSet(tuple(bounds)), message.signal, message.wait_s)
            case Lease(name=name, until_s=until_s):
                self._runner.leases.told(name, until_s)
            case Forget(runs=runs):
                self._table.forget(runs)
                # By its path.
                if self._table.wants_compaction() and self._place.look():
                    self._table.compact()
            case AskLog():
                self._server.send(link, self._place_of_log(message))
            case SetSlots(slots=slots):
                self._runner.slots.resize(slots)
            case Shutdown():
                self._over = not self._runner.busy()
            case _:
                self._server.close(link)

    def _place_of_log(self, asked: AskLog) -> LogPlace:
        job = self._table.runs.get((asked.subgroup, asked.epoch, asked.index, asked.attempt))
        if job is None:
            return LogPlace(asked.number, kept_log.UNKNOWN)
        if job.state in (JobState.QUEUED, JobState.HELD, JobState.WARMING):
            return LogPlace(asked.number, kept_log.WAITS)
        if job.state is JobState.ENDED or job.segment is None:
            return LogPlace(asked.number, kept_log.ENDED)
        ran_s = max(0.0, boot_s() - job.started_s)
        if job.own_out:
            return LogPlace(asked.number, kept_log.OWN_FILES, runs_for_s=ran_s)
        size = max(0, os.fstat(job.segment.fd).st_size - job.log_offset)
        limit = job.claim.record.log_limit_bytes
        return LogPlace(asked.number, kept_log.RUNS, job.segment.name, job.log_offset, size, limit, ran_s)

    def _on_hello(self, link: NodeConnection, hello: Hello) -> None:
        if hello.term < self._table.term:
            reason = f"node of term {hello.term} came late, term {self._table.term} leads here"
            self._server.send(link, Refused(reason))
            self._server.close(link)
            return
        if not self._place.look():
            # A node at its new place finds this spawner's socket there. It comes again, to who is in place then.
            self._server.close(link)
            return
        self._table.note_term(hello.term)
        self._server.promote(link)
        self._launcher.site = hello.site
        self._runner.of_machine(hello.machine)
        self._runner.others.program = hello.run_as or self._runner.others.program
        self._runner.slots.resize(hello.slots)
        self._runner.gpus.declare(hello.gpus)
        self._launcher.hides_gpus = bool(hello.gpus)
        self._launcher.pins = hello.pins
        self._runner.bound_processes(hello.max_processes or MOST_PROCESSES)
        self._greet = link
        self._hears_steps = hello.hears_steps

    # --- telling ---------------------------------------------------------------------------------------

    def _tell(self) -> None:
        runner, server = self._runner, self._server
        link = server.current
        now = boot_s()
        if link is None:
            runner.to_tell.clear()
            runner.newly_held.clear()
            runner.new_steps.clear()
            if runner.busy():
                self._alone_since_s = now
            elif now - self._alone_since_s >= LINGER_S:
                self._over = True
            self._table.log.write()
            return
        self._alone_since_s = now
        if self._greet is not None:
            self._greet = None
            self._table.log.write()
            table = self._table
            known = table.known()
            can = (True, True, True)
            lost = (table.log_id, self._lost)
            server.send(link, Welcome(VERSION, table.generation, known, *can, *lost, True, True, True, True))
            runner.newly_held = runner.held()
            self._send_held(link)
            runner.to_tell = self._ended()
            self._send_ends(link, now)
        else:
            self._send_held(link)
            self._send_steps(link)
            self._tell_ends(link, now)

    def _send_held(self, link: NodeConnection) -> None:
        jobs, self._runner.newly_held = [job for job in self._runner.newly_held if job.state is JobState.HELD], []
        if jobs:
            named: dict[tuple[str, int], list[tuple[int, int]]] = {}
            for job in jobs:
                named.setdefault(job.key[:2], []).append(job.key[2:])
            self._server.send(link, HeldRuns(columns(named)))

    def _send_steps(self, link: NodeConnection) -> None:
        told, self._runner.new_steps = self._runner.new_steps, []
        if not told or not self._hears_steps:
            return
        named: dict[tuple[str, int], list[tuple[int, int]]] = {}
        steps: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
        own: dict[tuple[str, int], list[tuple[float, int]]] = {}
        for job, step in told:
            named.setdefault(job.key[:2], []).append(job.key[2:])
            steps.setdefault(job.key[:2], []).append(step)
            own.setdefault(job.key[:2], []).append(own_of(job.reported))
        self._server.send(link, StepsDone(columns(named), list(steps.values()), list(own.values())))

    def _tell_ends(self, link: NodeConnection, now: float) -> None:
        runner = self._runner
        if runner.to_tell:
            self._tell_when_due(link, now)
        elif self._retell_at_s and now >= self._retell_at_s:
            runner.to_tell = [job for job in self._ended() if now - job.told_s >= RETELL_S]
            self._retell_at_s = now + RETELL_S if self._ended() else 0.0
            self._send_ends(link, now)

    def _tell_when_due(self, link: NodeConnection, now: float) -> None:
        if not self._tell_by_s:
            self._tell_by_s = now + GATHER_S
        # The node must refill before the slots run dry; while they have enough, ends travel in company.
        low = max(self._runner.slots.total, self._high_water // 2)
        if now >= self._tell_by_s or len(self._table.queue) <= low:
            self._send_ends(link, now)

    def _send_ends(self, link: NodeConnection, now: float) -> None:
        jobs, self._runner.to_tell = self._runner.to_tell, []
        self._tell_by_s = 0.0
        self._table.log.write()
        for at in range(0, len(jobs), _MOST_PER_MESSAGE):
            part = jobs[at : at + _MOST_PER_MESSAGE]
            for job in part:
                job.told_s = now
            self._server.send(link, Ended(batches(part)))
            self._retell_at_s = self._retell_at_s or now + RETELL_S

    def _ended(self) -> list[Job]:
        return [job for job in self._table.runs.values() if job.state is JobState.ENDED]
