"""Command-line options put over a job file's keys. Their values are text; the model gives the type of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from diana.errors import UsageError
from diana.jobfile.other_names import close_key, meant
from diana.jobfile.problems import MODEL, RESOURCES, below, nearest, plain
from diana.model.job import declared

SHORT = {
    "name": "group.name",
    "after": "group.after",
    "max_parallel": "group.max_parallel",
    "retries": "group.retries",
    "notify": "group.notify",
    "sites": "group.sites",
    "not_sites": "group.not_sites",
    "rank": "group.rank",
    "on_crash": "group.on_crash",
    "on_site_lost": "group.on_site_lost",
    "preemptible": "group.preemptible",
    "runner": "gang.runner",
    "class": "group.class",
    "container": "group.container",
    "modules": "group.modules",
    "mpi": "group.mpi",
    "directory": "group.directory",
    "cwd": "group.cwd",
    "stdout": "group.stdout",
    "stderr": "group.stderr",
    "log_limit": "group.log_limit",
    "grace": "group.grace",
    "array": "sweep.array",
    "from": "sweep.from",
    "cpus": "resources.cpus",
    "processors": "resources.processors",
    "memory": "resources.memory",
    "time": "resources.time",
    "gpus": "resources.gpus",
    "scratch": "resources.scratch",
    "work": "resources.work",
    "collect": "outputs.collect",
    "to": "outputs.to",
    "merge": "outputs.merge",
    "dataset": "outputs.dataset",
}
"""Options by their short names; any key of the model may also be given by its full one (`resources.memory`)."""

WHOLE = ("components", "flexible")
"""Options that stand for a whole section of the file."""
INPUT = "input"
"""Option whose lines are added to the file's inputs."""

REQUIRE = "require"
"""Option that adds requirements to those of the file, one a line."""

_FORMS = {"components": "COUNTxPROCESSORS, as 3x8", "flexible": "a number of processors"}

_TABLES = {
    "resources.licences": ", such as resources.licences.NAME=1",
    "group.environment": ", such as group.environment.NAME=TEXT",
}


_LIST = inspect.ListType(inspect.StrType())
"""Type of the names that an option lists with commas, where a job file may also have one text."""


