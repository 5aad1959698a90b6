"""The digest over what came of a run: which job started, ended and moved where and when, and what crossed the network.

The digest of `trace.py` is over all that engines decided and holds the names of classes and fields. This one holds
none: code can be moved and renamed under it, and as long as it stays the same the behaviour has. A row of it is an
array in MessagePack, its time in whole nanoseconds; rows come in the order of virtual time, those of one moment in the
order in which they came about:

    [time, "start" | "end" | "move", site, group, [first, stop, ...], attempt, how]
    [time, "message", sender, recipient, bytes]

Rows of jobs come from what really runs (`SimLrm`) and from what sites make durable. `how` is one of the words below.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.spec import Resources
from diana.sim.kernel.clock import Clock
from diana.sim.report.value_sizes import wire_bytes
from diana.sim.twins.lrm import Watcher

if TYPE_CHECKING:
    from diana.sim.report import outcome as oc

ENDS = {
    1: "done",
    2: "failed",
    3: "timed-out",
    4: "cancelled",
    5: "not-started",
    6: "staging-failed",
    7: "unknown",
    8: "interrupted",
    9: "lease-over",
    10: "unbegun",
    11: "checkpointed",
    12: "made-way",
    13: "unrestored",
}
"""Words for the outcomes of attempts, by their numbers on the wire, which never change."""
PLACED, OFFERED, TAKEN, RETURNED = "placed", "offered", "taken", "returned"
"""Moves: given to the site that placed them; offered to another, in the row's `site`; taken by that; given back."""
TOLD, WITHDRAWN = "told", "withdrawn"
"""Ends as an executing site keeps them for the origin: after a start, or when they could not be staged; before it."""
ACCEPTED = ("accepted-done", "accepted-failed", "accepted-cancelled", "accepted-held")
"""Ends as the origin has them, which is what users see."""
KNOWN_TO_NOBODY = 0
"""The attempt in rows of jobs that may have different ones, or none."""


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one run, in short."""

    policy: str | None = None
    """The policy, where several are compared."""
    load: float | None = None
    """The load, where policies are compared."""
    seed: int
    digest: str
    """SHA-256 over all its rows."""
    starts: int = 0
    ends: int = 0
    moves: int = 0
    """Rows of jobs, each of any number of them."""
    messages: int = 0
    bytes_sent: int = 0
    """Bytes of all messages; a central policy sends none."""


class OutcomeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report's key `outcome`."""

    digest: str
    """Digest over those of all runs, in their order; of one run, its own."""
    runs: list[RunOutcome]


def joint(runs: Iterable[RunOutcome]) -> OutcomeReport:
    """The report of runs in the order given."""
    rows = list(runs)
    every = [row.digest for row in rows]
    return OutcomeReport(digest=every[0] if len(every) == 1 else _sha256("\n".join(every).encode()), runs=rows)


def text(found: dict[str, Any]) -> list[str]:
    """The report for people: the joint digest, then a line per run."""
    lines = [f"outcome      {found['digest']}"]
    for row in found["runs"]:
        under = f"{row['policy']}, load {row['load']:g}, " if "policy" in row else ""
        counts = "  ".join(f"{key}={row.get(key, 0)}" for key in ("starts", "ends", "moves", "messages", "bytes_sent"))
        lines.append(f"  {under}seed {row['seed']}  {row['digest']}  {counts}")
    return lines


