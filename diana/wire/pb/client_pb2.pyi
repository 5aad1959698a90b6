from diana.wire.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UploadedFile(_message.Message):
    __slots__ = ("path", "sha256", "size_bytes", "executable")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_FIELD_NUMBER: _ClassVar[int]
    path: str
    sha256: str
    size_bytes: int
    executable: bool
    def __init__(self, path: _Optional[str] = ..., sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., executable: _Optional[bool] = ...) -> None: ...

class Option(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("content", "format", "source_name", "key", "options", "files")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    format: str
    source_name: str
    key: str
    options: _containers.RepeatedCompositeFieldContainer[Option]
    files: _containers.RepeatedCompositeFieldContainer[UploadedFile]
    def __init__(self, content: _Optional[bytes] = ..., format: _Optional[str] = ..., source_name: _Optional[str] = ..., key: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[UploadedFile, _Mapping]]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("group", "jobs", "needs_files")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FILES_FIELD_NUMBER: _ClassVar[int]
    group: str
    jobs: int
    needs_files: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., jobs: _Optional[int] = ..., needs_files: _Optional[_Iterable[str]] = ...) -> None: ...

class UploadRequest(_message.Message):
    __slots__ = ("sha256", "data")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    data: bytes
    def __init__(self, sha256: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("groups", "mine", "active")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    mine: bool
    active: bool
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., mine: _Optional[bool] = ..., active: _Optional[bool] = ...) -> None: ...

class SiteShare(_message.Message):
    __slots__ = ("site", "jobs", "staging", "queued", "running", "done", "failed", "state", "age_s", "held", "level", "priority")
    SITE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    site: str
    jobs: int
    staging: int
    queued: int
    running: int
    done: int
    failed: int
    state: str
    age_s: float
    held: int
    level: str
    priority: float
    def __init__(self, site: _Optional[str] = ..., jobs: _Optional[int] = ..., staging: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., done: _Optional[int] = ..., failed: _Optional[int] = ..., state: _Optional[str] = ..., age_s: _Optional[float] = ..., held: _Optional[int] = ..., level: _Optional[str] = ..., priority: _Optional[float] = ...) -> None: ...

class GroupStatus(_message.Message):
    __slots__ = ("group", "name", "owner", "state", "jobs", "unplaced", "staging", "queued", "running", "done", "failed", "cancelled", "held", "unreachable", "gathering", "final", "submitted_wall_s", "age_s", "first_start_s", "last_end_s", "bytes_moved", "shares", "note", "durability", "level", "priority")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    GATHERING_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_WALL_S_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    FIRST_START_S_FIELD_NUMBER: _ClassVar[int]
    LAST_END_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_MOVED_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    group: str
    name: str
    owner: str
    state: str
    jobs: int
    unplaced: int
    staging: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    held: int
    unreachable: int
    gathering: int
    final: bool
    submitted_wall_s: float
    age_s: float
    first_start_s: float
    last_end_s: float
    bytes_moved: int
    shares: _containers.RepeatedCompositeFieldContainer[SiteShare]
    note: str
    durability: int
    level: str
    priority: float
    def __init__(self, group: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., state: _Optional[str] = ..., jobs: _Optional[int] = ..., unplaced: _Optional[int] = ..., staging: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., done: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., held: _Optional[int] = ..., unreachable: _Optional[int] = ..., gathering: _Optional[int] = ..., final: _Optional[bool] = ..., submitted_wall_s: _Optional[float] = ..., age_s: _Optional[float] = ..., first_start_s: _Optional[float] = ..., last_end_s: _Optional[float] = ..., bytes_moved: _Optional[int] = ..., shares: _Optional[_Iterable[_Union[SiteShare, _Mapping]]] = ..., note: _Optional[str] = ..., durability: _Optional[int] = ..., level: _Optional[str] = ..., priority: _Optional[float] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ...) -> None: ...

