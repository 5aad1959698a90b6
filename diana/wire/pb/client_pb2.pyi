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
    __slots__ = ("content", "format", "source_name", "key", "options", "files", "signs", "permits", "submitted_in", "tells_refused")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIGNS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_IN_FIELD_NUMBER: _ClassVar[int]
    TELLS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    format: str
    source_name: str
    key: str
    options: _containers.RepeatedCompositeFieldContainer[Option]
    files: _containers.RepeatedCompositeFieldContainer[UploadedFile]
    signs: bool
    permits: _containers.RepeatedCompositeFieldContainer[Permit]
    submitted_in: str
    tells_refused: bool
    def __init__(self, content: _Optional[bytes] = ..., format: _Optional[str] = ..., source_name: _Optional[str] = ..., key: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[UploadedFile, _Mapping]]] = ..., signs: _Optional[bool] = ..., permits: _Optional[_Iterable[_Union[Permit, _Mapping]]] = ..., submitted_in: _Optional[str] = ..., tells_refused: _Optional[bool] = ...) -> None: ...

class Permit(_message.Message):
    __slots__ = ("spec_sha256", "submission", "audience", "signed_wall_s", "expires_wall_s", "certificate", "signature")
    SPEC_SHA256_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_WALL_S_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_WALL_S_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    spec_sha256: str
    submission: str
    audience: str
    signed_wall_s: float
    expires_wall_s: float
    certificate: bytes
    signature: bytes
    def __init__(self, spec_sha256: _Optional[str] = ..., submission: _Optional[str] = ..., audience: _Optional[str] = ..., signed_wall_s: _Optional[float] = ..., expires_wall_s: _Optional[float] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ToSign(_message.Message):
    __slots__ = ("spec", "submission", "owner", "audience")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    spec: bytes
    submission: str
    owner: str
    audience: str
    def __init__(self, spec: _Optional[bytes] = ..., submission: _Optional[str] = ..., owner: _Optional[str] = ..., audience: _Optional[str] = ...) -> None: ...

class SubmittedGroup(_message.Message):
    __slots__ = ("group", "name", "jobs", "after", "at_most")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    group: str
    name: str
    jobs: int
    after: _containers.RepeatedScalarFieldContainer[str]
    at_most: bool
    def __init__(self, group: _Optional[str] = ..., name: _Optional[str] = ..., jobs: _Optional[int] = ..., after: _Optional[_Iterable[str]] = ..., at_most: _Optional[bool] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("group", "jobs", "needs_files", "groups", "to_sign", "notes")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FILES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TO_SIGN_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    group: str
    jobs: int
    needs_files: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedCompositeFieldContainer[SubmittedGroup]
    to_sign: _containers.RepeatedCompositeFieldContainer[ToSign]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., jobs: _Optional[int] = ..., needs_files: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[_Union[SubmittedGroup, _Mapping]]] = ..., to_sign: _Optional[_Iterable[_Union[ToSign, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

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
    __slots__ = ("groups", "mine", "active", "limit")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    mine: bool
    active: bool
    limit: int
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., mine: _Optional[bool] = ..., active: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("group", "name", "owner", "state", "jobs", "unplaced", "staging", "queued", "running", "done", "failed", "cancelled", "held", "unreachable", "gathering", "final", "submitted_wall_s", "age_s", "first_start_s", "last_end_s", "bytes_moved", "shares", "note", "durability", "level", "priority", "after", "dataset", "expected_end_s", "expected_low_s", "expected_high_s", "components", "gangs", "gangs_waiting", "gangs_running", "notices")
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
    AFTER_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_S_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LOW_S_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    GANGS_FIELD_NUMBER: _ClassVar[int]
    GANGS_WAITING_FIELD_NUMBER: _ClassVar[int]
    GANGS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
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
    after: _containers.RepeatedScalarFieldContainer[str]
    dataset: str
    expected_end_s: float
    expected_low_s: float
    expected_high_s: float
    components: int
    gangs: int
    gangs_waiting: int
    gangs_running: int
    notices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., state: _Optional[str] = ..., jobs: _Optional[int] = ..., unplaced: _Optional[int] = ..., staging: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., done: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., held: _Optional[int] = ..., unreachable: _Optional[int] = ..., gathering: _Optional[int] = ..., final: _Optional[bool] = ..., submitted_wall_s: _Optional[float] = ..., age_s: _Optional[float] = ..., first_start_s: _Optional[float] = ..., last_end_s: _Optional[float] = ..., bytes_moved: _Optional[int] = ..., shares: _Optional[_Iterable[_Union[SiteShare, _Mapping]]] = ..., note: _Optional[str] = ..., durability: _Optional[int] = ..., level: _Optional[str] = ..., priority: _Optional[float] = ..., after: _Optional[_Iterable[str]] = ..., dataset: _Optional[str] = ..., expected_end_s: _Optional[float] = ..., expected_low_s: _Optional[float] = ..., expected_high_s: _Optional[float] = ..., components: _Optional[int] = ..., gangs: _Optional[int] = ..., gangs_waiting: _Optional[int] = ..., gangs_running: _Optional[int] = ..., notices: _Optional[_Iterable[str]] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("groups", "left_out")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    left_out: int
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class WaitRequest(_message.Message):
    __slots__ = ("group", "timeout_s")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    group: str
    timeout_s: float
    def __init__(self, group: _Optional[str] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class ResultsRequest(_message.Message):
    __slots__ = ("group", "follow", "after", "outcome", "first", "most")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    group: str
    follow: bool
    after: int
    outcome: str
    first: int
    most: int
    def __init__(self, group: _Optional[str] = ..., follow: _Optional[bool] = ..., after: _Optional[int] = ..., outcome: _Optional[str] = ..., first: _Optional[int] = ..., most: _Optional[int] = ...) -> None: ...

class ResultsChunk(_message.Message):
    __slots__ = ("chunk", "site", "indices", "attempts", "outcomes", "exit_codes", "started_s", "ended_s", "cpu_s", "max_rss_bytes", "outputs", "errors", "chosen", "signals")
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
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
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
    chosen: bool
    signals: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, chunk: _Optional[int] = ..., site: _Optional[str] = ..., indices: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[str]] = ..., exit_codes: _Optional[_Iterable[int]] = ..., started_s: _Optional[_Iterable[float]] = ..., ended_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., max_rss_bytes: _Optional[_Iterable[int]] = ..., outputs: _Optional[_Iterable[_Union[_common_pb2.OutputFile, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[_common_pb2.JobError, _Mapping]]] = ..., chosen: _Optional[bool] = ..., signals: _Optional[_Iterable[int]] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "failed", "follow", "tail", "start", "attempt", "merge")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    job: str
    failed: bool
    follow: bool
    tail: int
    start: int
    attempt: int
    merge: bool
    def __init__(self, job: _Optional[str] = ..., failed: _Optional[bool] = ..., follow: _Optional[bool] = ..., tail: _Optional[int] = ..., start: _Optional[int] = ..., attempt: _Optional[int] = ..., merge: _Optional[bool] = ...) -> None: ...

class LogsChunk(_message.Message):
    __slots__ = ("job", "data", "truncated", "error", "unreachable", "next", "attempt", "running", "note")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    job: str
    data: bytes
    truncated: bool
    error: str
    unreachable: bool
    next: int
    attempt: int
    running: bool
    note: str
    def __init__(self, job: _Optional[str] = ..., data: _Optional[bytes] = ..., truncated: _Optional[bool] = ..., error: _Optional[str] = ..., unreachable: _Optional[bool] = ..., next: _Optional[int] = ..., attempt: _Optional[int] = ..., running: _Optional[bool] = ..., note: _Optional[str] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("group", "pattern", "follow", "skip")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    group: str
    pattern: str
    follow: bool
    skip: str
    def __init__(self, group: _Optional[str] = ..., pattern: _Optional[str] = ..., follow: _Optional[bool] = ..., skip: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("target", "dependents")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DEPENDENTS_FIELD_NUMBER: _ClassVar[int]
    target: str
    dependents: bool
    def __init__(self, target: _Optional[str] = ..., dependents: _Optional[bool] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    def __init__(self, jobs: _Optional[int] = ...) -> None: ...

class CancelHeldRequest(_message.Message):
    __slots__ = ("target", "release")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    target: str
    release: bool
    def __init__(self, target: _Optional[str] = ..., release: _Optional[bool] = ...) -> None: ...

class CancelHeldResponse(_message.Message):
    __slots__ = ("indices", "unsure")
    INDICES_FIELD_NUMBER: _ClassVar[int]
    UNSURE_FIELD_NUMBER: _ClassVar[int]
    indices: str
    unsure: int
    def __init__(self, indices: _Optional[str] = ..., unsure: _Optional[int] = ...) -> None: ...

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

class MoveRequest(_message.Message):
    __slots__ = ("target", "to")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    target: str
    to: str
    def __init__(self, target: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class MoveResponse(_message.Message):
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
    __slots__ = ("target", "held", "cancelled", "unreachable", "memory")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    target: str
    held: bool
    cancelled: bool
    unreachable: bool
    memory: str
    def __init__(self, target: _Optional[str] = ..., held: _Optional[bool] = ..., cancelled: _Optional[bool] = ..., unreachable: _Optional[bool] = ..., memory: _Optional[str] = ...) -> None: ...

class RetryResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    def __init__(self, jobs: _Optional[int] = ...) -> None: ...

class DropRequest(_message.Message):
    __slots__ = ("groups", "outputs", "each")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    EACH_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    outputs: bool
    each: bool
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., outputs: _Optional[bool] = ..., each: _Optional[bool] = ...) -> None: ...

class DropResponse(_message.Message):
    __slots__ = ("groups", "left")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    left: _containers.RepeatedCompositeFieldContainer[GroupLeft]
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., left: _Optional[_Iterable[_Union[GroupLeft, _Mapping]]] = ...) -> None: ...

class GroupLeft(_message.Message):
    __slots__ = ("group", "why")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    group: str
    why: str
    def __init__(self, group: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class SiteCost(_message.Message):
    __slots__ = ("site", "rejected", "wait_s", "stage_in_s", "run_s", "stage_out_s", "network_s", "total_s", "bytes_in", "slots", "work_ahead_s", "rtt_s", "bytes_per_s", "age_s", "wait_low_s", "wait_high_s", "stage_in_low_s", "stage_in_high_s", "run_low_s", "run_high_s", "total_low_s", "total_high_s", "bytes_out", "max_jobs", "runs_seen", "run_from", "jobs_ahead", "queued_jobs", "busy_fraction", "loss", "network", "computation", "transfer", "cost", "near_miss", "failed", "rank", "model_s")
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
    WAIT_LOW_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_IN_LOW_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_IN_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    RUN_LOW_S_FIELD_NUMBER: _ClassVar[int]
    RUN_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LOW_S_FIELD_NUMBER: _ClassVar[int]
    TOTAL_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNS_SEEN_FIELD_NUMBER: _ClassVar[int]
    RUN_FROM_FIELD_NUMBER: _ClassVar[int]
    JOBS_AHEAD_FIELD_NUMBER: _ClassVar[int]
    QUEUED_JOBS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FRACTION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    NEAR_MISS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    MODEL_S_FIELD_NUMBER: _ClassVar[int]
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
    wait_low_s: float
    wait_high_s: float
    stage_in_low_s: float
    stage_in_high_s: float
    run_low_s: float
    run_high_s: float
    total_low_s: float
    total_high_s: float
    bytes_out: int
    max_jobs: int
    runs_seen: int
    run_from: str
    jobs_ahead: int
    queued_jobs: int
    busy_fraction: float
    loss: float
    network: float
    computation: float
    transfer: float
    cost: float
    near_miss: str
    failed: _containers.RepeatedCompositeFieldContainer[FailedRequirement]
    rank: float
    model_s: float
    def __init__(self, site: _Optional[str] = ..., rejected: _Optional[str] = ..., wait_s: _Optional[float] = ..., stage_in_s: _Optional[float] = ..., run_s: _Optional[float] = ..., stage_out_s: _Optional[float] = ..., network_s: _Optional[float] = ..., total_s: _Optional[float] = ..., bytes_in: _Optional[int] = ..., slots: _Optional[int] = ..., work_ahead_s: _Optional[float] = ..., rtt_s: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., age_s: _Optional[float] = ..., wait_low_s: _Optional[float] = ..., wait_high_s: _Optional[float] = ..., stage_in_low_s: _Optional[float] = ..., stage_in_high_s: _Optional[float] = ..., run_low_s: _Optional[float] = ..., run_high_s: _Optional[float] = ..., total_low_s: _Optional[float] = ..., total_high_s: _Optional[float] = ..., bytes_out: _Optional[int] = ..., max_jobs: _Optional[int] = ..., runs_seen: _Optional[int] = ..., run_from: _Optional[str] = ..., jobs_ahead: _Optional[int] = ..., queued_jobs: _Optional[int] = ..., busy_fraction: _Optional[float] = ..., loss: _Optional[float] = ..., network: _Optional[float] = ..., computation: _Optional[float] = ..., transfer: _Optional[float] = ..., cost: _Optional[float] = ..., near_miss: _Optional[str] = ..., failed: _Optional[_Iterable[_Union[FailedRequirement, _Mapping]]] = ..., rank: _Optional[float] = ..., model_s: _Optional[float] = ...) -> None: ...

class FailedRequirement(_message.Message):
    __slots__ = ("text", "found", "near")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    text: str
    found: str
    near: str
    def __init__(self, text: _Optional[str] = ..., found: _Optional[str] = ..., near: _Optional[str] = ...) -> None: ...

class PlannedPart(_message.Message):
    __slots__ = ("site", "jobs", "bytes_in", "predicted_end_s", "expected_end_s", "predicted_low_s", "predicted_high_s", "wait_s", "stage_in_s", "run_s", "stage_out_s", "bytes_out", "subgroups", "cost")
    SITE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_END_S_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_LOW_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_IN_S_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    STAGE_OUT_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    SUBGROUPS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    site: str
    jobs: int
    bytes_in: int
    predicted_end_s: float
    expected_end_s: float
    predicted_low_s: float
    predicted_high_s: float
    wait_s: float
    stage_in_s: float
    run_s: float
    stage_out_s: float
    bytes_out: int
    subgroups: int
    cost: float
    def __init__(self, site: _Optional[str] = ..., jobs: _Optional[int] = ..., bytes_in: _Optional[int] = ..., predicted_end_s: _Optional[float] = ..., expected_end_s: _Optional[float] = ..., predicted_low_s: _Optional[float] = ..., predicted_high_s: _Optional[float] = ..., wait_s: _Optional[float] = ..., stage_in_s: _Optional[float] = ..., run_s: _Optional[float] = ..., stage_out_s: _Optional[float] = ..., bytes_out: _Optional[int] = ..., subgroups: _Optional[int] = ..., cost: _Optional[float] = ...) -> None: ...

class CostWeight(_message.Message):
    __slots__ = ("term", "weight")
    TERM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    term: str
    weight: float
    def __init__(self, term: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class SiteCount(_message.Message):
    __slots__ = ("reason", "sites")
    REASON_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    reason: str
    sites: int
    def __init__(self, reason: _Optional[str] = ..., sites: _Optional[int] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("plan", "reason", "whole_s", "split_s", "candidates", "parts", "decided_at_s", "model", "raw", "job_class", "declared_class", "weights", "subgroup_jobs", "expected_s", "low_s", "high_s", "rejected", "reasons", "past_error", "past_groups", "basis", "range_from", "moved", "gang", "processors", "waits", "requirements", "refused")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WHOLE_S_FIELD_NUMBER: _ClassVar[int]
    SPLIT_S_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    JOB_CLASS_FIELD_NUMBER: _ClassVar[int]
    DECLARED_CLASS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SUBGROUP_JOBS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_S_FIELD_NUMBER: _ClassVar[int]
    LOW_S_FIELD_NUMBER: _ClassVar[int]
    HIGH_S_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    PAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    PAST_GROUPS_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    RANGE_FROM_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    plan: str
    reason: str
    whole_s: float
    split_s: float
    candidates: _containers.RepeatedCompositeFieldContainer[SiteCost]
    parts: _containers.RepeatedCompositeFieldContainer[PlannedPart]
    decided_at_s: float
    model: str
    raw: bool
    job_class: str
    declared_class: bool
    weights: _containers.RepeatedCompositeFieldContainer[CostWeight]
    subgroup_jobs: int
    expected_s: float
    low_s: float
    high_s: float
    rejected: int
    reasons: _containers.RepeatedCompositeFieldContainer[SiteCount]
    past_error: float
    past_groups: int
    basis: str
    range_from: str
    moved: str
    gang: GangDecision
    processors: int
    waits: bool
    requirements: ConditionTable
    refused: str
    def __init__(self, plan: _Optional[str] = ..., reason: _Optional[str] = ..., whole_s: _Optional[float] = ..., split_s: _Optional[float] = ..., candidates: _Optional[_Iterable[_Union[SiteCost, _Mapping]]] = ..., parts: _Optional[_Iterable[_Union[PlannedPart, _Mapping]]] = ..., decided_at_s: _Optional[float] = ..., model: _Optional[str] = ..., raw: _Optional[bool] = ..., job_class: _Optional[str] = ..., declared_class: _Optional[bool] = ..., weights: _Optional[_Iterable[_Union[CostWeight, _Mapping]]] = ..., subgroup_jobs: _Optional[int] = ..., expected_s: _Optional[float] = ..., low_s: _Optional[float] = ..., high_s: _Optional[float] = ..., rejected: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[SiteCount, _Mapping]]] = ..., past_error: _Optional[float] = ..., past_groups: _Optional[int] = ..., basis: _Optional[str] = ..., range_from: _Optional[str] = ..., moved: _Optional[str] = ..., gang: _Optional[_Union[GangDecision, _Mapping]] = ..., processors: _Optional[int] = ..., waits: _Optional[bool] = ..., requirements: _Optional[_Union[ConditionTable, _Mapping]] = ..., refused: _Optional[str] = ...) -> None: ...

class ConditionTable(_message.Message):
    __slots__ = ("conditions", "sites", "more", "set_conditions", "together", "set_judgements")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    SET_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    TOGETHER_FIELD_NUMBER: _ClassVar[int]
    SET_JUDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    sites: _containers.RepeatedCompositeFieldContainer[JudgedSite]
    more: int
    set_conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    together: _containers.RepeatedScalarFieldContainer[str]
    set_judgements: _containers.RepeatedCompositeFieldContainer[Judgement]
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., sites: _Optional[_Iterable[_Union[JudgedSite, _Mapping]]] = ..., more: _Optional[int] = ..., set_conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., together: _Optional[_Iterable[str]] = ..., set_judgements: _Optional[_Iterable[_Union[Judgement, _Mapping]]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("text", "key", "component", "wants")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    WANTS_FIELD_NUMBER: _ClassVar[int]
    text: str
    key: str
    component: str
    wants: str
    def __init__(self, text: _Optional[str] = ..., key: _Optional[str] = ..., component: _Optional[str] = ..., wants: _Optional[str] = ...) -> None: ...

class JudgedSite(_message.Message):
    __slots__ = ("site", "judgements")
    SITE_FIELD_NUMBER: _ClassVar[int]
    JUDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    site: str
    judgements: _containers.RepeatedCompositeFieldContainer[Judgement]
    def __init__(self, site: _Optional[str] = ..., judgements: _Optional[_Iterable[_Union[Judgement, _Mapping]]] = ...) -> None: ...

class Judgement(_message.Message):
    __slots__ = ("holds", "found", "near")
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    holds: bool
    found: str
    near: str
    def __init__(self, holds: _Optional[bool] = ..., found: _Optional[str] = ..., near: _Optional[str] = ...) -> None: ...

class ComponentPlace(_message.Message):
    __slots__ = ("component", "name", "processors", "gpus", "site", "sources", "bytes_in", "transfer_s", "wait_s", "items", "run_s", "model_s", "speed", "resources", "reason")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_S_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    component: int
    name: str
    processors: int
    gpus: int
    site: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    bytes_in: int
    transfer_s: float
    wait_s: float
    items: int
    run_s: float
    model_s: float
    speed: float
    resources: _containers.ScalarMap[str, int]
    reason: str
    def __init__(self, component: _Optional[int] = ..., name: _Optional[str] = ..., processors: _Optional[int] = ..., gpus: _Optional[int] = ..., site: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., bytes_in: _Optional[int] = ..., transfer_s: _Optional[float] = ..., wait_s: _Optional[float] = ..., items: _Optional[int] = ..., run_s: _Optional[float] = ..., model_s: _Optional[float] = ..., speed: _Optional[float] = ..., resources: _Optional[_Mapping[str, int]] = ..., reason: _Optional[str] = ...) -> None: ...

class GangSite(_message.Message):
    __slots__ = ("site", "idle", "slots", "widest", "age_s", "rejected")
    SITE_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WIDEST_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    site: str
    idle: int
    slots: int
    widest: int
    age_s: float
    rejected: str
    def __init__(self, site: _Optional[str] = ..., idle: _Optional[int] = ..., slots: _Optional[int] = ..., widest: _Optional[int] = ..., age_s: _Optional[float] = ..., rejected: _Optional[str] = ...) -> None: ...

class GangDecision(_message.Message):
    __slots__ = ("policy", "components", "sites", "transfer_s", "wait_s", "run_s", "run_low_s", "run_high_s", "runs_seen", "mapper", "models", "most_models", "kinds", "searched_sites", "runner_up", "runner_up_s")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    RUN_LOW_S_FIELD_NUMBER: _ClassVar[int]
    RUN_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    RUNS_SEEN_FIELD_NUMBER: _ClassVar[int]
    MAPPER_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    MOST_MODELS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_SITES_FIELD_NUMBER: _ClassVar[int]
    RUNNER_UP_FIELD_NUMBER: _ClassVar[int]
    RUNNER_UP_S_FIELD_NUMBER: _ClassVar[int]
    policy: str
    components: _containers.RepeatedCompositeFieldContainer[ComponentPlace]
    sites: _containers.RepeatedCompositeFieldContainer[GangSite]
    transfer_s: float
    wait_s: float
    run_s: float
    run_low_s: float
    run_high_s: float
    runs_seen: int
    mapper: str
    models: int
    most_models: int
    kinds: int
    searched_sites: int
    runner_up: _containers.RepeatedScalarFieldContainer[str]
    runner_up_s: float
    def __init__(self, policy: _Optional[str] = ..., components: _Optional[_Iterable[_Union[ComponentPlace, _Mapping]]] = ..., sites: _Optional[_Iterable[_Union[GangSite, _Mapping]]] = ..., transfer_s: _Optional[float] = ..., wait_s: _Optional[float] = ..., run_s: _Optional[float] = ..., run_low_s: _Optional[float] = ..., run_high_s: _Optional[float] = ..., runs_seen: _Optional[int] = ..., mapper: _Optional[str] = ..., models: _Optional[int] = ..., most_models: _Optional[int] = ..., kinds: _Optional[int] = ..., searched_sites: _Optional[int] = ..., runner_up: _Optional[_Iterable[str]] = ..., runner_up_s: _Optional[float] = ...) -> None: ...

class PartOutcome(_message.Message):
    __slots__ = ("decision", "site", "jobs", "predicted_wait_s", "predicted_stage_in_s", "predicted_run_s", "predicted_end_s", "predicted_bytes_in", "started_s", "ended_s", "bytes_in", "over")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_STAGE_IN_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_RUN_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_END_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    decision: int
    site: str
    jobs: int
    predicted_wait_s: float
    predicted_stage_in_s: float
    predicted_run_s: float
    predicted_end_s: float
    predicted_bytes_in: int
    started_s: float
    ended_s: float
    bytes_in: int
    over: bool
    def __init__(self, decision: _Optional[int] = ..., site: _Optional[str] = ..., jobs: _Optional[int] = ..., predicted_wait_s: _Optional[float] = ..., predicted_stage_in_s: _Optional[float] = ..., predicted_run_s: _Optional[float] = ..., predicted_end_s: _Optional[float] = ..., predicted_bytes_in: _Optional[int] = ..., started_s: _Optional[float] = ..., ended_s: _Optional[float] = ..., bytes_in: _Optional[int] = ..., over: _Optional[bool] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("decision", "needs_files", "groups", "notes")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FILES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    needs_files: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedCompositeFieldContainer[PlannedGroup]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., needs_files: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[_Union[PlannedGroup, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class PlannedGroup(_message.Message):
    __slots__ = ("name", "jobs", "decision", "waits_for")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    jobs: int
    decision: Decision
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., jobs: _Optional[int] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ..., waits_for: _Optional[_Iterable[str]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("group", "decisions", "achieved_s", "waiting", "outcomes", "predicted_s", "stays", "predicted_low_s", "predicted_high_s", "placed_s", "gangs", "contracts", "job", "ways", "exchanges", "begun", "refused")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    ACHIEVED_S_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_S_FIELD_NUMBER: _ClassVar[int]
    STAYS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_LOW_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    PLACED_S_FIELD_NUMBER: _ClassVar[int]
    GANGS_FIELD_NUMBER: _ClassVar[int]
    CONTRACTS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    WAYS_FIELD_NUMBER: _ClassVar[int]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    group: str
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    achieved_s: float
    waiting: _containers.RepeatedCompositeFieldContainer[_common_pb2.Waiting]
    outcomes: _containers.RepeatedCompositeFieldContainer[PartOutcome]
    predicted_s: float
    stays: _containers.RepeatedScalarFieldContainer[str]
    predicted_low_s: float
    predicted_high_s: float
    placed_s: float
    gangs: _containers.RepeatedCompositeFieldContainer[GangWait]
    contracts: _containers.RepeatedCompositeFieldContainer[JobContract]
    job: JobStory
    ways: _containers.RepeatedScalarFieldContainer[str]
    exchanges: _containers.RepeatedScalarFieldContainer[str]
    begun: _containers.RepeatedCompositeFieldContainer[GangRun]
    refused: Decision
    def __init__(self, group: _Optional[str] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., achieved_s: _Optional[float] = ..., waiting: _Optional[_Iterable[_Union[_common_pb2.Waiting, _Mapping]]] = ..., outcomes: _Optional[_Iterable[_Union[PartOutcome, _Mapping]]] = ..., predicted_s: _Optional[float] = ..., stays: _Optional[_Iterable[str]] = ..., predicted_low_s: _Optional[float] = ..., predicted_high_s: _Optional[float] = ..., placed_s: _Optional[float] = ..., gangs: _Optional[_Iterable[_Union[GangWait, _Mapping]]] = ..., contracts: _Optional[_Iterable[_Union[JobContract, _Mapping]]] = ..., job: _Optional[_Union[JobStory, _Mapping]] = ..., ways: _Optional[_Iterable[str]] = ..., exchanges: _Optional[_Iterable[str]] = ..., begun: _Optional[_Iterable[_Union[GangRun, _Mapping]]] = ..., refused: _Optional[_Union[Decision, _Mapping]] = ...) -> None: ...

class JobContract(_message.Message):
    __slots__ = ("index", "attempt", "site", "done", "total", "last_ratio", "mean_ratio", "state", "remaining_s", "relaxed")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LAST_RATIO_FIELD_NUMBER: _ClassVar[int]
    MEAN_RATIO_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    RELAXED_FIELD_NUMBER: _ClassVar[int]
    index: int
    attempt: int
    site: str
    done: float
    total: float
    last_ratio: float
    mean_ratio: float
    state: str
    remaining_s: float
    relaxed: str
    def __init__(self, index: _Optional[int] = ..., attempt: _Optional[int] = ..., site: _Optional[str] = ..., done: _Optional[float] = ..., total: _Optional[float] = ..., last_ratio: _Optional[float] = ..., mean_ratio: _Optional[float] = ..., state: _Optional[str] = ..., remaining_s: _Optional[float] = ..., relaxed: _Optional[str] = ...) -> None: ...

class JobStory(_message.Message):
    __slots__ = ("job", "state", "site", "attempt", "note", "exit_code", "started_s", "ended_s", "cpu_s", "max_rss_bytes", "signal", "runs_for_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RUNS_FOR_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    state: str
    site: str
    attempt: int
    note: str
    exit_code: int
    started_s: float
    ended_s: float
    cpu_s: float
    max_rss_bytes: int
    signal: int
    runs_for_s: float
    def __init__(self, job: _Optional[str] = ..., state: _Optional[str] = ..., site: _Optional[str] = ..., attempt: _Optional[int] = ..., note: _Optional[str] = ..., exit_code: _Optional[int] = ..., started_s: _Optional[float] = ..., ended_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., max_rss_bytes: _Optional[int] = ..., signal: _Optional[int] = ..., runs_for_s: _Optional[float] = ...) -> None: ...

class GangWait(_message.Message):
    __slots__ = ("gang", "tries", "components", "gives_up_s", "again_s", "level")
    GANG_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    GIVES_UP_S_FIELD_NUMBER: _ClassVar[int]
    AGAIN_S_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    gang: int
    tries: int
    components: _containers.RepeatedCompositeFieldContainer[ComponentsAt]
    gives_up_s: float
    again_s: float
    level: str
    def __init__(self, gang: _Optional[int] = ..., tries: _Optional[int] = ..., components: _Optional[_Iterable[_Union[ComponentsAt, _Mapping]]] = ..., gives_up_s: _Optional[float] = ..., again_s: _Optional[float] = ..., level: _Optional[str] = ...) -> None: ...

class ComponentsAt(_message.Message):
    __slots__ = ("site", "components", "processors", "state", "since_s", "expected_s", "behind_s")
    SITE_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_S_FIELD_NUMBER: _ClassVar[int]
    BEHIND_S_FIELD_NUMBER: _ClassVar[int]
    site: str
    components: int
    processors: int
    state: str
    since_s: float
    expected_s: float
    behind_s: float
    def __init__(self, site: _Optional[str] = ..., components: _Optional[int] = ..., processors: _Optional[int] = ..., state: _Optional[str] = ..., since_s: _Optional[float] = ..., expected_s: _Optional[float] = ..., behind_s: _Optional[float] = ...) -> None: ...

class GangRun(_message.Message):
    __slots__ = ("gang", "components", "since_s", "began_s", "spread_s", "over")
    GANG_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    BEGAN_S_FIELD_NUMBER: _ClassVar[int]
    SPREAD_S_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    gang: int
    components: _containers.RepeatedCompositeFieldContainer[ComponentsAt]
    since_s: float
    began_s: float
    spread_s: float
    over: bool
    def __init__(self, gang: _Optional[int] = ..., components: _Optional[_Iterable[_Union[ComponentsAt, _Mapping]]] = ..., since_s: _Optional[float] = ..., began_s: _Optional[float] = ..., spread_s: _Optional[float] = ..., over: _Optional[bool] = ...) -> None: ...

class QueueReadRequest(_message.Message):
    __slots__ = ("site",)
    SITE_FIELD_NUMBER: _ClassVar[int]
    site: str
    def __init__(self, site: _Optional[str] = ...) -> None: ...

class Site(_message.Message):
    __slots__ = ("site", "home", "state", "age_s", "slots", "free_slots", "speed", "queued_jobs", "running_jobs", "work_ahead_s", "rtt_s", "bytes_per_s", "release", "datasets", "note", "machines", "guarded", "guarded_more", "domain", "properties", "memory_bytes", "gpus", "resources")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
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
    NOTE_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    GUARDED_FIELD_NUMBER: _ClassVar[int]
    GUARDED_MORE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
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
    note: str
    machines: int
    guarded: _containers.RepeatedCompositeFieldContainer[Guarded]
    guarded_more: int
    domain: str
    properties: _containers.ScalarMap[str, str]
    memory_bytes: int
    gpus: int
    resources: _containers.ScalarMap[str, int]
    def __init__(self, site: _Optional[str] = ..., home: _Optional[bool] = ..., state: _Optional[str] = ..., age_s: _Optional[float] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., speed: _Optional[float] = ..., queued_jobs: _Optional[int] = ..., running_jobs: _Optional[int] = ..., work_ahead_s: _Optional[float] = ..., rtt_s: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., release: _Optional[str] = ..., datasets: _Optional[_Iterable[str]] = ..., note: _Optional[str] = ..., machines: _Optional[int] = ..., guarded: _Optional[_Iterable[_Union[Guarded, _Mapping]]] = ..., guarded_more: _Optional[int] = ..., domain: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Guarded(_message.Message):
    __slots__ = ("group", "machine", "stand", "since_wall_s", "until_wall_s", "why", "lifts")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    STAND_FIELD_NUMBER: _ClassVar[int]
    SINCE_WALL_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_WALL_S_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    LIFTS_FIELD_NUMBER: _ClassVar[int]
    group: str
    machine: str
    stand: str
    since_wall_s: float
    until_wall_s: float
    why: str
    lifts: str
    def __init__(self, group: _Optional[str] = ..., machine: _Optional[str] = ..., stand: _Optional[str] = ..., since_wall_s: _Optional[float] = ..., until_wall_s: _Optional[float] = ..., why: _Optional[str] = ..., lifts: _Optional[str] = ...) -> None: ...

class SitesResponse(_message.Message):
    __slots__ = ("sites", "more")
    SITES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    sites: _containers.RepeatedCompositeFieldContainer[Site]
    more: bool
    def __init__(self, sites: _Optional[_Iterable[_Union[Site, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "site", "files", "size_bytes", "version", "state", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    files: int
    size_bytes: int
    version: int
    state: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ..., version: _Optional[int] = ..., state: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class DatasetsResponse(_message.Message):
    __slots__ = ("datasets", "more")
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    datasets: _containers.RepeatedCompositeFieldContainer[Dataset]
    more: bool
    def __init__(self, datasets: _Optional[_Iterable[_Union[Dataset, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class DatasetAddRequest(_message.Message):
    __slots__ = ("name", "paths", "new_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    NEW_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    new_version: bool
    def __init__(self, name: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., new_version: _Optional[bool] = ...) -> None: ...

class DatasetRequest(_message.Message):
    __slots__ = ("name", "files")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    name: str
    files: bool
    def __init__(self, name: _Optional[str] = ..., files: _Optional[bool] = ...) -> None: ...

class DatasetFile(_message.Message):
    __slots__ = ("name", "size_bytes", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    sha256: str
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class DatasetChunk(_message.Message):
    __slots__ = ("datasets", "files")
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    datasets: _containers.RepeatedCompositeFieldContainer[Dataset]
    files: _containers.RepeatedCompositeFieldContainer[DatasetFile]
    def __init__(self, datasets: _Optional[_Iterable[_Union[Dataset, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[DatasetFile, _Mapping]]] = ...) -> None: ...

class DatasetProgress(_message.Message):
    __slots__ = ("files", "size_bytes", "changed", "dataset")
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    files: int
    size_bytes: int
    changed: _containers.RepeatedScalarFieldContainer[str]
    dataset: Dataset
    def __init__(self, files: _Optional[int] = ..., size_bytes: _Optional[int] = ..., changed: _Optional[_Iterable[str]] = ..., dataset: _Optional[_Union[Dataset, _Mapping]] = ...) -> None: ...

class InfoResponse(_message.Message):
    __slots__ = ("site", "vo", "release", "data", "address", "db_uuid", "generation", "pid", "groups", "queued_jobs", "running_jobs", "principal", "role", "machine", "durability", "standing")
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
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
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
    machine: str
    durability: int
    standing: str
    def __init__(self, site: _Optional[str] = ..., vo: _Optional[str] = ..., release: _Optional[str] = ..., data: _Optional[str] = ..., address: _Optional[str] = ..., db_uuid: _Optional[str] = ..., generation: _Optional[int] = ..., pid: _Optional[int] = ..., groups: _Optional[int] = ..., queued_jobs: _Optional[int] = ..., running_jobs: _Optional[int] = ..., principal: _Optional[str] = ..., role: _Optional[str] = ..., machine: _Optional[str] = ..., durability: _Optional[int] = ..., standing: _Optional[str] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("force", "remove")
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    force: bool
    remove: bool
    def __init__(self, force: _Optional[bool] = ..., remove: _Optional[bool] = ...) -> None: ...

class PromoteResponse(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "text", "retry_after_s")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    retry_after_s: float
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ..., retry_after_s: _Optional[float] = ...) -> None: ...

class LinksRequest(_message.Message):
    __slots__ = ("source", "paths")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    source: str
    paths: str
    def __init__(self, source: _Optional[str] = ..., paths: _Optional[str] = ...) -> None: ...

class LinkView(_message.Message):
    __slots__ = ("source", "target", "rtt_s", "bytes_per_s", "jitter_s", "loss", "error", "predictor", "samples", "age_s", "rtt_error_s", "rtt_predictor", "rtt_age_s", "backlog_bytes", "told")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    JITTER_S_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    RTT_ERROR_S_FIELD_NUMBER: _ClassVar[int]
    RTT_PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    RTT_AGE_S_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    rtt_s: float
    bytes_per_s: float
    jitter_s: float
    loss: float
    error: float
    predictor: str
    samples: int
    age_s: float
    rtt_error_s: float
    rtt_predictor: str
    rtt_age_s: float
    backlog_bytes: int
    told: bool
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., rtt_s: _Optional[float] = ..., bytes_per_s: _Optional[float] = ..., jitter_s: _Optional[float] = ..., loss: _Optional[float] = ..., error: _Optional[float] = ..., predictor: _Optional[str] = ..., samples: _Optional[int] = ..., age_s: _Optional[float] = ..., rtt_error_s: _Optional[float] = ..., rtt_predictor: _Optional[str] = ..., rtt_age_s: _Optional[float] = ..., backlog_bytes: _Optional[int] = ..., told: _Optional[bool] = ...) -> None: ...

class NearSite(_message.Message):
    __slots__ = ("site", "rtt_s", "estimated", "bytes_per_s", "shortest", "shortest_s", "widest", "widest_bytes_per_s")
    SITE_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    SHORTEST_FIELD_NUMBER: _ClassVar[int]
    SHORTEST_S_FIELD_NUMBER: _ClassVar[int]
    WIDEST_FIELD_NUMBER: _ClassVar[int]
    WIDEST_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    site: str
    rtt_s: float
    estimated: bool
    bytes_per_s: float
    shortest: _containers.RepeatedScalarFieldContainer[str]
    shortest_s: float
    widest: _containers.RepeatedScalarFieldContainer[str]
    widest_bytes_per_s: float
    def __init__(self, site: _Optional[str] = ..., rtt_s: _Optional[float] = ..., estimated: _Optional[bool] = ..., bytes_per_s: _Optional[float] = ..., shortest: _Optional[_Iterable[str]] = ..., shortest_s: _Optional[float] = ..., widest: _Optional[_Iterable[str]] = ..., widest_bytes_per_s: _Optional[float] = ...) -> None: ...

class LinkMap(_message.Message):
    __slots__ = ("site", "links", "links_left_out", "near")
    SITE_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    LINKS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    site: str
    links: _containers.RepeatedCompositeFieldContainer[LinkView]
    links_left_out: int
    near: _containers.RepeatedCompositeFieldContainer[NearSite]
    def __init__(self, site: _Optional[str] = ..., links: _Optional[_Iterable[_Union[LinkView, _Mapping]]] = ..., links_left_out: _Optional[int] = ..., near: _Optional[_Iterable[_Union[NearSite, _Mapping]]] = ...) -> None: ...

class InviteRequest(_message.Message):
    __slots__ = ("kind", "name", "for_s", "address", "again", "order", "id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    for_s: float
    address: str
    again: bool
    order: str
    id: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., for_s: _Optional[float] = ..., address: _Optional[str] = ..., again: _Optional[bool] = ..., order: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class OpenInvitation(_message.Message):
    __slots__ = ("id", "kind", "name", "made_by", "expires_wall_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_WALL_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    name: str
    made_by: str
    expires_wall_s: float
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., made_by: _Optional[str] = ..., expires_wall_s: _Optional[float] = ...) -> None: ...

class InviteResponse(_message.Message):
    __slots__ = ("token", "kind", "name", "vo", "site", "addresses", "expires_wall_s", "open")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VO_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_WALL_S_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    kind: str
    name: str
    vo: str
    site: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    expires_wall_s: float
    open: _containers.RepeatedCompositeFieldContainer[OpenInvitation]
    def __init__(self, token: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., vo: _Optional[str] = ..., site: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., expires_wall_s: _Optional[float] = ..., open: _Optional[_Iterable[_Union[OpenInvitation, _Mapping]]] = ...) -> None: ...

class OperateRequest(_message.Message):
    __slots__ = ("order", "name", "reason", "values_json", "from_wall_s", "to_wall_s")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALUES_JSON_FIELD_NUMBER: _ClassVar[int]
    FROM_WALL_S_FIELD_NUMBER: _ClassVar[int]
    TO_WALL_S_FIELD_NUMBER: _ClassVar[int]
    order: str
    name: str
    reason: str
    values_json: str
    from_wall_s: float
    to_wall_s: float
    def __init__(self, order: _Optional[str] = ..., name: _Optional[str] = ..., reason: _Optional[str] = ..., values_json: _Optional[str] = ..., from_wall_s: _Optional[float] = ..., to_wall_s: _Optional[float] = ...) -> None: ...

class OperateResponse(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Banned(_message.Message):
    __slots__ = ("who", "since_wall_s", "reason", "by")
    WHO_FIELD_NUMBER: _ClassVar[int]
    SINCE_WALL_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    who: str
    since_wall_s: float
    reason: str
    by: str
    def __init__(self, who: _Optional[str] = ..., since_wall_s: _Optional[float] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class LedgerResponse(_message.Message):
    __slots__ = ("values_json", "by", "since_wall_s", "here", "banned", "drained")
    VALUES_JSON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_WALL_S_FIELD_NUMBER: _ClassVar[int]
    HERE_FIELD_NUMBER: _ClassVar[int]
    BANNED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    values_json: str
    by: str
    since_wall_s: float
    here: _containers.RepeatedScalarFieldContainer[str]
    banned: _containers.RepeatedCompositeFieldContainer[Banned]
    drained: str
    def __init__(self, values_json: _Optional[str] = ..., by: _Optional[str] = ..., since_wall_s: _Optional[float] = ..., here: _Optional[_Iterable[str]] = ..., banned: _Optional[_Iterable[_Union[Banned, _Mapping]]] = ..., drained: _Optional[str] = ...) -> None: ...

class PeerRow(_message.Message):
    __slots__ = ("site", "state", "note", "age_s", "summary_age_s", "address", "via", "release", "rtt_s", "held", "link", "streams", "dials_out_only")
    SITE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_AGE_S_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    DIALS_OUT_ONLY_FIELD_NUMBER: _ClassVar[int]
    site: str
    state: str
    note: str
    age_s: float
    summary_age_s: float
    address: str
    via: _containers.RepeatedScalarFieldContainer[str]
    release: str
    rtt_s: float
    held: str
    link: str
    streams: int
    dials_out_only: bool
    def __init__(self, site: _Optional[str] = ..., state: _Optional[str] = ..., note: _Optional[str] = ..., age_s: _Optional[float] = ..., summary_age_s: _Optional[float] = ..., address: _Optional[str] = ..., via: _Optional[_Iterable[str]] = ..., release: _Optional[str] = ..., rtt_s: _Optional[float] = ..., held: _Optional[str] = ..., link: _Optional[str] = ..., streams: _Optional[int] = ..., dials_out_only: _Optional[bool] = ...) -> None: ...

class MachineRow(_message.Message):
    __slots__ = ("machine", "role", "state", "away_s", "slots", "used_slots", "jobs", "note", "scratch_bytes", "scratch_free_bytes", "availability", "known_s", "goings", "here_s", "has")
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AWAY_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    USED_SLOTS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    KNOWN_S_FIELD_NUMBER: _ClassVar[int]
    GOINGS_FIELD_NUMBER: _ClassVar[int]
    HERE_S_FIELD_NUMBER: _ClassVar[int]
    HAS_FIELD_NUMBER: _ClassVar[int]
    machine: str
    role: str
    state: str
    away_s: float
    slots: int
    used_slots: int
    jobs: int
    note: str
    scratch_bytes: int
    scratch_free_bytes: int
    availability: float
    known_s: float
    goings: float
    here_s: float
    has: _containers.RepeatedCompositeFieldContainer[Count]
    def __init__(self, machine: _Optional[str] = ..., role: _Optional[str] = ..., state: _Optional[str] = ..., away_s: _Optional[float] = ..., slots: _Optional[int] = ..., used_slots: _Optional[int] = ..., jobs: _Optional[int] = ..., note: _Optional[str] = ..., scratch_bytes: _Optional[int] = ..., scratch_free_bytes: _Optional[int] = ..., availability: _Optional[float] = ..., known_s: _Optional[float] = ..., goings: _Optional[float] = ..., here_s: _Optional[float] = ..., has: _Optional[_Iterable[_Union[Count, _Mapping]]] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("what", "count")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    what: str
    count: int
    def __init__(self, what: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class PeersResponse(_message.Message):
    __slots__ = ("site", "peers", "machines", "counts", "witness", "relayed_by", "relays_to", "to_lead", "why_to_lead", "to_stand_by", "elects", "forecast_error", "forecasts", "ranges_held", "ranges", "more")
    SITE_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    RELAYED_BY_FIELD_NUMBER: _ClassVar[int]
    RELAYS_TO_FIELD_NUMBER: _ClassVar[int]
    TO_LEAD_FIELD_NUMBER: _ClassVar[int]
    WHY_TO_LEAD_FIELD_NUMBER: _ClassVar[int]
    TO_STAND_BY_FIELD_NUMBER: _ClassVar[int]
    ELECTS_FIELD_NUMBER: _ClassVar[int]
    FORECAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    FORECASTS_FIELD_NUMBER: _ClassVar[int]
    RANGES_HELD_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    site: str
    peers: _containers.RepeatedCompositeFieldContainer[PeerRow]
    machines: _containers.RepeatedCompositeFieldContainer[MachineRow]
    counts: _containers.RepeatedCompositeFieldContainer[Count]
    witness: str
    relayed_by: _containers.RepeatedScalarFieldContainer[str]
    relays_to: _containers.RepeatedScalarFieldContainer[str]
    to_lead: str
    why_to_lead: str
    to_stand_by: str
    elects: bool
    forecast_error: float
    forecasts: int
    ranges_held: float
    ranges: int
    more: bool
    def __init__(self, site: _Optional[str] = ..., peers: _Optional[_Iterable[_Union[PeerRow, _Mapping]]] = ..., machines: _Optional[_Iterable[_Union[MachineRow, _Mapping]]] = ..., counts: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., witness: _Optional[str] = ..., relayed_by: _Optional[_Iterable[str]] = ..., relays_to: _Optional[_Iterable[str]] = ..., to_lead: _Optional[str] = ..., why_to_lead: _Optional[str] = ..., to_stand_by: _Optional[str] = ..., elects: _Optional[bool] = ..., forecast_error: _Optional[float] = ..., forecasts: _Optional[int] = ..., ranges_held: _Optional[float] = ..., ranges: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class DashboardRequest(_message.Message):
    __slots__ = ("scope", "for_s")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    scope: str
    for_s: float
    def __init__(self, scope: _Optional[str] = ..., for_s: _Optional[float] = ...) -> None: ...

class DashboardResponse(_message.Message):
    __slots__ = ("url", "token", "expires_wall_s")
    URL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_WALL_S_FIELD_NUMBER: _ClassVar[int]
    url: str
    token: str
    expires_wall_s: float
    def __init__(self, url: _Optional[str] = ..., token: _Optional[str] = ..., expires_wall_s: _Optional[float] = ...) -> None: ...

class ActivityRequest(_message.Message):
    __slots__ = ("after_wall_s",)
    AFTER_WALL_S_FIELD_NUMBER: _ClassVar[int]
    after_wall_s: float
    def __init__(self, after_wall_s: _Optional[float] = ...) -> None: ...

class ActivityResponse(_message.Message):
    __slots__ = ("at_wall_s", "slots", "used_slots", "queued", "running", "done", "exported", "imported", "queue_wait_s", "cpu_share", "memory_share", "disk_share")
    AT_WALL_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    USED_SLOTS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    CPU_SHARE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SHARE_FIELD_NUMBER: _ClassVar[int]
    DISK_SHARE_FIELD_NUMBER: _ClassVar[int]
    at_wall_s: _containers.RepeatedScalarFieldContainer[float]
    slots: _containers.RepeatedScalarFieldContainer[int]
    used_slots: _containers.RepeatedScalarFieldContainer[int]
    queued: _containers.RepeatedScalarFieldContainer[int]
    running: _containers.RepeatedScalarFieldContainer[int]
    done: _containers.RepeatedScalarFieldContainer[int]
    exported: _containers.RepeatedScalarFieldContainer[int]
    imported: _containers.RepeatedScalarFieldContainer[int]
    queue_wait_s: _containers.RepeatedScalarFieldContainer[float]
    cpu_share: _containers.RepeatedScalarFieldContainer[float]
    memory_share: _containers.RepeatedScalarFieldContainer[float]
    disk_share: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, at_wall_s: _Optional[_Iterable[float]] = ..., slots: _Optional[_Iterable[int]] = ..., used_slots: _Optional[_Iterable[int]] = ..., queued: _Optional[_Iterable[int]] = ..., running: _Optional[_Iterable[int]] = ..., done: _Optional[_Iterable[int]] = ..., exported: _Optional[_Iterable[int]] = ..., imported: _Optional[_Iterable[int]] = ..., queue_wait_s: _Optional[_Iterable[float]] = ..., cpu_share: _Optional[_Iterable[float]] = ..., memory_share: _Optional[_Iterable[float]] = ..., disk_share: _Optional[_Iterable[float]] = ...) -> None: ...

class CheckResult(_message.Message):
    __slots__ = ("name", "state", "found", "mend")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MEND_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    found: str
    mend: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., found: _Optional[str] = ..., mend: _Optional[str] = ...) -> None: ...

class DoctorResponse(_message.Message):
    __slots__ = ("checks",)
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    checks: _containers.RepeatedCompositeFieldContainer[CheckResult]
    def __init__(self, checks: _Optional[_Iterable[_Union[CheckResult, _Mapping]]] = ...) -> None: ...

class MetricsResponse(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ("grid", "from_wall_s", "to_wall_s")
    GRID_FIELD_NUMBER: _ClassVar[int]
    FROM_WALL_S_FIELD_NUMBER: _ClassVar[int]
    TO_WALL_S_FIELD_NUMBER: _ClassVar[int]
    grid: bool
    from_wall_s: float
    to_wall_s: float
    def __init__(self, grid: _Optional[bool] = ..., from_wall_s: _Optional[float] = ..., to_wall_s: _Optional[float] = ...) -> None: ...

class HistoryChunk(_message.Message):
    __slots__ = ("untold", "why", "site", "group", "rows")
    UNTOLD_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    untold: str
    why: str
    site: PastSite
    group: PastGroup
    rows: PastRows
    def __init__(self, untold: _Optional[str] = ..., why: _Optional[str] = ..., site: _Optional[_Union[PastSite, _Mapping]] = ..., group: _Optional[_Union[PastGroup, _Mapping]] = ..., rows: _Optional[_Union[PastRows, _Mapping]] = ...) -> None: ...

class PastMachine(_message.Message):
    __slots__ = ("name", "slots", "gpus", "gone", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    slots: int
    gpus: int
    gone: bool
    resources: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., slots: _Optional[int] = ..., gpus: _Optional[int] = ..., gone: _Optional[bool] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PastWindow(_message.Message):
    __slots__ = ("from_wall_s", "to_wall_s", "machines", "reason")
    FROM_WALL_S_FIELD_NUMBER: _ClassVar[int]
    TO_WALL_S_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    from_wall_s: float
    to_wall_s: float
    machines: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, from_wall_s: _Optional[float] = ..., to_wall_s: _Optional[float] = ..., machines: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...

class PastSite(_message.Message):
    __slots__ = ("site", "wall_s", "keep_s", "slots", "speed", "settings", "machines", "maintenance", "moments", "gpus", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SITE_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    KEEP_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    site: str
    wall_s: float
    keep_s: float
    slots: int
    speed: float
    settings: str
    machines: _containers.RepeatedCompositeFieldContainer[PastMachine]
    maintenance: _containers.RepeatedCompositeFieldContainer[PastWindow]
    moments: _containers.RepeatedCompositeFieldContainer[PastMoment]
    gpus: int
    resources: _containers.ScalarMap[str, int]
    def __init__(self, site: _Optional[str] = ..., wall_s: _Optional[float] = ..., keep_s: _Optional[float] = ..., slots: _Optional[int] = ..., speed: _Optional[float] = ..., settings: _Optional[str] = ..., machines: _Optional[_Iterable[_Union[PastMachine, _Mapping]]] = ..., maintenance: _Optional[_Iterable[_Union[PastWindow, _Mapping]]] = ..., moments: _Optional[_Iterable[_Union[PastMoment, _Mapping]]] = ..., gpus: _Optional[int] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PastMoment(_message.Message):
    __slots__ = ("wall_s", "slots", "speed", "drained")
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    wall_s: float
    slots: int
    speed: float
    drained: bool
    def __init__(self, wall_s: _Optional[float] = ..., slots: _Optional[int] = ..., speed: _Optional[float] = ..., drained: _Optional[bool] = ...) -> None: ...

class PastOrder(_message.Message):
    __slots__ = ("after_s", "kind", "whole", "indices", "to")
    AFTER_S_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    after_s: float
    kind: str
    whole: bool
    indices: str
    to: str
    def __init__(self, after_s: _Optional[float] = ..., kind: _Optional[str] = ..., whole: _Optional[bool] = ..., indices: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class PastGroup(_message.Message):
    __slots__ = ("group", "owner", "jobs", "submitted_wall_s", "submitted_s", "final", "cancelled", "retried", "work_s", "processors", "components", "gpus", "memory_bytes", "datasets", "file_per_job", "output_bytes", "bytes_in", "sites", "max_subgroup", "max_parallel", "on_crash", "on_site_lost", "after", "orders", "foretold_after_s", "foretold_end_s", "foretold_low_s", "foretold_high_s", "resources")
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_WALL_S_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    FILE_PER_JOB_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    MAX_SUBGROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    ON_CRASH_FIELD_NUMBER: _ClassVar[int]
    ON_SITE_LOST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_END_S_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_LOW_S_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    group: str
    owner: str
    jobs: int
    submitted_wall_s: float
    submitted_s: float
    final: bool
    cancelled: int
    retried: int
    work_s: float
    processors: int
    components: str
    gpus: int
    memory_bytes: int
    datasets: _containers.RepeatedScalarFieldContainer[str]
    file_per_job: bool
    output_bytes: int
    bytes_in: int
    sites: _containers.RepeatedScalarFieldContainer[str]
    max_subgroup: int
    max_parallel: int
    on_crash: str
    on_site_lost: str
    after: _containers.RepeatedScalarFieldContainer[str]
    orders: _containers.RepeatedCompositeFieldContainer[PastOrder]
    foretold_after_s: float
    foretold_end_s: float
    foretold_low_s: float
    foretold_high_s: float
    resources: _containers.ScalarMap[str, int]
    def __init__(self, group: _Optional[str] = ..., owner: _Optional[str] = ..., jobs: _Optional[int] = ..., submitted_wall_s: _Optional[float] = ..., submitted_s: _Optional[float] = ..., final: _Optional[bool] = ..., cancelled: _Optional[int] = ..., retried: _Optional[int] = ..., work_s: _Optional[float] = ..., processors: _Optional[int] = ..., components: _Optional[str] = ..., gpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., datasets: _Optional[_Iterable[str]] = ..., file_per_job: _Optional[bool] = ..., output_bytes: _Optional[int] = ..., bytes_in: _Optional[int] = ..., sites: _Optional[_Iterable[str]] = ..., max_subgroup: _Optional[int] = ..., max_parallel: _Optional[int] = ..., on_crash: _Optional[str] = ..., on_site_lost: _Optional[str] = ..., after: _Optional[_Iterable[str]] = ..., orders: _Optional[_Iterable[_Union[PastOrder, _Mapping]]] = ..., foretold_after_s: _Optional[float] = ..., foretold_end_s: _Optional[float] = ..., foretold_low_s: _Optional[float] = ..., foretold_high_s: _Optional[float] = ..., resources: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PastRows(_message.Message):
    __slots__ = ("site", "indices", "attempts", "outcomes", "started_s", "ended_s", "cpu_s", "max_rss_bytes", "output_bytes", "earlier")
    SITE_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    site: str
    indices: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    outcomes: _containers.RepeatedScalarFieldContainer[str]
    started_s: _containers.RepeatedScalarFieldContainer[float]
    ended_s: _containers.RepeatedScalarFieldContainer[float]
    cpu_s: _containers.RepeatedScalarFieldContainer[float]
    max_rss_bytes: _containers.RepeatedScalarFieldContainer[int]
    output_bytes: _containers.RepeatedScalarFieldContainer[int]
    earlier: bool
    def __init__(self, site: _Optional[str] = ..., indices: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[str]] = ..., started_s: _Optional[_Iterable[float]] = ..., ended_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., max_rss_bytes: _Optional[_Iterable[int]] = ..., output_bytes: _Optional[_Iterable[int]] = ..., earlier: _Optional[bool] = ...) -> None: ...
