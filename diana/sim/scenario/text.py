"""A scenario as the TOML file it could have been read from, so that a failure that was made small can be run by
hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from diana.sim.specs.scenario_spec import Scenario

_TABLES = ("settings", "default_link", "swarm", "communication", "faults", "expect", "compare")
_LISTS = ("sites", "links", "routes", "transfers", "datasets", "users", "workload", "events", "policies")


def written(scenario: Scenario) -> str:
    """The fields that differ from the defaults; `scenario.parse` gives the same scenario back."""
    plain = _plain(scenario)
    top = [f"{key} = {_value(value)}" for key, value in plain.items() if key not in (*_TABLES, *_LISTS)]
    lines = [f"version = {scenario.version}", *top]
    for key in _TABLES:
        if key in plain:
            lines += ["", f"[{key}]", *_rows(plain[key])]
    for key in _LISTS:
        for entry in plain.get(key, ()):
            lines += ["", f"[[{key}]]", *_rows(entry)]
    return "\n".join(lines) + "\n"


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    """Fields that are not at their defaults, as plain values."""
    out: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        default = field.default if field.default is not msgspec.NODEFAULT else None
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if value != default and field.name != "version":
            out[field.encode_name] = _of(value)
    return out


def _of(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _plain(value)
    return [_of(one) for one in value] if isinstance(value, tuple) else value


def _rows(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(_rows(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's.
    return json.dumps(value, ensure_ascii=False)
