"""Holds what a verb printed against the published schema; stricter than that is for others: no key that it does not
name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

PUBLISHED = Path(__file__).parents[2] / "docs" / "json-output.schema.json"


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    for name, one in schema["$defs"].items():
        if "properties" in one:
            one["additionalProperties"] = False
            # Zeros, empty texts and empty lists are there; a message within another may be absent.
            # Reports have what they were asked for.
            if not name.startswith("simulation.") and name != "Checked":
                one["required"] = [key for key, kind in one["properties"].items() if "anyOf" not in kind]
    return schema


def verbs() -> set[str]:
    """Names of the schema that are no messages."""
    return {name for name in _schema()["$defs"] if name[0].islower() and "." not in name}


def check(verb: str, value: Any) -> None:
    """jsonschema.ValidationError where it is not as published."""
    schema = {**_schema(), "$ref": f"#/$defs/{verb}"}
    jsonschema.Draft202012Validator(schema).validate(value)


def check_lines(verb: str, text: str) -> list[Any]:
    """Each line is a value of its own; there is at least one."""
    values = [json.loads(line) for line in text.splitlines()]
    assert values
    for value in values:
        check(verb, value)
    return values