def apply(data: dict[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """`data` with the options put over it; UsageError for one that names no key. `data` itself stays as it is."""
    out = dict(data)
    # What stands for a whole section comes before the keys within it.
    for name, text in sorted(options.items(), key=lambda option: option[0] not in WHOLE):
        if name == REQUIRE:
            out["group"] = {**_table(out, "group"), "requirements": _required(out, text)}
            continue
        if name in WHOLE:
            if not text.strip():
                raise UsageError(f"option {name}: empty; write {_FORMS[name]}, or leave it out")
            out[name] = int(text) if name == "flexible" and text.isdecimal() and len(text) < 19 else text
            continue
        if name == INPUT:
            written = out.get("inputs", [])
            out["inputs"] = [*written, *text.splitlines()] if isinstance(written, list) else written
            continue
        path = SHORT.get(name, name if "." in name else "")
        kind = _LIST if path == "outputs.collect" else _kind_of(path)
        if kind is None:
            more = "a table; name one of its keys" if path in _TABLES else f"unknown; {_mend(name)}"
            raise UsageError(f"option {name}: {more}{_TABLES.get(path, '')}")
        if path == "resources.cpus" or path == "resources.processors":
            # Two keys name one thing: the option replaces the one the file has.
            out["resources"] = {k: v for k, v in _table(out, "resources").items() if k not in ("cpus", "processors")}
        section, _, key = path.partition(".")
        if path == "group.retries" and "=" in text:
            out[section] = {**_table(out, section), key: _rules(text)}
            continue
        if key.startswith("environment."):
            table = dict(_table(out, section))
            table["environment"] = {**_table(table, "environment"), key.partition(".")[2]: text}
        elif key.startswith("licences."):
            table = dict(_table(out, section))
            table["licences"] = {**_table(table, "licences"), key.partition(".")[2]: _value(text, kind)}
        else:
            table = {**_table(out, section), key: _value(text, kind)}
        out[section] = table
    return out


def joined(*sources: Mapping[str, str]) -> dict[str, str]:
    """Return the options of all sources by the full names of their keys: of one key the last one stands, but for those
    that are added to what is there."""
    out: dict[str, str] = {}
    for source in sources:
        for name, text in source.items():
            key = SHORT.get(name, name)
            before = out.pop(key, "")
            out[key] = f"{before}\n{text}" if before and key in (INPUT, REQUIRE) else text
    return out


def _rules(text: str) -> dict[str, Any]:
    """`failed=1,out_of_memory=2,factor=1.5,pause=30s` as a table; what does not fit is left for the check."""
    table: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            table[name] = float(value) if name == "factor" else int(value)
        except ValueError:
            table[name] = value
    return table


def _required(data: dict[str, Any], text: str) -> Any:
    """Return the requirements of the file and these; a value that is neither text nor list is left for the check."""
    there = _table(data, "group").get("requirements", [])
    more = [line.strip() for line in text.splitlines() if line.strip()]
    if not more:
        raise UsageError("option require: it is empty; write a comparison, such as site.memory_bytes >= 8e9")
    return [*([there] if isinstance(there, str) else there), *more] if isinstance(there, str | list) else there


def _mend(name: str) -> str:
    """Return the mend for an option that is none, in a clause."""
    full = _full_names()
    near = meant(name) or close_key(name, full if "." in name else [*SHORT, REQUIRE])
    if "." not in name:
        near = next((short for short, key in SHORT.items() if key == near), near)
    if not near and "." in name:
        section = name.partition(".")[0]
        beside = [key for key in full if key.partition(".")[0] == section]
        return f"known: {', '.join(beside or sorted({key.partition('.')[0] for key in full}))}"
    if near:
        return f"did you mean '{near}'?"
    return f"{nearest('', list(SHORT))}, or a key of the job file with its section, such as resources.gpus"


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the table under `key`; a value that is none is left for the check of the whole, which names it better."""
    value = data.get(key, {})
    if key == "flexible" and type(value) is int:
        return {"cpus": value}
    return dict(value) if isinstance(value, dict) else {}


def _fields(kind: inspect.Type) -> dict[str, inspect.Type]:
    kind = plain(kind)
    some = map(plain, kind.types if isinstance(kind, inspect.UnionType) else (kind,))
    return {f.encode_name: f.type for one in some if isinstance(one, inspect.StructType) for f in one.fields}


def _full_names() -> list[str]:
    return [below(section, key) for section, kind in _fields(MODEL).items() for key in _fields(kind)]


def _kind_of(path: str) -> inspect.Type | None:
    section, _, key = path.partition(".")
    if section == "sweep" and key:
        return inspect.StrType()
    if section == "resources" and key.startswith("licences.") and key != "licences.":
        return inspect.IntType()
    if section == "resources" and key not in RESOURCES and declared.may_be(key):
        return inspect.IntType()
    if section == "group" and key.startswith("environment.") and key != "environment.":
        return inspect.StrType()
    kind = _fields(_fields(MODEL).get(section, inspect.NoneType())).get(key)
    return None if kind is None or isinstance(plain(kind), inspect.DictType) else kind


def _value(text: str, kind: inspect.Type) -> Any:
    """Convert text to the key's type; text that does not fit is left, so that the check names it."""
    kind = plain(kind)
    kinds = [plain(one) for one in kind.types] if isinstance(kind, inspect.UnionType) else [kind]
    if any(isinstance(one, inspect.StrType) for one in kinds):
        return text
    if lists := [one for one in kinds if isinstance(one, inspect.ListType)]:
        item = lists[0].item_type
        return [_value(part.strip(), item) for part in text.split(",") if part.strip()]
    if fixed := [one for one in kinds if isinstance(one, inspect.TupleType)]:
        words, items = [part.strip() for part in text.split(",")], fixed[0].item_types
        return list(map(_value, words, items)) if len(words) == len(items) else text
    if any(isinstance(one, inspect.BoolType) for one in kinds):
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(text.lower(), text)
    if any(isinstance(one, inspect.IntType) for one in kinds):
        try:
            return int(text)
        except ValueError:
            return text
    if any(isinstance(one, inspect.FloatType) for one in kinds):
        try:
            return float(text)
        except ValueError:
            return text
    return text
