"""Operation x fault: how often each kind of fault struck while each kind of operation was in flight.

A search proves little of what it never did. Rows are what the protocol does (from the messages and records themselves),
columns the faults of `Faults.strikes`. A fault of a message strikes what the message is about; a crash what is being
committed or let out at that boundary; a fault of a site or a link all that is open there. Combinations that cannot be
are named with the reason (`impossible`), so that a cell that is neither counted nor impossible is a hole in the search.

Made only when a scenario asks for it; it costs a little per record and nothing per job.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.records import PartDisowned, PartDropped
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId, group_of, origin_of
from diana.sim.checks.operations import CONTROLS, EFFECT_OPERATION, MESSAGE_OPERATION, RECORD_OPERATION, impossible

Table = dict[str, dict[str, int]]
_STANDING = frozenset(("summary", "gossip", "ledger", "surplus", "room", "reservation", "call", "lease", "greeting"))
"""Operations that go on between all sites all the time, where a scenario has them at all."""


class StrikeCount:
    """Counts the strikes: `strikes[operation, fault]`. `open_now` gives the operations open at a site that no record or
    message shows."""

    def __init__(self, now_s: Callable[[], float], open_now: Callable[[SiteId], Iterable[str]]) -> None:
        self._now_s = now_s
        self._open_now = open_now
        self._tokens: dict[tuple[str, Hashable], tuple[SiteId, SiteId | None]] = {}
        self._open: defaultdict[str, Counter[tuple[SiteId, SiteId | None]]] = defaultdict(Counter)
        self._controls: dict[tuple[str, int], tuple[r.ControlIssued, tuple[str, ...]]] = {}
        self._why: dict[str, str] = {}
        """Group -> the operation its jobs were last called back for, export or recall."""
        self._dest: dict[tuple[str, int], SiteId] = {}
        self._last: dict[SiteId, tuple[float, set[str]]] = {}
        self.seen: set[str] = {"summary"}
        self.faults: set[str] = set()
        self.strikes: Counter[tuple[str, str]] = Counter()

    # --- what strikes ----------------------------------------------------------------------------------

    def struck(self, fault: str, sites: tuple[str, ...], about: object) -> None:
        self.faults.add(fault)
        for operation in self._operations(fault, tuple(SiteId(s) for s in sites), about):
            self.seen.add(operation)
            self.strikes[operation, fault] += 1

    def _operations(self, fault: str, sites: tuple[SiteId, ...], about: object) -> set[str]:
        if fault in ("crash before commit", "crash after commit", "crash between effects"):
            at, last = self._last.get(sites[0], (-1.0, set()))
            before = last if at == self._now_s() and fault != "crash before commit" else set()
            return before | self._about(about)
        if about is not None:
            return self._about(about)
        if len(sites) == 1 and fault != "partition":
            return self._at_site(sites[0])
        return self._between(frozenset(sites), fault == "partition")

    def _about(self, about: object) -> set[str]:
        """Operations that `about` belongs to: a message, an effect, records, or an operation's own name."""
        if isinstance(about, str):
            return {about}
        if isinstance(about, list):
            return {name for record in about for name in self._of_record(record)}
        if isinstance(about, fx.Send):
            about = about.message
        if isinstance(about, ms.Control | ms.ControlAck):
            transfer = (about.subgroup, about.epoch)
            known = self._controls.get(transfer)
            again = {"disown"} if ("disown", transfer) in self._tokens else set()
            return again | set(known[1]) if known is not None else again
        found = {MESSAGE_OPERATION.get(type(about)) or EFFECT_OPERATION.get(type(about))} - {None}
        if isinstance(about, fx.Reply):
            found = {"submit"} if isinstance(about.body, fx.GroupAccepted | fx.GroupsAccepted) else set()
        if getattr(about, "exported", False):
            found.add("export")
        if isinstance(about, ms.Commit) and about.hosts:
            # It lets a gang go.
            found.add("go")
        return found  # type: ignore[return-value]

    def _at_site(self, site: SiteId) -> set[str]:
        held = {name for name, where in self._open.items() if any(site in pair for pair in where)}
        return {*held, *self._open_now(site), *(_STANDING & self.seen)}

    def _between(self, sites: frozenset[SiteId], out: bool) -> set[str]:
        """Operations open over the link between the two sites; with `out` over all links that lead out of them."""

        def crosses(pair: tuple[SiteId, SiteId | None]) -> bool:
            a, b = pair
            return b is not None and len(sites & {a, b}) == (1 if out else 2)

        return {*(name for name, where in self._open.items() if any(map(crosses, where))), *(_STANDING & self.seen)}

    # --- what goes on ----------------------------------------------------------------------------------

    def _begin(self, operation: str, token: Hashable, a: SiteId, b: SiteId | None = None) -> None:
        self._end(operation, token)
        self.seen.add(operation)
        self._tokens[operation, token] = (a, b)
        self._open[operation][a, b] += 1

    def _end(self, operation: str, token: Hashable) -> None:
        where = self._tokens.pop((operation, token), None)
        if where is not None:
            self._open[operation][where] -= 1
            if not self._open[operation][where]:
                del self._open[operation][where]

    def _end_all(self, operations: Iterable[str], token: Hashable) -> None:
        for operation in operations:
            self._end(operation, token)

    def handled(self, site: SiteId, event: ev.Event | None, effects: list[fx.Effect]) -> None:
        """Note the operations that leave no record: quotes, stagings, and the end of a restart."""
        match event:
            case ev.StageDone() | ev.OutputsInCatalogue():
                self._end_all(("stage in", "register"), (site, event.ticket))
            case ev.Received():
                # A node has started when it has heard of others again.
                self._end("restart", site)
                if isinstance(event.message, ms.Quote):
                    self._end("quote", (site, event.sender))
        for effect in effects:
            match effect:
                case fx.StageIn():
                    sources = (source for fetch in effect.files for source in fetch.sources if source != site)
                    self._begin("stage in", (site, effect.ticket), site, next(sources, None))
                case fx.RegisterOutputs():
                    self._begin("register", (site, effect.ticket), site)
                case fx.CancelStage():
                    self._end("stage in", (site, effect.ticket))
                case fx.Send() if isinstance(effect.message, ms.QuoteRequest):
                    self._begin("quote", (site, effect.to), site, effect.to)
                case fx.Send() if isinstance(effect.message, ms.GangClaim | ms.GangYield):
                    # Of what is let go already nothing is claimed, or yielded, any more.
                    transfer = (effect.message.subgroup, effect.message.epoch)
                    if ("commit", transfer) not in self._tokens:
                        self._begin(MESSAGE_OPERATION[type(effect.message)], transfer, site, effect.to)

    def committed(self, site: SiteId, record: r.Record) -> None:
        at, last = self._last.get(site, (-1.0, set()))
        if at != self._now_s():
            last = set()
        follow = self._FOLLOW.get(type(record))
        if follow is not None:
            follow(self, site, record)
        operations = self._of_record(record)
        self.seen |= operations
        self._last[site] = (self._now_s(), last | operations)

    def _of_record(self, record: r.Record) -> set[str]:
        if isinstance(record, r.ControlIssued):
            return set(self._wants(record))
        if isinstance(record, r.ControlTaken | r.ControlAcked):
            known = self._controls.get((record.subgroup, record.epoch))
            return set(known[1]) if known is not None else set()
        found = set(RECORD_OPERATION.get(type(record), ()))
        if isinstance(record, r.JobsMoved):
            found = {"export" if record.exported else "recall"}
        if getattr(record, "exported", False):
            found.add("export")
        return found

    def _wants(self, record: r.ControlIssued) -> tuple[str, ...]:
        """Operations that an order asks for beyond the order that stood before it."""
        known = self._controls.get((record.subgroup, record.epoch))
        before = known[0] if known is not None else r.ControlIssued(subgroup=record.subgroup, epoch=0, control_seq=0)
        if record.control_seq <= before.control_seq and known is not None:
            return known[1]
        rows = (
            ("cancel", not record.cancel.issubset(before.cancel)),
            ("hold", not record.hold.issubset(before.hold)),
            ("release", not before.hold.issubset(record.hold | record.cancel)),
            (self._why.get(group_of(record.subgroup), "recall"), not record.recall.issubset(before.recall)),
        )
        return tuple(name for name, wanted in rows if wanted)

    # --- records ---------------------------------------------------------------------------------------

    def _opened(self, site: SiteId, record: r.Opened) -> None:
        for operation in ("stage in", "register", "quote"):
            for token in [t for o, t in self._tokens if o == operation and isinstance(t, tuple) and t[0] == site]:
                self._end(operation, token)
        self._begin("restart", site, site)

    def _placed(self, site: SiteId, record: r.GroupPlaced) -> None:
        for part in record.parts:
            if part.site != site:
                transfer = (part.subgroup, part.epoch)
                self._dest[transfer] = part.site
                self._begin("offer", transfer, site, part.site)
                if part.exported:
                    self._begin("export", transfer, site, part.site)

    def _committed(self, site: SiteId, record: r.TransferCommitted) -> None:
        transfer = (record.subgroup, record.epoch)
        to = self._dest.get(transfer)
        if to is not None:
            self._end("offer", transfer)
            self._begin("commit", transfer, site, to)
            self._begin("progress", transfer, site, to)

    def _gang_go(self, site: SiteId, record: r.GangGo) -> None:
        for part in record.parts:
            transfer = (part.subgroup, part.epoch)
            self._end_all(("claim", "yield"), transfer)
            self._begin("go", transfer, site, self._dest.get(transfer))
            self._committed(site, r.TransferCommitted(subgroup=part.subgroup, epoch=part.epoch, db_uuid=part.db_uuid))

    def _acked(self, site: SiteId, record: r.CommitAcked) -> None:
        self._end_all(("commit", "go", "export"), (record.subgroup, record.epoch))

    def _taken_back(self, site: SiteId, record: r.TakenBack) -> None:
        transfer = (record.subgroup, record.epoch)
        self._end_all(("offer", "claim", "yield", "go", "export", "commit", "progress"), transfer)
        if transfer in self._dest:
            self._begin("abort", transfer, site, self._dest[transfer])

    def _dropped(self, site: SiteId, record: r.CustodyDropped) -> None:
        self._end_all(("abort", "yield"), (record.subgroup, record.epoch))

    def _moved(self, site: SiteId, record: r.JobsMoved) -> None:
        self._why[record.group] = "export" if record.exported else "recall"

    def _ordered(self, site: SiteId, record: r.ControlIssued) -> None:
        transfer = (record.subgroup, record.epoch)
        wants = self._wants(record)
        self._controls[transfer] = (record, wants)
        for operation in wants:
            self._begin(operation, (*transfer, "order"), site, self._dest.get(transfer))

    def _order_acked(self, site: SiteId, record: r.ControlAcked) -> None:
        known = self._controls.get((record.subgroup, record.epoch))
        if known is not None and record.control_seq >= known[0].control_seq:
            self._end_all(CONTROLS, (record.subgroup, record.epoch, "order"))

    def _ended(self, site: SiteId, record: r.RunsEnded) -> None:
        origin = origin_of(group_of(record.subgroup))
        if origin != site:
            self._begin("result", (record.subgroup, record.epoch, record.batch), site, origin)

    def _result_acked(self, site: SiteId, record: r.BatchAcked) -> None:
        self._end("result", (record.subgroup, record.epoch, record.batch))

    def _closed_here(self, site: SiteId, record: r.CustodyClosed) -> None:
        self._end_all(("progress", "commit", "go"), (record.subgroup, record.epoch))
        self._end_all(CONTROLS, (record.subgroup, record.epoch, "order"))

    def _accepted(self, site: SiteId, record: r.ResultAccepted) -> None:
        self._end("merge", record.subgroup)
        if record.has_outputs:
            to = self._dest.get((record.subgroup, record.epoch))
            self._begin("gather", (record.subgroup, record.epoch, record.batch), site, to)

    def _gathered(self, site: SiteId, record: r.OutputsGathered) -> None:
        self._end("gather", (record.subgroup, record.epoch, record.batch))

    def _merging(self, site: SiteId, record: r.MergeStarted) -> None:
        self._begin("merge", record.part.subgroup, site)

    def _retried(self, site: SiteId, record: r.JobsRetried) -> None:
        self._begin("retry", record.group, site)

    def _disowned(self, site: SiteId, record: PartDisowned) -> None:
        transfer = (record.subgroup, record.epoch)
        self._begin("disown", transfer, site, self._dest.get(transfer))

    def _let_go(self, site: SiteId, record: PartDropped) -> None:
        self._end("disown", (record.subgroup, record.epoch))

    def _group_closed(self, site: SiteId, record: r.GroupClosed) -> None:
        self._end("retry", record.group)

    _FOLLOW: Mapping[type, Callable[[Any, SiteId, Any], None]] = {
        r.Opened: _opened,
        r.GroupPlaced: _placed,
        r.TransferCommitted: _committed,
        r.GangGo: _gang_go,
        r.CommitAcked: _acked,
        r.TakenBack: _taken_back,
        r.CustodyDropped: _dropped,
        r.JobsMoved: _moved,
        r.ControlIssued: _ordered,
        r.ControlAcked: _order_acked,
        r.RunsEnded: _ended,
        r.BatchAcked: _result_acked,
        r.CustodyClosed: _closed_here,
        r.ResultAccepted: _accepted,
        r.OutputsGathered: _gathered,
        r.MergeStarted: _merging,
        r.JobsRetried: _retried,
        r.GroupClosed: _group_closed,
        PartDisowned: _disowned,
        PartDropped: _let_go,
    }

    # --- the table -------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Every operation that was in flight x every fault that struck, zeros included."""
        return {o: {f: self.strikes[o, f] for f in sorted(self.faults)} for o in sorted(self.seen)}


