"""The state table of the hand-over, as data: for each side, the state a transfer stands in and the message that comes
in, with the state that follows, the records persisted, and the messages sent to the other side.

`tests/engine/handover/test_handover_table.py` drives an engine through each row, and holds the text of the table in the
package's docstring to `text()`. Each report has a row in each state of a placed transfer, and each order has one in
each state of the destination; user orders, timers and events of machines stand where they change something.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby, zip_longest
from textwrap import wrap
from typing import NamedTuple

from diana.engine.journal.events import (
    CancelJobs,
    HoldJobs,
    JobsEnded,
    LrmReady,
    MoveJobs,
    PeerUp,
    ReleaseJobs,
    StageDone,
    SubmitGroup,
)
from diana.engine.journal.records import (
    BatchAcked,
    CommitAcked,
    ControlAcked,
    ControlIssued,
    ControlTaken,
    CustodyClosed,
    CustodyDropped,
    CustodyRunnable,
    CustodyTaken,
    GroupPlaced,
    HoldingChanged,
    JobsCancelled,
    JobsMoved,
    PartDisowned,
    PartDropped,
    PartUnreachable,
    ResultAccepted,
    ResultStale,
    RunsEnded,
    RunsRepeated,
    RunsReturned,
    RunsStarted,
    RunsVoided,
    TakenBack,
    TombstoneExpired,
    TransferCommitted,
)
from diana.engine.journal.state import Step
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


class Origin(StrEnum):
    """State of a transfer at its origin, read off `Group` and `Subgroup`."""

    UNPLACED = "UNPLACED"
    """No placement has the jobs."""
    LOCAL = "LOCAL"
    """Placed at the origin itself, runnable at once: nothing is offered."""
    OFFERED = "OFFERED"
    """The offer is durable; the commit is not."""
    COMMITTED = "COMMITTED"
    """The commit is durable; the destination has not said that it is."""
    TAKEN = "TAKEN"
    """The destination has the work, and no standing order waits for its acknowledgement."""
    ORDERED = "ORDERED"
    """A standing order to cancel, hold or recall jobs is not acknowledged."""
    UNREACHABLE = "UNREACHABLE"
    """The destination lost the work with its database; jobs without a result are waited for."""
    DISOWNED = "DISOWNED"
    """The jobs were placed anew after the site's lease; the site has not said that it starts none of them."""
    FINISHED = "FINISHED"
    """Every job of it has a result."""
    PAST = "PAST"
    """Over without a result of its own: taken back, given back, or placed anew. Its jobs are in other placements."""


class Destination(StrEnum):
    """State of a transfer at its destination, read off `Custody` and `Tombstone`."""

    UNKNOWN = "UNKNOWN"
    """Neither custody nor tombstone."""
    PREPARED = "PREPARED"
    """Taken, inert."""
    RUNNABLE = "RUNNABLE"
    """Jobs wait, none is at a machine."""
    STARTING = "STARTING"
    """Some job was given to a machine and its end is not durable."""
    ENDED = "ENDED"
    """All jobs are over; some batch of results is not acknowledged."""
    DROPPED = "DROPPED"
    """Tombstone of a transfer that never can run."""
    DONE = "DONE"
    """Tombstone of a transfer whose results were all acknowledged."""


STEPS: dict[Origin, Step | None] = {
    Origin.UNPLACED: None,
    Origin.LOCAL: Step.COMMITTED,
    Origin.OFFERED: Step.OFFERED,
    Origin.COMMITTED: Step.COMMITTED,
    Origin.TAKEN: Step.COMMITTED,
    Origin.ORDERED: Step.COMMITTED,
    Origin.UNREACHABLE: Step.COMMITTED,
    Origin.DISOWNED: None,
    Origin.FINISHED: Step.COMMITTED,
    Origin.PAST: None,
}
"""The recorded step of each state; None: the transfer is no part of its group."""


class Row(NamedTuple):
    state: StrEnum
    on: tuple[type | str, ...]
    """Messages and events that come in, each alone; a text is the name of a timer."""
    when: str
    """Condition that tells rows of one state and message apart; empty: there is none."""
    to: StrEnum
    records: tuple[type, ...] = ()
    """Records of the transfers and their jobs, in order."""
    replies: tuple[type, ...] = ()
    """Messages to the other side, in order."""

    @property
    def side(self) -> type[StrEnum]:
        return type(self.state)


_O, _D = Origin, Destination

