"""The ledger of a cluster under the judge: an array stands in it before the batch system is given the array, and ends
stand in it before the journal hears of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from diana.adapters.lrm.spawner.protocol import Order
from diana.engine.journal.records import Record, RunsEnded, RunsStarted
from diana.model.facts import Facts
from tests.real.durable.calls import Call
from tests.real.durable.journals import Database, Row

if TYPE_CHECKING:
    from tests.real.durable.rules import Job, Moment, SiteRules

_ARRAYS = "SELECT number, token, work FROM arrays WHERE number > ? ORDER BY number"
_TOLD = "SELECT number, subgroup, epoch, facts FROM told WHERE number > ? ORDER BY number"
_LEDGER = re.compile(r"/clusters/[^/]+/ledger\.db")
_order = msgspec.msgpack.Decoder(Order)
_facts = msgspec.msgpack.Decoder(Facts)
GIVEN = "an array stands in the ledger before it is submitted"
ENDED = "an end stands in the ledger before it stands in the journal"


class ClusterFacts:
    """`submitted`: token -> jobs of the arrays that the batch system was given; `told_ends`: jobs whose end was durable
    in a ledger once."""

    def __init__(self, rules: SiteRules) -> None:
        self.submitted: dict[str, set[Job]] = {}
        self._rules = rules
        self._ledgers: dict[str, tuple[Database, Database]] = {}
        self._arrays: dict[str, tuple[Row, set[Job]]] = {}
        self._told: dict[Job, Row] = {}
        self._there: set[Job] = set()
        """Jobs that were given to a cluster."""

    @property
    def told_ends(self) -> list[Job]:
        return [job for job, row in self._told.items() if row.safe]

    def look(self, call: Call, moment: Moment) -> None:
        if found := _LEDGER.search(call.on):
            path = call.on[: found.end()]
            if path not in self._ledgers:
                disk = self._rules.disk
                self._ledgers[path] = Database(disk, path, _ARRAYS), Database(disk, path, _TOLD)
        if self._ledgers:
            for arrays, told in self._ledgers.values():
                self._take(arrays.look(moment), told.look(moment))

    def _take(self, arrays: list[Row], told: list[Row]) -> None:
        for row in arrays:
            order = _order.decode(row.values[2])  # type: ignore[arg-type]
            self._arrays[str(row.values[1])] = row, {(order.subgroup, order.epoch, index) for index in order.indices}
        for row in told:
            facts = _facts.decode(row.values[3])  # type: ignore[arg-type]
            subgroup, epoch = str(row.values[1]), int(row.values[2])  # type: ignore[call-overload]
            self._told |= dict.fromkeys(((subgroup, epoch, index) for index in facts.indices), row)

    def executed(self, call: Call, moment: Moment) -> None:
        """A program begins; is it the command that submits?"""
        words = call.strings
        if not words or Path(words[0].decode(errors="replace")).name != "qsub" or b"-N" not in words:
            return
        token = words[words.index(b"-N") + 1].decode().removeprefix("diana.")
        row, jobs = self._arrays.get(token, (None, set()))
        self._rules.judge(GIVEN, f"submission of {token}", row, moment, of_journal=False)
        self.submitted.setdefault(token, jobs)

    def _has(self, worker: str) -> bool:
        return any(path.endswith(f"/clusters/{worker}/ledger.db") for path in self._ledgers)

    def taken(self, row: Row, record: Record, moment: Moment) -> None:
        """The journal takes a record."""
        match record:
            case RunsStarted(subgroup=subgroup, epoch=epoch, indices=indices, worker=worker) if self._has(worker):
                self._there |= {(subgroup, epoch, index) for index in indices}
            case RunsEnded(subgroup=subgroup, epoch=epoch, ended=ended):
                for index in ended:
                    job = (subgroup, epoch, index)
                    if job in self._there:
                        act, told = f"record that {job} ended", self._told.get(job)
                        self._rules.judge(ENDED, act, told, moment, of_journal=False)
            case _:
                pass
