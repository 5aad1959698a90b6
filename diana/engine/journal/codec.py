"""The stored form of records: one version byte and msgpack. `decode` is the one place where older ones are upcast."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.engine.journal.records import Record
from diana.errors import StoreNewer

VERSION = 1

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)
_PREFIX = bytes([VERSION])


def encode(record: Record) -> bytes:
    return _PREFIX + _encoder.encode(record)


def decode(stored: bytes) -> Record:
    """Inverse of `encode` for this and every older version; StoreNewer for a later one."""
    version = stored[0]
    if version == VERSION:
        record: Record = _decoder.decode(memoryview(stored)[1:])
        return record
    if version > VERSION:
        raise StoreNewer(f"journal record of schema {version}: this release reads up to {VERSION}; use a newer diana")
    older: Record = msgspec.convert(_upcast(version, msgspec.msgpack.decode(stored[1:])), type=Record)
    return older


def _upcast(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Turn an older record's fields into those of `VERSION`. One step per version, in order."""
    raise StoreNewer(f"journal record of schema {version}: no release wrote it")
