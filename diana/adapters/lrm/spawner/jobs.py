"""Claims and their jobs as the spawner remembers them, and the columns in which it tells their ends."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from enum import IntEnum

from diana.adapters.lrm.spawner.claims.records import Claimed, End
from diana.adapters.lrm.spawner.protocol import Collected, EndedRuns, Order
from diana.adapters.lrm.spawner.segments import Segment
from diana.model.job.resources import GPUS, ResourceRequest, of

RunKey = tuple[str, int, int, int]
"""Subgroup, epoch, index, attempt."""


WISH = "DIANA_WARM"
"""Name in an order's environment whose value 1 says that its command serves as a warm parent (`warm/parents.py`)."""


class JobState(IntEnum):
    QUEUED = 1
    RUNNING = 2
    DRAINING = 3
    """The job's own process is gone; something it left behind has the rest of its grace, or is being killed."""
    ENDED = 4
    HELD = 5
    """It has its slots and waits to be let go."""
    WARMING = 6
    """It has its slots and waits for a child of a warm parent."""


class Claim:
    """The data that runs of one accepted order share."""

    __slots__ = ("barrier_s", "base", "directory", "record", "reports", "request", "stops_together", "warm")

    def __init__(self, record: Claimed, order: Order | None, base: dict[bytes, bytes]) -> None:
        self.record = record
        """The claim's record; its columns name the runs that were new, and are emptied once written."""
        self.request = ResourceRequest(max(1, record.processors), of({GPUS: record.gpus}))
        """Request of each of its jobs, of what is handed out here."""
        self.directory = order.directory if order else ""
        self.barrier_s = order.barrier_s if order else 0.0
        """CLOCK_BOOTTIME until which its jobs wait to be let go; 0: they do not."""
        self.reports = order.reports if order else False
        self.warm = order is not None and _may_be_warm(order)
        """True if its jobs may be children of a warm parent."""
        self.stops_together = order.saves and order.barrier_s > 0 if order else False
        """True: the first of a gang that is asked to save stops all, so each may have before it is asked."""
        self.base = base
        """Environment common to its jobs."""


def _may_be_warm(order: Order) -> bool:
    """True where the command wishes it, and nothing else stands between this process and the job."""
    apart = order.account or order.before or order.contained or order.mpi or order.gpus or order.barrier_s
    return not apart and not order.stdouts and not order.stderrs and (WISH, "1") in order.environment


class Job:
    """One run. Fields that only a start needs are let go once it has ended."""

    __slots__ = (
        "adopted",
        "argv",
        "asked_by_s",
        "asked_signal",
        "attempt",
        "cgroup",
        "checkpoint",
        "claim",
        "collects",
        "end",
        "environment",
        "given",
        "gpus",
        "index",
        "kill_at_s",
        "killed_at_s",
        "log_offset",
        "mark",
        "met",
        "over_bytes",
        "over_disk_bytes",
        "over_processes",
        "own_out",
        "peak_bytes",
        "pid",
        "pidfd",
        "reported",
        "segment",
        "slots",
        "started_by_s",
        "started_s",
        "state",
        "stderr",
        "stdout",
        "told_s",
        "verdict",
    )

    def __init__(self, claim: Claim, index: int, attempt: int) -> None:
        self.claim = claim
        self.index = index
        self.attempt = attempt
        self.state = JobState.QUEUED
        self.argv: list[str] = []
        self.environment: list[tuple[str, str]] = []
        self.met: list[tuple[str, str]] = []
        """Environment that it was told as it was let go."""
        self.stdout = ""
        self.stderr = ""
        self.collects: list[Collected] = []
        self.slots: list[int] = []
        self.gpus: list[str] = []
        """Devices the run has, as CUDA names them."""
        self.pid = 0
        self.pidfd = -1
        self.cgroup = ""
        """Its control group; empty: it has none."""
        self.mark = 0
        """Mark that its processes bear; 0: none was put on them."""
        self.adopted = False
        """True if an earlier spawner started it: it is not our child, and nobody knows its exit."""
        self.started_s = 0.0
        self.started_by_s = 0.0
        self.segment: Segment | None = None
        self.log_offset = 0
        self.own_out = False
        """True if neither stdout nor stderr goes to the segment."""
        self.peak_bytes = 0
        """Most memory that it was seen to use with all its children."""
        self.over_bytes = 0
        """Memory it used when it was ended for that; 0: it was not."""
        self.given: frozenset[int] = frozenset()
        """Inodes that lay in its own directory when it began, if it asked for scratch."""
        self.over_disk_bytes = 0
        """Room it took of the disk when it was ended for that; 0: it was not."""
        self.over_processes = 0
        """Processes it had when it was ended for that; 0: it was not."""
        self.verdict = 0
        """Outcome decided before the exit: CANCELLED or TIMED_OUT; 0: the exit decides."""
        self.checkpoint = ""
        """Checkpoint that it goes on from; empty: it begins anew."""
        self.reported = b""
        """Its last report, as it wrote it."""
        self.asked_signal = 0
        """Signal that asks it to save its state and stop; 0: it was not asked."""
        self.asked_by_s = 0.0
        """Time until which the signal is to be sent, once the job heeds it; 0: it was sent, or is no more."""
        self.kill_at_s = 0.0
        """CLOCK_BOOTTIME at which what is left of it is killed, once it was told to stop; 0: as soon as it ends."""
        self.killed_at_s = 0.0
        self.end: End | None = None
        self.told_s = 0.0

    @property
    def key(self) -> RunKey:
        record = self.claim.record
        return (record.subgroup, record.epoch, self.index, self.attempt)

    def finish(self, end: End) -> None:
        self.end = end
        self.state = JobState.ENDED
        self.given = frozenset()
        self.argv = []
        self.environment = self.met = []
        self.segment = None


