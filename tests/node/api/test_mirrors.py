"""Client messages that have another shape than the value they tell of have all its fields, and tell them all."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest

from diana.model import facts
from diana.model.views import decision as model
from diana.node.api.convert import to_decision, to_results
from diana.wire.client import decisions
from diana.wire.client import messages as wire

UNTOLD = {"slowest_s"}
"""Ground on which the origin scores outcomes; a decision does not tell it."""

OF_PLANS = {"processors", "waits", "refused"}
"""Told with a plan alone, for whoever plays it forward or is refused: the origin knows them of the job file, or of its
refusal."""


def filled(kind: type[Any], number: int = 1) -> Any:
    """Another value in each field that holds one, none of them its default."""
    values: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for at, field in enumerate(msgspec.structs.fields(kind), start=number):
        hint = hints[field.name]
        if hint is bool:
            values[field.name] = True
        elif hint in (int, float):
            values[field.name] = hint(at)
        elif hint is str or getattr(hint, "__supertype__", None) is str:
            values[field.name] = f"word-{at}"
    return values


def priced() -> model.Decision:
    words = {"plan": "split", "model": "paper", "job_class": "data", "basis": "runs", "range_from": "outcomes"}
    inner = {
        "candidates": (model.SiteCost(**filled(model.SiteCost)),),
        "parts": (model.PlannedPart(**filled(model.PlannedPart)),),
        "reasons": (model.SiteCount(reason="too small", sites=3),),
        "weights": {"transfer": 2.0, "computation": 0.5},
        "gang": model.GangDecision(policy="close-to-files"),
    }
    return model.Decision(**{**filled(model.Decision), **words, **inner})


MIRRORS = [
    (decisions.Decision, model.Decision),
    (decisions.SiteCost, model.SiteCost),
    (decisions.PlannedPart, model.PlannedPart),
    (wire.OutputFile, facts.OutputFile),
    (wire.JobError, facts.JobError),
]


@pytest.mark.parametrize(("message", "value"), MIRRORS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_mirror_has_the_fields_of_its_value(message: type, value: type) -> None:
    assert set(message.__struct_fields__) - OF_PLANS == set(value.__struct_fields__) - UNTOLD  # type: ignore[attr-defined]


def test_a_decision_tells_every_field_of_itself_its_candidates_and_its_parts() -> None:
    told, value = to_decision(priced()), priced()
    assert told.weights == (
        decisions.CostWeight(term="computation", weight=0.5),
        decisions.CostWeight(term="transfer", weight=2.0),
    )
    inner = {"weights", "candidates", "parts", *UNTOLD}
    assert told.reasons == value.reasons
    for ours, theirs, left_out in (
        (value, told, inner),
        (value.candidates[0], told.candidates[0], set()),
        (value.parts[0], told.parts[0], set()),
    ):
        own = {name: getattr(ours, name) for name in ours.__struct_fields__ if name not in left_out}
        assert {name: getattr(theirs, name) for name in own} == own


def test_what_no_site_can_do_is_told_as_minus_one() -> None:
    endless = float("inf")
    costs = (msgspec.structs.replace(priced().candidates[0], total_s=endless, stage_in_s=endless, cost=endless),)
    told = to_decision(msgspec.structs.replace(priced(), whole_s=endless, candidates=costs))
    assert told.whole_s == -1.0
    assert (told.candidates[0].total_s, told.candidates[0].stage_in_s, told.candidates[0].cost) == (-1.0, -1.0, -1.0)
    assert b"null" not in msgspec.json.encode(told)


def test_a_chunk_of_results_tells_the_columns_the_outputs_and_the_errors() -> None:
    columns = {
        field.name: [int(at)] if "int" in str(field.type) else [float(at)]
        for at, field in enumerate(msgspec.structs.fields(facts.Facts), start=2)
        if field.name not in ("site", "outputs", "errors", "log_segments", "log_truncated")
    }
    columns["outcomes"] = [int(facts.Outcome.FAILED)]
    output, error = facts.OutputFile(3, "a.dat", 7, "ab" * 32), facts.JobError(3, "it failed")
    value = facts.Facts(
        site="alpha",  # type: ignore[arg-type]
        log_segments=[""],
        log_truncated=[False],
        outputs=[output],
        errors=[error],
        **columns,  # type: ignore[arg-type]
    )
    told = to_results(4, value)
    assert (told.chunk, told.site, told.outcomes) == (4, "alpha", ("FAILED",))
    for name in ("indices", "attempts", "exit_codes", "started_s", "ended_s", "cpu_s", "max_rss_bytes"):
        assert list(getattr(told, name)) == columns[name]
    # An object each, with its names, where journal and peers have a row.
    shown = msgspec.json.decode(msgspec.json.encode(told))
    assert shown["outputs"] == [{"index": 3, "name": "a.dat", "sizeBytes": 7, "sha256": "ab" * 32}]
    assert shown["errors"] == [{"index": 3, "text": "it failed"}]
