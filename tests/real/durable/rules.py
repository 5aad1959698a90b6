"""The order of syncs: what leaves a node, or is started by it, and the records it rests on (PROMISES section 2).

Each rule names an act that the recording shows (an answer on the control socket, an order to the spawner, the start of
a job, a mark) and what must be on the disk before it began. What an act rests on is read out of its own bytes, so a
rule needs no guess about what else the node did meanwhile.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from diana.adapters.lrm.spawner.claims import claimlog, records
from diana.adapters.lrm.spawner.protocol import Frames, Order
from diana.engine.journal import codec
from diana.engine.journal.records import (
    BatchAcked,
    CommitAcked,
    CustodyRunnable,
    CustodyTaken,
    GroupPlaced,
    GroupSubmitted,
    Record,
    ResultAccepted,
    RunsEnded,
    RunsStarted,
    TransferCommitted,
)
from diana.model.layout import DataDir
from tests.real.durable.calls import Call
from tests.real.durable.clusters import ClusterFacts
from tests.real.durable.disk import NAMES, SYNCS, WRITES, Disk, Inode
from tests.real.durable.journals import Database, Row

Moment = tuple[float, int]
Run = tuple[str, int, int, int]
"""(subgroup, epoch, index, attempt)."""
Job = tuple[str, int, int]
"""(subgroup, epoch, index)."""
Step = tuple[str, str, int, int]
"""(kind of record, subgroup, epoch, batch or 0): what one site does and another rests on."""

JOURNAL = "SELECT first_seq + count - 1, count, records FROM journal WHERE first_seq + count - 1 > ? ORDER BY id"
STEPS = (BatchAcked, CommitAcked, CustodyRunnable, CustodyTaken, ResultAccepted, RunsEnded, TransferCommitted)
SENDS = {"sendto", "sendmsg", "sendmmsg"}
_MARKER = re.compile(rb"DIANA_RUN=\d+-\d+:(.+):(\d+):(\d+):(\d+)")
_GROUP = re.compile(rb'"group":"([^"]+)"')
_DATASET = re.compile(rb'"dataset":{"name":"([^"]+)"')
_DURABLE_NAMES = re.compile(r"/(journal\.db|claims\.log|signers\.json|site\.toml|revoked|[^/]*\.(pem|key|db))$")
_stored = msgspec.msgpack.Decoder(list[bytes])


def steps_of(record: Record) -> list[Step]:
    if isinstance(record, GroupPlaced):
        return [("GroupPlaced", part.subgroup, part.epoch, 0) for part in record.parts]
    if isinstance(record, STEPS):
        return [(type(record).__name__, record.subgroup, record.epoch, getattr(record, "batch", 0))]
    return []


@dataclass
class Breach:
    """An act that began before what it rests on was on the disk."""

    rule: str
    act: str
    lacks: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.act} while {self.lacks}"


@dataclass
class Facts:
    """Facts of a journal about jobs, as far as rules ask: fact -> the row that holds it."""

    groups: dict[str, Row] = field(default_factory=dict)
    started: dict[tuple[str, int, int], list[Row]] = field(default_factory=dict)
    done: dict[str, list[tuple[Row, int]]] = field(default_factory=dict)
    """Group -> (row, jobs that it says are done)."""
    seqs: list[tuple[int, Row]] = field(default_factory=list)
    steps: dict[Step, Row] = field(default_factory=dict)
    ended: dict[Job, Row] = field(default_factory=dict)


class SiteRules:
    """Judges one site. Fed with all beginnings and ends of calls; `breaches` and `checked` are the verdict."""

    def __init__(self, paths: DataDir, disk: Disk) -> None:
        self.paths = paths
        self.disk = disk
        self.breaches: list[Breach] = []
        self.checked: Counter[str] = Counter()
        """Rule -> acts that were judged by it."""
        self.facts = Facts()
        self.executed: dict[Run, Moment] = {}
        self.told_groups: dict[str, Moment] = {}
        """Group -> when its name left the node."""
        self.told_done: list[tuple[Moment, str, int]] = []
        self.told_datasets: set[str] = set()
        self.told_steps: dict[Step, Moment] = {}
        """Steps that another site acted upon."""
        self.beside: SiteRules | None = None
        """Its standby, from `in_sync_s` on."""
        self.in_sync_s = 0.0
        self.ordered: dict[Run, Moment] = {}
        self.clusters = ClusterFacts(self)
        self.taken: list[Callable[[Row, Record, Moment], None]] = [self.clusters.taken]
        """Called with each record that the journal takes, when it is written."""
        self._journal = Database(disk, str(paths.journal), JOURNAL)
        self._claims: dict[Run, tuple[Inode, int]] = {}
        """Run -> the claim log that holds it, and the writes after which it does."""
        self._log: Inode | None = None
        self._read = 0
        self._log_seen = 0
        self._orders: dict[str, Frames] = {}
        self._renamed: dict[int, list[str]] = {}
        """Process -> names it gave that are not on the disk."""

    def figures(self) -> str:
        acts = ", ".join(f"{rule} {count}" for rule, count in sorted(self.checked.items()))
        return f"{self.disk.syncs} syncs; {acts}; {len(self.breaches)} breaches"

    def feed(self, call: Call, end: bool) -> None:
        moment = call.ended if end and call.ended else call.began
        if not end:
            self._act(call, moment)
        self.disk.feed(call, end)
        if end and call.result >= 0 and (call.name in WRITES or call.name in SYNCS or call.name in NAMES):
            self._look(call, moment)

    # --- what is written -------------------------------------------------------------------------------

    def _look(self, call: Call, moment: Moment) -> None:
        if call.name in SYNCS or call.on.startswith(str(self.paths.journal)):
            for row in self._journal.look(moment):
                self._take(row, moment)
        self.clusters.look(call, moment)
        log = self.disk.at(str(self.paths.spawner / "claims.log"))
        if log is not None and (log is not self._log or self._log_seen != len(log.writes)):
            self._read_claims(log)
        if call.name in NAMES:
            self._rename(call)

    def _take(self, row: Row, moment: Moment) -> None:
        last = int(row.values[0])  # type: ignore[call-overload]
        self.facts.seqs.append((last, row))
        for stored in _stored.decode(row.values[2]):  # type: ignore[arg-type]
            record = codec.decode(stored)
            for told in self.taken:
                told(row, record, moment)
            for step in steps_of(record):
                self.facts.steps.setdefault(step, row)
            match record:
                case GroupSubmitted(group=group):
                    self.facts.groups[group] = row
                case RunsStarted(subgroup=subgroup, epoch=epoch, indices=indices):
                    for index in indices:
                        self.facts.started.setdefault((subgroup, epoch, index), []).append(row)
                case ResultAccepted(subgroup=subgroup, done=done):
                    self.facts.done.setdefault(subgroup.partition("/")[0], []).append((row, len(done)))
                case RunsEnded(subgroup=subgroup, epoch=epoch, ended=ended):
                    self.facts.ended |= dict.fromkeys(((subgroup, epoch, index) for index in ended), row)
                case _:
                    pass

    def _read_claims(self, log: Inode) -> None:
        if log is not self._log:
            self._log, self._read = log, 0
        self._log_seen = len(log.writes)
        data = log.content()
        for record, at in claimlog.frames(data):
            if at > self._read and isinstance(record, records.Claimed):
                for index, attempt in zip(record.indices, record.attempts, strict=True):
                    self._claims[record.subgroup, record.epoch, index, attempt] = log, len(log.writes)
            self._read = max(self._read, at)

    def _rename(self, call: Call) -> None:
        if not call.name.startswith("rename") or not self.disk.holds(call.paths[1]):
            return
        target = call.paths[1]
        if _DURABLE_NAMES.search(target) and (inode := self.disk.at(target)) is not None:
            self.checked["a name is given to what is on the disk"] += 1
            if inode.dirty:
                self.breach("a name is given to what is on the disk", f"rename to {target}", "its content is not")
            self._renamed.setdefault(call.pid, []).append(target)

    # --- what leaves -----------------------------------------------------------------------------------

    def _act(self, call: Call, moment: Moment) -> None:
        if call.name in SENDS:
            if call.on.endswith(f'"{self.paths.socket}"]'):
                self._answer(call, moment)
            elif call.on.startswith("UNIX") and len(call.strings[0]) > 4:
                self._order(call)
            self._names_are_safe(call)
        elif call.name == "execve":
            self._start(call, moment)
            self.clusters.executed(call, moment)
        elif call.name in WRITES and call.on == str(self.paths.mark):
            self._mark(call)

    def _answer(self, call: Call, moment: Moment) -> None:
        data = call.strings[0]
        for name in set(_GROUP.findall(data)):
            group = name.decode()
            self.judge("an answer names a group", f"answer with {group}", self.facts.groups.get(group), moment)
            self.told_groups.setdefault(group, moment)
        self.told_datasets |= {name.decode() for name in _DATASET.findall(data)}
        if b'"done":' not in data:
            return
        try:
            said = json.loads(data[data.index(b"{") :])["response"]["groups"]
        except (ValueError, KeyError, TypeError):
            return
        for status in said:
            count = int(status.get("done", 0))
            safe = sum(jobs for row, jobs in self.facts.done.get(status["group"], []) if row.safe)
            self.checked["an answer counts what is done"] += 1
            if count > safe:
                act, lacks = f"answer that {count} jobs of {status['group']} are done", f"only {safe} are on the disk"
                self.breach("an answer counts what is done", act, lacks)
            self.told_done.append((moment, status["group"], count))

    def _order(self, call: Call) -> None:
        frames = self._orders.setdefault(f"{call.pid} {call.on}", Frames())
        try:
            messages = list(frames.feed(call.strings[0]))
        except (ValueError, msgspec.MsgspecError):
            self._orders.pop(f"{call.pid} {call.on}")
            return
        for message in messages:
            if isinstance(message, Order):
                attempts = message.attempts or [1] * len(message.indices)
                for index, attempt in zip(message.indices, attempts, strict=True):
                    rows = self.facts.started.get((message.subgroup, message.epoch, index), [])
                    row = rows[attempt - 1] if len(rows) >= attempt else None
                    act = f"order of {message.subgroup}.{index}"
                    self.judge("an order to the spawner follows its record", act, row, call.began)
                    self.ordered.setdefault((message.subgroup, message.epoch, index, attempt), call.began)

    def _start(self, call: Call, moment: Moment) -> None:
        found = next((m for text in call.strings if (m := _MARKER.fullmatch(text))), None)
        if found is None:
            return
        run = (found[1].decode(), int(found[2]), int(found[3]), int(found[4]))
        if run in self.executed:
            return
        self.executed[run] = moment
        rule = "a job is started after its claim"
        self.checked[rule] += 1
        claim = self._claims.get(run)
        if claim is None:
            self.breach(rule, f"start of {run}", "no claim is written")
        elif claim[0].synced < claim[1]:
            self.breach(rule, f"start of {run}", "its claim is not synced")
        elif not self.disk.has_name(str(self.paths.spawner / "claims.log")):
            self.breach(rule, f"start of {run}", "the claim log's name is not on the disk")

    def _mark(self, call: Call) -> None:
        try:
            seq = int(json.loads(call.strings[0])["seq"])
        except (ValueError, KeyError):
            return
        rule = "the mark follows the journal"
        self.checked[rule] += 1
        safe = self.safe_seq()
        if seq > safe:
            self.breach(rule, f"mark of {seq} records", f"{safe} are on the disk")

    def _names_are_safe(self, call: Call) -> None:
        rule = "a new name is on the disk before anything is said"
        for target in self._renamed.pop(call.pid, []):
            self.checked[rule] += 1
            if not self.disk.has_name(target):
                self.breach(rule, f"{call.name} to {call.on}", f"the name {target} is not on the disk")

    def judge(self, rule: str, act: str, row: Row | None, moment: Moment, *, of_journal: bool = True) -> None:
        """`of_journal`: the row is one of the journal, which a standby in sync has as well."""
        self.checked[rule] += 1
        if row is None:
            self.breach(rule, act, "no record of it is written")
        elif row.safe is None or row.safe > moment:
            self.breach(rule, act, "its record is not synced")
        elif of_journal and self.beside is not None and moment[0] > self.in_sync_s:
            self.checked["the same at the standby"] += 1
            if self.beside.safe_seq() < int(row.values[0]):  # type: ignore[call-overload]
                self.breach(rule, act, "its record is not synced at the standby")

    def safe_seq(self) -> int:
        """Number of the last record of the journal that is on the disk."""
        return max((last for last, row in self.facts.seqs if row.safe), default=0)

    def breach(self, rule: str, act: str, lacks: str) -> None:
        self.breaches.append(Breach(rule, act, lacks))
