"""One value of a class in which no field has its default, from the types of its fields alone; always the same one."""

from __future__ import annotations

import enum
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

MADE_BY_HAND: dict[Any, Callable[[Filler], Any]] = {}
"""Classes whose values are more than their types say."""


class Filler:
    """`fill(hint, name)`: numbers and texts differ from one field to the next."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def fill(self, hint: Any, name: str = "") -> Any:
        hint = _plain(hint)
        if hint in MADE_BY_HAND:
            return MADE_BY_HAND[hint](self)
        arguments = typing.get_args(hint)
        origin = typing.get_origin(hint)
        if origin is typing.Literal:
            return next(a for a in reversed(arguments) if a not in ("", 0, False))
        if origin in (typing.Union, types.UnionType):
            return self.fill(next(a for a in arguments if a is not type(None)), name)
        if origin in (tuple, list):
            return self._several(origin, arguments, name)
        if origin in (set, frozenset):
            return origin((self.fill(arguments[0], name),))
        if origin is not None and issubclass(origin, Mapping):
            return {self.fill(arguments[0], name): self.fill(arguments[1], name)}
        if hint is Any:
            return f"any {next(self._count)}"
        if issubclass(hint, msgspec.Struct):
            return self.struct(hint)
        if issubclass(hint, enum.Enum):
            return list(hint)[-1]
        if issubclass(hint, tuple):
            return hint(**{n: self.fill(h, n) for n, h in typing.get_type_hints(hint).items()})
        return self._simple(hint, name)

    def struct(self, cls: Any, **given: Any) -> Any:
        hints = typing.get_type_hints(cls)
        fields = msgspec.structs.fields(cls)
        values = {f.name: given.get(f.name) or self._unlike(f, hints[f.name]) for f in fields}
        return cls(**values)

    def _unlike(self, field: Any, hint: Any) -> Any:
        value = self.fill(hint, field.name)
        if field.default is not msgspec.NODEFAULT and value == field.default and hint is bool:
            return not value
        assert value != field.default, f"{field.name}: {value!r} is its default"
        return value

    def _several(self, origin: Any, arguments: tuple[Any, ...], name: str) -> Any:
        if origin is tuple and len(arguments) > 1 and arguments[1] is not Ellipsis:
            return tuple(self.fill(a, name) for a in arguments)
        return origin((self.fill(arguments[0], name),))

    def _simple(self, hint: Any, name: str) -> Any:
        number = next(self._count)
        if hint is bool:
            return True
        if hint is int:
            return number
        if hint is float:
            return number + 0.5
        if hint is bytes:
            return b"bytes %d" % number
        assert hint is str, hint
        return f"{number:064x}" if name.endswith("sha256") else f"{name} é {number}"


def _plain(hint: Any) -> Any:
    """A new type of text is what it stands for, unless it has a way of its own (`MADE_BY_HAND`)."""
    while isinstance(hint, typing.NewType) and hint not in MADE_BY_HAND:
        hint = hint.__supertype__
    return hint


def message(cls: Any, filler: Filler) -> Iterator[Any]:
    """Protobuf messages of a class that have all of its fields set; of a choice one message for each."""
    descriptor = cls.DESCRIPTOR
    choices = [[f.name for f in each.fields] for each in descriptor.oneofs]
    for turn in range(max((len(each) for each in choices), default=1)):
        left_out = {name for each in choices for at, name in enumerate(each) if at != min(turn, len(each) - 1)}
        yield _message(cls, filler, left_out, ())


def _message(cls: Any, filler: Filler, left_out: set[str], inside: tuple[str, ...]) -> Any:
    made = cls()
    seen: set[str] = set()
    for field in cls.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if field.name in left_out or (inside and oneof is not None and oneof.name in seen):
            continue
        seen.update([oneof.name] if oneof is not None else [])
        if field.message_type is None:
            value = _scalar(field, filler)
            getattr(made, field.name).append(value) if field.is_repeated else setattr(made, field.name, value)
        elif field.message_type.full_name not in (*inside, cls.DESCRIPTOR.full_name):
            part = _message(field.message_type._concrete_class, filler, set(), (*inside, cls.DESCRIPTOR.full_name))
            if field.is_repeated:
                getattr(made, field.name).append(part)
            else:
                getattr(made, field.name).CopyFrom(part)
    return made


def _scalar(field: Any, filler: Filler) -> Any:
    kinds = {field.TYPE_STRING: str, field.TYPE_BYTES: bytes, field.TYPE_BOOL: bool}
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return filler.fill(float)
    return filler.fill(kinds.get(field.type, int), field.name)
