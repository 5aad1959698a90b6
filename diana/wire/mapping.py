"""Compiled mappings between msgspec Structs and protobuf messages of the same name and field names.

Each class is reflected once; after that a conversion is one tuple of field converters, and columns of numbers are
copied whole. `checked` mappings refuse impossible values of a peer on decode: see `Mapper._column_check` and `CHECKS`.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from math import isfinite
from typing import Any, NewType

import msgspec

from diana.model.ids import GroupId, SiteId, SubgroupId, is_group_id, site_id
from diana.model.indexset import IndexSet
from diana.wire import BadMessage, maxima

Convert = Callable[[Any], Any]

_GENERATE = "python -m diana.wire.generate"
_SHA256 = re.compile(r"(?:[0-9a-f]{64})?\Z")
_SUBGROUP = re.compile(r"(?P<group>[a-z0-9-]+)/(?:0|[1-9][0-9]{0,17})\Z")


class Mapping:
    """Converter of one Struct class. `to_proto` raises ValueError, TypeError or OverflowError for values protobuf
    cannot carry; `from_proto` raises BadMessage where a check fails."""

    def __init__(self, cls: type[msgspec.Struct], proto: type, fields: list[_Field]) -> None:
        self.cls = cls
        self.proto = proto
        self._fields = fields
        self._finish = CHECKS.get(cls.__name__)

    def to_proto(self, value: Any) -> Any:
        arguments = {}
        for field in self._fields:
            item = getattr(value, field.name)
            if item is not None:
                arguments[field.name] = field.encode(item) if field.encode else item
        return self.proto(**arguments)

    def rows_to_proto(self, name: str, rows: Any) -> Any:
        """Return the message that has these rows of the table `name`, and nothing else."""
        encode = next(field.encode for field in self._fields if field.name == name)
        return self.proto(**{name: encode(rows) if encode else rows})

    def from_proto(self, message: Any) -> Any:
        arguments = {}
        for field in self._fields:
            if field.presence and not message.HasField(field.name):
                if field.required:
                    raise BadMessage(f"{self.cls.__name__}: {field.name} is missing")
                continue
            item = getattr(message, field.name)
            if field.decode:
                try:
                    item = field.decode(item)
                except ValueError as error:
                    raise BadMessage(f"{self.cls.__name__}.{field.name}: {error}") from None
            if item or not field.nonzero_default:
                arguments[field.name] = item
        out = self.cls(**arguments)
        if self._finish is not None:
            self._finish(out)
        return out


class _Field(typing.NamedTuple):
    name: str
    encode: Convert | None
    decode: Convert | None
    presence: bool
    """True for a message-valued field: absent differs from empty."""
    required: bool
    nonzero_default: bool
    """True if the default is not zero: proto3 cannot tell zero from absent, so both give the default."""


CHECKS: dict[str, Callable[[Any], None]] = {}
"""Checks between the fields of a class, by its name; each raises BadMessage. Filled by `peer_codec.py`."""


class Mapper:
    """Compiles and keeps the mappings of a set of protobuf modules."""

    def __init__(self, modules: tuple[Any, ...], *, checked: bool, signed: frozenset[str] = frozenset()) -> None:
        """`checked`: decoded values come from a peer. `signed`: names of integer fields that may be negative."""
        self._modules = modules
        self._checked = checked
        self._signed = signed
        self._mappings: dict[type, Mapping] = {}

    def mapping(self, cls: type[msgspec.Struct]) -> Mapping:
        found = self._mappings.get(cls)
        if found is None:
            proto = self._proto(cls.__name__)
            hints = typing.get_type_hints(cls)
            fields = [self._field(info, hints[info.name], proto) for info in msgspec.structs.fields(cls)]
            found = self._mappings[cls] = Mapping(cls, proto, fields)
        return found

    def _proto(self, name: str) -> Any:
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise LookupError(f"no protobuf message {name}: add it to proto/diana/v1 and run {_GENERATE}")

    def _field(self, info: msgspec.structs.FieldInfo, hint: Any, proto: Any) -> _Field:
        descriptor = proto.DESCRIPTOR.fields_by_name.get(info.name)
        if descriptor is None:
            raise LookupError(f"{proto.DESCRIPTOR.full_name} has no field {info.name}: add it and run {_GENERATE}")
        hint = _without_none(hint)
        most = self._most(proto.DESCRIPTOR.name, info.name, hint, descriptor)
        encode, decode = self._converters(info.name, hint, descriptor)
        if self._checked and (figure := maxima.FIGURES.get(proto.DESCRIPTOR.name, {}).get(info.name)):
            decode = _cut_to(decode, figure)
        if most is not None:
            bounded = _bounded_map if typing.get_origin(hint) is dict else _bounded
            decode = bounded(decode, most, descriptor.is_repeated)
        if self._checked and info.name in maxima.COUNTS.get(proto.DESCRIPTOR.name, ()):
            decode = _counted(decode)
        presence = descriptor.message_type is not None and not descriptor.is_repeated
        required = info.default is msgspec.NODEFAULT and info.default_factory is msgspec.NODEFAULT
        nonzero = info.default is not msgspec.NODEFAULT and bool(info.default)
        return _Field(info.name, encode, decode, presence, required, nonzero)

    def _most(self, message: str, name: str, hint: Any, descriptor: Any) -> maxima.Most | None:
        """Return the maxima of a peer's field; None: it holds one number, or a message."""
        if not self._checked or (hint not in _TEXTS and not descriptor.is_repeated):
            return None
        most = maxima.FIELDS.get(f"{message}.{name}")
        if most is None:
            raise LookupError(f"no maximum of {message}.{name}: add it to diana/wire/maxima.py")
        return most

    def _converters(self, name: str, hint: Any, descriptor: Any) -> tuple[Convert | None, Convert | None]:
        origin = typing.get_origin(hint)
        if origin is dict:
            counted = self._checked and typing.get_args(hint)[1] is int
            return None, (_counts if counted else _sorted)
        if origin in (tuple, list):
            return self._sequence(name, origin, typing.get_args(hint)[0], descriptor)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._struct(hint)
        return None, (self._scalar_check(name, hint) if self._checked else None)

    def _struct(self, cls: type[msgspec.Struct]) -> tuple[Convert, Convert]:
        if cls is IndexSet:
            proto = self._proto("IndexSet")
            return (lambda s: proto(bounds=s.bounds)), (lambda m: IndexSet.checked(m.bounds))
        inner = self.mapping(cls)
        return inner.to_proto, inner.from_proto

    def _sequence(self, name: str, kind: Any, item: Any, descriptor: Any) -> tuple[Convert | None, Convert]:
        if typing.get_origin(item) is tuple:
            # proto3 has no list of lists: a message with a single repeated field stands between.
            return self._nested(name, kind, typing.get_args(item)[0], descriptor)
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            to_one, from_one = self._struct(item)
            return (lambda xs: [to_one(x) for x in xs]), (lambda ms: kind([from_one(m) for m in ms]))
        check = self._column_check(name, item) if self._checked else None
        if check is None:
            return None, kind
        checked = check
        return None, lambda column: checked(kind(column))

    def _nested(self, name: str, kind: Any, item: Any, descriptor: Any) -> tuple[Convert, Convert]:
        only = descriptor.message_type.fields[0].name
        wrapper = self._proto(descriptor.message_type.name)
        check = (self._column_check(name, item) if self._checked else None) or (lambda column: column)
        return (
            lambda rows: [wrapper(**{only: row}) for row in rows],
            lambda ms: kind([check(tuple(getattr(m, only))) for m in ms]),
        )

    def _scalar_check(self, name: str, hint: Any) -> Convert | None:
        column = self._column_check(name, hint)
        if column is None:
            return None
        return lambda value: column((value,))[0]

    def _column_check(self, name: str, item: Any) -> Convert | None:
        """Return the check of a peer's values: integers must be >= 0 (but the signed ones), floats finite, ids and
        hashes well formed, since they end up in file names. None: no check."""
        if item is int:
            return None if name in self._signed else _at_least_zero
        if item is float:
            return _finite
        if item is SiteId:
            return _each(site_id)
        if item is GroupId:
            return _each(_group)
        if item is SubgroupId:
            return _each(_subgroup)
        if item is str and name.endswith("sha256"):
            return _each(_sha256)
        return None


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = [a for a in typing.get_args(hint) if a is not type(None)]
    if isinstance(hint, NewType) and hint not in (SiteId, GroupId, SubgroupId):
        hint = hint.__supertype__
    return hint


