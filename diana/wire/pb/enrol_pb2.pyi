from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JoinRequest(_message.Message):
    __slots__ = ("name", "address", "leaf_request", "signer_request", "wall_s", "release", "suggestion")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEAF_REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    leaf_request: bytes
    signer_request: bytes
    wall_s: float
    release: str
    suggestion: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., leaf_request: _Optional[bytes] = ..., signer_request: _Optional[bytes] = ..., wall_s: _Optional[float] = ..., release: _Optional[str] = ..., suggestion: _Optional[str] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("kind", "vo", "site", "name", "root", "leaf", "signer", "wall_s", "addresses", "signers")
    KIND_FIELD_NUMBER: _ClassVar[int]
    VO_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    SIGNERS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    vo: str
    site: str
    name: str
    root: bytes
    leaf: bytes
    signer: bytes
    wall_s: float
    addresses: _containers.RepeatedScalarFieldContainer[str]
    signers: _containers.RepeatedCompositeFieldContainer[SignerSite]
    def __init__(self, kind: _Optional[str] = ..., vo: _Optional[str] = ..., site: _Optional[str] = ..., name: _Optional[str] = ..., root: _Optional[bytes] = ..., leaf: _Optional[bytes] = ..., signer: _Optional[bytes] = ..., wall_s: _Optional[float] = ..., addresses: _Optional[_Iterable[str]] = ..., signers: _Optional[_Iterable[_Union[SignerSite, _Mapping]]] = ...) -> None: ...

class SignerSite(_message.Message):
    __slots__ = ("site", "address")
    SITE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    site: str
    address: str
    def __init__(self, site: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class SignersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SignersResponse(_message.Message):
    __slots__ = ("signers",)
    SIGNERS_FIELD_NUMBER: _ClassVar[int]
    signers: _containers.RepeatedCompositeFieldContainer[SignerSite]
    def __init__(self, signers: _Optional[_Iterable[_Union[SignerSite, _Mapping]]] = ...) -> None: ...

class SignRequest(_message.Message):
    __slots__ = ("kind", "name", "request", "wall_s", "certificate", "signature")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    request: bytes
    wall_s: float
    certificate: bytes
    signature: bytes
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., request: _Optional[bytes] = ..., wall_s: _Optional[float] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class SignResponse(_message.Message):
    __slots__ = ("certificate", "wall_s", "signers")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    SIGNERS_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    wall_s: float
    signers: _containers.RepeatedCompositeFieldContainer[SignerSite]
    def __init__(self, certificate: _Optional[bytes] = ..., wall_s: _Optional[float] = ..., signers: _Optional[_Iterable[_Union[SignerSite, _Mapping]]] = ...) -> None: ...
