"""The states of a gang, and the table of what each message does in each of them, as data.

At its origin a gang is in one state for all its components (`Attempt`); at a site, the components that stand there
together are (`SiteClaim`). From the claim on the parts of an attempt share their fate until one record lets all of them
go; what becomes of a part after that is in the table of the hand-over (`handover/table.py`), as for any transfer.

`tests/engine/handover/test_gang_table.py` drives an engine through each row, starts it anew on what is durable, and
holds the text of the table in the package's docstring to `text(TABLE)`. Each report has a row in each state of an
attempt, and each order has one in each state of a claim.
"""

from __future__ import annotations

from enum import StrEnum

from diana.engine.handover.table import Row
from diana.engine.journal.events import (
    AtBarrier,
    CancelJobs,
    HoldJobs,
    HostsMet,
    JobsEnded,
    LrmLost,
    LrmReady,
    PeerUp,
)
from diana.engine.journal.records import (
    CommitAcked,
    ControlAcked,
    ControlIssued,
    ControlTaken,
    CustodyDropped,
    CustodyRunnable,
    CustodyTaken,
    GangGo,
    GroupPlaced,
    HoldingChanged,
    JobsCancelled,
    JobsFailed,
    JobsMoved,
    PartClosed,
    PartDisowned,
    PartDropped,
    PartUnreachable,
    ResultAccepted,
    ResultStale,
    RunsEnded,
    RunsReturned,
    RunsStarted,
    TakenBack,
)
from diana.engine.messages.leases import Renew, Renewed
from diana.engine.messages.messages import (
    Abort,
    Aborted,
    Commit,
    Committed,
    Control,
    ControlAck,
    GangClaim,
    GangClaimed,
    GangYield,
    Lost,
    Prepare,
    Prepared,
    Progress,
    Quote,
    Refused,
    Result,
    ResultAck,
)


class Attempt(StrEnum):
    """State of a gang at its origin."""

    WAITING = "WAITING"
    """No component has a place."""
    OFFERED = "OFFERED"
    """Each has one, and the inputs of some are not there yet."""
    CLAIMING = "CLAIMING"
    """The sites were asked for processors; none has said that it holds any."""
    HOLDING = "HOLDING"
    """Some sites hold processors, and others do not yet."""
    MEETING = "MEETING"
    """All hold processors, and look whether they reach each other's hosts."""
    STARTED = "STARTED"
    """All were let go by one record, and some component has no end."""
    ENDING = "ENDING"
    """Let go; what runs is ordered to end, and the gang is not begun again by itself."""
    CLOSING = "CLOSING"
    """Let go and broken: what may run is ordered to end, and no attempt follows before it surely has."""
    OVER = "OVER"
    """Each component has an end."""


class SiteClaim(StrEnum):
    """State of a gang's components at one site."""

    UNKNOWN = "UNKNOWN"
    """Neither custody nor tombstone."""
    INERT = "INERT"
    """Taken; its processors were not asked for since this node started."""
    ASKED = "ASKED"
    """They were, and none has some."""
    TAKING = "TAKING"
    """Some component was given to a machine, and not all are known to stand at the barrier."""
    STANDING = "STANDING"
    """All stand at the barrier."""
    LAPSING = "LAPSING"
    """It comes to nothing, and a machine has not ended all of it."""
    LET_GO = "LET GO"
    """The order to start is durable: from here on it is as any other transfer."""
    DROPPED = "DROPPED"
    """Tombstone: no component of it ever begins."""


AFTER_RESTART: dict[Attempt | SiteClaim, Attempt | SiteClaim] = {
    Attempt.CLAIMING: Attempt.OFFERED,
    Attempt.HOLDING: Attempt.OFFERED,
    Attempt.MEETING: Attempt.OFFERED,
    SiteClaim.ASKED: SiteClaim.INERT,
    SiteClaim.STANDING: SiteClaim.TAKING,
    SiteClaim.LAPSING: SiteClaim.TAKING,
}
"""The state in which a node that starts anew finds a gang that was in this one; left out: the same. What an origin or a
machine has told is volatile, and is told again; an origin that gave an attempt up lets nothing of it go."""