def joined(tables: Iterable[Table]) -> Table:
    """Sums, over seeds; a row or column that one of them lacks counts zero there."""
    sums: Counter[tuple[str, str]] = Counter()
    rows: set[str] = set()
    columns: set[str] = set()
    for table in tables:
        rows |= table.keys()
        for operation, row in table.items():
            columns |= row.keys()
            sums.update({(operation, fault): count for fault, count in row.items()})
    return {o: {f: sums[o, f] for f in sorted(columns)} for o in sorted(rows)}


def empty(table: Table) -> list[str]:
    """The holes: `OPERATION x FAULT` that never met and could have."""
    rows = ((o, f, count) for o, row in table.items() for f, count in row.items())
    return [f"{o} x {f}" for o, f, count in rows if not count and not impossible(o, f)]


def report(tables: Iterable[Table]) -> dict[str, Any]:
    """The coverage as it is printed: counts, holes, and why the rest cannot be."""
    table = joined(tables)
    reasons: dict[str, list[str]] = {}
    for operation, row in table.items():
        for fault, count in row.items():
            why = impossible(operation, fault)
            if why and not count:
                reasons.setdefault(why, []).append(f"{operation} x {fault}")
    return {"table": table, "empty": empty(table), "impossible": reasons}


def text(found: dict[str, Any]) -> list[str]:
    """The coverage for people: operations down, faults across; `-` cannot be, `0` is a hole. Legend and holes below."""
    table: Table = found["table"]
    faults = sorted({fault for row in table.values() for fault in row})
    names = [f"{number:>2} {fault}" for number, fault in enumerate(faults, 1)]
    lines = ["coverage: operation x fault", f"  {'':<10}" + "".join(f"{n:>8}" for n in range(1, len(faults) + 1))]
    for operation, row in table.items():
        cells = (str(row[f]) if row[f] or not impossible(operation, f) else "-" for f in faults)
        lines.append(f"  {operation:<10}" + "".join(f"{cell:>8}" for cell in cells))
    lines += [f"  {' | '.join(names[at : at + 6])}" for at in range(0, len(names), 6)]
    lines += [f"  - {why}: {len(cells)} cells" for why, cells in found["impossible"].items()]
    holes = found["empty"]
    lines.append(f"  empty cells: {len(holes)}" + (f": {', '.join(holes)}" if holes else ""))
    return lines