class OutcomeDigest(Watcher):
    """Watcher of a run: of what really runs (`beside` sees it too), of durable records and of messages."""

    __slots__ = ("_beside", "_by_type", "_bytes", "_clock", "_counts", "_encode", "_hash", "_last", "shown")

    def __init__(self, clock: Clock, beside: Watcher) -> None:
        self._clock = clock
        self._beside = beside
        self._hash = hashlib.sha256()
        self._encode = msgspec.msgpack.Encoder().encode
        self._counts = Counter[str]()
        self._bytes = 0
        self._last: tuple[object, int] = (None, 0)
        """The message weighed last: the same one goes to several sites."""
        self.shown: Callable[[Sequence[object]], None] | None = None
        """Called with every row too."""
        self._by_type: dict[type, Callable[[SiteId, Any], None]] = {
            r.GroupPlaced: self._placed,
            r.MergeStarted: self._merge_started,
            r.CustodyTaken: self._taken,
            r.RunsEnded: self._ended,
            r.JobsFailed: self._jobs_cancelled,
            r.JobsCancelled: self._jobs_cancelled,
            r.ResultAccepted: self._accepted,
        }

    def result(self, seed: int) -> RunOutcome:
        counts = self._counts
        return RunOutcome(
            seed=seed,
            digest=self._hash.hexdigest(),
            starts=counts["start"],
            ends=counts["end"],
            moves=counts["move"],
            messages=counts["message"],
            bytes_sent=self._bytes,
        )

    def _row(self, kind: str, *values: object) -> None:
        row = (nanoseconds(self._clock.now_s), kind, *values)
        self._counts[kind] += 1
        self._hash.update(self._encode(row))
        if self.shown is not None:
            self.shown(row)

    def _jobs(self, kind: str, site: SiteId, group: GroupId, indices: IndexSet, attempt: int, how: str) -> None:
        if indices:
            self._row(kind, site, group, list(indices.bounds), attempt, how)

    # --- the network -------------------------------------------------------------------------------------

    def sent(self, sender: str, to: str, message: object) -> None:
        """`sender` sends a message, whether or not it arrives."""
        if message is not self._last[0]:
            self._last = (message, wire_bytes(message))
        size = self._last[1]
        self._bytes += size
        self._row("message", sender, to, size)

    # --- records -----------------------------------------------------------------------------------------

    def committed(self, site: SiteId, record: r.Record) -> None:
        """`record` became durable at `site`."""
        note = self._by_type.get(type(record))
        if note is not None:
            note(site, record)

    def _placed(self, site: SiteId, record: r.GroupPlaced) -> None:
        for part in record.parts:
            self._part(site, record.group, part)

    def _merge_started(self, site: SiteId, record: r.MergeStarted) -> None:
        self._part(site, record.group, record.part)

    def _part(self, site: SiteId, group: GroupId, part: r.Part) -> None:
        how = PLACED if part.site == site else OFFERED
        self._jobs("move", part.site, group, part.indices, part.attempt_base, how)

    def _taken(self, site: SiteId, record: r.CustodyTaken) -> None:
        self._jobs("move", site, group_of(record.subgroup), record.indices, record.attempt_base, TAKEN)

    def _ended(self, site: SiteId, record: r.RunsEnded) -> None:
        group = group_of(record.subgroup)
        self._jobs("end", site, group, record.ended, KNOWN_TO_NOBODY, TOLD)
        self._jobs("end", site, group, record.cancelled, KNOWN_TO_NOBODY, WITHDRAWN)
        self._jobs("move", site, group, record.revoked, KNOWN_TO_NOBODY, RETURNED)

    def _jobs_cancelled(self, site: SiteId, record: r.JobsCancelled | r.JobsFailed) -> None:
        self._jobs("end", site, record.group, record.indices, KNOWN_TO_NOBODY, WITHDRAWN)

    def _accepted(self, site: SiteId, record: r.ResultAccepted) -> None:
        group, kinds = group_of(record.subgroup), (record.done, record.failed, record.cancelled, record.held)
        for how, indices in zip(ACCEPTED, kinds, strict=True):
            self._jobs("end", site, group, indices, record.attempts, how)

    # --- what really runs --------------------------------------------------------------------------------

    def claimed(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        self._beside.claimed(site, worker, run, need)

    def void(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        self._beside.void(site, worker, run, need)

    def executed(self, site: SiteId, run: Run, on_crash: str) -> None:
        self._beside.executed(site, run, on_crash)
        self._row("start", site, group_of(run.subgroup), [run.index, run.index + 1], run.attempt, "")

    def ended(self, site: SiteId, worker: str, run: Run, need: Resources, outcome: Outcome) -> None:
        self._beside.ended(site, worker, run, need, outcome)
        self._row("end", site, group_of(run.subgroup), [run.index, run.index + 1], run.attempt, ENDS[int(outcome)])


def of_columns(outcome: oc.JobTimes, unfinished: int, seed: int) -> RunOutcome:
    """The outcome of a central policy's run: rows [start, end, submission, site, home, user, processors] of the jobs
    that were done, sorted, then how many were not over in time. It moves no job and sends no message."""
    times = [
        [nanoseconds(time_s) for time_s in column.tolist()]
        for column in (outcome.start_s, outcome.end_s, outcome.submit_s)
    ]
    names = [
        [outcome.sites[place] for place in outcome.site.tolist()],
        [outcome.sites[place] for place in outcome.home.tolist()],
        [outcome.users[place] for place in outcome.user.tolist()],
    ]
    rows = sorted(zip(*times, *names, outcome.processors.tolist(), strict=True))
    digest = _sha256(msgspec.msgpack.encode([*rows, unfinished]))
    return RunOutcome(seed=seed, digest=digest, starts=len(rows), ends=len(rows))


def nanoseconds(time_s: float) -> int:
    return round(time_s * 1e9)


def _sha256(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()
