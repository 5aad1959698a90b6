"""The engine's values as messages of the client service; their fields have the same names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import TypeVar

import msgspec

from diana.model.facts import OUT_OF_MEMORY, Facts, Outcome, was_out_of_memory
from diana.model.views.decision import Decision
from diana.model.views.group import GroupStatus
from diana.model.views.views import GroupView
from diana.wire.client import decisions
from diana.wire.client import messages as wire

M = TypeVar("M", bound=msgspec.Struct)


def to_message(value: object, kind: type[M]) -> M:
    """Copy the fields `kind` has from `value`, nested ones too."""
    return msgspec.convert(value, kind, from_attributes=True)


def to_status(view: GroupView) -> GroupStatus:
    """Leave out what is for the node itself."""
    return GroupStatus(**{name: getattr(view, name) for name in GroupStatus.__struct_fields__})


def to_decision(
    decision: Decision, *, processors: int = 0, waits: bool = False, refused: str = ""
) -> decisions.Decision:
    """`processors`, `waits`, `refused`: see there."""
    weights = tuple(decisions.CostWeight(term=term, weight=weight) for term, weight in sorted(decision.weights.items()))
    fields = {name: getattr(decision, name) for name in decision.__struct_fields__}
    # By attribute: keys of a dict would have to be those of the JSON.
    fields |= {"weights": weights, "processors": processors, "waits": waits, "refused": refused}
    message = to_message(SimpleNamespace(**fields), decisions.Decision)
    rows = (
        _finite(row, ("total_s", "stage_in_s", "total_low_s", "total_high_s", "cost")) for row in message.candidates
    )
    return msgspec.structs.replace(
        _finite(message, ("whole_s", "split_s", "expected_s", "low_s", "high_s")), candidates=tuple(rows)
    )


def _finite(message: M, names: Iterable[str]) -> M:
    """These seconds as JSON can say them."""
    return msgspec.structs.replace(message, **{name: _seconds(getattr(message, name)) for name in names})


def _seconds(value: float) -> float:
    """JSON has no infinity: -1 says that there is no such time."""
    return value if math.isfinite(value) else -1.0


def outcome_name(value: int) -> str:
    try:
        return Outcome(value).name
    except ValueError:
        return f"OUTCOME_{value}"


def to_results(chunk: int, facts: Facts, *, chosen: bool = False) -> wire.ResultsChunk:
    errors = {e.index: e.text for e in facts.errors}
    outcomes = (
        OUT_OF_MEMORY if was_out_of_memory(outcome, errors.get(index, "")) else outcome_name(outcome)
        for index, outcome in zip(facts.indices, facts.outcomes, strict=True)
    )
    return wire.ResultsChunk(
        chunk=chunk,
        site=facts.site,
        indices=tuple(facts.indices),
        attempts=tuple(facts.attempts),
        outcomes=tuple(outcomes),
        exit_codes=tuple(facts.exit_codes),
        started_s=tuple(facts.started_s),
        ended_s=tuple(facts.ended_s),
        cpu_s=tuple(facts.cpu_s),
        max_rss_bytes=tuple(facts.max_rss_bytes),
        outputs=tuple(
            wire.OutputFile(index=o.index, name=o.name, size_bytes=o.size_bytes, sha256=o.sha256) for o in facts.outputs
        ),
        errors=tuple(wire.JobError(index=e.index, text=e.text) for e in facts.errors),
        chosen=chosen,
        signals=tuple(facts.signals),
    )
