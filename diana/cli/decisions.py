"""A placement decision as text, for somebody who asks why: the sentence, when it ends, the parts, every site's price,
and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from diana.cli import output

if TYPE_CHECKING:
    from diana.wire.client_messages import Decision, ExplainResponse, PartOutcome, SiteCost

_NOTHING = frozenset({"0 s", "0 B", "0", "-", "", "0 %"})
_RUN_FROM = {
    "here": "learned, {seen} jobs",
    "elsewhere": "learned elsewhere, {seen} jobs",
    "declared": "declared",
    "guess": "a guess",
}
_CLASSES = {"compute": "compute-heavy", "data": "data-heavy", "both": "heavy in both data and computation"}


def show_decision(decision: Decision) -> None:
    output.heading(decision.reason or f"plan: {decision.plan}")
    for line in _summary(decision):
        print(line)
    if decision.parts:
        print()
        _table(
            (
                "PART AT", ">JOBS", ">END", ">RANGE", ">WAIT", ">STAGE IN", ">RUN", ">STAGE OUT", ">BYTES IN",
                ">BYTES OUT",
            ),
            [
                (
                    part.site,
                    f"{part.jobs:,}",
                    output.seconds(part.expected_end_s or part.predicted_end_s),
                    _between(part.predicted_low_s, part.predicted_high_s),
                    output.seconds(part.wait_s),
                    output.seconds(part.stage_in_s),
                    output.seconds(part.run_s),
                    output.seconds(part.stage_out_s),
                    output.size(part.bytes_in),
                    output.size(part.bytes_out),
                )
                for part in decision.parts
            ],
        )  # fmt: skip
    _show_sites(decision)


def _summary(decision: Decision) -> list[str]:
    lines = []
    end_s = decision.expected_s or max((p.predicted_end_s for p in decision.parts), default=-1.0)
    if decision.parts:
        spread = _between(decision.low_s, decision.high_s)
        lines.append(f"predicted end: {output.seconds(end_s)}" + (f", range {spread}" if spread else ""))
        if decision.past_groups:
            off = f"median {decision.past_error:.0%} over {decision.past_groups:,} groups"
            lines.append(f"past error: {off}; eight of ten ended in that range")
        else:
            lines.append("past error: too few groups have run as planned to tell")
    whole = output.seconds(decision.whole_s) if decision.whole_s >= 0 else "at no single site"
    split = output.seconds(decision.split_s) if decision.split_s > 0 else "-"
    lines.append(f"whole: {whole}; split: {split}")
    units = {"paper": "the paper's cost, without a unit"}.get(decision.model, "turnaround, in seconds")
    kind = _CLASSES.get(decision.job_class, "")
    if kind:
        kind = f"; the group is {kind} ({'declared' if decision.declared_class else 'derived'})"
    raw = ", raw" if decision.raw else ""
    weights = "".join(f", {one.term} x {one.weight:g}" for one in decision.weights)
    lines.append(f"cost model: {units}{raw}{weights}{kind}")
    return lines


# --- sites ---------------------------------------------------------------------------------------------------


def _show_sites(decision: Decision) -> None:
    feasible = [cost for cost in decision.candidates if not cost.rejected]
    if feasible:
        print("\nwhat the whole group would cost at each site:")
        _table(
            (
                "SITE", ">COST", ">NETWORK COST", ">COMPUTATION", ">TRANSFER", ">TOTAL", ">RANGE", ">WAIT", ">STAGE IN",
                ">RUN", ">STAGE OUT", ">NETWORK", ">BYTES IN", ">BYTES OUT", ">SLOTS", ">AT MOST", ">JOBS AHEAD",
                ">RTT", ">RATE", ">AGE", "RUN TIME",
            ),
            [_cells(cost, decision.model == "paper") for cost in feasible],
        )  # fmt: skip
    rejected = [cost for cost in decision.candidates if cost.rejected]
    if rejected:
        print()
    for cost in rejected:
        near = f" (takes it if {cost.near_miss})" if cost.near_miss else ""
        print(output.clean(f"not {cost.site}: {cost.rejected}{near}"))
    for some in decision.reasons:
        sites = "1 more site" if some.sites == 1 else f"{some.sites:,} more sites"
        print(output.clean(f"{sites}: {some.reason}"))


def _cells(cost: SiteCost, paper: bool) -> tuple[str, ...]:
    learned = _RUN_FROM.get(cost.run_from, "").format(seen=f"{cost.runs_seen:,}")
    numbers = (cost.cost, cost.network, cost.computation, cost.transfer) if paper else (0.0, 0.0, 0.0, 0.0)
    return (
        cost.site,
        *(f"{number:.4g}" for number in numbers),
        output.seconds(cost.total_s),
        _between(cost.total_low_s, cost.total_high_s),
        _ranged(cost.wait_s, cost.wait_low_s, cost.wait_high_s),
        _ranged(cost.stage_in_s, cost.stage_in_low_s, cost.stage_in_high_s),
        _ranged(cost.run_s, cost.run_low_s, cost.run_high_s),
        output.seconds(cost.stage_out_s),
        output.seconds(cost.network_s),
        output.size(cost.bytes_in),
        output.size(cost.bytes_out),
        f"{cost.slots:,}",
        f"{cost.max_jobs:,}",
        f"{cost.jobs_ahead:,}",
        output.seconds(cost.rtt_s or -1),
        output.rate(cost.bytes_per_s),
        output.seconds(cost.age_s),
        learned,
    )


def _ranged(value_s: float, low_s: float, high_s: float) -> str:
    """The figure, and its range where it has one that shows."""
    spread = _between(low_s, high_s)
    return f"{output.seconds(value_s)} ({spread})" if spread else output.seconds(value_s)


def _between(low_s: float, high_s: float) -> str:
    if high_s <= 0 or low_s < 0:
        return ""
    low, high = output.seconds(low_s), output.seconds(high_s)
    return "" if low == high else f"{low} to {high}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns that say nothing in any row are left out."""
    kept = [k for k in range(len(header)) if not k or any(row[k] not in _NOTHING for row in rows)]
    output.print_table([header[k] for k in kept], [[row[k] for k in kept] for row in rows])


