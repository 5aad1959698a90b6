from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class OfferRequest(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("number", "asker")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ASKER_FIELD_NUMBER: _ClassVar[int]
    number: int
    asker: str
    def __init__(self, number: _Optional[int] = ..., asker: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("ticket", "target", "data")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    target: str
    data: bytes
    def __init__(self, ticket: _Optional[int] = ..., target: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...
