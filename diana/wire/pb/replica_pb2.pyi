from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReplicaFrame(_message.Message):
    __slots__ = ("hello", "part", "last")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    hello: ReplicaHello
    part: bytes
    last: bool
    def __init__(self, hello: _Optional[_Union[ReplicaHello, _Mapping]] = ..., part: _Optional[bytes] = ..., last: _Optional[bool] = ...) -> None: ...

class ReplicaHello(_message.Message):
    __slots__ = ("version", "machine", "release", "address", "witness")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    version: int
    machine: str
    release: str
    address: str
    witness: str
    def __init__(self, version: _Optional[int] = ..., machine: _Optional[str] = ..., release: _Optional[str] = ..., address: _Optional[str] = ..., witness: _Optional[str] = ...) -> None: ...

class SeedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BlobRequest(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class BlobsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BlobNames(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sha256: _Optional[_Iterable[str]] = ...) -> None: ...

class ReplicaChunk(_message.Message):
    __slots__ = ("data", "sha256")
    DATA_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    sha256: str
    def __init__(self, data: _Optional[bytes] = ..., sha256: _Optional[str] = ...) -> None: ...
