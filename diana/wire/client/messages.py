"""Requests and responses of the client service (`proto/diana/v1/client.proto`), as values whose JSON is the
proto3 JSON mapping: camelCase keys, bytes as base64. Imports neither grpc nor protobuf, so the CLI stays fast.

`METHODS` lists every call: its request, its response, and which of the two is a stream.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from diana.model.views.contract import JobContract
from diana.model.views.gang import GangRun, GangWait
from diana.model.views.group import GroupStatus, PartOutcome
from diana.model.views.link import LinkMap
from diana.model.views.queue import QueueView, Waiting
from diana.wire.client.base import Message
from diana.wire.client.control import (
    CancelHeldRequest,
    CancelHeldResponse,
    CancelRequest,
    CancelResponse,
    DropRequest,
    DropResponse,
    HoldRequest,
    HoldResponse,
    MoveRequest,
    MoveResponse,
    ReleaseRequest,
    ReleaseResponse,
    RetryRequest,
    RetryResponse,
)
from diana.wire.client.dashboard import ActivityRequest, ActivityResponse, DashboardRequest, DashboardResponse
from diana.wire.client.datasets import (
    DatasetAddRequest,
    DatasetChunk,
    DatasetProgress,
    DatasetRequest,
    DatasetsResponse,
)
from diana.wire.client.decisions import Decision
from diana.wire.client.enrol import InviteRequest, InviteResponse
from diana.wire.client.history import HistoryChunk, HistoryRequest
from diana.wire.client.links import LinksRequest
from diana.wire.client.operators import LedgerResponse, OperateRequest, OperateResponse
from diana.wire.client.peers import (
    DoctorResponse,
    MetricsResponse,
    PeersResponse,
)
from diana.wire.client.permits import Permit, ToSign
from diana.wire.client.queues import QueueReadRequest
from diana.wire.client.sites import SitesResponse


class UploadedFile(Message, frozen=True):
    """A local file a job file names, by the path written there and the blob that now holds it."""

    path: str
    sha256: str
    size_bytes: int = 0
    executable: bool = False


class Option(Message, frozen=True):
    """A command-line option that overrides the job file: name, array, max_parallel, sites, not_sites, on_crash, ..."""

    name: str
    value: str


class SubmitRequest(Message, frozen=True):
    content: bytes
    """The job file as the user wrote it."""
    format: str = "toml"
    """toml, yaml, json or script."""
    source_name: str = ""
    """Name of the job file in error lines."""
    key: str = ""
    options: tuple[Option, ...] = ()
    files: tuple[UploadedFile, ...] = ()
    signs: bool = False
    """True if the caller has a key and wants to sign: without `permits` the answer is `to_sign`."""
    permits: tuple[Permit, ...] = ()
    """Permits, one per group, in the order of the job file."""
    submitted_in: str = ""
    """The folder where the author was, for words to the author; empty: not known."""
    tells_refused: bool = False
    """True if the caller of a plan reads a decision that says `refused`; else such a plan is an error."""


class SubmittedGroup(Message, frozen=True):
    group: str
    name: str = ""
    jobs: int = 0
    after: tuple[str, ...] = ()
    """Groups it waits for."""
    at_most: bool = False
    """True if its jobs are components of flexible gangs: `jobs` is the most that they may be divided into."""


class SubmitResponse(Message, frozen=True):
    group: str = ""
    """Id of the first of `groups`."""
    jobs: int = 0
    """Number of jobs of all groups."""
    needs_files: tuple[str, ...] = ()
    """Local paths, as the job file writes them, to upload. Nothing is submitted yet: submit again with `files`."""
    groups: tuple[SubmittedGroup, ...] = ()
    """Groups in the order of the job file."""
    to_sign: tuple[ToSign, ...] = ()
    """Texts to sign. Nothing is submitted yet: submit again with `permits`."""
    notes: tuple[str, ...] = ()
    """Notes to the author of the job file, a line each."""


class UploadRequest(Message, frozen=True):
    """One message of an upload, which is a stream; the first has `sha256`. Answered once, with an empty response, when
    the content is verified and durable."""

    sha256: str = ""
    data: bytes = b""


class Empty(Message, frozen=True):
    pass


class GroupRequest(Message, frozen=True):
    group: str


class StatusRequest(Message, frozen=True):
    groups: tuple[str, ...] = ()
    """Groups asked for; empty: all the caller may see."""
    mine: bool = False
    active: bool = False
    """True: only groups that are not final."""
    limit: int = 0
    """Most groups in the answer: open ones before ended ones, newest first. 0: as many as an answer holds."""


class StatusResponse(Message, frozen=True):
    groups: tuple[GroupStatus, ...] = ()
    left_out: int = 0
    """Number of groups that were asked for and are left out."""


class WaitRequest(Message, frozen=True):
    group: str
    timeout_s: float = 0.0
    """Seconds to wait; 0: for ever."""


class ResultsRequest(Message, frozen=True):
    """Request for results. The answer is a stream of chunks as they arrive; it ends when the group is final (or at
    once, without `follow`). With `outcome` it comes page by page in order of the jobs' indices; a page's chunks share
    one number, and those of one site stand together."""

    group: str
    follow: bool = False
    after: int = 0
    """Number of chunks to skip; without `outcome`."""
    outcome: str = ""
    """Ending of the jobs wanted: done, failed, cancelled or held as the group's status counts them, or ended for all of
    these. Jobs that never ran have no site and no attempt."""
    first: int = 0
    """With `outcome`: index of the first job wanted."""
    most: int = 0
    """With `outcome`: most jobs wanted; 0: all."""


class OutputFile(Message, frozen=True):
    index: int
    name: str
    size_bytes: int = 0
    sha256: str = ""


class JobError(Message, frozen=True):
    index: int
    text: str


class ResultsChunk(Message, frozen=True):
    """Columns: entry k of each belongs to job `indices[k]`. `outcomes` are names: DONE, FAILED,
    ..., which clients give to their users in lower case."""

    chunk: int = 0
    site: str = ""
    indices: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    started_s: tuple[float, ...] = ()
    ended_s: tuple[float, ...] = ()
    cpu_s: tuple[float, ...] = ()
    max_rss_bytes: tuple[int, ...] = ()
    outputs: tuple[OutputFile, ...] = ()
    errors: tuple[JobError, ...] = ()
    chosen: bool = False
    signals: tuple[int, ...] = ()
    """Signal that ended each job's process, such as 9; 0: none did, or nobody knows. Empty: of all of them."""