_TEXTS = (str, bytes, SiteId, GroupId, SubgroupId)


def _bounded(decode: Convert | None, most: maxima.Most, repeated: bool) -> Convert:
    """Apply maxima before a value is converted, so that what is cut costs nothing."""
    then = decode or (lambda value: value)
    text, items, cut = most

    def one(value: Any) -> Any:
        if len(value) > text:
            if not cut:
                raise ValueError(f"{len(value)} long, at most {text}")
            value = value[:text]
        return then(value)

    def many(values: Any) -> Any:
        if len(values) > items:
            if not cut:
                raise ValueError(f"{len(values)} items, at most {items}")
            values = values[:items]
        if text and any(isinstance(value, str) and len(value) > text for value in values):
            if not cut:
                raise ValueError(f"a text of more than {text} characters")
            values = [value[:text] for value in values]
        return then(values)

    return many if repeated else one


def _bounded_map(decode: Convert | None, most: maxima.Most, repeated: bool) -> Convert:
    """The same of a map, its names and its texts. Of one with too many names those are kept that come first in
    order."""
    assert decode is not None and repeated
    then, (text, items, cut) = decode, most

    def shorter(value: Any) -> Any:
        if not isinstance(value, str) or len(value) <= text:
            return value
        if not cut:
            raise ValueError(f"a text of more than {text} characters")
        return value[:text]

    def run(told: Any) -> Any:
        if len(told) > items and not cut:
            raise ValueError(f"{len(told)} items, at most {items}")
        if told and max(map(len, told)) > text and not cut:
            raise ValueError(f"a text of more than {text} characters")
        if len(told) > items:
            told = {name: told[name] for name in sorted(told)[:items]}
        return then({name[:text]: shorter(value) for name, value in told.items()})

    return run