class WaitRequest(_message.Message):
    __slots__ = ("group", "timeout_s")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    group: str
    timeout_s: float
    def __init__(self, group: _Optional[str] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class ResultsRequest(_message.Message):
    __slots__ = ("group", "follow", "after")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    group: str
    follow: bool
    after: int
    def __init__(self, group: _Optional[str] = ..., follow: _Optional[bool] = ..., after: _Optional[int] = ...) -> None: ...

class ResultsChunk(_message.Message):
    __slots__ = ("chunk", "site", "indices", "attempts", "outcomes", "exit_codes", "started_s", "ended_s", "cpu_s", "max_rss_bytes", "outputs", "errors")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODES_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    chunk: int
    site: str
    indices: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    outcomes: _containers.RepeatedScalarFieldContainer[str]
    exit_codes: _containers.RepeatedScalarFieldContainer[int]
    started_s: _containers.RepeatedScalarFieldContainer[float]
    ended_s: _containers.RepeatedScalarFieldContainer[float]
    cpu_s: _containers.RepeatedScalarFieldContainer[float]
    max_rss_bytes: _containers.RepeatedScalarFieldContainer[int]
    outputs: _containers.RepeatedCompositeFieldContainer[_common_pb2.OutputFile]
    errors: _containers.RepeatedCompositeFieldContainer[_common_pb2.JobError]
    def __init__(self, chunk: _Optional[int] = ..., site: _Optional[str] = ..., indices: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[str]] = ..., exit_codes: _Optional[_Iterable[int]] = ..., started_s: _Optional[_Iterable[float]] = ..., ended_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., max_rss_bytes: _Optional[_Iterable[int]] = ..., outputs: _Optional[_Iterable[_Union[_common_pb2.OutputFile, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[_common_pb2.JobError, _Mapping]]] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "failed")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    job: str
    failed: bool
    def __init__(self, job: _Optional[str] = ..., failed: _Optional[bool] = ...) -> None: ...

class LogsChunk(_message.Message):
    __slots__ = ("job", "data", "truncated", "error")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    job: str
    data: bytes
    truncated: bool
    error: str
    def __init__(self, job: _Optional[str] = ..., data: _Optional[bytes] = ..., truncated: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("group", "pattern")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    group: str
    pattern: str
    def __init__(self, group: _Optional[str] = ..., pattern: _Optional[str] = ...) -> None: ...

class FetchChunk(_message.Message):
    __slots__ = ("name", "size_bytes", "data", "sha256", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    data: bytes
    sha256: str
    last: bool
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., data: _Optional[bytes] = ..., sha256: _Optional[str] = ..., last: _Optional[bool] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: str
    def __init__(self, target: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    def __init__(self, jobs: _Optional[int] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: str
    def __init__(self, target: _Optional[str] = ...) -> None: ...

class HoldResponse(_message.Message):
    __slots__ = ("jobs", "started")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    started: int
    def __init__(self, jobs: _Optional[int] = ..., started: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: str
    def __init__(self, target: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    def __init__(self, jobs: _Optional[int] = ...) -> None: ...

class RetryRequest(_message.Message):
    __slots__ = ("target", "held", "cancelled")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    target: str
    held: bool
    cancelled: bool
    def __init__(self, target: _Optional[str] = ..., held: _Optional[bool] = ..., cancelled: _Optional[bool] = ...) -> None: ...

class RetryResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    def __init__(self, jobs: _Optional[int] = ...) -> None: ...

class SiteCost(_message.Message):
    __slots__ = ("site", "rejected", "wait_s", "stage_in_s", "run_s", "stage_out_s", "network_s", "total_s", "bytes_in", "slots", "work_ahead_s", "rtt_s", "bytes_per_s", "age_s")
    SITE_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_IN_S_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_OUT_S_FIELD_NUMBER: _ClassVar[int]
    NETWORK_S_FIELD_NUMBER: _ClassVar[int]
    TOTAL_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WORK_AHEAD_S_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    site: str
    rejected: str
    wait_s: float
    stage_in_s: float
    run_s: float
    stage_out_s: float
    network_s: float
    total_s: float
    bytes_in: int
    slots: int
    work_ahead_s: float
    rtt_s: float
    bytes_per_s: float
    age_s: float
    def __init__(self, site: _Optional[str] = ..., rejected: _Optional[str] = ..., wait_s: _Optional[float] = ..., stage_in_s: _Optional[float] = ..., run_s: _Optional[float] = ..., stage_out_s: _Optional[float] = ..., network_s: _Optional[float] = ..., total_s: _Optional[float] = ..., bytes_in: _Optional[int] = ..., slots: _Optional[int] = ..., work_ahead_s: _Optional[float] = ..., rtt_s: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., age_s: _Optional[float] = ...) -> None: ...

class PlannedPart(_message.Message):
    __slots__ = ("site", "jobs", "bytes_in", "predicted_end_s")
    SITE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_END_S_FIELD_NUMBER: _ClassVar[int]
    site: str
    jobs: int
    bytes_in: int
    predicted_end_s: float
    def __init__(self, site: _Optional[str] = ..., jobs: _Optional[int] = ..., bytes_in: _Optional[int] = ..., predicted_end_s: _Optional[float] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("plan", "reason", "whole_s", "split_s", "candidates", "parts", "decided_at_s")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WHOLE_S_FIELD_NUMBER: _ClassVar[int]
    SPLIT_S_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    plan: str
    reason: str
    whole_s: float
    split_s: float
    candidates: _containers.RepeatedCompositeFieldContainer[SiteCost]
    parts: _containers.RepeatedCompositeFieldContainer[PlannedPart]
    decided_at_s: float
    def __init__(self, plan: _Optional[str] = ..., reason: _Optional[str] = ..., whole_s: _Optional[float] = ..., split_s: _Optional[float] = ..., candidates: _Optional[_Iterable[_Union[SiteCost, _Mapping]]] = ..., parts: _Optional[_Iterable[_Union[PlannedPart, _Mapping]]] = ..., decided_at_s: _Optional[float] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("decision", "needs_files")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FILES_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    needs_files: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., needs_files: _Optional[_Iterable[str]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("group", "decisions", "achieved_s", "waiting")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    ACHIEVED_S_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    group: str
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    achieved_s: float
    waiting: _containers.RepeatedCompositeFieldContainer[_common_pb2.Waiting]
    def __init__(self, group: _Optional[str] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., achieved_s: _Optional[float] = ..., waiting: _Optional[_Iterable[_Union[_common_pb2.Waiting, _Mapping]]] = ...) -> None: ...

class QueueReadRequest(_message.Message):
    __slots__ = ("site",)
    SITE_FIELD_NUMBER: _ClassVar[int]
    site: str
    def __init__(self, site: _Optional[str] = ...) -> None: ...

class Site(_message.Message):
    __slots__ = ("site", "home", "state", "age_s", "slots", "free_slots", "speed", "queued_jobs", "running_jobs", "work_ahead_s", "rtt_s", "bytes_per_s", "release", "datasets")
    SITE_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    WORK_AHEAD_S_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    site: str
    home: bool
    state: str
    age_s: float
    slots: int
    free_slots: int
    speed: float
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    rtt_s: float
    bytes_per_s: float
    release: str
    datasets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, site: _Optional[str] = ..., home: _Optional[bool] = ..., state: _Optional[str] = ..., age_s: _Optional[float] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., speed: _Optional[float] = ..., queued_jobs: _Optional[int] = ..., running_jobs: _Optional[int] = ..., work_ahead_s: _Optional[float] = ..., rtt_s: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., release: _Optional[str] = ..., datasets: _Optional[_Iterable[str]] = ...) -> None: ...

class SitesResponse(_message.Message):
    __slots__ = ("sites",)
    SITES_FIELD_NUMBER: _ClassVar[int]
    sites: _containers.RepeatedCompositeFieldContainer[Site]
    def __init__(self, sites: _Optional[_Iterable[_Union[Site, _Mapping]]] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "site", "files", "size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    files: int
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class DatasetsResponse(_message.Message):
    __slots__ = ("datasets",)
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    datasets: _containers.RepeatedCompositeFieldContainer[Dataset]
    def __init__(self, datasets: _Optional[_Iterable[_Union[Dataset, _Mapping]]] = ...) -> None: ...

class DatasetAddRequest(_message.Message):
    __slots__ = ("name", "paths")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    name: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class InfoResponse(_message.Message):
    __slots__ = ("site", "vo", "release", "data", "address", "db_uuid", "generation", "pid", "groups", "queued_jobs", "running_jobs", "principal", "role")
    SITE_FIELD_NUMBER: _ClassVar[int]
    VO_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DB_UUID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    site: str
    vo: str
    release: str
    data: str
    address: str
    db_uuid: str
    generation: int
    pid: int
    groups: int
    queued_jobs: int
    running_jobs: int
    principal: str
    role: str
    def __init__(self, site: _Optional[str] = ..., vo: _Optional[str] = ..., release: _Optional[str] = ..., data: _Optional[str] = ..., address: _Optional[str] = ..., db_uuid: _Optional[str] = ..., generation: _Optional[int] = ..., pid: _Optional[int] = ..., groups: _Optional[int] = ..., queued_jobs: _Optional[int] = ..., running_jobs: _Optional[int] = ..., principal: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "text", "retry_after_s")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    retry_after_s: float
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ..., retry_after_s: _Optional[float] = ...) -> None: ...
