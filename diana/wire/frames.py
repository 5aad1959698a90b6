"""The local socket's frames (described in `wire/client/messages.py`), shared by the node and the client.

Pure: bytes in, values out. The version stands in a call's first frame; version 1 may leave it out.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from diana.errors import DianaError, UsageError
from diana.wire.client.messages import MAX_FRAME_BYTES, METHODS, Failure

T = TypeVar("T")

VERSION = 1
HEADER_BYTES = 4
CHUNK_BYTES = 1 << 20
"""Bytes of file content in one frame; base64 makes them 1.4 MB, well below MAX_FRAME_BYTES."""


class FromClient(msgspec.Struct, frozen=True):
    version: int = 1
    method: str = ""
    request: msgspec.Raw = msgspec.Raw()
    end: bool = False


class FromNode(msgspec.Struct, frozen=True):
    response: msgspec.Raw = msgspec.Raw()
    failure: Failure | None = None
    end: bool = False


_encode = msgspec.json.Encoder().encode
_from_client = msgspec.json.Decoder(FromClient)
_from_node = msgspec.json.Decoder(FromNode)
_decoders: dict[type, msgspec.json.Decoder[object]] = {}


def frame(payload: bytes) -> bytes:
    if len(payload) > MAX_FRAME_BYTES:
        raise DianaError(f"a message of {len(payload):,} bytes: the local socket takes at most {MAX_FRAME_BYTES:,}")
    return len(payload).to_bytes(HEADER_BYTES, "big") + payload


def call_frame(method: str, request: object) -> bytes:
    """Frame a client's call. UsageError for one that is too long."""
    payload = _encode({"version": VERSION, "method": method, "request": request})
    if len(payload) > MAX_FRAME_BYTES:
        raise UsageError(f"{method.lower()}: {too_long(len(payload), MAX_FRAME_BYTES)}")
    return frame(payload)


def too_long(size: int, most: int) -> str:
    """Return the words for a call that no node reads."""
    return (
        f"what is asked takes {size:,} bytes, and a node reads {most:,} at most; put what is long into files, and name"
        " those under inputs, or a table under sweep.from"
    )


def more_frame(request: object) -> bytes:
    """Make the frame of a further message of a streamed request."""
    return frame(_encode({"request": request}))


def end_frame() -> bytes:
    return frame(b'{"end":true}')


def response_frame(response: object) -> bytes:
    return frame(b'{"response":' + _encode(response) + b"}")


def failure_frame(failure: Failure) -> bytes:
    return frame(_encode({"failure": failure}))


def frame_length(header: bytes) -> int:
    """Return the length a header gives; ValueError when it is beyond MAX_FRAME_BYTES."""
    length = int.from_bytes(header, "big")
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"frame of {length:,} bytes: at most {MAX_FRAME_BYTES:,} are allowed")
    return length


def read_from_client(payload: bytes) -> FromClient:
    """Decode a frame of the client; ValueError (msgspec's are ValueErrors) for bytes that are none."""
    return _decoded(_from_client, payload)


def read_from_node(payload: bytes) -> FromNode:
    return _decoded(_from_node, payload)


def read_request(method: str, raw: msgspec.Raw) -> object:
    """Decode a request of this method; ValueError when it is none. Numbers may be written as text, as proto3 JSON does
    with 64-bit integers."""
    return _decoded(_decoder(METHODS[method].request), raw or b"{}")


def read_response(method: str, raw: msgspec.Raw) -> object:
    return _decoded(_decoder(METHODS[method].response), raw or b"{}")


def _decoder(kind: type) -> msgspec.json.Decoder[object]:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    return decoder


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(data)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
