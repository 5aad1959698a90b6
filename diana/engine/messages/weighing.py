"""Weight of messages in memory, near enough to bound what waits: a queue that counts messages, or bytes on the wire, is
filled by one peer with few of them."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, NewType

import msgspec

from diana.model.indexset import IndexSet

FIXED_BYTES = 500
"""Weight of an event with a message of nothing."""
_OBJECT, _SLOT, _TEXT, _NUMBER = 56, 24, 56, 32

Weigh = Callable[[Any], int]

_weighers: dict[type, Weigh] = {}


def weight_bytes(message: msgspec.Struct) -> int:
    """Return about how many bytes the message takes, what it holds included."""
    return FIXED_BYTES + _weigher(type(message))(message)


def _weigher(cls: type) -> Weigh:
    found = _weighers.get(cls)
    if found is None:
        found = _weighers[cls] = _made(cls)
    return found


def _made(cls: type) -> Weigh:
    if cls is IndexSet:
        return lambda some: _OBJECT + (8 + _NUMBER) * len(some.bounds)
    hints = typing.get_type_hints(cls)
    names = [field.name for field in msgspec.structs.fields(cls)]
    fixed = _OBJECT + _SLOT * len(names)
    more = [(name, weigh) for name in names if (weigh := _of_field(hints[name])) is not None]

    def run(value: Any) -> int:
        return fixed + sum([weigh(getattr(value, name)) for name, weigh in more])

    return run


def _of_field(hint: Any) -> Weigh | None:
    """None: a number, which its slot stands for."""
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (only,) = [one for one in arguments if one is not type(None)]
        inner = _of_field(only)
        return None if inner is None else lambda value: 0 if value is None else inner(value)
    if origin in (tuple, list):
        item = _of_field(arguments[0])
        if item is None:
            return lambda values: (8 + _NUMBER) * len(values)
        return lambda values: 8 * len(values) + sum(map(item, values)) if values else 0
    if origin is dict:
        # Maps hold counts by name.
        return lambda counts: sum(2 * (8 + _NUMBER) + _TEXT + len(name) for name in counts)
    if hint in (str, bytes):
        # Most texts are of one byte a character.
        return lambda text: _TEXT + len(text)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return lambda value: _weigher(hint)(value)
    return None
