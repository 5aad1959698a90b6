from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InSync(_message.Message):
    __slots__ = ("machine", "replica_uuid")
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_UUID_FIELD_NUMBER: _ClassVar[int]
    machine: str
    replica_uuid: str
    def __init__(self, machine: _Optional[str] = ..., replica_uuid: _Optional[str] = ...) -> None: ...

class SiteRegister(_message.Message):
    __slots__ = ("term", "leader", "in_sync", "forced")
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    term: int
    leader: str
    in_sync: _containers.RepeatedCompositeFieldContainer[InSync]
    forced: bool
    def __init__(self, term: _Optional[int] = ..., leader: _Optional[str] = ..., in_sync: _Optional[_Iterable[_Union[InSync, _Mapping]]] = ..., forced: _Optional[bool] = ...) -> None: ...

class TouchRequest(_message.Message):
    __slots__ = ("register", "expect_term")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    EXPECT_TERM_FIELD_NUMBER: _ClassVar[int]
    register: SiteRegister
    expect_term: int
    def __init__(self, register: _Optional[_Union[SiteRegister, _Mapping]] = ..., expect_term: _Optional[int] = ...) -> None: ...

class TouchResponse(_message.Message):
    __slots__ = ("register",)
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    register: SiteRegister
    def __init__(self, register: _Optional[_Union[SiteRegister, _Mapping]] = ...) -> None: ...
