"""The stored form of records: one version byte and msgpack. `decode` is the one place where older ones are upcast."""

from __future__ import annotations

from typing import Any

import msgspec

from diana import __version__
from diana.engine.journal.records import (
    CustodyTaken,
    GangGo,
    GroupSubmitted,
    JobsFailed,
    PartClosed,
    ProcessExchanged,
    Record,
    RunsMakeWay,
)
from diana.errors import StoreNewer, newer, of_newer
from diana.model.job.spec import is_newer, may_require

VERSION = 2
"""1: what 0.1.0 reads. 2: also what it must not read, since it would run each component of a gang alone, place jobs
where their requirements do not hold, run a package without its build, begin anew what goes on from a checkpoint, fall
over the end of a job that made way, or give a job none of the declared resources that it asks for. So a journal without
these stays one that it goes on with."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)
_PREFIXES = {version: bytes([version]) for version in (1, VERSION)}


def encode(record: Record) -> bytes:
    return _PREFIXES[_version(record)] + _encoder.encode(record)


def _version(record: Record) -> int:
    """Return the lowest version whose readers understand the record."""
    match record:
        case GangGo() | PartClosed() | JobsFailed() | RunsMakeWay() | ProcessExchanged():
            return VERSION
        case GroupSubmitted():
            return VERSION if is_newer(record.spec) or may_require(record.spec) else 1
        case CustodyTaken():
            # Requirements are the origin's to keep: whoever has the jobs already runs them.
            return VERSION if is_newer(record.spec) else 1
        case _:
            return 1


def decode(stored: bytes, by: str = "") -> Record:
    """Inverse of `encode` for this and every older version; StoreNewer for a later one, and for a kind of record that
    came later. `by`: the release that wrote it, where that is known."""
    version = stored[0]
    if version in _PREFIXES:
        try:
            record: Record = _decoder.decode(memoryview(stored)[1:])
        except msgspec.ValidationError as fault:
            raise StoreNewer(_not_understood(stored, by, fault)) from None
        return record
    if version > VERSION:
        raise StoreNewer(f"journal record: {of_newer(version, VERSION, by)}; start the newer release")
    older: Record = msgspec.convert(_upcast(version, msgspec.msgpack.decode(stored[1:])), type=Record)
    return older


def _upcast(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Turn an older record's fields into those of `VERSION`. One step per version, in order."""
    raise StoreNewer(f"journal record of schema {version}: no release wrote it")


def _not_understood(stored: bytes, by: str, fault: Exception) -> str:
    fields = msgspec.msgpack.decode(stored[1:])
    kind = fields.get("t") if isinstance(fields, dict) else "of no kind"
    why = f"this one, {__version__}, does not know it ({fault})"
    return f"journal record {kind}: {newer(by).rstrip(',')}; {why}; start the newer release"
