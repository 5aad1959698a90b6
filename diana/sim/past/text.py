"""Replays and differences as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from diana.model.durations import seconds
from diana.model.words import counted
from diana.sim.past.advice import Advice
from diana.sim.past.twin import TwinCheck
from diana.sim.past.whatif import Side, WhatIf
from diana.sim.report.intervals import Interval

_MOST_USERS = 10


def of_whatif(found: WhatIf) -> str:
    return "\n".join(_whatif(found)) + "\n"


def _whatif(found: WhatIf) -> Iterator[str]:
    changes = " ".join(found.changes)
    yield f"{found.history}: {counted(found.base.groups, 'group')}, replayed as it was and with {changes}"
    yield ""
    yield from _sides("AS IT WAS", found.base, "CHANGED", found.changed)
    yield ""
    yield f"mean turnaround of a group: {told_difference(found.turnaround_difference_s, found.base.turnaround_mean_s)}"
    yield f"mean wait of a job:         {told_difference(found.wait_difference_s, found.base.wait_mean_s)}"
    yield f"intervals: 95 %, over {found.drawn} drawn again and again, {counted(len(found.seeds), 'seed')}"
    most = sorted(found.users.items(), key=lambda row: -abs(row[1]))[:_MOST_USERS]
    if len(found.users) > 1:
        yield "by user, mean turnaround: " + ", ".join(f"{user} {signed(by_s)}" for user, by_s in most)


def of_twin(found: TwinCheck) -> str:
    return "\n".join(_twin(found)) + "\n"


def _twin(found: TwinCheck) -> Iterator[str]:
    yield f"{found.history}: {counted(found.truly.groups, 'group')}"
    yield ""
    yield from _sides("TRULY", found.truly, "REPLAYED", found.replayed)
    yield ""
    yield verdict(found)
    if found.forecast_error >= 0 <= found.replayed_forecast_error:
        told = f"{found.forecast_error:.0%} off (median group), {found.replayed_forecast_error:.0%} in the replay"
        yield f"  ends foretold at submission were {told}"
    for line in (*found.lacks, *found.waits):
        yield f"  {line}"
    if found.worst:
        yield "groups that differ most (turnaround truly, replayed):"
    for one in found.worst:
        yield f"  {one.group}  {seconds(one.truly_s)}  {seconds(one.replayed_s)}"


def verdict(found: TwinCheck) -> str:
    """Return one sentence: whether the replay holds, and by what measures."""
    holds = "the replay holds" if found.holds else "the replay does not hold"
    return (
        f"{holds}: makespan {found.makespan_error:+.1%} (5 % allowed), turnaround of the median group off by "
        f"{found.median_turnaround_error:.1%} (10 % allowed), {found.sites_error:.0%} of the jobs at other sites"
    )


def of_advice(found: Advice) -> str:
    return "\n".join(_advice(found)) + "\n"


def _advice(found: Advice) -> Iterator[str]:
    yield f"{found.history}: {counted(found.base.groups, 'group')}, replayed under {counted(found.tried, 'change')}"
    if not found.advised:
        yield "none of them would have made the mean turnaround shorter"
    for number, one in enumerate(found.advised, 1):
        yield ""
        gain = told_difference(one.turnaround_difference_s, found.base.turnaround_mean_s)
        yield f"{number}. {' '.join(one.changes)}: mean turnaround of a group {gain}"
        yield f"   {one.order}"


def _sides(left: str, one: Side, right: str, other: Side) -> Iterator[str]:
    yield f"{'':34}{left:>12}{right:>12}"
    for name, a, b in figures(one, other):
        yield f"{name:34}{a:>12}{b:>12}"


def figures(one: Side, other: Side) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each figure, with its value on both sides."""
    yield from (
        ("turnaround of a group, mean", seconds(one.turnaround_mean_s), seconds(other.turnaround_mean_s)),
        ("turnaround of a group, median", seconds(one.turnaround_median_s), seconds(other.turnaround_median_s)),
        ("wait of a job, mean", seconds(one.wait_mean_s), seconds(other.wait_mean_s)),
        ("bounded slowdown of a job, mean", f"{one.slowdown_mean:.2f}", f"{other.slowdown_mean:.2f}"),
        ("makespan", seconds(one.makespan_s), seconds(other.makespan_s)),
        ("core hours", f"{one.core_hours:,.2f}", f"{other.core_hours:,.2f}"),
        ("moved between sites, MB", f"{one.bytes_moved / 1e6:,.1f}", f"{other.bytes_moved / 1e6:,.1f}"),
        ("fairness over users (1: equal)", f"{one.fairness:.3f}", f"{other.fairness:.3f}"),
        ("groups that did not end", f"{one.unfinished:,}", f"{other.unfinished:,}"),
    )


def told_difference(found: Interval, base_s: float) -> str:
    """Return seconds with their interval, and their share of `base_s`."""
    share = f", {found.mean / base_s:+.1%}" if base_s > 0 else ""
    if found.low is None or found.high is None:
        return f"{signed(found.mean)}{share}"
    sure = "" if found.zero_lies_outside() else "; no difference that is sure"
    return f"{signed(found.mean)} ({signed(found.low)} to {signed(found.high)}){share}{sure}"


def signed(value_s: float) -> str:
    """Return seconds with their sign."""
    return f"{'-' if value_s < 0 else '+'}{seconds(abs(value_s))}"
