"""Complaints about a job file that does not fit the model: one line with the key, its value and the value wanted.

msgspec tells only the first half (no list positions, no nearest key), so this walks the same model once it has refused.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from diana.jobfile.other_names import meant
from diana.jobfile.raw import RawComponent, RawFlexible, RawJob, RawResources
from diana.model.job import declared
from diana.model.job.counts import Counts, few

MODEL = inspect.type_info(RawJob)
RESOURCES = frozenset(field.encode_name for field in msgspec.structs.fields(RawResources))
"""Keys of `[resources]` that are of the job file itself; any other names a declared resource."""
COMPONENT = frozenset(field.encode_name for field in msgspec.structs.fields(RawComponent))
"""The same of a table of components."""
_WHOLE = "; whole ones are handed out"


def plain(kind: inspect.Type) -> inspect.Type:
    """Return the type without its description."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def problem(value: Any, kind: inspect.Type = MODEL, path: str = "") -> str | None:
    """Return the first misfit of `value` as `path: fault; the mend`; None when it fits."""
    kind = plain(kind)
    if isinstance(kind, inspect.UnionType):
        return _in_union(value, kind, path)
    if isinstance(kind, inspect.StructType):
        return _in_struct(value, kind, path) if isinstance(value, dict) else _wrong(value, kind, path)
    if isinstance(kind, inspect.DictType):
        return _in_dict(value, kind, path) if isinstance(value, dict) else _wrong(value, kind, path)
    if isinstance(kind, inspect.ListType):
        if not isinstance(value, list):
            return _wrong(value, kind, path)
        return _first(problem(item, kind.item_type, f"{path}[{at}]") for at, item in enumerate(value))
    if isinstance(kind, inspect.TupleType):
        if not isinstance(value, list | tuple) or len(value) != len(kind.item_types):
            return _wrong(value, kind, path)
        return _first(problem(item, kind.item_types[at], f"{path}[{at}]") for at, item in enumerate(value))
    if isinstance(kind, inspect.LiteralType):
        return None if value in kind.values and isinstance(value, str) else _not_listed(value, kind, path)
    return _in_scalar(value, kind, path)


def _first(found: Any) -> str | None:
    return next((line for line in found if line), None)


def _in_struct(value: dict[Any, Any], kind: inspect.StructType, path: str) -> str | None:
    fields = {field.encode_name: field for field in kind.fields}
    for key in value:
        if key not in fields:
            if kind.cls in (RawResources, RawComponent) and (told := _no_count(str(key), value[key], path, kind.cls)):
                return told
            mend = _home(str(key)) or _close_or_meant(str(key), list(fields), path)
            if kind.cls is RawFlexible and key == "site":
                mend = "it is divided among sites; write those that may be chosen as sites under [group]"
            return f"{below(path, key)}: unknown key; {mend}"
    for name, field in fields.items():
        if name in value:
            line = problem(value[name], field.type, below(path, name))
            if line:
                return line
        elif field.required:
            return f"{below(path, name)}: missing; write it"
    return None


def _no_count(key: str, value: Any, path: str, table: type) -> str:
    """Complain about a declared resource without a whole number; empty: another key may be meant."""
    keys = RESOURCES if table is RawResources else COMPONENT
    if _home(key) or get_close_matches(key, keys, 1) or declared.nearest(key):
        return ""
    if _is_part(value):
        return f"{below(path, key)}: want a whole number, got {got(value)}{_WHOLE}"
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return f"{below(path, key)}: want a whole number, got {got(value)}; leave out the quotes"
    known = ", ".join(sorted(keys))
    return f"{below(path, key)}: unknown key; known: {known}, and whole numbers of what sites declare"


def _is_part(value: Any) -> bool:
    """True for a number, or the text of one, that is not whole."""
    if isinstance(value, str) and not value.isdecimal():
        try:
            value = float(value)
        except ValueError:
            return False
    return isinstance(value, float) and not value.is_integer()