TABLE: tuple[Row, ...] = (
    Row(_O.UNPLACED, (SubmitGroup,), "home only", _O.LOCAL, (GroupPlaced, RunsStarted)),
    Row(_O.UNPLACED, (Quote,), "the last one", _O.OFFERED, (GroupPlaced,), (Prepare,)),
    Row(_O.LOCAL, (JobsEnded,), "all", _O.FINISHED, (RunsEnded, ResultAccepted, CustodyClosed)),
    Row(_O.LOCAL, (CancelJobs, HoldJobs), "", _O.LOCAL, (ControlIssued, ControlTaken)),
    Row(
        _O.LOCAL,
        (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Lost, Progress, Result, ControlAck),
        "",
        _O.LOCAL,
    ),
    Row(_O.OFFERED, (Prepared,), "", _O.COMMITTED, (TransferCommitted,), (Commit,)),
    Row(_O.OFFERED, (Refused, Aborted, Lost), "", _O.PAST, (TakenBack,)),
    Row(_O.OFFERED, (GangClaimed, GangYield, Committed, Progress, Result, ControlAck), "", _O.OFFERED),
    Row(_O.OFFERED, ("offer", PeerUp), "", _O.OFFERED, (), (Prepare,)),
    Row(_O.OFFERED, ("offer-over",), "", _O.PAST, (TakenBack,), (Abort,)),
    Row(_O.OFFERED, (CancelJobs,), "", _O.PAST, (TakenBack, JobsCancelled), (Abort,)),
    Row(_O.OFFERED, (HoldJobs,), "", _O.PAST, (TakenBack, HoldingChanged), (Abort,)),
    Row(_O.OFFERED, (MoveJobs,), "", _O.PAST, (JobsMoved, TakenBack), (Abort,)),
    Row(_O.COMMITTED, (Committed,), "", _O.TAKEN, (CommitAcked,)),
    Row(_O.COMMITTED, (Prepared, "commit", PeerUp), "", _O.COMMITTED, (), (Commit,)),
    Row(_O.COMMITTED, (Aborted,), "", _O.PAST, (TakenBack,)),
    Row(_O.COMMITTED, (Aborted,), "other database", _O.COMMITTED),
    Row(_O.COMMITTED, (Lost,), "", _O.UNREACHABLE, (PartUnreachable,)),
    Row(_O.COMMITTED, (Result,), "some jobs", _O.TAKEN, (ResultAccepted,), (ResultAck,)),
    Row(_O.COMMITTED, (GangClaimed, GangYield, Refused, Progress, ControlAck), "", _O.COMMITTED),
    Row(_O.TAKEN, (Result,), "some jobs", _O.TAKEN, (ResultAccepted,), (ResultAck,)),
    Row(_O.TAKEN, (Result,), "all jobs", _O.FINISHED, (ResultAccepted,), (ResultAck,)),
    Row(_O.TAKEN, (Result,), "told before", _O.TAKEN, (), (ResultAck,)),
    Row(_O.TAKEN, (Result,), "other jobs", _O.TAKEN),
    Row(_O.TAKEN, (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Progress, ControlAck), "", _O.TAKEN),
    Row(_O.TAKEN, (Lost,), "", _O.UNREACHABLE, (PartUnreachable,)),
    Row(_O.TAKEN, (PeerUp,), "other database", _O.UNREACHABLE, (PartUnreachable,)),
    Row(_O.TAKEN, (CancelJobs, HoldJobs), "", _O.ORDERED, (ControlIssued,), (Control,)),
    Row(_O.TAKEN, (MoveJobs,), "", _O.ORDERED, (JobsMoved, ControlIssued), (Control,)),
    Row(_O.TAKEN, (Renew,), "", _O.TAKEN, (), (Renewed,)),
    Row(_O.TAKEN, ("lease",), "site is silent", _O.DISOWNED, (ControlIssued, PartDisowned, JobsMoved)),
    Row(_O.ORDERED, (ControlAck,), "", _O.TAKEN, (ControlAcked,)),
    Row(_O.ORDERED, ("control", PeerUp), "", _O.ORDERED, (), (Control,)),
    Row(_O.ORDERED, (ReleaseJobs,), "after a hold", _O.ORDERED, (ControlIssued,), (Control,)),
    Row(_O.ORDERED, (Result,), "some jobs", _O.ORDERED, (ResultAccepted,), (ResultAck,)),
    Row(_O.ORDERED, (Result,), "all jobs", _O.FINISHED, (ResultAccepted,), (ResultAck,)),
    Row(_O.ORDERED, (Result,), "gives back all", _O.PAST, (ResultAccepted,), (ResultAck,)),
    Row(_O.ORDERED, (Lost,), "", _O.UNREACHABLE, (PartUnreachable,)),
    Row(_O.ORDERED, (Renew,), "", _O.ORDERED, (), (Renewed,)),
    Row(_O.ORDERED, (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Progress), "", _O.ORDERED),
    Row(_O.UNREACHABLE, (Result,), "some jobs", _O.UNREACHABLE, (ResultAccepted,), (ResultAck,)),
    Row(_O.UNREACHABLE, (Result,), "all jobs", _O.FINISHED, (ResultAccepted,), (ResultAck,)),
    Row(_O.UNREACHABLE, (CancelJobs,), "", _O.UNREACHABLE, (ControlIssued,), (Control,)),
    Row(_O.UNREACHABLE, (Renew,), "", _O.UNREACHABLE),
    Row(
        _O.UNREACHABLE,
        (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Lost, Progress, ControlAck),
        "",
        _O.UNREACHABLE,
    ),
    Row(_O.DISOWNED, (ControlAck, Lost, Aborted), "", _O.PAST, (PartDropped,)),
    Row(_O.DISOWNED, ("disown", PeerUp, Renew), "", _O.DISOWNED, (), (Control,)),
    Row(_O.DISOWNED, (Prepared, GangClaimed), "", _O.DISOWNED, (), (Abort,)),
    Row(_O.DISOWNED, (Result,), "", _O.DISOWNED, (ResultStale,), (ResultAck,)),
    Row(_O.DISOWNED, (GangYield, Refused, Committed, Progress), "", _O.DISOWNED),
    Row(_O.FINISHED, (Result,), "told before", _O.FINISHED, (), (ResultAck,)),
    Row(
        _O.FINISHED,
        (Prepared, GangClaimed, GangYield, Refused, Committed, Aborted, Lost, Progress, ControlAck),
        "",
        _O.FINISHED,
    ),
    Row(_O.PAST, (Prepared, GangClaimed), "", _O.PAST, (), (Abort,)),
    Row(_O.PAST, (Result,), "", _O.PAST, (ResultStale,), (ResultAck,)),
    Row(_O.PAST, (Result,), "told before", _O.PAST, (), (ResultAck,)),
    Row(_O.PAST, (GangYield, Refused, Committed, Aborted, Lost, Progress, ControlAck), "", _O.PAST),
    Row(_D.UNKNOWN, (Prepare,), "", _D.PREPARED, (CustodyTaken,), (Prepared,)),
    Row(_D.UNKNOWN, (Prepare,), "not acceptable", _D.UNKNOWN, (), (Refused,)),
    Row(_D.UNKNOWN, (GangClaim, Commit, Control), "", _D.UNKNOWN, (), (Lost,)),
    Row(_D.UNKNOWN, (Abort, ResultAck), "", _D.UNKNOWN),
    Row(_D.PREPARED, (Prepare, "prepared", PeerUp), "", _D.PREPARED, (), (Prepared,)),
    Row(_D.PREPARED, (Prepare,), "other work", _D.PREPARED, (), (Refused,)),
    Row(_D.PREPARED, (Commit,), "", _D.STARTING, (CustodyRunnable, RunsStarted), (Committed,)),
    Row(_D.PREPARED, (Commit,), "no machine", _D.RUNNABLE, (CustodyRunnable,), (Committed,)),
    Row(_D.PREPARED, (Commit,), "needs a lease", _D.RUNNABLE, (CustodyRunnable,), (Renew, Committed)),
    Row(_D.PREPARED, (Commit,), "other database", _D.PREPARED, (), (Lost,)),
    Row(_D.PREPARED, (GangClaim,), "", _D.PREPARED),
    Row(_D.PREPARED, (Abort,), "", _D.DROPPED, (CustodyDropped,), (Aborted,)),
    Row(_D.PREPARED, (Control,), "", _D.PREPARED, (ControlTaken,), (ControlAck,)),
    Row(_D.PREPARED, (ResultAck,), "", _D.PREPARED),
    Row(_D.RUNNABLE, (Prepare,), "", _D.RUNNABLE, (), (Prepared,)),
    Row(_D.RUNNABLE, (Commit,), "", _D.RUNNABLE, (), (Committed,)),
    Row(_D.RUNNABLE, (GangClaim, Abort, ResultAck), "", _D.RUNNABLE),
    Row(_D.RUNNABLE, (Control,), "holds", _D.RUNNABLE, (ControlTaken,), (ControlAck, Progress)),
    Row(_D.RUNNABLE, (Control,), "obeyed before", _D.RUNNABLE, (), (ControlAck, Progress)),
    Row(_D.RUNNABLE, (Control,), "cancels all", _D.ENDED, (ControlTaken, RunsEnded), (Result, ControlAck, Progress)),
    Row(_D.RUNNABLE, (Control,), "recalls all", _D.ENDED, (ControlTaken, RunsEnded), (Result, ControlAck, Progress)),
    Row(_D.RUNNABLE, (LrmReady,), "", _D.STARTING, (RunsStarted,)),
    Row(_D.RUNNABLE, (StageDone,), "", _D.STARTING, (RunsStarted,)),
    Row(_D.RUNNABLE, (Renewed,), "", _D.STARTING, (RunsStarted,)),
    Row(_D.STARTING, (Prepare,), "", _D.STARTING, (), (Prepared,)),
    Row(_D.STARTING, (Commit,), "", _D.STARTING, (), (Committed,)),
    Row(_D.STARTING, (GangClaim, Abort, ResultAck), "", _D.STARTING),
    Row(_D.STARTING, (Control,), "", _D.STARTING, (ControlTaken,), (ControlAck, Progress)),
    Row(_D.STARTING, ("summary",), "", _D.STARTING, (), (Progress,)),
    Row(_D.STARTING, (JobsEnded,), "some jobs", _D.STARTING, (RunsEnded,), (Result,)),
    Row(_D.STARTING, (JobsEnded,), "all jobs", _D.ENDED, (RunsEnded,), (Result,)),
    Row(_D.STARTING, (JobsEnded,), "unbegun", _D.STARTING, (RunsReturned, RunsStarted)),
    Row(_D.STARTING, (JobsEnded,), "unknown, rerun", _D.STARTING, (RunsRepeated, RunsStarted)),
    Row(_D.STARTING, (LrmReady,), "not claimed", _D.STARTING, (RunsVoided, RunsStarted)),
    Row(_D.ENDED, (Prepare,), "", _D.ENDED, (), (Prepared,)),
    Row(_D.ENDED, (Commit,), "", _D.ENDED, (), (Committed,)),
    Row(_D.ENDED, (GangClaim, Abort), "", _D.ENDED),
    Row(_D.ENDED, (Control,), "", _D.ENDED, (ControlTaken,), (ControlAck, Progress)),
    Row(_D.ENDED, ("result", PeerUp), "", _D.ENDED, (), (Result,)),
    Row(_D.ENDED, (ResultAck,), "", _D.DONE, (BatchAcked, CustodyClosed)),
    Row(_D.ENDED, (ResultAck,), "without outputs", _D.ENDED, (BatchAcked,)),
    Row(_D.DROPPED, (Prepare, GangClaim, Commit, Abort), "", _D.DROPPED, (), (Aborted,)),
    Row(_D.DROPPED, (Control,), "", _D.DROPPED, (), (ControlAck,)),
    Row(_D.DROPPED, (ResultAck,), "", _D.DROPPED),
    Row(_D.DROPPED, ("housekeeping",), "", _D.UNKNOWN, (TombstoneExpired,)),
    Row(_D.DONE, (Prepare, GangClaim, Commit), "", _D.DONE, (), (Committed,)),
    Row(_D.DONE, (Control,), "", _D.DONE, (), (ControlAck,)),
    Row(_D.DONE, (Abort, ResultAck), "", _D.DONE),
    Row(_D.DONE, ("housekeeping",), "", _D.UNKNOWN, (TombstoneExpired,)),
)

