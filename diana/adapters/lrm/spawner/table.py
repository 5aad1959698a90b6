"""All runs this spawner answers for: claimed, started, ended, until the node says forget.

The order of things is the promise: a claim is durable before its run may be executed (PROMISES section 2, step 6),
a `Starting` record is written before each execution, and a run that is in the table is never executed again.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress

from diana.adapters.lrm.spawner.claims.claimlog import ClaimLog, NoRoom
from diana.adapters.lrm.spawner.claims.records import (
    VERSION,
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
from diana.adapters.lrm.spawner.claims.syncer import Syncer
from diana.adapters.lrm.spawner.identity import MachineIdentity, boot_s, wall_s
from diana.adapters.lrm.spawner.jobs import Claim, Job, JobState, RunKey
from diana.adapters.lrm.spawner.protocol import Collected, Order, columns
from diana.model.indexset import IndexSet
from diana.model.run_columns import Runs

_COMPACT_BYTES = 4 << 20


class ClaimTable:
    def __init__(
        self, generation: int, term: int, machine: MachineIdentity, log_id: str = "", counted: int = 0
    ) -> None:
        """`log_id`, `counted`: identity of the log, and the records it had when it was found."""
        self.generation = generation
        self.log_id = log_id
        self._counted = counted
        self.term = term
        self._machine = machine
        self.runs: dict[RunKey, Job] = {}
        self.queue: deque[Job] = deque()
        self.next_number = 1
        self.leases: dict[str, float] = {}
        """Leases that stand, and until when; any other is over."""
        self._log: ClaimLog | None = None
        self._syncer = Syncer()
        self._being_synced = 0
        """Records of the log of which the sync that was begun last will make sure."""
        self._durable = 0
        """Claims up to this number may be executed."""
        self._next_compaction_bytes = _COMPACT_BYTES

    @property
    def log(self) -> ClaimLog:
        assert self._log is not None
        return self._log

    def use(self, log: ClaimLog) -> None:
        self._log = log
        self._durable = self.next_number - 1

    # --- claims ----------------------------------------------------------------------------------------

    def claim(self, order: Order, base: dict[bytes, bytes]) -> None:
        """Take the runs that are new into the queue. None of them may be executed before it `is_durable`."""
        attempts = order.attempts or [1] * len(order.indices)
        name = (order.subgroup, order.epoch)
        fresh = [k for k, index in enumerate(order.indices) if (*name, index, attempts[k]) not in self.runs]
        if not fresh:
            return
        collects: list[list[Collected]] = [order.collects[k] for k in fresh] if order.collects else []
        record = Claimed(
            number=self.next_number,
            subgroup=order.subgroup,
            epoch=order.epoch,
            group=order.group,
            processors=order.processors,
            time_limit_s=order.time_limit_s,
            log_limit_bytes=order.log_limit_bytes,
            own_directory=order.own_directory,
            indices=[order.indices[k] for k in fresh],
            attempts=[attempts[k] for k in fresh],
            collects=collects,
            account=order.account,
            lease=order.lease,
            made_ready=bool(order.before),
            contained=order.contained,
            gpus=order.gpus,
            memory_bytes=0 if order.contained else order.memory_bytes,
            grace_s=order.grace_s,
            scratch_bytes=order.scratch_bytes,
        )
        self.next_number += 1
        self.log.add(record)
        claim = Claim(record, order, base)
        shared = [*order.before, *order.argv]
        for k in fresh:
            job = Job(claim, order.indices[k], attempts[k])
            job.argv = [*order.before, *order.argvs[k]] if order.argvs else shared
            if order.environments:
                job.environment = order.environments[k]
            if order.stdouts:
                job.stdout = order.stdouts[k]
            if order.stderrs:
                job.stderr = order.stderrs[k]
            if order.collects:
                job.collects = order.collects[k]
            if order.checkpoints:
                job.checkpoint = order.checkpoints[k]
            self.runs[(*name, job.index, job.attempt)] = job
            self.queue.append(job)
        strip(record)

    def make_durable(self) -> None:
        """One fsync for all claims since the last one; the ends before them come along.

        Beside the loop while there is other work to start, at once where slots might wait for it.
        """
        last = self.next_number - 1
        if self._durable >= last:
            return
        if not (self.queue and self.is_durable(self.queue[0])):
            self.log.sync()
            self._durable = last
        elif not self._syncer.busy:
            self.log.write()
            self._being_synced = self.log.count
            self._syncer.begin(self.log.fd, last)

    def synced(self) -> None:
        """`sync_fd` woke the loop. OSError when the disk refused."""
        try:
            self._durable = max(self._durable, self._syncer.end())
        except OSError as fault:
            raise self.log.refused(fault) from None
        self.log.synced(self._being_synced)

    @property
    def sync_fd(self) -> int:
        return self._syncer.event_fd

    def is_durable(self, job: Job) -> bool:
        return job.claim.record.number <= self._durable

    def note_term(self, term: int) -> None:
        if term > self.term:
            self.term = term
            self.log.add(Term(term))
            self.log.sync()

    def lease(self, name: str, until_s: float) -> None:
        self.leases[name] = until_s
        self.log.add(Leased(name, until_s))
        self.log.write()

    def starting(self, jobs: Iterable[Job]) -> None:
        self.log.add(Starting([_begin(job) for job in jobs]))
        self.log.write()

    def started(self, jobs: Iterable[Job]) -> None:
        self.log.add(Started([_proc(job) for job in jobs]))
        self.log.write()

    def ended(self, job: Job, end: End) -> None:
        """Goes out with the next write; lost with the machine only, and then the run was interrupted."""
        job.finish(end)
        self.log.add(Finished([end]))

    # --- forgetting ------------------------------------------------------------------------------------

    def forget(self, runs: Iterable[Runs]) -> None:
        """Only what has ended is forgotten."""
        dropped: dict[int, list[int]] = {}
        for named in runs:
            for index, attempt in zip(named.indices, named.attempts, strict=True):
                key = (named.subgroup, named.epoch, index, attempt)
                job = self.runs.get(key)
                if job is not None and job.state is JobState.ENDED:
                    del self.runs[key]
                    dropped.setdefault(job.claim.record.number, []).append(index)
        if dropped:
            self.log.add(Dropped(list(dropped.items())))

    def wants_compaction(self) -> bool:
        """Most of the log is forgotten, and nobody is at work on it."""
        return self.log.size_bytes > self._next_compaction_bytes and not self._syncer.busy

    def compact(self) -> None:
        """Rewrite the log as the table stands."""
        try:
            self.log.rewrite(self.records())
        except NoRoom:
            # It may grow to twice its size before it is tried again.
            self._next_compaction_bytes = 2 * self.log.size_bytes
            return
        self._durable = self.next_number - 1
        # Twice what is alive, so that the cost of rewriting stays below that of writing.
        self._next_compaction_bytes = max(_COMPACT_BYTES, 2 * self.log.size_bytes)

    def keep_log(self) -> bool:
        """Put back a log that was moved, deleted or replaced, out of what the table knows. False: not just now, and
        nothing may start on it."""
        if self.log.in_place():
            return True
        if self._syncer.busy:
            return False
        with suppress(NoRoom):
            self.log.put_back(self.records())
            self._durable = self.next_number - 1
            print("the claim log was moved, deleted or replaced; it is written anew", file=sys.stderr, flush=True)
            return True
        return False

    def records(self) -> Iterator[Record]:
        """The shortest log that says what the table says."""
        before = self._log.count if self._log is not None else self._counted
        yield LogOpened(VERSION, self.generation, self.term, self._machine, boot_s(), wall_s(), self.log_id, before)
        for name, until_s in self.leases.items():
            yield Leased(name, until_s)
        by_claim: dict[int, list[Job]] = {}
        for job in self.runs.values():
            by_claim.setdefault(job.claim.record.number, []).append(job)
        for number in sorted(by_claim):
            jobs = by_claim[number]
            yield _claimed(jobs)
            if live := [job for job in jobs if job.state in (JobState.RUNNING, JobState.DRAINING)]:
                yield Starting([_begin(job) for job in live])
                yield Started([_proc(job) for job in live if job.pid])
            if ends := [job.end for job in jobs if job.end is not None]:
                yield Finished(ends)

    # --- looking ---------------------------------------------------------------------------------------

    def known(self) -> list[Runs]:
        out: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for subgroup, epoch, index, attempt in self.runs:
            out.setdefault((subgroup, epoch), []).append((index, attempt))
        return columns(out)

    def matching(self, subgroup: str, epoch: int, indices: IndexSet) -> list[Job]:
        """Runs of these jobs that have not ended."""
        return [
            job
            for (sub, e, index, _), job in self.runs.items()
            if e == epoch and sub == subgroup and job.state is not JobState.ENDED and index in indices
        ]


def strip(record: Claimed) -> None:
    """Empty a claim's columns: its jobs hold them from now on."""
    record.indices, record.attempts, record.collects = [], [], []


def _claimed(jobs: list[Job]) -> Claimed:
    head = jobs[0].claim.record
    return Claimed(
        number=head.number,
        subgroup=head.subgroup,
        epoch=head.epoch,
        group=head.group,
        processors=head.processors,
        time_limit_s=head.time_limit_s,
        log_limit_bytes=head.log_limit_bytes,
        own_directory=head.own_directory,
        indices=[job.index for job in jobs],
        attempts=[job.attempt for job in jobs],
        collects=[job.collects for job in jobs] if any(job.collects for job in jobs) else [],
        account=head.account,
        lease=head.lease,
        made_ready=head.made_ready,
        contained=head.contained,
        gpus=head.gpus,
        memory_bytes=head.memory_bytes,
        grace_s=head.grace_s,
        scratch_bytes=head.scratch_bytes,
    )


def _begin(job: Job) -> Begin:
    segment = job.segment.name if job.segment is not None else ""
    return Begin(job.claim.record.number, job.index, job.slots, job.started_s, segment, job.log_offset, job.gpus)


def _proc(job: Job) -> Proc:
    return Proc(job.claim.record.number, job.index, job.pid, job.started_by_s)