def _cut_to(decode: Convert | None, most: int) -> Convert:
    """Cut a figure, or each of a map, to what a site can have or ask for, after it was checked."""
    then = decode or (lambda value: value)

    def run(value: Any) -> Any:
        checked = then(value)
        if isinstance(checked, dict):
            return {name: min(count, most) for name, count in checked.items()}
        return checked if checked <= most else most

    return run


def _counted(decode: Convert | None) -> Convert:
    then = decode or (lambda value: value)

    def run(value: Any) -> Any:
        most = value if isinstance(value, int) else max(value, default=0)
        if most > maxima.MOST_COUNTED:
            raise ValueError(f"{most} is more than anybody counts")
        return then(value)

    return run


def _sorted(told: Any) -> dict[str, Any]:
    """Return a map in order of the names, whatever order they came in."""
    return dict(sorted(told.items()))


def _counts(told: Any) -> dict[str, int]:
    """Return a map of counts in order of the names."""
    found = _sorted(told)
    _at_least_zero(tuple(found.values()))
    return found


def _each(check: Callable[[str], Any]) -> Convert:
    def run(column: Any) -> Any:
        # A column repeats few values many times.
        for value in set(column):
            check(value)
        return column

    return run


def _at_least_zero(column: Any) -> Any:
    if column and min(column) < 0:
        raise ValueError(f"{min(column)} is negative")
    return column


def _finite(column: Any) -> Any:
    if not all(map(isfinite, column)):
        raise ValueError("not a finite number")
    return column


def _group(text: str) -> None:
    if not is_group_id(text):
        raise ValueError(f"{text[:80]!r} is no group id")


def _subgroup(text: str) -> None:
    match = _SUBGROUP.match(text)
    if match is None or not is_group_id(match["group"]):
        raise ValueError(f"{text[:80]!r} is no subgroup id")


def _sha256(text: str) -> None:
    if not _SHA256.match(text):
        raise ValueError(f"{text[:80]!r} is no SHA-256 in hex")
