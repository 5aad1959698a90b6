"""Parts that the synchronous and the asyncio gRPC clients share: names, TLS, messages as bytes, failures as errors."""

from __future__ import annotations

import re
from typing import Any

import grpc as grpc
import msgspec
from google.protobuf.message import DecodeError

from diana.client.credential import Credential
from diana.errors import Denied, DianaError, NodeAway, Overloaded, UnknownCall, Unreachable, UsageError
from diana.wire import peer_codec
from diana.wire.client.failures import error_of
from diana.wire.client.messages import METHODS, Failure
from diana.wire.frames import too_long
from diana.wire.tls import MAX_GRPC_BYTES, server_name

FAILURE_KEY = "diana-failure-bin"
_TOO_LONG = re.compile(r"Sent message larger than max \(([0-9]+) vs\. ([0-9]+)\)")
"""Words of gRPC for a message that it did not send; they alone tell it from a node that has too much to do."""


def path_of(method: str) -> str:
    return f"/diana.v1.Client/{method}"


def credentials_of(credential: Credential) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(credential.root, credential.key, credential.certificate)


def options_of(credential: Credential) -> list[tuple[str, Any]]:
    return [
        ("grpc.ssl_target_name_override", server_name(credential.site, credential.vo)),
        ("grpc.max_receive_message_length", MAX_GRPC_BYTES),
        ("grpc.max_send_message_length", MAX_GRPC_BYTES),
        ("grpc.enable_retries", 0),
    ]


def write(message: msgspec.Struct) -> bytes:
    data: bytes = peer_codec.to_proto(message).SerializeToString()
    return data


class ResponseReader:
    """Bytes of a method's response as its client message."""

    def __init__(self, method: str) -> None:
        self._kind = METHODS[method].response
        self._proto = peer_codec.proto_class(self._kind)

    def __call__(self, data: bytes) -> Any:
        return peer_codec.from_proto(self._kind, self._proto.FromString(data))


def said_by_node(error: Any) -> bool:
    """True if a node answered so; else the call came to nothing on the way."""
    return any(key == FAILURE_KEY for key, _ in error.trailing_metadata() or ())


def error_from(error: Any, credential: Credential) -> DianaError:
    """The error behind a failed call (`grpc.Call`, `grpc.aio.AioRpcError`)."""
    for key, value in error.trailing_metadata() or ():
        if key == FAILURE_KEY:
            try:
                return error_of(peer_codec.from_proto(Failure, peer_codec.proto_class(Failure).FromString(value)))
            except DecodeError:
                break
    text = f"node {credential.address} of site {credential.site}"
    status, details = error.code(), error.details() or ""
    if status is grpc.StatusCode.UNAVAILABLE:
        return NodeAway(f"{text} does not answer ({details}); check the address, its certificate, and that it runs")
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        if found := _TOO_LONG.search(details):
            return UsageError(too_long(int(found[1]), int(found[2])))
        return Overloaded(f"{text} is overloaded ({details}); try again shortly")
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(f"{text} did not answer in time; try again")
    if status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Denied(f"{text}: {details}")
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return UnknownCall(f"{text} does not know this call; its release may be older than yours")
    return DianaError(f"{text}: {status.name}: {details}")