_HEAD = ("message", "when", "next state", "records", "replies")
_WIDTHS = (31, 16, 13, 29, 21)


def text(table: Sequence[Row]) -> str:
    """Return a table as aligned text: one block per state, with the message, its condition, the next state (`=`: the
    same), records and replies. A timer's name stands in parentheses."""
    lines: list[str] = []
    for side, rows in groupby(table, key=lambda row: row.side):
        lines += ["", f"{side.__name__.upper()}", *_cells(_HEAD)]
        for state, some in groupby(rows, key=lambda row: row.state):
            lines.append(f"  {state}")
            for row in some:
                on = ", ".join(f"({one})" if isinstance(one, str) else one.__name__ for one in row.on)
                to = "=" if row.to is row.state else row.to.value
                records, replies = (", ".join(kind.__name__ for kind in some) for some in (row.records, row.replies))
                lines += _cells((on, row.when, to, records, replies))
    return "\n".join(lines[1:])


def _cells(cells: tuple[str, ...]) -> list[str]:
    columns = [wrap(cell, width - 1) for cell, width in zip(cells, _WIDTHS, strict=True)]
    lines = zip_longest(*columns, fillvalue="")
    return [
        "    " + "".join(part.ljust(width) for part, width in zip(line, _WIDTHS, strict=True)).rstrip()
        for line in lines
    ]