# --- afterwards ----------------------------------------------------------------------------------------------


def show_outcomes(explained: ExplainResponse) -> None:
    """Predicted against achieved, per part and for the whole."""
    if explained.outcomes and any(one.ended_s >= 0 or one.started_s >= 0 for one in explained.outcomes):
        print("\npredicted against achieved, from the decision on:")
        _table(
            (
                "PART AT",
                ">JOBS",
                ">START",
                ">ACHIEVED",
                ">RUN",
                ">TOOK",
                ">BYTES IN",
                ">CAME",
                ">END",
                ">ENDED",
                ">ERROR",
            ),
            [_outcome(one) for one in explained.outcomes],
        )
    if explained.achieved_s > 0:
        line = f"\nachieved: {output.seconds(explained.achieved_s)} from submission to the last end"
        if explained.predicted_s > 0:
            error = _error(explained.predicted_s, explained.achieved_s)
            line += f"; predicted {output.seconds(explained.predicted_s)}, error {error}"
        print(line)


def _outcome(one: PartOutcome) -> tuple[str, ...]:
    start_s = max(one.predicted_wait_s, one.predicted_stage_in_s)
    took_s = one.ended_s - one.started_s if one.ended_s >= 0 and one.started_s >= 0 else -1.0
    return (
        one.site,
        f"{one.jobs:,}",
        output.seconds(start_s),
        output.seconds(one.started_s),
        output.seconds(one.predicted_run_s),
        output.seconds(took_s),
        output.size(one.predicted_bytes_in),
        output.size(one.bytes_in),
        output.seconds(one.predicted_end_s),
        output.seconds(one.ended_s) if one.over else "runs",
        _error(one.predicted_end_s, one.ended_s) if one.over and one.ended_s >= 0 else "-",
    )


def _error(predicted_s: float, achieved_s: float) -> str:
    """How far the achieved time was from the predicted one, as a part of that."""
    return f"{achieved_s / predicted_s - 1.0:+.0%}" if predicted_s > 0 else "-"