def _home(key: str) -> str:
    """Where a key that stands in another place belongs; empty: nowhere, or in more than one."""
    homes = []
    for table in MODEL.fields if isinstance(MODEL, inspect.StructType) else ():
        kinds = [plain(one) for one in table.type.types] if isinstance(table.type, inspect.UnionType) else [table.type]
        for kind in map(plain, kinds):
            if isinstance(kind, inspect.StructType) and key in (field.encode_name for field in kind.fields):
                homes.append(table.encode_name)
    return f"it belongs under [{homes[0]}]" if len(homes) == 1 else ""


def _close_or_meant(key: str, known: list[str], path: str) -> str:
    """Return the mend for a key that the table at `path` does not have, in a clause."""
    if other := meant(key):
        section, _, name = other.rpartition(".")
        return f"did you mean '{name}'" + (f", under [{section}]?" if section and section != path else "?")
    return nearest(key, known)


def _meant(key: str) -> str:
    """Where a key of a table of components stands or what it is called there; empty: it is no such key."""
    return "did you mean 'cpus'?" if key == "processors" else _home(key)


def _in_dict(value: dict[Any, Any], kind: inspect.DictType, path: str) -> str | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return f"{below(path, key)}: want a name, got {got(key)}; quote it"
        line = problem(item, kind.value_type, below(path, key))
        if line:
            return line
    return None


def _in_union(value: Any, kind: inspect.UnionType, path: str) -> str | None:
    for one in map(plain, kind.types):
        nested = isinstance(value, dict) and isinstance(one, inspect.StructType | inspect.DictType)
        if nested or (isinstance(value, list) and isinstance(one, inspect.ListType)):
            return problem(value, one, path)
    lines = [problem(value, one, path) for one in kind.types]
    if None in lines:
        return None
    ranged = [line for line in lines if line and "got" not in line]
    return ranged[0] if ranged else _wrong(value, kind, path)


def _in_scalar(value: Any, kind: inspect.Type, path: str) -> str | None:
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        number = isinstance(value, int) or (isinstance(value, float) and isinstance(kind, inspect.FloatType))
        if not number or isinstance(value, bool):
            return _wrong(value, kind, path)
        return _out_of_range(value, kind, path)
    if isinstance(kind, inspect.StrType):
        fits = isinstance(value, str)
    elif isinstance(kind, inspect.BoolType):
        fits = isinstance(value, bool)
    else:
        fits = isinstance(kind, inspect.NoneType) and value is None
    return None if fits else _wrong(value, kind, path)


def _out_of_range(value: Any, kind: inspect.IntType | inspect.FloatType, path: str) -> str | None:
    told = few(value) if isinstance(value, int) else value
    if kind.ge is not None and value < kind.ge:
        return f"{path}: {told} is too small; want at least {kind.ge}"
    if kind.gt is not None and value <= kind.gt:
        return f"{path}: {told} is too small; want more than {kind.gt}"
    if kind.le is not None and value > kind.le:
        return f"{path}: {told} is too large; want at most {kind.le}"
    return None


def _not_listed(value: Any, kind: inspect.LiteralType, path: str) -> str:
    allowed = [str(one) for one in kind.values if one]
    want = " or ".join(f"'{one}'" for one in allowed)
    near = get_close_matches(value, allowed, 1) if isinstance(value, str) else []
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"{path}: want {want}, got {got(value)}{hint}"


def _wrong(value: Any, kind: inspect.Type, path: str) -> str:
    where = path or "the file"
    want = wanted(kind)
    if isinstance(value, str) and isinstance(kind, inspect.UnionType):
        listed = [
            str(one) for each in map(plain, kind.types) if isinstance(each, inspect.LiteralType) for one in each.values
        ]
        if near := get_close_matches(value, listed, 1):
            return f"{where}: want {want}, got {got(value)}; did you mean {near[0]!r}?"
    hint = "; quote it" if isinstance(plain(kind), inspect.StrType) and isinstance(value, int | float) else ""
    if path.startswith("sweep.") and "[" not in path:
        hint = '; write a range "1-100" or a list [1, 2]'
    if isinstance(plain(kind), inspect.IntType) and isinstance(value, str) and value.isdecimal():
        hint = "; leave out the quotes"
    if want == "a whole number" and path.startswith(("resources.", "components[", "flexible")) and _is_part(value):
        hint = _WHOLE
    return f"{where}: want {want}, got {got(value)}{hint}"


