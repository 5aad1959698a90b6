"""A placement decision as text, for somebody who asks why: the sentence, when it ends, the parts, every site's price,
and why not the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diana.cli.groups.conditions import show_conditions
from diana.cli.shared import output

if TYPE_CHECKING:
    from diana.model.views.decision import FailedRequirement, GangDecision
    from diana.model.views.group import PartOutcome
    from diana.wire.client.decisions import Decision, SiteCost
    from diana.wire.client.messages import ExplainResponse

_NOTHING = frozenset({"0 s", "0 B", "0", "-", "", "0 %"})
_LEAST = (
    "BYTES OUT", "RUN TIME FROM", "NETWORK", "JOBS AHEAD", "AT MOST", "HEARD", "STAGE OUT", "BYTES IN", "RTT", "RANGE",
    "WHY",
)  # fmt: skip
_KEPT = (">IDLE",)
"""Columns that say something where all their rows are 0."""
_LEAST_OF_GANGS = ("BYTES IN", "ASKS ALSO", "GPUS", "FILES FROM", "TRANSFER", "FREE IN", "WHY")
"""The same of components, of which each says in a few words why it goes where it goes."""
WAVE_S = 10.0
"""Seconds between two moves to one site that count as one wave: a site is looked at every five."""
HEARD_NOW_S = 1.0
"""Seconds up to which what was heard counts as known now."""
MOST_NAMED = 8
"""Sites named in one line."""
NOTICED = 0.05
"""A part of the turnaround that is worth a word."""
_RUN_FROM = {
    "model": "its model, {seen} seen",
    "here": "{seen} here",
    "elsewhere": "{seen} elsewhere",
    "declared": "declared",
    "guess": "a guess",
}
_RANGES = {
    "outcomes": "; of ten groups eight end in such a range",
    "runs": "; until then the range is that of the slowest job and of the sites' waits",
}
_CLASSES = {"compute": "compute-heavy", "data": "data-heavy", "both": "heavy in both data and computation"}


def show_decision(decision: Decision) -> None:
    output.heading(decision.reason or f"plan: {decision.plan}")
    if decision.gang is not None:
        _show_gang(decision.gang)
        if decision.requirements is not None:
            show_conditions(decision.requirements)
        return
    for line in summary(decision):
        output.say(line)
    if decision.parts:
        print("\nthe plan:")
        _table(
            ("SITE", ">JOBS", ">END", ">RANGE", ">WAIT", ">STAGE IN", ">RUN", ">STAGE OUT", ">BYTES IN", ">BYTES OUT"),
            [
                (
                    part.site,
                    f"{part.jobs:,}",
                    output.seconds(part.expected_end_s or part.predicted_end_s),
                    output.between(part.predicted_low_s, part.predicted_high_s),
                    output.seconds(part.wait_s),
                    output.seconds(part.stage_in_s),
                    output.seconds(part.run_s),
                    output.seconds(part.stage_out_s),
                    output.size(part.bytes_in),
                    output.size(part.bytes_out),
                )
                for part in decision.parts
            ],
        )
    _show_sites(decision)
    if decision.requirements is not None:
        show_conditions(decision.requirements)


def _show_gang(gang: GangDecision) -> None:
    # Few verbs show gangs, and the command line starts fast.
    from diana.model.job.resources import amounts_shown, of

    print("\nits components:")
    _table(
        ("COMPONENT", "SITE", ">CPUS", ">GPUS", "ASKS ALSO", ">FREE IN", "FILES FROM", ">BYTES IN", ">TRANSFER", "WHY"),
        [
            (
                place.name or str(place.component + 1),
                place.site,
                f"{place.processors:,}",
                str(place.gpus or "-"),
                ", ".join(amounts_shown(of(place.resources))) or "-",
                output.seconds(place.wait_s),
                ", ".join(place.sources) or "-",
                output.size(place.bytes_in),
                output.seconds(place.transfer_s),
                place.reason,
            )
            for place in gang.components
        ],
        _LEAST_OF_GANGS,
    )
    if gang.run_s:
        _show_prediction(gang)
    rows = [site for site in gang.sites if not site.rejected]
    oldest_s = max((site.age_s for site in rows), default=0.0)
    when = "just" if oldest_s < HEARD_NOW_S else f"up to {output.seconds(oldest_s)}"
    print(f"\nidle processors, as the sites told them {when} before the decision:")
    _table(
        ("SITE", ">IDLE", ">SLOTS", ">WIDEST JOB", ">HEARD"),
        [(s.site, f"{s.idle:,}", f"{s.slots:,}", f"{s.widest or s.slots:,}", _heard(s.age_s)) for s in rows],
    )
    without: dict[str, list[str]] = {}
    for site in gang.sites:
        if site.rejected:
            without.setdefault(site.rejected, []).append(site.site)
    for why, sites in without.items():
        more = f" and {len(sites) - MOST_NAMED} more" if len(sites) > MOST_NAMED else ""
        output.say(f"not {', '.join(sites[:MOST_NAMED])}{more}: {why}")


def _show_prediction(gang: GangDecision) -> None:
    mapper = f", their data divided by {gang.mapper}" if gang.mapper else ""
    print(f"\nruns by the group's model{mapper}:")
    _table(
        ("COMPONENT", "SITE", ">ITEMS", ">MODEL", ">RUN"),
        [
            (
                place.name or str(place.component + 1),
                place.site,
                f"{place.items:,}" if gang.mapper else "-",
                output.seconds(place.model_s),
                output.seconds(place.run_s),
            )
            for place in gang.components
        ],
    )
    if gang.runs_seen:
        seen = output.counted(gang.runs_seen, "past component")
        output.say(f"eight of ten run {output.seconds(gang.run_low_s)} to {output.seconds(gang.run_high_s)}, by {seen}")
    if gang.models:
        p, s = output.counted(gang.kinds, "kind"), output.counted(gang.searched_sites, "site")
        tried = output.counted(gang.models, "placement")
        output.say(f"{tried} tried over {p} of machines at {s}; at most {gang.most_models:,}")
    if gang.runner_up:
        output.say(f"second best: {', '.join(gang.runner_up)}, its end after {output.seconds(gang.runner_up_s)}")


def _heard(age_s: float) -> str:
    return "now" if age_s < HEARD_NOW_S else f"{output.seconds(age_s)} ago"


def summary(decision: Decision) -> list[str]:
    """Lines on the predicted end, how sure it is, and the cost model."""
    lines = []
    if decision.parts:
        lines.append(_end(decision))
        lines.append(f"past error: {_past(decision)}{_RANGES.get(decision.range_from, '')}")
    if decision.plan == "whole" and decision.split_s > 0 and decision.split_s != decision.whole_s:
        lines.append(f"split, it would end after {output.seconds(decision.split_s)}")
    units = {"paper": "the paper's cost, without a unit"}.get(decision.model, "turnaround, in seconds")
    kind = _CLASSES.get(decision.job_class, "")
    if kind:
        kind = f"; the group is {kind} ({'declared' if decision.declared_class else 'derived'})"
    raw = ", raw" if decision.raw else ""
    weights = "".join(f", {one.term} x {one.weight:g}" for one in decision.weights)
    lines.append(f"cost model: {units}{raw}{weights}{kind}")
    return lines


def _past(decision: Decision) -> str:
    if not decision.past_groups:
        return "too few groups have run as planned to tell"
    return f"median {decision.past_error:.0%} over {output.counted(decision.past_groups, 'group')}"


def _end(decision: Decision) -> str:
    """Plans are compared as if jobs could be cut; what is foretold is the end of the slowest job."""
    if decision.basis == "guess":
        return "predicted end: not known yet; the job file names no run time, and no such job has ended"
    whole_s = decision.split_s if decision.plan == "split" else decision.whole_s
    # The plan's parts may be those alone that can start at once.
    fluid = output.seconds(whole_s if whole_s > 0 else max(part.predicted_end_s for part in decision.parts))
    end = output.seconds(decision.expected_s) if decision.expected_s > 0 else fluid
    spread = output.between(decision.low_s, decision.high_s)
    cut = f"; {fluid} if jobs could be cut" if end != fluid else ""
    if decision.low_s < 0:
        return f"predicted end: {end}, range not known yet{cut}"
    return f"predicted end: {end}" + (f", range {spread}" if spread else "") + cut


# --- sites ---------------------------------------------------------------------------------------------------


def _show_sites(decision: Decision) -> None:
    feasible = [cost for cost in decision.candidates if not cost.rejected]
    if feasible and decision.model == "paper":
        if any(cost.cost or cost.network or cost.computation or cost.transfer for cost in feasible):
            rows = [_paper_terms(cost) for cost in feasible]
            print("\nwhat the whole group would cost at each site, by the paper's terms:")
            _table(("SITE", ">COST", ">NETWORK", ">COMPUTATION", ">TRANSFER"), rows)
        else:
            print("\nby the paper's terms every site costs 0: no job waits or runs anywhere, and nothing has to move")
    if feasible:
        print("\nwhat the whole group would take at each site:")
        _table(
            ("SITE", ">TOTAL", ">RANGE", ">WAIT", ">STAGE IN", ">RUN", ">STAGE OUT", ">NETWORK"),
            [_terms(cost) for cost in feasible],
        )
        print("\nwhat that rests on:")
        _table(
            (
                "SITE", ">SLOTS", ">AT MOST", ">RANK", ">MODEL", ">JOBS AHEAD", ">BYTES IN", ">BYTES OUT", ">RTT",
                ">RATE", ">HEARD", "RUN TIME FROM",
            ),
            [_grounds(cost) for cost in feasible],
        )  # fmt: skip
    for cost in feasible:
        # Such a site has jobs only where the others have no room for all.
        for one in cost.failed:
            output.say(f"{cost.site}: {one.text}: {one.found}")
    rejected = [cost for cost in decision.candidates if cost.rejected]
    if rejected or decision.reasons:
        print()
    for cost in rejected:
        near = f" (takes it if {cost.near_miss})" if cost.near_miss else ""
        output.say(f"not {cost.site}: {cost.rejected}{near}")
        for one in _beside(cost, decision):
            output.say(f"    {one.text}" + (f": {one.found}" if one.found else ""))
    for some in decision.reasons:
        output.say(f"{output.counted(some.sites, 'more site')}: {some.reason}")


def _beside(cost: SiteCost, decision: Decision) -> list[FailedRequirement]:
    """Failed conditions that the table of conditions does not tell: an older node's, one of many, a rank."""
    table = decision.requirements
    told = {one.text for one in (*table.conditions, *table.set_conditions)} if table is not None else set()
    return [one for one in cost.failed if one.text not in told]


