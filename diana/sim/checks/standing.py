"""Standing orders and batches as a check: what an origin orders is what its executing site obeys, in order, and nothing
ends in a way that nobody asked for. Numbers only rise (I5); what is cancelled does not start (I7); what comes back was
called back (I4); a job ends once in a placement (I2); a job is exported at most once (SPEC D7); what is acknowledged is
durable, an order at its site, outputs at their origin (I3)."""

from __future__ import annotations

from collections.abc import Iterator

from diana.engine.journal import records as r
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.job.spec import decode_spec
from diana.sim.checks.findings import Finding
from diana.sim.checks.stories import Transfer

_OfTransfer = (
    r.ControlIssued
    | r.ControlTaken
    | r.ControlAcked
    | r.CustodyTaken
    | r.CustodyClosed
    | r.CustodyDropped
    | r.ResultAccepted
    | r.OutputsGathered
    | r.BatchAcked
    | r.RunsStarted
    | r.RunsEnded
)


class _Orders:
    """The orders of one placement."""

    __slots__ = (
        "away",
        "back",
        "batch",
        "cancel",
        "ended",
        "given",
        "issued",
        "over",
        "recall",
        "site",
        "taken",
    )

    def __init__(self) -> None:
        self.site: SiteId | None = None
        """Site where it is carried out, once something of it was."""
        self.given: dict[int, r.ControlIssued] = {}
        """Orders by control_seq; those the executing site may still hear of."""
        self.issued = self.taken = 0
        self.cancel = IndexSet()
        self.recall = IndexSet()
        """Jobs that the executing site was ever told to give back."""
        self.back = IndexSet()
        """Jobs that it gave back, of those told."""
        self.batch = -1
        self.ended = FinishedSet()
        self.over = False
        """True when a tombstone stands, which acknowledges whatever it is told."""
        self.away: set[int] = set()
        """Batches with outputs that are not home."""