class LogsRequest(Message, frozen=True):
    job: str
    """Id of a job, `alpha-12.3`, or of a group, for the logs of all its jobs in order of their index."""
    failed: bool = False
    follow: bool = False
    """True: a job's log as it is written, until the job has ended; a group's logs, each job's when it has ended, until
    the group is final."""
    tail: int = 0
    """Only so many lines, the last ones; 0: all."""
    start: int = 0
    """Goes on where an earlier answer ended: its `next` and `attempt`."""
    attempt: int = 0
    merge: bool = False
    """True, for a group: its merge command's own log instead. A node of an older release passes it over."""


class LogsChunk(Message, frozen=True):
    job: str
    data: bytes = b""
    truncated: bool = False
    """True if the job wrote more than was kept."""
    error: str = ""
    """Fault of this job or its log; one line."""
    unreachable: bool = False
    """True if there is a log, or will be, that cannot be had now; `error` says why."""
    next: int = 0
    """With `follow`: where to go on."""
    attempt: int = 0
    """The job's attempt whose log this is."""
    running: bool = False
    """True if the job runs: there may be more later."""
    note: str = ""
    """With `follow`: what is waited for; one line."""


class FetchRequest(Message, frozen=True):
    group: str
    pattern: str = ""
    """Shell pattern over output names; empty: all."""
    follow: bool = False
    """True: send each output as soon as it was gathered, until the group is final."""
    skip: str = ""
    """Jobs whose outputs the caller has already, as `0-7,12`; with `follow`."""


class FetchChunk(Message, frozen=True):
    name: str
    size_bytes: int = 0
    data: bytes = b""
    sha256: str = ""
    """SHA-256 of the file, with its last chunk."""
    last: bool = False


class PlannedGroup(Message, frozen=True):
    name: str = ""
    jobs: int = 0
    decision: Decision | None = None
    waits_for: tuple[str, ...] = ()


class PlanResponse(Message, frozen=True):
    decision: Decision | None = None
    needs_files: tuple[str, ...] = ()
    groups: tuple[PlannedGroup, ...] = ()
    notes: tuple[str, ...] = ()


class JobStory(Message, frozen=True):
    """The stand of one job, and how it ended."""

    job: str
    state: str
    """waiting, held, given (its site does not say more), queued, running; or its outcome, such as DONE,
    which clients give to their users in lower case."""
    site: str = ""
    """Empty: it was given to none."""
    attempt: int = 0
    note: str = ""
    """Why it waits, or the error it ended with."""
    exit_code: int = 0
    started_s: float = 0.0
    ended_s: float = 0.0
    """`started_s` and `ended_s` by the clock of its site."""
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    signal: int = 0
    """Signal that ended its process, such as 9; 0: none did, or nobody knows."""
    runs_for_s: float = 0.0
    """Seconds since it began, while it runs; 0: its site does not say."""