def _paper_terms(cost: SiteCost) -> tuple[str, ...]:
    return (cost.site, *(f"{term:.4g}" for term in (cost.cost, cost.network, cost.computation, cost.transfer)))


def _terms(cost: SiteCost) -> tuple[str, ...]:
    return (
        cost.site,
        output.seconds(cost.total_s),
        output.between(cost.total_low_s, cost.total_high_s),
        _ranged(cost.wait_s, cost.wait_low_s, cost.wait_high_s),
        _ranged(cost.stage_in_s, cost.stage_in_low_s, cost.stage_in_high_s),
        _ranged(cost.run_s, cost.run_low_s, cost.run_high_s),
        output.seconds(cost.stage_out_s),
        output.seconds(cost.network_s),
    )


def _number(value: float) -> str:
    """Four digits; whole numbers as long as bytes are stand as they are in the table of conditions."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def _grounds(cost: SiteCost) -> tuple[str, ...]:
    return (
        cost.site,
        f"{cost.slots:,}",
        f"{cost.max_jobs:,}" if cost.max_jobs else "-",
        _number(cost.rank),
        output.seconds(cost.model_s) if cost.model_s else "-",
        f"{cost.jobs_ahead:,}",
        output.size(cost.bytes_in),
        output.size(cost.bytes_out),
        output.milliseconds(cost.rtt_s or -1),
        output.rate(cost.bytes_per_s),
        _heard(cost.age_s),
        _RUN_FROM.get(cost.run_from, "").format(seen=output.counted(cost.runs_seen, "job")),
    )


def _ranged(value_s: float, low_s: float, high_s: float) -> str:
    """The figure, and its range where it has one that shows."""
    spread = output.between(low_s, high_s)
    return f"{output.seconds(value_s)} ({spread})" if spread else output.seconds(value_s)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], least: Sequence[str] = _LEAST) -> None:
    """Columns that say nothing in any row are left out."""
    kept = [k for k, name in enumerate(header) if not k or name in _KEPT or any(row[k] not in _NOTHING for row in rows)]
    output.print_table([header[k] for k in kept], [[row[k] for k in kept] for row in rows], least=least)


def show_moves(decisions: Sequence[Decision]) -> None:
    """Decisions on jobs that were called back from where they waited: a line per destination and wave."""
    if decisions:
        print("\nmoves (their cost tables: --json):")
    last_s: dict[str, float] = {}
    waves: dict[str, list[tuple[int, str]]] = {}
    lines: list[list[tuple[int, str]]] = []
    for one in decisions:
        to = ", ".join(part.site for part in one.parts)
        jobs, why = sum(part.jobs for part in one.parts), one.moved
        if to not in waves or one.decided_at_s - last_s[to] > WAVE_S:
            waves[to] = []
            lines.append(waves[to])
        waves[to].append((jobs, f"to {to}: {why.removeprefix(f'{to}: ')}"))
        last_s[to] = one.decided_at_s
    for wave in lines:
        times = f" in {len(wave)} moves" if len(wave) > 1 else ""
        output.say(f"{output.counted(sum(jobs for jobs, _ in wave), 'job')}{times} {wave[0][1]}")


def show_called(decisions: Sequence[Decision], heading: str = "") -> None:
    """Decisions without a table, such as those that weighed nothing since a site called for jobs whose turn had come
    there: a line per reason."""
    if decisions:
        print(f"\n{heading}" if heading else "")
    for reason, times in Counter(one.reason for one in decisions).items():
        print(reason + (f" ({times} times)" if times > 1 else ""))


# --- afterwards ----------------------------------------------------------------------------------------------


def show_outcomes(explained: ExplainResponse) -> None:
    """Predicted against achieved, per part and for the whole."""
    if explained.outcomes and any(one.ended_s >= 0 or one.started_s >= 0 for one in explained.outcomes):
        print("\npredicted / achieved, in time from the decision on:")
        several = len(explained.decisions) > 1
        _table(
            ("SITE", ">DECISION", ">JOBS", ">START", ">RUN", ">BYTES IN", ">END", ">ERROR"),
            [_outcome(one, several) for one in explained.outcomes],
        )
    if explained.achieved_s > 0:
        print(_achieved(explained))


def _achieved(explained: ExplainResponse) -> str:
    """The time before the decision, such as that spent waiting for other groups, was never predicted."""
    line = f"\nachieved: {output.seconds(explained.achieved_s)} from submission to the last end"
    if explained.predicted_s <= 0 or not explained.decisions:
        return line
    one = explained.decisions[0]
    planned_s = one.expected_s or max((part.predicted_end_s for part in one.parts), default=0.0)
    before_s = max(0.0, explained.predicted_s - planned_s)
    if explained.placed_s > 0 or one.basis:
        # Nodes of release 0.1.0 do not say when it was placed.
        before_s = max(0.0, explained.placed_s)
        planned_s = explained.predicted_s - before_s
    if before_s >= max(HEARD_NOW_S, NOTICED * explained.achieved_s):
        line += f", {output.seconds(before_s)} of it before the group was placed"
        line += f"\nfrom then on: {output.seconds(explained.achieved_s - before_s)}"
    error = _error(planned_s, explained.achieved_s - before_s)
    return f"{line}; predicted {output.seconds(planned_s)}, error {error}"


def _outcome(one: PartOutcome, several: bool) -> tuple[str, ...]:
    start_s = max(one.predicted_wait_s, one.predicted_stage_in_s)
    took_s = one.ended_s - one.started_s if one.ended_s >= 0 and one.started_s >= 0 else -1.0
    ended = output.seconds(one.ended_s) if one.over else "not over"
    moved = one.predicted_bytes_in or one.bytes_in
    return (
        one.site,
        str(one.decision + 1) if several else "",
        f"{one.jobs:,}",
        f"{output.seconds(start_s)} / {output.seconds(one.started_s)}",
        f"{output.seconds(one.predicted_run_s)} / {output.seconds(took_s if one.over else -1)}",
        f"{output.size(one.predicted_bytes_in)} / {output.size(one.bytes_in)}" if moved else "",
        f"{output.seconds(one.predicted_end_s)} / {ended}",
        _error(one.predicted_end_s, one.ended_s) if one.over and one.ended_s >= 0 else "-",
    )


def _error(predicted_s: float, achieved_s: float) -> str:
    """Relative error of the predicted time: achieved / predicted - 1; `-` without a prediction."""
    return f"{achieved_s / predicted_s - 1.0:+.0%}" if predicted_s > 0 else "-"