_A, _C = Attempt, SiteClaim
_BACK = (TakenBack, TakenBack)
_ABORTS = (Abort, Abort)
_BROKEN = (ControlIssued, PartDisowned, JobsMoved)
"""What an origin writes of the other component of a gang that did not start whole."""

TABLE: tuple[Row, ...] = (
    Row(_A.WAITING, (Quote,), "the last one", _A.OFFERED, (GroupPlaced,), (Prepare, Prepare)),
    Row(_A.WAITING, (Prepared, GangClaimed), "", _A.WAITING, (), (Abort,)),
    Row(_A.WAITING, (Result,), "", _A.WAITING, (ResultStale,), (ResultAck,)),
    Row(_A.WAITING, (GangYield, Refused, Committed, Aborted, Lost, Progress, ControlAck), "", _A.WAITING),
    Row(_A.WAITING, (HoldJobs,), "", _A.WAITING, (HoldingChanged,)),
    Row(_A.WAITING, (CancelJobs,), "", _A.OVER, (JobsCancelled,)),
    Row(_A.OFFERED, (Prepared,), "inputs to come", _A.OFFERED),
    Row(_A.OFFERED, (Prepared,), "not the last", _A.OFFERED),
    Row(_A.OFFERED, (Prepared,), "the last", _A.CLAIMING, (), (GangClaim, GangClaim)),
    Row(_A.OFFERED, ("offer", PeerUp), "", _A.OFFERED, (), (Prepare,)),
    Row(_A.OFFERED, (GangYield, Refused, Aborted, Lost, "offer-over"), "", _A.WAITING, _BACK, _ABORTS),
    Row(_A.OFFERED, (Aborted,), "unable, thrice", _A.OVER, (*_BACK, JobsFailed, JobsCancelled), _ABORTS),
    Row(_A.OFFERED, (HoldJobs,), "", _A.WAITING, (*_BACK, HoldingChanged), _ABORTS),
    Row(_A.OFFERED, (CancelJobs,), "", _A.OVER, (*_BACK, JobsCancelled), _ABORTS),
    Row(_A.OFFERED, (GangClaimed, Committed, Progress, Result, ControlAck), "", _A.OFFERED),
    Row(_A.CLAIMING, (GangClaimed,), "not the last", _A.HOLDING),
    Row(_A.CLAIMING, (Prepared,), "", _A.CLAIMING, (), (GangClaim, GangClaim)),
    Row(_A.CLAIMING, ("claim",), "", _A.CLAIMING, (), (GangClaim,)),
    Row(_A.CLAIMING, (PeerUp,), "", _A.CLAIMING, (), (Prepare,)),
    Row(_A.CLAIMING, (GangYield, Refused, Aborted, Lost, "claims-over"), "", _A.WAITING, _BACK, _ABORTS),
    Row(_A.CLAIMING, (HoldJobs,), "", _A.WAITING, (*_BACK, HoldingChanged), _ABORTS),
    Row(_A.CLAIMING, (CancelJobs,), "", _A.OVER, (*_BACK, JobsCancelled), _ABORTS),
    Row(_A.CLAIMING, (Committed, Progress, Result, ControlAck), "", _A.CLAIMING),
    Row(_A.HOLDING, (GangClaimed,), "the last", _A.STARTED, (GangGo,), (Commit, Commit)),
    Row(_A.HOLDING, (GangClaimed,), "all look", _A.MEETING, (), (GangClaim, GangClaim)),
    Row(_A.HOLDING, (Prepared, "claim"), "", _A.HOLDING, (), (GangClaim,)),
    Row(_A.HOLDING, (PeerUp,), "", _A.HOLDING, (), (Prepare,)),
    Row(_A.HOLDING, (GangYield, Refused, Aborted, Lost, "claims-over"), "", _A.WAITING, _BACK, _ABORTS),
    Row(_A.HOLDING, (HoldJobs,), "", _A.WAITING, (*_BACK, HoldingChanged), _ABORTS),
    Row(_A.HOLDING, (CancelJobs,), "", _A.OVER, (*_BACK, JobsCancelled), _ABORTS),
    Row(_A.HOLDING, (Committed, Progress, Result, ControlAck), "", _A.HOLDING),
    Row(_A.MEETING, (GangClaimed,), "not all meet", _A.MEETING),
    Row(_A.MEETING, (GangClaimed,), "all meet", _A.STARTED, (GangGo,), (Commit, Commit)),
    Row(_A.MEETING, (GangClaimed,), "out of reach", _A.WAITING, _BACK, _ABORTS),
    Row(_A.MEETING, ("claim",), "", _A.MEETING, (), (GangClaim,)),
    Row(_A.MEETING, (PeerUp,), "", _A.MEETING, (), (Prepare,)),
    Row(_A.MEETING, (GangYield, Refused, Aborted, Lost, "claims-over"), "", _A.WAITING, _BACK, _ABORTS),
    Row(_A.MEETING, (HoldJobs,), "", _A.WAITING, (*_BACK, HoldingChanged), _ABORTS),
    Row(_A.MEETING, (CancelJobs,), "", _A.OVER, (*_BACK, JobsCancelled), _ABORTS),
    Row(_A.MEETING, (Prepared, Committed, Progress, Result, ControlAck), "", _A.MEETING),
    Row(_A.STARTED, (Committed,), "", _A.STARTED, (CommitAcked,)),
    Row(_A.STARTED, (Prepared, "commit", PeerUp), "", _A.STARTED, (), (Commit,)),
    Row(_A.STARTED, (Aborted,), "", _A.CLOSING, (TakenBack, *_BROKEN), (Control,)),
    Row(_A.STARTED, (Aborted,), "taken", _A.STARTED),
    Row(_A.STARTED, (Aborted,), "other has ended", _A.OVER, (TakenBack, JobsCancelled)),
    Row(_A.STARTED, (Lost,), "", _A.STARTED, (PartUnreachable,)),
    Row(_A.STARTED, (PeerUp,), "other database", _A.STARTED, (PartUnreachable,)),
    Row(_A.STARTED, ("lease",), "site is silent", _A.CLOSING, (*_BROKEN, PartClosed, *_BROKEN), (Control,)),
    Row(_A.STARTED, (Result,), "not the last", _A.STARTED, (ResultAccepted,), (ResultAck,)),
    Row(_A.STARTED, (Result,), "of the last", _A.OVER, (ResultAccepted,), (ResultAck,)),
    Row(_A.STARTED, (Result,), "fails", _A.ENDING, (ResultAccepted, ControlIssued), (ResultAck, Control)),
    Row(_A.STARTED, (Result,), "gives back all", _A.CLOSING, (ResultAccepted, *_BROKEN), (ResultAck, Control)),
    Row(_A.STARTED, (CancelJobs,), "", _A.ENDING, (ControlIssued, ControlIssued), (Control, Control)),
    Row(_A.STARTED, (HoldJobs,), "", _A.STARTED, (ControlIssued, ControlIssued), (Control, Control)),
    Row(_A.STARTED, (GangClaimed, GangYield, Refused, Progress, ControlAck), "", _A.STARTED),
    Row(_A.ENDING, (Result,), "of the last", _A.OVER, (ResultAccepted,), (ResultAck,)),
    Row(_A.ENDING, (Result,), "gives back all", _A.OVER, (ResultAccepted, JobsCancelled), (ResultAck,)),
    Row(_A.ENDING, (Aborted,), "not taken", _A.OVER, (TakenBack, JobsCancelled)),
    Row(_A.ENDING, (Lost,), "", _A.ENDING, (PartUnreachable,)),
    Row(_A.ENDING, (ControlAck,), "", _A.ENDING, (ControlAcked,)),
    Row(_A.ENDING, ("control", PeerUp), "", _A.ENDING, (), (Control,)),
    Row(_A.ENDING, (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Progress), "", _A.ENDING),
    Row(_A.CLOSING, (ControlAck, Aborted, Lost), "", _A.WAITING, (PartDropped,)),
    Row(_A.CLOSING, ("lease",), "site is silent", _A.WAITING, (PartClosed,), (Control,)),
    Row(_A.CLOSING, ("disown", PeerUp), "", _A.CLOSING, (), (Control,)),
    Row(_A.CLOSING, (Prepared, GangClaimed), "", _A.CLOSING, (), (Abort,)),
    Row(_A.CLOSING, (Result,), "", _A.CLOSING, (ResultStale,), (ResultAck,)),
    Row(_A.CLOSING, (HoldJobs,), "", _A.CLOSING, (HoldingChanged,)),
    Row(_A.CLOSING, (CancelJobs,), "", _A.CLOSING, (JobsCancelled,)),
    Row(_A.CLOSING, (GangYield, Refused, Committed, Progress), "", _A.CLOSING),
    Row(_A.OVER, (Result,), "", _A.OVER, (), (ResultAck,)),
    Row(
        _A.OVER,
        (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Lost, Progress, ControlAck),
        "",
        _A.OVER,
    ),
    Row(_C.UNKNOWN, (Prepare,), "", _C.INERT, (CustodyTaken,), (Prepared,)),
    Row(_C.UNKNOWN, (GangClaim, Commit, Control), "", _C.UNKNOWN, (), (Lost,)),
    Row(_C.UNKNOWN, (Abort, ResultAck, AtBarrier), "", _C.UNKNOWN),
    Row(_C.INERT, (Prepare, "prepared", PeerUp), "", _C.INERT, (), (Prepared,)),
    Row(_C.INERT, (GangClaim,), "", _C.TAKING, (RunsStarted,)),
    Row(_C.INERT, (GangClaim,), "no machine", _C.ASKED),
    Row(_C.INERT, (GangClaim,), "needs a lease", _C.ASKED, (), (Renew,)),
    Row(_C.INERT, (Commit, Abort), "", _C.DROPPED, (CustodyDropped,), (Aborted,)),
    Row(_C.INERT, (Control,), "cancels", _C.DROPPED, (ControlTaken, CustodyDropped), (Aborted,)),
    Row(_C.INERT, (ResultAck,), "", _C.INERT),
    Row(_C.ASKED, (Prepare, "prepared", PeerUp), "", _C.ASKED, (), (Prepared,)),
    Row(_C.ASKED, (Renewed,), "", _C.TAKING, (RunsStarted,)),
    Row(_C.ASKED, (LrmReady,), "", _C.TAKING, (RunsStarted,)),
    Row(_C.ASKED, (Commit, Abort, "claim"), "", _C.DROPPED, (CustodyDropped,), (Aborted,)),
    Row(_C.ASKED, (Control,), "cancels", _C.DROPPED, (ControlTaken, CustodyDropped), (Aborted,)),
    Row(_C.ASKED, ("claim-waits",), "behind lesser", _C.ASKED, (), (GangYield,)),
    Row(_C.ASKED, (GangClaim, ResultAck, "claim-waits"), "", _C.ASKED),
    Row(_C.TAKING, (Prepare, "prepared", PeerUp), "", _C.TAKING, (), (Prepared,)),
    Row(_C.TAKING, (AtBarrier,), "the last", _C.STANDING, (), (GangClaimed,)),
    Row(_C.TAKING, (AtBarrier,), "not the last", _C.TAKING),
    Row(_C.TAKING, (Commit,), "", _C.LET_GO, (CustodyRunnable,), (Committed,)),
    Row(_C.TAKING, (Commit,), "cancelled", _C.LAPSING),
    Row(_C.TAKING, (Abort,), "", _C.LAPSING),
    Row(_C.TAKING, (Control,), "cancels", _C.LAPSING, (ControlTaken,)),
    Row(_C.TAKING, (JobsEnded,), "one", _C.LAPSING, (RunsReturned,)),
    Row(_C.TAKING, (JobsEnded, LrmReady), "none is there", _C.DROPPED, (RunsReturned, CustodyDropped), (Aborted,)),
    Row(_C.TAKING, (LrmLost,), "a member", _C.DROPPED, (RunsReturned, CustodyDropped), (Aborted,)),
    Row(_C.TAKING, (GangClaim, ResultAck, LrmReady, LrmLost), "", _C.TAKING),
    Row(_C.STANDING, (Prepare, "prepared", PeerUp), "", _C.STANDING, (), (Prepared,)),
    Row(_C.STANDING, (GangClaim, AtBarrier, HostsMet), "", _C.STANDING, (), (GangClaimed,)),
    Row(_C.STANDING, (GangClaim,), "to meet", _C.STANDING),
    Row(_C.STANDING, (Commit,), "", _C.LET_GO, (CustodyRunnable,), (Committed,)),
    Row(_C.STANDING, (Commit,), "other hosts", _C.STANDING),
    Row(_C.STANDING, (Commit,), "lease is over", _C.STANDING),
    Row(_C.STANDING, (Commit,), "other database", _C.STANDING, (), (Lost,)),
    Row(_C.STANDING, (Abort,), "", _C.LAPSING),
    Row(_C.STANDING, (Control,), "cancels", _C.LAPSING, (ControlTaken,)),
    Row(_C.STANDING, (JobsEnded,), "one", _C.LAPSING, (RunsReturned,)),
    Row(_C.STANDING, (JobsEnded, LrmReady), "none is there", _C.DROPPED, (RunsReturned, CustodyDropped), (Aborted,)),
    Row(_C.STANDING, (LrmLost,), "a member", _C.DROPPED, (RunsReturned, CustodyDropped), (Aborted,)),
    Row(_C.STANDING, (ResultAck, LrmReady, LrmLost), "", _C.STANDING),
    Row(_C.LAPSING, (Prepare, "prepared", PeerUp), "", _C.LAPSING, (), (Prepared,)),
    Row(_C.LAPSING, (JobsEnded,), "one", _C.LAPSING, (RunsReturned,)),
    Row(_C.LAPSING, (JobsEnded, LrmReady), "none is there", _C.DROPPED, (RunsReturned, CustodyDropped), (Aborted,)),
    Row(_C.LAPSING, (Control,), "cancels", _C.LAPSING, (ControlTaken,)),
    Row(_C.LAPSING, (LrmLost,), "a member", _C.DROPPED, (RunsReturned, CustodyDropped), (Aborted,)),
    Row(_C.LAPSING, (GangClaim, Commit, Abort, ResultAck, AtBarrier, LrmReady, LrmLost), "", _C.LAPSING),
    Row(_C.LET_GO, (Prepare,), "", _C.LET_GO, (), (Prepared,)),
    Row(_C.LET_GO, (GangClaim, Commit), "", _C.LET_GO, (), (Committed,)),
    Row(_C.LET_GO, (Control,), "cancels", _C.LET_GO, (ControlTaken,)),
    Row(_C.LET_GO, (JobsEnded, LrmReady), "none is there", _C.LET_GO, (RunsReturned, RunsEnded), (Result,)),
    Row(_C.LET_GO, (Abort, ResultAck, AtBarrier, LrmReady, LrmLost), "", _C.LET_GO),
    Row(_C.DROPPED, (Prepare, GangClaim, Commit, Abort), "", _C.DROPPED, (), (Aborted,)),
    Row(_C.DROPPED, (Control,), "cancels", _C.DROPPED, (), (ControlAck,)),
    Row(_C.DROPPED, (ResultAck, AtBarrier), "", _C.DROPPED),
)
