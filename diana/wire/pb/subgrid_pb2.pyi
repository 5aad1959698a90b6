from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SubGridFrame(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: bytes
    def __init__(self, messages: _Optional[bytes] = ...) -> None: ...

class DeliverFrame(_message.Message):
    __slots__ = ("batch", "data")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    batch: bytes
    data: bytes
    def __init__(self, batch: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...

class DeliverAck(_message.Message):
    __slots__ = ("ticket",)
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    def __init__(self, ticket: _Optional[int] = ...) -> None: ...