def wanted(kind: inspect.Type) -> str:
    kind = plain(kind)
    if isinstance(kind, inspect.UnionType):
        words = [wanted(one) for one in kind.types if not isinstance(plain(one), inspect.NoneType)]
        if "a number" in words:
            words = [word for word in words if word != "a whole number"]
        *most, last = dict.fromkeys(words)
        return f"{', '.join(most)} or {last}" if most else last
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(repr(one) for one in kind.values if one)
    if isinstance(kind, inspect.TupleType):
        return f"a list of {', '.join(map(wanted, kind.item_types))}"
    names: tuple[tuple[type[inspect.Type], str], ...] = (
        (inspect.StrType, "text"),
        (inspect.IntType, "a whole number"),
        (inspect.FloatType, "a number"),
        (inspect.BoolType, "true or false"),
        (inspect.ListType, "a list"),
        (inspect.DictType, "a table of names and values"),
        (inspect.StructType, "a table of keys and values"),
    )
    return next((word for kind_of, word in names if isinstance(kind, kind_of)), "another type")


def got(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
    if isinstance(value, int | float):
        return f"the number {few(value) if isinstance(value, int) else value}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    return "nothing" if value is None else f"a {type(value).__name__}"


def below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"


class DeclaredCounts(NamedTuple):
    """Declared resources that a job file asks for: of each job, and of each table of components in their order."""

    of_jobs: Counts = ()
    of_components: tuple[Counts, ...] = ()


def checked(data: Any) -> tuple[RawJob, DeclaredCounts]:
    """Return `data` as the typed model, and the declared resources that it asks for; ValueError with one line when it
    does not fit."""
    own, counts, of_components = _apart(data)
    try:
        raw = msgspec.convert(own, RawJob)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(problem(own) or str(error)) from None
    for key in counts:
        if (home := _home(key)) and not declared.may_be(key):
            raise ValueError(f"resources.{key}: unknown key; {home}")
    for at, some in enumerate(of_components):
        if key := next((key for key in some if not declared.may_be(key) and _meant(key)), ""):
            raise ValueError(f"components[{at}].{key}: unknown key; {_meant(key)}")
        if key := next((key for key in some if get_close_matches(key, COMPONENT, 1, 0.8)), ""):
            raise ValueError(f"components[{at}].{key}: unknown key; {nearest(key, sorted(COMPONENT))}")
    others = (declared.check(some, f"components[{at}]", least=0) for at, some in enumerate(of_components))
    return raw, DeclaredCounts(declared.check(counts, "resources", least=0), tuple(others))


def _apart(data: Any) -> tuple[Any, dict[str, int], list[dict[str, int]]]:
    """Return the file without its declared resources, and those of its jobs and of each table of components."""
    if not isinstance(data, dict):
        return data, {}, []
    out, counts, of_components = dict(data), dict[str, int](), list[dict[str, int]]()
    if isinstance(table := data.get("resources"), dict):
        out["resources"], counts = _without_counts(table, RESOURCES)
    if isinstance(tables := data.get("components"), list) and all(isinstance(each, dict) for each in tables):
        split = [_without_counts(each, COMPONENT) for each in tables]
        out["components"], of_components = [own for own, _ in split], [some for _, some in split]
    return out, counts, of_components


def _without_counts(table: dict[Any, Any], keys: frozenset[str]) -> tuple[dict[Any, Any], dict[str, int]]:
    """Return the table without its declared resources, and those: whole numbers under keys that are none of its own."""
    counts = {key: value for key, value in table.items() if key not in keys and type(value) is int}
    if not all(isinstance(key, str) for key in counts):
        return table, {}
    return {key: value for key, value in table.items() if key not in counts}, counts
