"""A comparison for people: a table per load, then the differences from the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diana.sim.experiments.compare import Comparison, LoadTable, PolicyTable
from diana.sim.report.intervals import Interval


def written(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


class Heading(NamedTuple):
    """Name and unit of a figure as they are written."""

    title: str
    """Title with the unit."""
    short: str
    factor: float = 1.0
    """Factor from the figure's unit to that shown."""

    @property
    def bare(self) -> str:
        """Title without the unit."""
        return self.title.removesuffix(", s").removesuffix(", GB").removesuffix(", %")

    def scaled(self, one: Interval | None) -> Interval | None:
        return None if one is None else one.times(self.factor)


HEADINGS = {
    "unfinished": Heading("Jobs not done", "not done"),
    "wait_mean_s": Heading("Wait, mean, s", "wait s"),
    "wait_median_s": Heading("Wait, median, s", "wait median s"),
    "wait_p95_s": Heading("Wait, p95, s", "wait p95 s"),
    "turnaround_mean_s": Heading("Turnaround, mean, s", "turnaround s"),
    "turnaround_median_s": Heading("Turnaround, median, s", "turnaround median s"),
    "turnaround_p95_s": Heading("Turnaround, p95, s", "p95 s"),
    "slowdown_mean": Heading("Bounded slowdown, mean", "slowdown"),
    "slowdown_median": Heading("Bounded slowdown, median", "slowdown median"),
    "slowdown_p95": Heading("Bounded slowdown, p95", "slowdown p95"),
    "response_mean_s": Heading("First job done after, mean, s", "response s"),
    "group_turnaround_mean_s": Heading("Group turnaround, mean, s", "group s"),
    "makespan_s": Heading("Makespan, s", "makespan s"),
    "throughput_per_h": Heading("Jobs done per hour", "jobs/h"),
    "utilisation": Heading("Processors busy, %", "busy %", 100.0),
    "jain_slowdown": Heading("Jain index of slowdowns", "Jain"),
    "jain_share": Heading("Jain index of work done", "Jain of work"),
    "bytes_moved": Heading("Moved between sites, GB", "moved GB", 1e-9),
    "messages_per_job": Heading("Messages per job", "messages/job"),
}
"""Headings of each of `figures.NAMES`."""
SHOWN = (
    "turnaround_mean_s",
    "turnaround_p95_s",
    "group_turnaround_mean_s",
    "wait_mean_s",
    "slowdown_mean",
    "makespan_s",
    "utilisation",
    "jain_slowdown",
    "bytes_moved",
    "messages_per_job",
    "unfinished",
)
COMPARED = (
    "turnaround_mean_s",
    "turnaround_p95_s",
    "group_turnaround_mean_s",
    "wait_mean_s",
    "slowdown_mean",
    "makespan_s",
    "bytes_moved",
)


def text(found: Comparison) -> str:
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    seeds = f"seed {found.seeds[0]}" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
    yield (
        f"compare: {seeds}, the first and last {100 * found.warm_up:g} % of submissions left out; "
        f"mean, ± half the {100 * found.confidence:g} % interval"
    )
    for table in found.loads:
        yield ""
        yield f"load {table.load:g}"
        yield from _aligned(_figures(table))
        compared = [name for name in table.policies if table.policies[name].differences]
        if compared:
            yield f"  differences from {found.baseline}, paired by seed; * where the interval does not reach 0"
            yield from _aligned(_differences(table, compared))


def _figures(table: LoadTable) -> Iterator[list[str]]:
    shown = [key for key in SHOWN if any(key in its.figures for its in table.policies.values())]
    yield ["policy", *(HEADINGS[key].short for key in shown)]
    for name, its in table.policies.items():
        yield [name, *(cell(its, key) for key in shown)]
    if table.bound:
        yield ["(no less than)", *(cell_of(table.bound.get(key), key) if key in table.bound else "" for key in shown)]


def cell(its: PolicyTable, key: str) -> str:
    return cell_of(its.figures.get(key), key)


def cell_of(one: Interval | None, key: str) -> str:
    return "-" if one is None else with_margin(one.times(HEADINGS[key].factor))


def with_margin(one: Interval) -> str:
    """`mean ± half the interval`; for one value the value alone."""
    if one.high is None:
        return written(one.mean)
    half = one.high - one.mean
    return f"{written(one.mean)} ±{margin(half)}" if half else written(one.mean)


def margin(half: float) -> str:
    return f"{half:.2g}" if abs(half) < 99.5 else f"{half:,.0f}"


def _differences(table: LoadTable, compared: list[str]) -> Iterator[list[str]]:
    yield ["policy", *(HEADINGS[key].short.removesuffix(" s").removesuffix(" GB") for key in COMPARED)]
    for name in compared:
        differences = table.policies[name].differences
        yield [name, *(relative(differences[key].relative) if key in differences else "-" for key in COMPARED)]


def relative(share: Interval | None) -> str:
    """`+12.3 % ±1.0 *`; `-` where there is none."""
    if share is None:
        return "-"
    half = "" if share.high is None else f" ±{100 * (share.high - share.mean):.1f}"
    return f"{100 * share.mean:+.1f} %{half}{' *' if share.zero_lies_outside() else ''}"


def _aligned(rows: Iterator[list[str]]) -> Iterator[str]:
    cells = list(rows)
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    for row in cells:
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join([first, *others])
