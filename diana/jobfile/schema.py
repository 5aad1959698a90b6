"""The published JSON Schema of the job file, made from the model that checks it.

`python -m diana.jobfile.schema docs/job-file.schema.json` writes it anew; a test keeps the published one current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from diana.jobfile.raw import RawFile, RawJob
from diana.model.job.declared import MOST_AMOUNT

_DECLARED = {
    "type": "integer",
    "minimum": 0,
    "maximum": MOST_AMOUNT,
    "description": "Of a resource that sites declare by this name ([resources] of their site.toml), for each.",
}


def schema() -> dict[str, Any]:
    either, definitions = msgspec.json.schema_components((RawJob, RawFile), ref_template="#/$defs/{name}")
    for name in ("RawResources", "RawComponent"):
        definitions[name]["additionalProperties"] = _DECLARED
    for definition in definitions.values():
        definition["description"] = " ".join(definition["description"].split())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "diana job file",
        "anyOf": list(either),
        "$defs": definitions,
    }


def schema_text() -> str:
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
