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
    __slots__ = ("site", "indices", "attempts", "outcomes", "exit_codes", "started_s", "ended_s", "cpu_s", "max_rss_bytes", "log_segments", "log_offsets", "log_lengths", "log_truncated", "outputs", "errors")
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
    def __init__(self, site: _Optional[str] = ..., indices: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[int]] = ..., exit_codes: _Optional[_Iterable[int]] = ..., started_s: _Optional[_Iterable[float]] = ..., ended_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., max_rss_bytes: _Optional[_Iterable[int]] = ..., log_segments: _Optional[_Iterable[str]] = ..., log_offsets: _Optional[_Iterable[int]] = ..., log_lengths: _Optional[_Iterable[int]] = ..., log_truncated: _Optional[_Iterable[bool]] = ..., outputs: _Optional[_Iterable[_Union[OutputFile, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[JobError, _Mapping]]] = ...) -> None: ...
