"""The links of a claim log: what makes each record say which came before it.

A link is an element more at the end of the record's array, which releases that know of none pass over: MessagePack
`bin 8` of 12 bytes, the record's number and 8 bytes of a hash over the link before and the record itself.
"""

from __future__ import annotations

import hashlib

_BYTES = 12
_HEAD = bytes((0xC4, _BYTES))
_SIZE = len(_HEAD) + _BYTES
_FIXED = 0x90
_MOST_FIXED = 15
_LONG = 0xDC


class LinkBroken(ValueError):
    """A record does not follow the one before it."""


class RecordChain:
    """Position in one log: `count` records came before. `seed`: what the first link rests on."""

    def __init__(self, seed: str, count: int) -> None:
        self.count = count
        self._hash = _hashed(b"", f"{seed} {count}".encode())

    def linked(self, payload: bytes) -> bytes:
        """Return the next record with its link."""
        self.count += 1
        self._hash = _hashed(self._hash, payload)
        return _counted(payload, 1) + _HEAD + _number(self.count) + self._hash

    def unlinked(self, payload: bytes) -> bytes:
        """Return the next record without its link. LinkBroken: it is not the next."""
        if payload[-_SIZE:][: len(_HEAD)] != _HEAD:
            raise LinkBroken("it has no link")
        said, record = payload[-_BYTES:], _counted(payload[:-_SIZE], -1)
        self.count += 1
        self._hash = _hashed(self._hash, record)
        if said != _number(self.count) + self._hash:
            raise LinkBroken(f"it is record {int.from_bytes(said[:4], 'big')}, not {self.count} of this log")
        return record


def _number(count: int) -> bytes:
    """A record's number; those of a log that lives for years begin anew after 2^32."""
    return (count & 0xFFFF_FFFF).to_bytes(4, "big")


def _hashed(before: bytes, payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=8, key=before).digest()


def _counted(payload: bytes, more: int) -> bytes:
    """Return the array with another number of elements in its head; the elements are the caller's."""
    if payload[0] & 0xF0 == _FIXED:
        count, rest = (payload[0] & 0x0F) + more, payload[1:]
    elif payload[0] == _LONG:
        count, rest = int.from_bytes(payload[1:3], "big") + more, payload[3:]
    else:
        raise LinkBroken("it is no record")
    head = bytes((_FIXED | count,)) if count <= _MOST_FIXED else bytes((_LONG,)) + count.to_bytes(2, "big")
    return head + rest
