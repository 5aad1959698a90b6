"""The key tables of a file that users write, from the model that reads it: key, type, default, meaning.

A key's meaning is its `Meta` description, else the docstring below it in the source. `python docs/web/keys.py job` (or
`scenario`) prints the page that the build makes.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import inspect as types

JOB_TITLES = {
    "RawGroup": "[group]",
    "RawRetries": "[group.retries]",
    "RawResources": "[resources]",
    "RawInput": "[[inputs]]",
    "RawOutputs": "[outputs]",
    "RawMember": "[[group]]",
    "RawComponent": "[[components]]",
    "RawFlexible": "[flexible]",
    "RawGang": "[gang]",
    "RawMapper": "[package.mapper]",
    "RawPackage": "[package]",
    "RawCheckpoint": "[checkpoint]",
    "RawContract": "[contract]",
}
JOB_HEAD = """# Job file: every key

Made from the model that reads job files (`diana/jobfile/raw.py`), which is also published as a
[JSON Schema](../job-file.schema.json). [The job file](../job-file.md) explains them with examples. *Template*: the text
may hold placeholders such as `{index}`. A size is bytes or text such as `"8G"`; a duration seconds or text such as
`"1h30m"`.
"""
SCENARIO_HEAD = """# Scenario: every key

Made from the model that reads scenario files (`diana/sim/specs/scenario_spec.py`), which `diana scenario schema` prints
as a [JSON Schema](../scenario.schema.json). [Scenarios](../scenarios.md) explains them with examples.
"""


def job_page() -> str:
    from diana.jobfile.raw import RawFile, RawJob

    sections = {**_structs(RawJob), **_structs(RawFile)}
    parts = [JOB_HEAD]
    for name, struct in sections.items():
        if name in ("RawJob", "RawFile"):
            continue
        note = "One of several groups of a file; its sections stand inside it.\n" if name == "RawMember" else ""
        parts.append(_section(JOB_TITLES[name], struct, JOB_TITLES, note))
        if name == "RawGroup":
            parts.append(_sweep(sections["RawJob"]))
    return "\n".join(parts)


def scenario_page() -> str:
    from diana.sim.specs.scenario_spec import Scenario

    sections = _structs(Scenario)
    titles = _paths(sections)
    parts = [SCENARIO_HEAD]
    parts += [_section(titles[name], struct, titles, _said(struct)) for name, struct in sections.items()]
    return "\n".join(parts)


def silent(root: type) -> list[str]:
    """Keys below `root` of which nothing is said."""
    return [
        f"{name}.{field.encode_name}"
        for name, struct in _structs(root).items()
        for field in struct.fields
        if not _meaning(struct, field)
    ]


def _structs(root: type) -> dict[str, types.StructType]:
    """By class name, each before those it leads to, in the order of their keys."""
    found: dict[str, types.StructType] = {}

    def walk(kind: Any) -> None:
        for inner in _within(kind):
            if isinstance(inner, types.StructType) and inner.cls.__name__ not in found:
                found[inner.cls.__name__] = inner
                for field in inner.fields:
                    walk(field.type)

    walk(types.type_info(root))
    return found


def _within(kind: Any) -> Iterator[Any]:
    if isinstance(kind, types.Metadata):
        yield from _within(kind.type)
    elif isinstance(kind, types.UnionType):
        for inner in kind.types:
            yield from _within(inner)
    elif isinstance(kind, (types.ListType, types.VarTupleType)):
        yield from _within(kind.item_type)
    elif isinstance(kind, types.StructType):
        yield kind


def _paths(sections: Mapping[str, types.StructType]) -> dict[str, str]:
    """How each table is written in TOML: the first key that leads to it, from the top."""
    first = next(iter(sections))
    paths, bare = {first: "Top level"}, {first: ""}
    for name, struct in sections.items():
        for field in struct.fields:
            for inner in _within(field.type):
                child = inner.cls.__name__
                if child in paths:
                    continue
                path = f"{bare[name]}.{field.encode_name}".lstrip(".")
                many = any(isinstance(k, (types.ListType, types.VarTupleType)) for k in _alternatives(field.type))
                bare[child], paths[child] = path, f"[[{path}]]" if many else f"[{path}]"
    return paths


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, types.Metadata):
        return _alternatives(kind.type)
    return kind.types if isinstance(kind, types.UnionType) else (kind,)


def _section(title: str, struct: types.StructType, titles: Mapping[str, str], note: str) -> str:
    lines = [f"## {title}", "", *([note] if note else [])]
    lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in struct.fields:
        row = (f"`{field.encode_name}`", _type(field.type, titles), _default(field), _meaning(struct, field))
        lines.append("| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in row) + " |")
    return "\n".join([*lines, ""])


def _sweep(job: types.StructType) -> str:
    field = next(f for f in job.fields if f.encode_name == "sweep")
    return f"## [sweep]\n\n{_meaning(job, field)}\n"


def _type(kind: Any, titles: Mapping[str, str]) -> str:
    match kind:
        case types.Metadata(type=inner):
            return _type(inner, titles)
        case types.UnionType(types=inner):
            told = [_type(k, titles) for k in inner if not isinstance(k, types.NoneType)]
            return " or ".join(dict.fromkeys(told))
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item):
            return f"list of {_type(item, titles)}"
        case types.TupleType(item_types=items):
            return f"{len(items)} of {_type(items[0], titles)}"
        case types.DictType(value_type=value):
            return f"table of {_type(value, titles)}"
        case types.LiteralType(values=values):
            return ", ".join(f"`{json.dumps(value)}`" for value in values)
        case types.StructType(cls=cls):
            return f"`{titles.get(cls.__name__, cls.__name__)}`"
        case types.BoolType():
            return "true or false"
        case types.IntType():
            return f"whole number{_range(kind)}"
        case types.FloatType():
            return f"number{_range(kind)}"
        case types.StrType():
            return "text"
    raise TypeError(f"no word for {kind}")


def _range(kind: types.IntType | types.FloatType) -> str:
    low, high = kind.ge, kind.le
    if low is not None and high is not None:
        return f" {low} to {high}"
    return f" from {low} on" if low is not None else ""


def _default(field: types.Field) -> str:
    if field.required:
        return "must be given"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value is None or isinstance(value, msgspec.Struct):
        return ""
    return f"`{json.dumps(msgspec.to_builtins(value), ensure_ascii=False)}`"


def _meaning(struct: types.StructType, field: types.Field) -> str:
    kind = field.type
    if isinstance(kind, types.Metadata) and (kind.extra_json_schema or {}).get("description"):
        return str(kind.extra_json_schema["description"])
    return _written(struct.cls).get(field.name) or _said_of(field.type)


def _said_of(kind: Any) -> str:
    """Of a key that is a table, what the table says of itself."""
    return next((_said(inner).strip() for inner in _within(kind)), "")


def _said(struct: types.StructType) -> str:
    text = struct.cls.__dict__.get("__doc__") or ""
    return f"{' '.join(text.split())}\n" if text else ""


@cache
def _written(cls: type) -> dict[str, str]:
    """The docstrings below the fields of a class and of those it is made from."""
    out: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not (issubclass(base, msgspec.Struct) and base is not msgspec.Struct):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for this, following in pairwise(body):
            if isinstance(this, ast.AnnAssign) and isinstance(this.target, ast.Name):
                match following:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        out[this.target.id] = " ".join(text.split())
    return out


if __name__ == "__main__":
    print({"job": job_page, "scenario": scenario_page}[sys.argv[1]]())