class SlotPool:
    """The processors that are free, lowest first. Slots above `total` retire when their job ends."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total))
        self._busy: set[int] = set()

    def resize(self, total: int) -> None:
        self.total = total
        self._free = [slot for slot in range(total) if slot not in self._busy]

    def take(self, count: int) -> list[int]:
        """Take `count` slots, or none at all when fewer are free."""
        if len(self._free) < count:
            return []
        taken = [heapq.heappop(self._free) for _ in range(count)]
        self._busy.update(taken)
        return taken

    def beyond(self, count: int) -> list[int]:
        """Take `count` slots besides all there are; they retire when their job ends."""
        taken = list(itertools.islice((slot for slot in itertools.count() if slot not in self._busy), count))
        self._busy.update(taken)
        self._free = [slot for slot in self._free if slot not in self._busy]
        heapq.heapify(self._free)
        return taken

    def hold(self, slots: Iterable[int]) -> None:
        """Mark slots busy for a job that was running before this spawner."""
        self._busy.update(slots)
        self.resize(self.total)

    def release(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._busy.discard(slot)
            if slot < self.total:
                heapq.heappush(self._free, slot)


def batches(jobs: Iterable[Job]) -> list[EndedRuns]:
    """Return columns of ended jobs, one batch per subgroup and epoch, in order of their ends."""
    out: dict[tuple[str, int, bool, str], EndedRuns] = {}
    for job in jobs:
        end = job.end
        if end is None:
            continue
        record = job.claim.record
        name = (record.subgroup, record.epoch, record.own_directory, record.account)
        batch = out.get(name)
        if batch is None:
            batch = out[name] = EndedRuns(
                *name[:3], [], [], [], [], [], [], [], [], [], [], [], [], [], [], record.account, []
            )
        if end.error:
            batch.errors.append((len(batch.indices), end.error))
        batch.indices.append(job.index)
        batch.attempts.append(job.attempt)
        batch.outcomes.append(end.outcome)
        batch.exit_codes.append(end.exit_code)
        batch.started_s.append(end.started_s)
        batch.ended_s.append(end.ended_s)
        batch.cpu_s.append(end.cpu_s)
        batch.max_rss_bytes.append(end.max_rss_bytes)
        batch.log_segments.append(end.segment)
        batch.log_offsets.append(end.offset)
        batch.log_lengths.append(end.length)
        batch.log_truncated.append(end.truncated)
        if record.own_directory:
            batch.collects.append(job.collects)
        if end.signal:
            batch.signals += [0] * (len(batch.indices) - 1 - len(batch.signals)) + [end.signal]
    for batch in out.values():
        if batch.signals:
            batch.signals += [0] * (len(batch.indices) - len(batch.signals))
    return list(out.values())