class Standing:
    """Costs what an order or a batch costs. `look` gives what is wrong with a record that became durable."""

    __slots__ = ("_exported", "_gangs", "_keys", "_of")

    def __init__(self) -> None:
        self._of: dict[Transfer, _Orders] = {}
        self._exported: dict[GroupId, IndexSet] = {}
        self._gangs: set[GroupId] = set()
        """Groups whose jobs a site gives back unasked, if they could not begin with the others."""
        self._keys: dict[tuple[SiteId, str, str], GroupId] = {}
        """(origin, owner, submission key) -> the group it made."""

    def forgot(self, site: SiteId) -> None:
        """The site's database was lost or is an older copy: its numbers may begin anew."""
        for (subgroup, epoch), orders in list(self._of.items()):
            if orders.site == site or group_of(subgroup).rpartition("-")[0] == site:
                del self._of[subgroup, epoch]
        self._keys = {asked: group for asked, group in self._keys.items() if asked[0] != site}

    def look(self, site: SiteId, record: r.Record) -> Iterator[Finding]:
        if isinstance(record, r.GroupSubmitted) and decode_spec(record.spec).is_gang:
            self._gangs.add(record.group)
        match record:
            case r.GroupSubmitted() if record.key:
                asked = (site, record.owner, record.key)
                if self._keys.setdefault(asked, record.group) != record.group:
                    yield Finding("I3", record.group, -1, f"its key was answered by {self._keys[asked]}")
            case r.ControlIssued():
                yield from self._issued(record)
            case r.ControlTaken():
                yield from self._taken(site, record)
            case r.ControlAcked():
                yield from self._acked(record)
            case r.CustodyTaken() if (record.subgroup, record.epoch) in self._of and self._orders(record).over:
                text = f"{record.subgroup} epoch {record.epoch} taken again, though it was over"
                yield Finding("I5", group_of(record.subgroup), -1, text)
            case r.CustodyClosed() | r.CustodyDropped():
                self._orders(record).over = True
            case r.ResultAccepted() if record.has_outputs:
                self._orders(record).away.add(record.batch)
            case r.OutputsGathered() if not record.error:
                self._orders(record).away.discard(record.batch)
            case r.BatchAcked() if record.outputs_taken and record.batch in self._orders(record).away:
                text = f"outputs of {record.subgroup} batch {record.batch} are dropped, and are not at their origin"
                yield Finding("I3", group_of(record.subgroup), -1, text)
            case r.RunsStarted():
                yield from self._started(record)
            case r.RunsEnded():
                yield from self._ended(site, record)
            case r.JobsMoved() if record.exported:
                yield from self._export(record)
            case r.GroupExpired():
                self._of = {key: orders for key, orders in self._of.items() if group_of(key[0]) != record.group}
                self._exported.pop(record.group, None)
                self._keys = {asked: group for asked, group in self._keys.items() if group != record.group}

    def _orders(self, record: _OfTransfer) -> _Orders:
        return self._of.setdefault((record.subgroup, record.epoch), _Orders())

    def _issued(self, record: r.ControlIssued) -> Iterator[Finding]:
        orders = self._orders(record)
        if record.control_seq <= orders.issued:
            text = f"{record.subgroup} order {record.control_seq} given after {orders.issued}"
            yield Finding("I5", group_of(record.subgroup), -1, text)
        orders.issued = max(orders.issued, record.control_seq)
        orders.given[record.control_seq] = record

    def _taken(self, site: SiteId, record: r.ControlTaken) -> Iterator[Finding]:
        orders, name, seq = self._orders(record), group_of(record.subgroup), record.control_seq
        orders.site = site
        if seq <= orders.taken:
            yield Finding("I5", name, -1, f"{record.subgroup} order {seq} obeyed after {orders.taken}")
        given = orders.given.get(seq)
        if given is None:
            if seq > orders.taken:
                yield Finding("I7", name, -1, f"{record.subgroup} order {seq} obeyed, which its origin never gave")
        else:
            more = (record.hold - given.hold) | (record.cancel - given.cancel - orders.cancel)
            more = more | (record.recall - given.recall)
            less = given.cancel - record.cancel - orders.back
            if more or less:
                text = f"{record.subgroup} order {seq} is obeyed otherwise than it was given"
                yield Finding("I7", name, (more | less).bounds[0], text)
        orders.taken = max(orders.taken, seq)
        orders.cancel = orders.cancel | record.cancel
        orders.recall = orders.recall | record.recall
        orders.given = {number: one for number, one in orders.given.items() if number > orders.taken}

    def _acked(self, record: r.ControlAcked) -> Iterator[Finding]:
        orders = self._orders(record)
        if record.control_seq > orders.taken and not orders.over:
            text = f"{record.subgroup} order {record.control_seq} acknowledged, but its site does not have it"
            yield Finding("I3", group_of(record.subgroup), -1, text)

    def _started(self, record: r.RunsStarted) -> Iterator[Finding]:
        orders = self._of.get((record.subgroup, record.epoch))
        if orders is not None and not orders.cancel.isdisjoint(record.indices):
            started = orders.cancel & record.indices
            yield Finding("I7", group_of(record.subgroup), started.bounds[0], "started although it is cancelled")

    def _ended(self, site: SiteId, record: r.RunsEnded) -> Iterator[Finding]:
        orders, name = self._orders(record), group_of(record.subgroup)
        orders.site = site
        if record.batch <= orders.batch:
            yield Finding("I5", name, -1, f"{record.subgroup} batch {record.batch} made after {orders.batch}")
        orders.batch = max(orders.batch, record.batch)
        if not record.cancelled.issubset(orders.cancel):
            index = (record.cancelled - orders.cancel).bounds[0]
            yield Finding("I7", name, index, "ended as cancelled, which nobody ordered")
        if name not in self._gangs and not record.revoked.issubset(orders.recall):
            yield Finding("I4", name, (record.revoked - orders.recall).bounds[0], "given back, which nobody asked for")
        over = record.ended | record.cancelled | record.revoked
        if orders.ended.overlaps(over):
            index = orders.ended.within(over).bounds[0]
            yield Finding("I2", name, index, f"ended a second time as part of {record.subgroup}")
        orders.ended.add_set(over)
        orders.back = orders.back | record.revoked

    def _export(self, record: r.JobsMoved) -> Iterator[Finding]:
        before = self._exported.get(record.group, IndexSet())
        if not before.isdisjoint(record.indices):
            yield Finding("D7", record.group, (before & record.indices).bounds[0], "exported a second time")
        self._exported[record.group] = before | record.indices
