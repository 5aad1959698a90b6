"""The operations of the protocol, by name: the messages, records and effects that belong to each, and the faults that
cannot strike it. Kept apart from the counting (`coverage.py`), so that a new message or fault is one line here."""

from __future__ import annotations

from collections.abc import Mapping

from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.journal.records import PartDisowned, PartDropped
from diana.engine.messages import binding as bm
from diana.engine.messages import exchange as xm
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.engine.messages import migration as mm
from diana.engine.messages import recovery as rm

CONTROLS = ("cancel", "hold", "release", "recall", "export")

MESSAGE_OPERATION: Mapping[type, str] = {
    ms.Summary: "summary",
    ms.Gossip: "gossip",
    ms.LedgerNews: "ledger",
    ms.QuoteRequest: "quote",
    ms.Quote: "quote",
    ms.Prepare: "offer",
    ms.Prepared: "offer",
    ms.Refused: "offer",
    ms.GangClaim: "claim",
    ms.GangClaimed: "claim",
    ms.GangYield: "yield",
    ms.Commit: "commit",
    ms.Committed: "commit",
    ms.Lost: "commit",
    ms.Abort: "abort",
    ms.Aborted: "abort",
    ms.Progress: "progress",
    ms.Result: "result",
    ms.ResultAck: "result",
    xm.GangRoster: "exchange",
    mm.Surplus: "surplus",
    mm.WorkInvited: "surplus",
    mm.RoomRequest: "room",
    mm.RoomGrant: "room",
    bm.Reserve: "reservation",
    bm.TurnCall: "call",
    lm.Renew: "lease",
    lm.Renewed: "lease",
    rm.Met: "greeting",
    rm.Holdings: "greeting",
}

EFFECT_OPERATION: Mapping[type, str] = {
    fx.SendResult: "result",
    fx.Start: "start",
    fx.Go: "go",
    fx.MeetHosts: "claim",
    fx.KillRuns: "cancel",
    fx.RecallRuns: "recall",
    fx.SaveRuns: "save",
    fx.TellRoster: "exchange",
    fx.StageIn: "stage in",
    fx.CancelStage: "stage in",
    fx.Gather: "gather",
    fx.RegisterOutputs: "register",
    fx.ForgetRuns: "run",
    fx.DropOutputs: "gather",
}

RECORD_OPERATION: Mapping[type, tuple[str, ...]] = {
    r.Opened: ("restart",),
    r.GroupSubmitted: ("submit",),
    r.GroupPlaced: ("offer",),
    r.CustodyTaken: ("offer",),
    r.TransferCommitted: ("commit",),
    r.GangGo: ("go", "commit"),
    r.PartClosed: ("disown",),
    r.ProcessExchanged: ("exchange",),
    r.CustodyRunnable: ("commit",),
    r.CommitAcked: ("commit",),
    r.TakenBack: ("abort",),
    r.CustodyDropped: ("abort",),
    r.JobsFailed: ("abort",),
    r.JobsCancelled: ("cancel",),
    r.JobsRetried: ("retry",),
    r.RunsStarted: ("start",),
    r.RunsVoided: ("start",),
    r.RunsReturned: ("recall",),
    r.RunsRepeated: ("start", "run"),
    r.RunsMakeWay: ("run",),
    r.RunsEnded: ("run", "result"),
    r.ResultAccepted: ("result",),
    r.ResultStale: ("result",),
    r.BatchAcked: ("result",),
    r.OutputsGathered: ("gather",),
    r.MergeStarted: ("merge",),
    r.OutputsRegistered: ("register",),
    PartDisowned: ("disown",),
    PartDropped: ("disown",),
}

_LOCAL = frozenset(("submit", "start", "run", "merge", "register", "retry", "restart"))
_DATA = frozenset(("stage in", "gather"))
_NO_RECORD = frozenset(
    (
        "quote",
        "progress",
        "summary",
        "gossip",
        "ledger",
        "stage in",
        "surplus",
        "room",
        "reservation",
        "call",
        "lease",
        "greeting",
        # A claim's record is that of the start, which waits at the barrier.
        "claim",
        "yield",
    )
)
_NO_EFFECT = frozenset(("merge", "retry", "restart"))
_OF_MESSAGES = frozenset(("loss", "duplicate", "delay"))
_OF_LINKS = frozenset(("cut", "cut one way", "clog", "partition"))
_OF_MEMBERS = frozenset(("member_crash", "machine_away", "machine_removed"))


def impossible(operation: str, fault: str) -> str:
    """Reason why the fault cannot strike the operation; empty: it can."""
    if fault in _OF_MESSAGES and operation in _LOCAL:
        return "a fault of messages, and what happens within one site sends none"
    if fault in _OF_MESSAGES and operation in _DATA:
        return "a fault of messages, and data travel in streams that repair themselves; they fail by stage_error"
    if fault in _OF_LINKS and operation in _LOCAL:
        return "a fault of a link, and what happens within one site needs none"
    if fault == "stage_error" and operation not in _DATA:
        return "a transfer of data fails, and the operation is none"
    if fault == "retell" and operation != "run":
        return "the end of a job told twice, and the operation ends no job"
    if fault == "crash before commit" and operation in _NO_RECORD:
        return "a crash at a record's boundary, and the operation writes none"
    if fault == "crash between effects" and operation in _NO_EFFECT:
        return "a crash at an effect's boundary, and the operation asks for none that is not another's"
    if fault in _OF_MEMBERS and operation not in ("start", "claim", "go", "run", "merge"):
        return "a fault of a member machine, which has jobs and nothing else"
    return ""
