"""The published JSON Schema of scenario files, made from the model that reads them.

`diana scenario schema > docs/scenario.schema.json` writes it anew; a test keeps the published one current.
"""

from __future__ import annotations

from typing import Any

import msgspec

from diana.sim.specs.scenario_spec import Scenario


def schema() -> dict[str, Any]:
    (whole,), definitions = msgspec.json.schema_components((Scenario,), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "diana scenario",
        **whole,
        "$defs": definitions,
    }


def schema_text() -> str:
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
