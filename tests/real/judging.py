"""Real sites judged by the simulator's checkers: whatever became durable at each, in order, and what its jobs marked.

A journal drops its records at each snapshot and its facts with their groups. Two triggers in the store's own file keep
a copy of both, written in the same transaction: so what is judged is exactly what became durable, snapshots are
taken as ever, and a standby that is seeded gets the copies along with all the rest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import codec, fold
from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.engine.journal.state import SiteState, decode_state, encode_state
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId, group_of
from diana.model.job.spec import Resources, decode_spec
from diana.ports import JournalTerm
from diana.sim.checks.checkers import Checkers
from diana.sim.checks.stories import UNSURE
from diana.sim.kernel.clock import Clock
from tests.real.marks import Marks

_KEEP = """
CREATE TABLE all_rows (n INTEGER PRIMARY KEY, first_seq INTEGER, count INTEGER, at_s REAL, records BLOB);
CREATE TRIGGER keep_rows AFTER INSERT ON journal BEGIN
    INSERT INTO all_rows (first_seq, count, at_s, records)
    VALUES (new.first_seq, new.count, new.at_s, new.records); END;
CREATE TABLE all_facts (grp TEXT, subgroup TEXT, epoch INTEGER, batch INTEGER, payload BLOB);
CREATE TRIGGER keep_facts AFTER INSERT ON facts BEGIN
    INSERT INTO all_facts VALUES (new.grp, new.subgroup, new.epoch, new.batch, new.payload); END;
