"""The published JSON Schema of the `--json` output, made of the types that are printed.

`python -m diana.cli.published.json_schema docs/json-output.schema.json` writes it anew; a test keeps the published one
current, and others hold what real nodes let the verbs print against it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from diana.cli.shared import shapes
from diana.model.facts import OUT_OF_MEMORY, Outcome
from diana.model.views.datasets import Dataset
from diana.model.views.group import GroupStatus
from diana.model.views.link import LinkMap
from diana.model.views.queue import QueueView
from diana.sim.checks import coverage
from diana.sim.experiments.compare import Comparison
from diana.sim.past.advice import Advice
from diana.sim.past.twin import TwinCheck
from diana.sim.past.whatif import WhatIf
from diana.sim.report.outcome_digest import OutcomeReport
from diana.sim.report.report import Report
from diana.sim.specs.scenario_spec import REPORT_KEYS
from diana.wire.client import messages as wire
from diana.wire.client.control import (
    CancelResponse,
    DropResponse,
    HoldResponse,
    MoveResponse,
    ReleaseResponse,
    RetryResponse,
)
from diana.wire.client.dashboard import DashboardResponse
from diana.wire.client.datasets import DatasetChunk, DatasetsResponse
from diana.wire.client.enrol import InviteResponse, OpenInvitation
from diana.wire.client.operators import LedgerResponse
from diana.wire.client.peers import DoctorResponse, MetricsResponse, PeersResponse
from diana.wire.client.sites import SitesResponse

VERBS: dict[str, Any] = {
    "submit": wire.SubmitResponse,
    "submit-wait": GroupStatus,
    "plan": wire.PlanResponse,
    "status": wire.StatusResponse,
    "status-job": wire.JobStory,
    "groups": wire.StatusResponse,
    "wait": GroupStatus,
    "results": shapes.JobRow,
    "results-columns": wire.ResultsChunk,
    "logs": wire.LogsChunk,
    "fetch": shapes.Fetched,
    "cancel": CancelResponse,
    "hold": HoldResponse,
    "checkpoint": MoveResponse,
    "move": MoveResponse,
    "release": ReleaseResponse,
    "retry": RetryResponse,
    "drop": DropResponse,
    "explain": wire.ExplainResponse,
    "queue": QueueView,
    "users": shapes.UsersShown,
    "links": LinkMap,
    "sites": SitesResponse,
    "peers": PeersResponse,
    "dashboard": DashboardResponse,
    "metrics": MetricsResponse,
    "datasets": DatasetsResponse,
    "datasets-add": Dataset,
    "datasets-show": DatasetChunk,
    "datasets-verify": Dataset,
    "datasets-remove": DatasetsResponse,
    "init": shapes.MadeSite,
    "init-user": shapes.MadeCredential,
    "invite": InviteResponse,
    "invite-list": list[OpenInvitation],
    "join": shapes.Joined,
    "join-user": shapes.JoinedUser,
    "stop": wire.Empty,
    "service": shapes.ServiceShown,
    "site": shapes.Said,
    "policy": LedgerResponse,
    "policy-set": shapes.Said,
    "doctor": DoctorResponse,
    "backup": shapes.Copied,
    "restore": shapes.Copied,
    "demo": shapes.DemoResult,
    "history": shapes.Exported,
    "history-merge": shapes.Merged,
    "advise": Advice,
    "whatif": WhatIf,
    "whatif-check": TwinCheck,
    "scenario-check": list[shapes.Checked],
}
"""The type that each verb prints, or each line of it; after a hyphen an order of the verb, or a way to call it."""


class Standby(msgspec.Struct):
    takeovers: int
    longest_s: float
    mean_s: float


class Coverage(msgspec.Struct):
    table: coverage.Table
    empty: list[str]
    impossible: dict[str, list[str]]


class Expect(msgspec.Struct):
    met: bool
    unmet: list[str]


OUTCOMES = (*(outcome.name.lower() for outcome in Outcome), OUT_OF_MEMORY.lower())
VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    ("JobRow", "outcome"): OUTCOMES,
    ("ResultsChunk", "outcomes"): OUTCOMES,
    ("JobStory", "state"): ("waiting", "held", "given", "queued", "running", *OUTCOMES),
    ("GroupStatus", "state"): (
        *("waiting", "placing", "queued", "running", "held", "unreachable", "merging", "registering"),
        *("done", "failed", "cancelled"),
    ),
    ("SiteShare", "state"): (
        *("local", "offered", "committed", "unreachable", "closed"),
        *("cancelling", "holding", "releasing", "moving"),
    ),
}
"""All values of these texts: lower-case words joined by underscores."""


def _name_values(definitions: dict[str, Any]) -> None:
    for (message, key), values in VALUES.items():
        field = definitions[message]["properties"][key]
        field["items" if field["type"] == "array" else "enum"] = (
            {"type": "string", "enum": list(values)} if field["type"] == "array" else list(values)
        )


def _simulation() -> Any:
    """Each key is there when the scenario's report, or `--report`, names it."""
    hints = get_type_hints(Report)
    own = {"standby": Standby, "coverage": Coverage, "expect": Expect, "compare": Comparison, "digest": str}
    own |= {"outcome": OutcomeReport}
    counts = dict.fromkeys(("seeds", "faults", "lost", "doubled", "violations", "stuck"), int)
    types = {**{key: hints[key] for key in REPORT_KEYS if key in hints}, **counts, **own}
    run = {"on": str, "speed_up": float}
    fields = [(name, kind | msgspec.UnsetType, msgspec.UNSET) for name, kind in {**types, **run}.items()]
    return msgspec.defstruct("Simulation", fields, kw_only=True)


def schema() -> dict[str, Any]:
    """`$defs`: a schema per verb under its name, and the messages under theirs."""
    made, definitions = msgspec.json.schema_components(VERBS.values(), ref_template="#/$defs/{name}")
    _name_values(definitions)
    reports = (_simulation(), shapes.TraceFigures)
    simulated, more = msgspec.json.schema_components(reports, ref_template="#/$defs/simulation.{name}")
    simulation, trace = simulated
    verbs = {
        **dict(zip(VERBS, made, strict=True)),
        "simulate": {"anyOf": [simulation, trace]},
        "scenario-run": simulation,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "what diana prints with --json",
        "description": "$defs/VERB is what diana VERB prints, or each line of it; see docs/cli.md.",
        "$defs": {**verbs, **definitions, **{f"simulation.{name}": one for name, one in more.items()}},
    }


def schema_text() -> str:
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
