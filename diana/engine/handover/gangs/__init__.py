"""Gangs: jobs whose components get processors at several sites and start together, or not at all (SPEC K5 to K7).

Each component is a transfer of the hand-over, and inert at its site until the commit. At the origin `attempts.py`
claims the processors of all components and lets all of them go by one record; `attempt_book.py` remembers the tries,
and `groups/gang_closing` ends what did not start whole. At a site `claims.py` holds the processors and lets a claim
lapse; `making_way.py` ends preemptible jobs for one. In come quotes that became a placement (`placement/gangs`),
reports and orders of the other side, and what machines say of their barriers; out go records, messages and orders to
machines. Read `attempts.py` first.

The table shows what each message does in each state of a gang, as the table of the hand-over does for a transfer; the
messages are those of one site, at which two of three components are. `table.py` holds it as data, and says what each
state means and what a node that starts anew takes it for.

ATTEMPT
    message                        when            next state   records                      replies
  WAITING
    Quote                          the last one    OFFERED      GroupPlaced                  Prepare, Prepare
    Prepared, GangClaimed                          =                                         Abort
    Result                                         =            ResultStale                  ResultAck
    GangYield, Refused, Committed,                 =
    Aborted, Lost, Progress,
    ControlAck
    HoldJobs                                       =            HoldingChanged
    CancelJobs                                     OVER         JobsCancelled
  OFFERED
    Prepared                       inputs to come  =
    Prepared                       not the last    =
    Prepared                       the last        CLAIMING                                  GangClaim, GangClaim
    (offer), PeerUp                                =                                         Prepare
    GangYield, Refused, Aborted,                   WAITING      TakenBack, TakenBack         Abort, Abort
    Lost, (offer-over)
    Aborted                        unable, thrice  OVER         TakenBack, TakenBack,        Abort, Abort
                                                                JobsFailed, JobsCancelled
    HoldJobs                                       WAITING      TakenBack, TakenBack,        Abort, Abort
                                                                HoldingChanged
    CancelJobs                                     OVER         TakenBack, TakenBack,        Abort, Abort
                                                                JobsCancelled
    GangClaimed, Committed,                        =
    Progress, Result, ControlAck
  CLAIMING
    GangClaimed                    not the last    HOLDING
    Prepared                                       =                                         GangClaim, GangClaim
    (claim)                                        =                                         GangClaim
    PeerUp                                         =                                         Prepare
    GangYield, Refused, Aborted,                   WAITING      TakenBack, TakenBack         Abort, Abort
    Lost, (claims-over)
    HoldJobs                                       WAITING      TakenBack, TakenBack,        Abort, Abort
                                                                HoldingChanged
    CancelJobs                                     OVER         TakenBack, TakenBack,        Abort, Abort
                                                                JobsCancelled
    Committed, Progress, Result,                   =
    ControlAck
  HOLDING
    GangClaimed                    the last        STARTED      GangGo                       Commit, Commit
    GangClaimed                    all look        MEETING                                   GangClaim, GangClaim
    Prepared, (claim)                              =                                         GangClaim
    PeerUp                                         =                                         Prepare
    GangYield, Refused, Aborted,                   WAITING      TakenBack, TakenBack         Abort, Abort
    Lost, (claims-over)
    HoldJobs                                       WAITING      TakenBack, TakenBack,        Abort, Abort
                                                                HoldingChanged
    CancelJobs                                     OVER         TakenBack, TakenBack,        Abort, Abort
                                                                JobsCancelled
    Committed, Progress, Result,                   =
    ControlAck
  MEETING
    GangClaimed                    not all meet    =
    GangClaimed                    all meet        STARTED      GangGo                       Commit, Commit
    GangClaimed                    out of reach    WAITING      TakenBack, TakenBack         Abort, Abort
    (claim)                                        =                                         GangClaim
    PeerUp                                         =                                         Prepare
    GangYield, Refused, Aborted,                   WAITING      TakenBack, TakenBack         Abort, Abort
    Lost, (claims-over)
    HoldJobs                                       WAITING      TakenBack, TakenBack,        Abort, Abort
                                                                HoldingChanged
    CancelJobs                                     OVER         TakenBack, TakenBack,        Abort, Abort
                                                                JobsCancelled
    Prepared, Committed, Progress,                 =
    Result, ControlAck
  STARTED
    Committed                                      =            CommitAcked
    Prepared, (commit), PeerUp                     =                                         Commit
    Aborted                                        CLOSING      TakenBack, ControlIssued,    Control
                                                                PartDisowned, JobsMoved
    Aborted                        taken           =
    Aborted                        other has ended OVER         TakenBack, JobsCancelled
    Lost                                           =            PartUnreachable
    PeerUp                         other database  =            PartUnreachable
    (lease)                        site is silent  CLOSING      ControlIssued, PartDisowned, Control
                                                                JobsMoved, PartClosed,
                                                                ControlIssued, PartDisowned,
                                                                JobsMoved
    Result                         not the last    =            ResultAccepted               ResultAck
    Result                         of the last     OVER         ResultAccepted               ResultAck
    Result                         fails           ENDING       ResultAccepted,              ResultAck, Control
                                                                ControlIssued
    Result                         gives back all  CLOSING      ResultAccepted,              ResultAck, Control
                                                                ControlIssued, PartDisowned,
                                                                JobsMoved
    CancelJobs                                     ENDING       ControlIssued, ControlIssued Control, Control
    HoldJobs                                       =            ControlIssued, ControlIssued Control, Control
    GangClaimed, GangYield,                        =
    Refused, Progress, ControlAck
  ENDING
    Result                         of the last     OVER         ResultAccepted               ResultAck
    Result                         gives back all  OVER         ResultAccepted,              ResultAck
                                                                JobsCancelled
    Aborted                        not taken       OVER         TakenBack, JobsCancelled
    Lost                                           =            PartUnreachable
    ControlAck                                     =            ControlAcked
    (control), PeerUp                              =                                         Control
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Progress
  CLOSING
    ControlAck, Aborted, Lost                      WAITING      PartDropped
    (lease)                        site is silent  WAITING      PartClosed                   Control
    (disown), PeerUp                               =                                         Control
    Prepared, GangClaimed                          =                                         Abort
    Result                                         =            ResultStale                  ResultAck
    HoldJobs                                       =            HoldingChanged
    CancelJobs                                     =            JobsCancelled
    GangYield, Refused, Committed,                 =
    Progress
  OVER
    Result                                         =                                         ResultAck
    Prepared, GangClaimed,                         =
    GangYield, Refused, Committed,
    Aborted, Lost, Progress,
    ControlAck

SITECLAIM
    message                        when            next state   records                      replies
  UNKNOWN
    Prepare                                        INERT        CustodyTaken                 Prepared
    GangClaim, Commit, Control                     =                                         Lost
    Abort, ResultAck, AtBarrier                    =
  INERT
    Prepare, (prepared), PeerUp                    =                                         Prepared
    GangClaim                                      TAKING       RunsStarted
    GangClaim                      no machine      ASKED
    GangClaim                      needs a lease   ASKED                                     Renew
    Commit, Abort                                  DROPPED      CustodyDropped               Aborted
    Control                        cancels         DROPPED      ControlTaken, CustodyDropped Aborted
    ResultAck                                      =
  ASKED
    Prepare, (prepared), PeerUp                    =                                         Prepared
    Renewed                                        TAKING       RunsStarted
    LrmReady                                       TAKING       RunsStarted
    Commit, Abort, (claim)                         DROPPED      CustodyDropped               Aborted
    Control                        cancels         DROPPED      ControlTaken, CustodyDropped Aborted
    (claim-waits)                  behind lesser   =                                         GangYield
    GangClaim, ResultAck, (claim-                  =
    waits)
  TAKING
    Prepare, (prepared), PeerUp                    =                                         Prepared
    AtBarrier                      the last        STANDING                                  GangClaimed
    AtBarrier                      not the last    =
    Commit                                         LET GO       CustodyRunnable              Committed
    Commit                         cancelled       LAPSING
    Abort                                          LAPSING
    Control                        cancels         LAPSING      ControlTaken
    JobsEnded                      one             LAPSING      RunsReturned
    JobsEnded, LrmReady            none is there   DROPPED      RunsReturned, CustodyDropped Aborted
    LrmLost                        a member        DROPPED      RunsReturned, CustodyDropped Aborted
    GangClaim, ResultAck,                          =
    LrmReady, LrmLost
  STANDING
    Prepare, (prepared), PeerUp                    =                                         Prepared
    GangClaim, AtBarrier, HostsMet                 =                                         GangClaimed
    GangClaim                      to meet         =
    Commit                                         LET GO       CustodyRunnable              Committed
    Commit                         other hosts     =
    Commit                         lease is over   =
    Commit                         other database  =                                         Lost
    Abort                                          LAPSING
    Control                        cancels         LAPSING      ControlTaken
    JobsEnded                      one             LAPSING      RunsReturned
    JobsEnded, LrmReady            none is there   DROPPED      RunsReturned, CustodyDropped Aborted
    LrmLost                        a member        DROPPED      RunsReturned, CustodyDropped Aborted
    ResultAck, LrmReady, LrmLost                   =
  LAPSING
    Prepare, (prepared), PeerUp                    =                                         Prepared
    JobsEnded                      one             =            RunsReturned
    JobsEnded, LrmReady            none is there   DROPPED      RunsReturned, CustodyDropped Aborted
    Control                        cancels         =            ControlTaken
    LrmLost                        a member        DROPPED      RunsReturned, CustodyDropped Aborted
    GangClaim, Commit, Abort,                      =
    ResultAck, AtBarrier,
    LrmReady, LrmLost
  LET GO
    Prepare                                        =                                         Prepared
    GangClaim, Commit                              =                                         Committed
    Control                        cancels         =            ControlTaken
    JobsEnded, LrmReady            none is there   =            RunsReturned, RunsEnded      Result
    Abort, ResultAck, AtBarrier,                   =
    LrmReady, LrmLost
  DROPPED
    Prepare, GangClaim, Commit,                    =                                         Aborted
    Abort
    Control                        cancels         =                                         ControlAck
    ResultAck, AtBarrier                           =
"""
