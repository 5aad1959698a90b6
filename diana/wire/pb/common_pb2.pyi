from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IndexSet(_message.Message):
    __slots__ = ("bounds",)
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bounds: _Optional[_Iterable[int]] = ...) -> None: ...

class DataFile(_message.Message):
    __slots__ = ("ref", "size_bytes", "sha256")
    REF_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ref: str
    size_bytes: int
    sha256: str
    def __init__(self, ref: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class OutputFile(_message.Message):
    __slots__ = ("index", "name", "size_bytes", "sha256")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    index: int
    name: str
    size_bytes: int
    sha256: str
    def __init__(self, index: _Optional[int] = ..., name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class JobError(_message.Message):
    __slots__ = ("index", "text")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Facts(_message.Message):
    __slots__ = ("site", "indices", "attempts", "outcomes", "exit_codes", "started_s", "ended_s", "cpu_s", "max_rss_bytes", "log_segments", "log_offsets", "log_lengths", "log_truncated", "outputs", "errors", "signals")
    SITE_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODES_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LOG_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    LOG_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    site: str
    indices: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    outcomes: _containers.RepeatedScalarFieldContainer[int]
    exit_codes: _containers.RepeatedScalarFieldContainer[int]
    started_s: _containers.RepeatedScalarFieldContainer[float]
    ended_s: _containers.RepeatedScalarFieldContainer[float]
    cpu_s: _containers.RepeatedScalarFieldContainer[float]
    max_rss_bytes: _containers.RepeatedScalarFieldContainer[int]
    log_segments: _containers.RepeatedScalarFieldContainer[str]
    log_offsets: _containers.RepeatedScalarFieldContainer[int]
    log_lengths: _containers.RepeatedScalarFieldContainer[int]
    log_truncated: _containers.RepeatedScalarFieldContainer[bool]
    outputs: _containers.RepeatedCompositeFieldContainer[OutputFile]
    errors: _containers.RepeatedCompositeFieldContainer[JobError]
    signals: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, site: _Optional[str] = ..., indices: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[int]] = ..., exit_codes: _Optional[_Iterable[int]] = ..., started_s: _Optional[_Iterable[float]] = ..., ended_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., max_rss_bytes: _Optional[_Iterable[int]] = ..., log_segments: _Optional[_Iterable[str]] = ..., log_offsets: _Optional[_Iterable[int]] = ..., log_lengths: _Optional[_Iterable[int]] = ..., log_truncated: _Optional[_Iterable[bool]] = ..., outputs: _Optional[_Iterable[_Union[OutputFile, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[JobError, _Mapping]]] = ..., signals: _Optional[_Iterable[int]] = ...) -> None: ...

class QueueClass(_message.Message):
    __slots__ = ("user", "processors", "queue", "level", "priority", "base", "ageing", "offset", "demoted", "allowance", "n", "jobs", "ready", "parts", "low_s", "high_s", "heavy")
    USER_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    AGEING_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DEMOTED_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    LOW_S_FIELD_NUMBER: _ClassVar[int]
    HIGH_S_FIELD_NUMBER: _ClassVar[int]
    HEAVY_FIELD_NUMBER: _ClassVar[int]
    user: str
    processors: int
    queue: str
    level: str
    priority: float
    base: float
    ageing: float
    offset: float
    demoted: bool
    allowance: float
    n: int
    jobs: int
    ready: int
    parts: _containers.RepeatedScalarFieldContainer[str]
    low_s: float
    high_s: float
    heavy: bool
    def __init__(self, user: _Optional[str] = ..., processors: _Optional[int] = ..., queue: _Optional[str] = ..., level: _Optional[str] = ..., priority: _Optional[float] = ..., base: _Optional[float] = ..., ageing: _Optional[float] = ..., offset: _Optional[float] = ..., demoted: _Optional[bool] = ..., allowance: _Optional[float] = ..., n: _Optional[int] = ..., jobs: _Optional[int] = ..., ready: _Optional[int] = ..., parts: _Optional[_Iterable[str]] = ..., low_s: _Optional[float] = ..., high_s: _Optional[float] = ..., heavy: _Optional[bool] = ...) -> None: ...

class QueueUser(_message.Message):
    __slots__ = ("user", "quota", "queued", "running", "queued_share", "quota_share", "served_share")
    USER_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_SHARE_FIELD_NUMBER: _ClassVar[int]
    QUOTA_SHARE_FIELD_NUMBER: _ClassVar[int]
    SERVED_SHARE_FIELD_NUMBER: _ClassVar[int]
    user: str
    quota: float
    queued: int
    running: int
    queued_share: float
    quota_share: float
    served_share: float
    def __init__(self, user: _Optional[str] = ..., quota: _Optional[float] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., queued_share: _Optional[float] = ..., quota_share: _Optional[float] = ..., served_share: _Optional[float] = ...) -> None: ...

class LittlesCheck(_message.Message):
    __slots__ = ("window_s", "mean_queued", "arrivals_per_s", "mean_wait_s", "deviation", "arrived", "left")
    WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    MEAN_QUEUED_FIELD_NUMBER: _ClassVar[int]
    ARRIVALS_PER_S_FIELD_NUMBER: _ClassVar[int]
    MEAN_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    DEVIATION_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    window_s: float
    mean_queued: float
    arrivals_per_s: float
    mean_wait_s: float
    deviation: float
    arrived: int
    left: int
    def __init__(self, window_s: _Optional[float] = ..., mean_queued: _Optional[float] = ..., arrivals_per_s: _Optional[float] = ..., mean_wait_s: _Optional[float] = ..., deviation: _Optional[float] = ..., arrived: _Optional[int] = ..., left: _Optional[int] = ...) -> None: ...

class QueueView(_message.Message):
    __slots__ = ("site", "mode", "slots", "running", "claimed", "queued", "total_processors", "total_quota", "classes", "classes_left_out", "users", "littles", "error_low", "error_high", "predictions", "note")
    SITE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_QUOTA_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    CLASSES_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    LITTLES_FIELD_NUMBER: _ClassVar[int]
    ERROR_LOW_FIELD_NUMBER: _ClassVar[int]
    ERROR_HIGH_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    site: str
    mode: str
    slots: int
    running: int
    claimed: int
    queued: int
    total_processors: int
    total_quota: float
    classes: _containers.RepeatedCompositeFieldContainer[QueueClass]
    classes_left_out: int
    users: _containers.RepeatedCompositeFieldContainer[QueueUser]
    littles: LittlesCheck
    error_low: float
    error_high: float
    predictions: int
    note: str
    def __init__(self, site: _Optional[str] = ..., mode: _Optional[str] = ..., slots: _Optional[int] = ..., running: _Optional[int] = ..., claimed: _Optional[int] = ..., queued: _Optional[int] = ..., total_processors: _Optional[int] = ..., total_quota: _Optional[float] = ..., classes: _Optional[_Iterable[_Union[QueueClass, _Mapping]]] = ..., classes_left_out: _Optional[int] = ..., users: _Optional[_Iterable[_Union[QueueUser, _Mapping]]] = ..., littles: _Optional[_Union[LittlesCheck, _Mapping]] = ..., error_low: _Optional[float] = ..., error_high: _Optional[float] = ..., predictions: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("site", "jobs", "note", "part", "user", "processors", "queue", "level", "priority", "base", "ageing", "offset", "demoted", "n", "allowance", "demand", "quota", "total_quota", "ready", "job_threshold", "rises_to", "rises_after_s", "rises_at_n", "low_s", "high_s", "predictions", "mode", "heavy")
    SITE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    AGEING_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DEMOTED_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    TOTAL_QUOTA_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    JOB_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RISES_TO_FIELD_NUMBER: _ClassVar[int]
    RISES_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    RISES_AT_N_FIELD_NUMBER: _ClassVar[int]
    LOW_S_FIELD_NUMBER: _ClassVar[int]
    HIGH_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HEAVY_FIELD_NUMBER: _ClassVar[int]
    site: str
    jobs: int
    note: str
    part: str
    user: str
    processors: int
    queue: str
    level: str
    priority: float
    base: float
    ageing: float
    offset: float
    demoted: bool
    n: int
    allowance: float
    demand: float
    quota: float
    total_quota: float
    ready: int
    job_threshold: int
    rises_to: str
    rises_after_s: float
    rises_at_n: float
    low_s: float
    high_s: float
    predictions: int
    mode: str
    heavy: str
    def __init__(self, site: _Optional[str] = ..., jobs: _Optional[int] = ..., note: _Optional[str] = ..., part: _Optional[str] = ..., user: _Optional[str] = ..., processors: _Optional[int] = ..., queue: _Optional[str] = ..., level: _Optional[str] = ..., priority: _Optional[float] = ..., base: _Optional[float] = ..., ageing: _Optional[float] = ..., offset: _Optional[float] = ..., demoted: _Optional[bool] = ..., n: _Optional[int] = ..., allowance: _Optional[float] = ..., demand: _Optional[float] = ..., quota: _Optional[float] = ..., total_quota: _Optional[float] = ..., ready: _Optional[int] = ..., job_threshold: _Optional[int] = ..., rises_to: _Optional[str] = ..., rises_after_s: _Optional[float] = ..., rises_at_n: _Optional[float] = ..., low_s: _Optional[float] = ..., high_s: _Optional[float] = ..., predictions: _Optional[int] = ..., mode: _Optional[str] = ..., heavy: _Optional[str] = ...) -> None: ...
