"""The hand-over: the protocol that gives part of a group to another site, such that each job has one owner and one
result, whatever is lost, repeated or crashes on the way. At the origin, `placement` brings an offer and users' orders;
at the destination, orders of the origin come in (`destination.py`), inputs are brought and runs that ended become
batches of results. Out go records of both sides, messages to the other side, orders to machines, and accepted results
(`results.py`). The origin arbitrates: the other side's copy is inert until the commit is durable at the origin. Read
`origin.py` first, then `destination.py` and `execution.py`; `leases.py` places work of a silent site anew.

A transfer is one placement of part of a group, named by (subgroup, epoch). The table shows, for each side and state,
the message that comes in, the state that follows (`=`: the same one), the records persisted, and the messages sent to
the other side. A name in parentheses is a timer's. `table.py` holds the table as data and says what each state means;
a test drives an engine through each row.

ORIGIN
    message                        when            next state   records                      replies
  UNPLACED
    SubmitGroup                    home only       LOCAL        GroupPlaced, RunsStarted
    Quote                          the last one    OFFERED      GroupPlaced                  Prepare
  LOCAL
    JobsEnded                      all             FINISHED     RunsEnded, ResultAccepted,
                                                                CustodyClosed
    CancelJobs, HoldJobs                           =            ControlIssued, ControlTaken
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Lost, Progress,
    Result, ControlAck
  OFFERED
    Prepared                                       COMMITTED    TransferCommitted            Commit
    Refused, Aborted, Lost                         PAST         TakenBack
    GangClaimed, GangYield,                        =
    Committed, Progress, Result,
    ControlAck
    (offer), PeerUp                                =                                         Prepare
    (offer-over)                                   PAST         TakenBack                    Abort
    CancelJobs                                     PAST         TakenBack, JobsCancelled     Abort
    HoldJobs                                       PAST         TakenBack, HoldingChanged    Abort
    MoveJobs                                       PAST         JobsMoved, TakenBack         Abort
  COMMITTED
    Committed                                      TAKEN        CommitAcked
    Prepared, (commit), PeerUp                     =                                         Commit
    Aborted                                        PAST         TakenBack
    Aborted                        other database  =
    Lost                                           UNREACHABLE  PartUnreachable
    Result                         some jobs       TAKEN        ResultAccepted               ResultAck
    GangClaimed, GangYield,                        =
    Refused, Progress, ControlAck
  TAKEN
    Result                         some jobs       =            ResultAccepted               ResultAck
    Result                         all jobs        FINISHED     ResultAccepted               ResultAck
    Result                         told before     =                                         ResultAck
    Result                         other jobs      =
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Progress, ControlAck
    Lost                                           UNREACHABLE  PartUnreachable
    PeerUp                         other database  UNREACHABLE  PartUnreachable
    CancelJobs, HoldJobs                           ORDERED      ControlIssued                Control
    MoveJobs                                       ORDERED      JobsMoved, ControlIssued     Control
    Renew                                          =                                         Renewed
    (lease)                        site is silent  DISOWNED     ControlIssued, PartDisowned,
                                                                JobsMoved
  ORDERED
    ControlAck                                     TAKEN        ControlAcked
    (control), PeerUp                              =                                         Control
    ReleaseJobs                    after a hold    =            ControlIssued                Control
    Result                         some jobs       =            ResultAccepted               ResultAck
    Result                         all jobs        FINISHED     ResultAccepted               ResultAck
    Result                         gives back all  PAST         ResultAccepted               ResultAck
    Lost                                           UNREACHABLE  PartUnreachable
    Renew                                          =                                         Renewed
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Progress
  UNREACHABLE
    Result                         some jobs       =            ResultAccepted               ResultAck
    Result                         all jobs        FINISHED     ResultAccepted               ResultAck
    CancelJobs                                     =            ControlIssued                Control
    Renew                                          =
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Lost, Progress,
    ControlAck
  DISOWNED
    ControlAck, Lost, Aborted                      PAST         PartDropped
    (disown), PeerUp, Renew                        =                                         Control
    Prepared, GangClaimed                          =                                         Abort
    Result                                         =            ResultStale                  ResultAck
    GangYield, Refused, Committed,                 =
    Progress
  FINISHED
    Result                         told before     =                                         ResultAck
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Lost, Progress,
    ControlAck
  PAST
    Prepared, GangClaimed                          =                                         Abort
    Result                                         =            ResultStale                  ResultAck
    Result                         told before     =                                         ResultAck
    GangYield, Refused, Committed,                 =
    Aborted, Lost, Progress,
    ControlAck

DESTINATION
    message                        when            next state   records                      replies
  UNKNOWN
    Prepare                                        PREPARED     CustodyTaken                 Prepared
    Prepare                        not acceptable  =                                         Refused
    GangClaim, Commit, Control                     =                                         Lost
    Abort, ResultAck                               =
  PREPARED
    Prepare, (prepared), PeerUp                    =                                         Prepared
    Prepare                        other work      =                                         Refused
    Commit                                         STARTING     CustodyRunnable, RunsStarted Committed
    Commit                         no machine      RUNNABLE     CustodyRunnable              Committed
    Commit                         needs a lease   RUNNABLE     CustodyRunnable              Renew, Committed
    Commit                         other database  =                                         Lost
    GangClaim                                      =
    Abort                                          DROPPED      CustodyDropped               Aborted
    Control                                        =            ControlTaken                 ControlAck
    ResultAck                                      =
  RUNNABLE
    Prepare                                        =                                         Prepared
    Commit                                         =                                         Committed
    GangClaim, Abort, ResultAck                    =
    Control                        holds           =            ControlTaken                 ControlAck, Progress
    Control                        obeyed before   =                                         ControlAck, Progress
    Control                        cancels all     ENDED        ControlTaken, RunsEnded      Result, ControlAck,
                                                                                             Progress
    Control                        recalls all     ENDED        ControlTaken, RunsEnded      Result, ControlAck,
                                                                                             Progress
    LrmReady                                       STARTING     RunsStarted
    StageDone                                      STARTING     RunsStarted
    Renewed                                        STARTING     RunsStarted
  STARTING
    Prepare                                        =                                         Prepared
    Commit                                         =                                         Committed
    GangClaim, Abort, ResultAck                    =
    Control                                        =            ControlTaken                 ControlAck, Progress
    (summary)                                      =                                         Progress
    JobsEnded                      some jobs       =            RunsEnded                    Result
    JobsEnded                      all jobs        ENDED        RunsEnded                    Result
    JobsEnded                      unbegun         =            RunsReturned, RunsStarted
    JobsEnded                      unknown, rerun  =            RunsRepeated, RunsStarted
    LrmReady                       not claimed     =            RunsVoided, RunsStarted
  ENDED
    Prepare                                        =                                         Prepared
    Commit                                         =                                         Committed
    GangClaim, Abort                               =
    Control                                        =            ControlTaken                 ControlAck, Progress
    (result), PeerUp                               =                                         Result
    ResultAck                                      DONE         BatchAcked, CustodyClosed
    ResultAck                      without outputs =            BatchAcked
  DROPPED
    Prepare, GangClaim, Commit,                    =                                         Aborted
    Abort
    Control                                        =                                         ControlAck
    ResultAck                                      =
    (housekeeping)                                 UNKNOWN      TombstoneExpired
  DONE
    Prepare, GangClaim, Commit                     =                                         Committed
    Control                                        =                                         ControlAck
    Abort, ResultAck                               =
    (housekeeping)                                 UNKNOWN      TombstoneExpired
"""