"""
_SLACK_S = 2.0
"""Between a job's clock and a site's, which do not correct themselves at the same time."""

_unpack = msgspec.msgpack.Decoder(list[bytes]).decode
_unpack_facts = msgspec.msgpack.Decoder(Facts).decode
_unpack_starts = msgspec.json.Decoder(tuple[JournalTerm, ...]).decode


def keep_all(journal: Path) -> None:
    """Make the store, which nobody has opened yet, keep all that is ever committed to it."""
    SqliteStore(journal).close()
    with closing(sqlite3.connect(journal)) as connection:
        connection.executescript(_KEEP)


class Line(NamedTuple):
    at_s: float
    seq: int
    record: r.Record


class History:
    """All that became durable in one journal, its node running or not. AssertionError when something is missing."""

    def __init__(self, journal: Path, site: str) -> None:
        self.site = SiteId(site)
        self.stored: list[bytes] = []
        self.lines: list[Line] = []
        self.facts: dict[FactsKey, Facts] = {}
        with closing(sqlite3.connect(f"{journal.resolve().as_uri()}?mode=ro", uri=True, timeout=10.0)) as connection:
            # One moment for all that is read.
            connection.execute("BEGIN")
            for first_seq, _, at_s, payload in connection.execute(
                "SELECT first_seq, count, at_s, records FROM all_rows WHERE count ORDER BY n"
            ):
                assert first_seq == len(self.stored) + 1, f"{site}: record {first_seq} follows {len(self.stored)}"
                for stored in _unpack(payload):
                    self.stored.append(stored)
                    self.lines.append(Line(at_s, len(self.stored), codec.decode(stored)))
            for *key, payload in connection.execute("SELECT grp, subgroup, epoch, batch, payload FROM all_facts"):
                self.facts[FactsKey(*key)] = _unpack_facts(payload)
            snapshot = connection.execute("SELECT seq, payload FROM snapshot").fetchone() or (0, b"")
            starts = connection.execute("SELECT value FROM meta WHERE key = 'term_starts'").fetchone()
        self.term = max((start.term for start in _unpack_starts(starts[0])), default=0) if starts else 0
        self.state = self._folded(*snapshot)

    def _folded(self, seq: int, snapshot: bytes) -> SiteState:
        """As its next start would find it."""
        state = decode_state(snapshot) if snapshot else SiteState()
        for line in self.lines[seq:]:
            fold.apply(state, line.record, self.site)
        return state

    def from_the_first(self) -> SiteState:
        """The state that all records together come to, snapshots forgotten."""
        return self._folded(0, b"")

    def left_over(self) -> str:
        """Work still to be done there, as the simulator asks at the end; empty: nothing."""
        for subgroup, epoch in self.state.custodies:
            return f"{self.site}: the custody of {subgroup} epoch {epoch} is open"
        for name, group in self.state.groups.items():
            if group.gathers:
                return f"{self.site}: {len(group.gathers)} batches of outputs of {name} are not gathered"
        return ""


class Told(NamedTuple):
    """A submission that was acknowledged."""

    site: str
    key: str
    group: str


class Upset(NamedTuple):
    """Since then nobody may know how jobs ended that ran at the site: its spawner was killed, or its disk was full."""

    site: str
    at_s: float


class Judge:
    """The checkers of the simulator, and `amiss`: what marks and journals say against each other."""

    def __init__(self, marks: Marks, upsets: Sequence[Upset]) -> None:
        self._clock = Clock()
        self.checkers = Checkers(self._clock, {})
        self.amiss: list[str] = []
        self.repeated = 0
        """Second starts of jobs whose outcome nobody could know, as their groups ask for."""
        self._marks = marks
        self._upsets = upsets
        self._bases: dict[tuple[SubgroupId, int], int] = {}
        self._attempts: dict[tuple[SubgroupId, int, int], int] = {}
        self._on_crash: dict[GroupId, str] = {}
        self._given_s: dict[Run, float] = {}
        self._facts: Mapping[FactsKey, Facts] = {}

    def feed(self, histories: Sequence[History]) -> None:
        """A cause is committed before its effect is even thought of, so site time puts the records of all in order."""
        for site_lines in histories:
            self._facts = {**self._facts, **site_lines.facts}
        merged = sorted(
            ((line.at_s, history.site, line.seq, line.record) for history in histories for line in history.lines),
            key=lambda entry: entry[:3],
        )
        for at_s, site, _, record in merged:
            self._clock.now_s = at_s
            self._before(site, record)
            self.checkers.committed(site, record)
            self._after(site, record)

    def conclude(self, histories: Sequence[History], told: Sequence[Told]) -> None:
        """At the end, when nobody writes any more."""
        for one in told:
            self.checkers.acknowledged(SiteId(one.site), one.key, GroupId(one.group))
        for history in histories:
            self.checkers.recount(history.site, history.state)
            if encode_state(history.from_the_first()) != encode_state(history.state):
                self.checkers.differs(history.site)
        self._unaccounted()

    def found(self) -> list[str]:
        return [*map(str, self.checkers.found), *self.amiss]

    def doubled(self) -> int:
        return self.checkers.doubled + sum(1 for marks in self._marks.began.values() if len(marks) > 1)

    def _before(self, site: SiteId, record: r.Record) -> None:
        match record:
            case r.GroupSubmitted():
                self._on_crash[record.group] = decode_spec(record.spec).on_crash
            case r.GroupPlaced():
                for part in record.parts:
                    self._bases[part.subgroup, part.epoch] = part.attempt_base
            case r.MergeStarted():
                self._bases[record.part.subgroup, record.part.epoch] = record.part.attempt_base
            case r.RunsEnded():
                for run, outcome in self._outcomes(record):
                    self._end(site, run, outcome)
            case r.RunsRepeated():
                for index in record.indices:
                    self._end(site, self._run(record, index), Outcome.UNKNOWN)
                    self.repeated += 1

    def _after(self, site: SiteId, record: r.Record) -> None:
        if not isinstance(record, r.RunsStarted):
            return
        for index in record.indices:
            key = (record.subgroup, record.epoch, index)
            self._attempts[key] = self._attempts.get(key, self._bases.get(key[:2], 0)) + 1
            run = self._run(record, index)
            self._given_s[run] = self._clock.now_s
            for mark in self._marks.began.get(run, ())[:1]:
                if mark.site != site or mark.at_s < self._clock.now_s - _SLACK_S:
                    self._say(f"{run} began at {mark.site} at {mark.at_s}, given at {site} at {self._clock.now_s}")
                self.checkers.executed(site, run, self._on_crash.get(group_of(record.subgroup), "hold"))

    def _run(self, record: Any, index: int) -> Run:
        key = (record.subgroup, record.epoch, index)
        return Run(*key, self._attempts.get(key, self._bases.get(key[:2], 0)))

    def _outcomes(self, record: r.RunsEnded) -> Iterator[tuple[Run, Outcome]]:
        """Facts kept beside the record, for those that were given to a machine."""
        if not record.ended:
            return
        facts = self._facts.get(r.facts_key(record.subgroup, record.epoch, record.batch))
        if facts is None:
            self._say(f"{record.subgroup} epoch {record.epoch} batch {record.batch}: no facts were kept")
            return
        for index, attempt, outcome in zip(facts.indices, facts.attempts, facts.outcomes, strict=True):
            run = self._run(record, index)
            if run in self._given_s:
                if attempt != run.attempt:
                    self._say(f"{run} was given, its facts are of attempt {attempt}")
                yield run, Outcome(outcome)

    def _end(self, site: SiteId, run: Run, outcome: Outcome) -> None:
        """The site says how a run ended. What it cannot have known it must not say, and the other way round."""
        codes = [mark.code for mark in self._marks.ended.get(run, ())]
        if outcome is Outcome.DONE and codes != [0]:
            self._say(f"{run} is said to be done at {site}, its own codes are {codes}")
        elif outcome is Outcome.FAILED and codes == [0]:
            self._say(f"{run} is said to have failed at {site}, it ended well")
        elif outcome in UNSURE:
            if not self._upset(site, self._given_s.get(run, 0.0)):
                self._say(f"{run} is said to have come to an unknown end at {site}, where nobody killed its spawner")
            if run not in self._marks.began:
                # About to be executed when its spawner died: it counts as begun.
                self.checkers.executed(site, run, self._on_crash.get(group_of(run.subgroup), "hold"))
        self.checkers.ended(site, MAIN_MACHINE, run, Resources(processors=0), outcome)

    def _upset(self, site: SiteId, since_s: float) -> bool:
        until_s = self._clock.now_s + _SLACK_S
        return any(one.site == site and since_s - _SLACK_S <= one.at_s <= until_s for one in self._upsets)

    def _unaccounted(self) -> None:
        for run, marks in self._marks.began.items():
            if run not in self._given_s:
                self._say(f"{run} began at {marks[0].site}, where it was never made durable as starting")
            if len(marks) > 1:
                self._say(f"{run} began {len(marks)} times: {marks}")

    def _say(self, text: str) -> None:
        self.amiss.append(text)
