"""Bytes of a message on the wire, for what the simulator has no sizes of its own for: how long its values alone are.

No name of a class or a field is in it, so renaming one changes nothing; the order of fields does not matter either.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from diana.engine.membership.sizes import message_bytes
from diana.engine.messages.messages import Gossip, Summary
from diana.engine.messages.recovery import Met
from diana.model.facts import Facts

_ATOMS = frozenset((bool, int, float, str, bytes, type(None)))
_encode = msgspec.msgpack.Encoder().encode


def wire_bytes(message: object) -> int:
    """The size of a message: by the engine's own reckoning for membership, else by its values."""
    if isinstance(message, Summary | Gossip | Met):
        return message_bytes(message)
    return value_bytes(message)


def value_bytes(value: object) -> int:
    """Length of the value in MessagePack, each struct an array of its values. TypeError: it holds what is no value."""
    return len(_encode(bare(value)))


def bare(value: object) -> object:
    """The value without names: structs are lists of their values, enums are their values, mappings lists of pairs."""
    if type(value) in _ATOMS:
        return value
    if isinstance(value, Enum):
        return bare(value.value)
    if isinstance(value, Facts) and not value.signals:
        # A column that says nothing is not on the wire, so that batches without it have the size they always had.
        return _row(getattr(value, name) for name in value.__struct_fields__ if name != "signals")
    if isinstance(value, msgspec.Struct):
        return _row(msgspec.structs.astuple(value))
    if isinstance(value, tuple | list | set | frozenset):
        return _row(value)
    if isinstance(value, dict):
        return _row(value.items())
    raise TypeError(f"{type(value).__name__} is no value of a message")


def _row(values: object) -> list[object]:
    found = list(values)  # type: ignore[call-overload]
    return found if _ATOMS.issuperset(map(type, found)) else [bare(one) for one in found]