class ExplainResponse(Message, frozen=True):
    group: str = ""
    decisions: tuple[Decision, ...] = ()
    achieved_s: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    outcomes: tuple[PartOutcome, ...] = ()
    predicted_s: float = 0.0
    stays: tuple[str, ...] = ()
    predicted_low_s: float = 0.0
    predicted_high_s: float = 0.0
    placed_s: float = 0.0
    gangs: tuple[GangWait, ...] = ()
    contracts: tuple[JobContract, ...] = ()
    job: JobStory | None = None
    """Where a job was asked about: `decisions` has the one that placed it last."""
    ways: tuple[str, ...] = ()
    """Who made way for whom: jobs of the group for gangs, and others for its gangs, the latest last."""
    exchanges: tuple[str, ...] = ()
    """Processes of its running gangs that were exchanged for spares, and why; or why none was."""
    begun: tuple[GangRun, ...] = ()
    """Gangs that were let go: those that run, then the latest that are over, not all of many."""
    refused: Decision | None = None
    """The last look for a place for its jobs that wait, which found none: each site against each of its conditions."""


class InfoResponse(Message, frozen=True):
    site: str
    vo: str = ""
    release: str = ""
    data: str = ""
    address: str = ""
    db_uuid: str = ""
    generation: int = 0
    pid: int = 0
    groups: int = 0
    queued_jobs: int = 0
    running_jobs: int = 0
    principal: str = ""
    """The principal the node takes the caller for."""
    role: str = ""
    machine: str = ""
    """Name of the machine within its site."""
    durability: int = 0
    """Disks that hold what is acknowledged: 2 with a standby in sync, 0 where this machine does not lead."""
    standing: str = ""
    """Role of the machine at its site, where two keep the journal."""


class PromoteRequest(Message, frozen=True):
    """Order to the leader: hand over to the standby. With `force`, to the standby: lead, because the other is dead for
    good. With `remove`, to the leader: count on no standby any more."""

    force: bool = False
    remove: bool = False


class PromoteResponse(Message, frozen=True):
    text: str


class Failure(Message, frozen=True):
    """Failure of a call, sent in place of a response. `code` as in `errors.py`."""

    code: str
    text: str
    retry_after_s: float = 0.0


class Method(NamedTuple):
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    streams_in: bool = False
    streams_out: bool = False


METHODS: dict[str, Method] = {
    "Submit": Method(SubmitRequest, SubmitResponse),
    "Plan": Method(SubmitRequest, PlanResponse),
    "Upload": Method(UploadRequest, Empty, streams_in=True),
    "Status": Method(StatusRequest, StatusResponse),
    "Wait": Method(WaitRequest, GroupStatus, streams_out=True),
    "Results": Method(ResultsRequest, ResultsChunk, streams_out=True),
    "Logs": Method(LogsRequest, LogsChunk, streams_out=True),
    "Fetch": Method(FetchRequest, FetchChunk, streams_out=True),
    "History": Method(HistoryRequest, HistoryChunk, streams_out=True),
    "Cancel": Method(CancelRequest, CancelResponse),
    "CancelHeld": Method(CancelHeldRequest, CancelHeldResponse),
    "Hold": Method(HoldRequest, HoldResponse),
    "Move": Method(MoveRequest, MoveResponse),
    "Release": Method(ReleaseRequest, ReleaseResponse),
    "Retry": Method(RetryRequest, RetryResponse),
    "Drop": Method(DropRequest, DropResponse),
    "Explain": Method(GroupRequest, ExplainResponse),
    "Queue": Method(QueueReadRequest, QueueView),
    "Links": Method(LinksRequest, LinkMap),
    "Sites": Method(Empty, SitesResponse),
    "AllSites": Method(Empty, SitesResponse, streams_out=True),
    "Datasets": Method(Empty, DatasetsResponse),
    "AllDatasets": Method(Empty, DatasetsResponse, streams_out=True),
    "ShowDataset": Method(DatasetRequest, DatasetChunk, streams_out=True),
    "AddDataset": Method(DatasetAddRequest, DatasetProgress, streams_out=True),
    "VerifyDataset": Method(DatasetRequest, DatasetProgress, streams_out=True),
    "RemoveDataset": Method(DatasetRequest, DatasetsResponse),
    "Info": Method(Empty, InfoResponse),
    "Promote": Method(PromoteRequest, PromoteResponse),
    "Stop": Method(Empty, Empty),
    "Invite": Method(InviteRequest, InviteResponse),
    "Operate": Method(OperateRequest, OperateResponse),
    "Ledger": Method(Empty, LedgerResponse),
    "Peers": Method(Empty, PeersResponse),
    "AllPeers": Method(Empty, PeersResponse, streams_out=True),
    "Doctor": Method(Empty, DoctorResponse),
    "Dashboard": Method(DashboardRequest, DashboardResponse),
    "Activity": Method(ActivityRequest, ActivityResponse),
    "Metrics": Method(Empty, MetricsResponse),
}
"""The whole client service. Local socket framing: a 4-byte big-endian length, then a JSON object.

Client to node: {"method": NAME, "request": {...}}; a streamed request sends further {"request": {...}} frames and
ends with {"end": true}. Node to client: {"response": {...}} (any number when streamed), then {"end": true} for a
streamed response; or {"failure": {...}} which ends the call. One call per connection at a time, many in turn.
"""

MAX_FRAME_BYTES = 4 << 20
