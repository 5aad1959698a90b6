"""A page of a comparison, or of one scenario's runs: everything in one file, for light and dark, with no script and
nothing from the network. Each plot has its numbers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from diana.sim.experiments.compare import ComparedRun, Comparison, LoadTable, RunRow
from diana.sim.experiments.compare_text import COMPARED, HEADINGS, cell, cell_of, relative, written
from diana.sim.report import charts
from diana.sim.report.charts import Band, Curve
from diana.sim.report.drawing import QUANTILES, Drawing
from diana.sim.report.figures import NAMES
from diana.sim.report.page_parts import details, document, legend, plots, section, table
from diana.sim.specs.scenario_spec import Scenario

SWEPT = (
    "turnaround_mean_s",
    "turnaround_p95_s",
    "wait_mean_s",
    "slowdown_mean",
    "bytes_moved",
    "jain_slowdown",
    "utilisation",
    "makespan_s",
)
MOST_ROWS = 2000
"""Most runs that are listed one by one."""
FLOW_SITES = 6
"""Sites with a plot of their exports and imports."""
GANTT_USERS = 7
"""Users with a colour of their own."""


def page(scenario: Scenario, found: Comparison, drawn: Sequence[ComparedRun]) -> str:
    """`drawn`: runs with a drawing, all of one seed and load; none: nothing is shown of single runs."""
    shown = [(run.row, run.drawing) for run in drawn if run.drawing is not None]
    names = list(found.loads[0].policies)
    parts = [*_head(scenario, found), *_figures(found, names)]
    if shown:
        parts += [*_distributions(shown, names), *_over_time(shown, names), *_one_run(*_baseline(shown, found))]
    parts += _runs(found.runs)
    return document(scenario.name or "a scenario", parts)


def _baseline(shown: Sequence[tuple[RunRow, Drawing]], found: Comparison) -> tuple[RunRow, Drawing]:
    return next((one for one in shown if one[0].policy == found.baseline), shown[0])


def _head(scenario: Scenario, found: Comparison) -> Iterator[str]:
    if scenario.about:
        yield f"<p class=about>{escape(scenario.about.strip())}</p>"
    loads = ", ".join(f"{one.load:g}" for one in found.loads)
    facts = [
        ("sites", f"{len(scenario.sites):,}"),
        ("slots", f"{sum(site.slots + sum(m.slots for m in site.machines) for site in scenario.sites):,}"),
        ("users", f"{len(scenario.users):,}"),
        ("policies", f"{len(found.loads[0].policies)}"),
        ("loads", loads),
        ("seeds", _seeds(found.seeds)),
        ("left out at both ends", f"{100 * found.warm_up:g} % of the submissions' time"),
    ]
    yield "<dl class=facts>" + "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in facts) + "</dl>"


def _seeds(seeds: Sequence[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else f"{len(seeds)} ({seeds[0]} to {seeds[-1]})"


# --- the comparison --------------------------------------------------------------------------------------


def _figures(found: Comparison, names: Sequence[str]) -> Iterator[str]:
    several = len(found.seeds) > 1
    said = f"Mean over the seeds, with its {100 * found.confidence:g} % interval (Student's t). " if several else ""
    yield section("Figures", said + "Waits, turnarounds and bounded slowdowns are of jobs that were done.")
    loads = [one.load for one in found.loads]
    if len(names) > 1 or len(loads) > 1:
        yield legend(names) if len(loads) > 1 else ""
        drawn = []
        for key in SWEPT:
            rows = [[one.policies[name].figures.get(key) for one in found.loads] for name in names]
            scaled = [[HEADINGS[key].scaled(one) for one in row] for row in rows]
            drawn.append(charts.sweep(HEADINGS[key].title, loads, scaled, names))
        yield plots(drawn)
    for one in found.loads:
        yield f"<h3>Load {one.load:g}</h3>" if len(loads) > 1 else ""
        yield from _load(one, found, names)


def _load(one: LoadTable, found: Comparison, names: Sequence[str]) -> Iterator[str]:
    keys = [key for key in NAMES if any(key in its.figures for its in one.policies.values())]
    rows = [[HEADINGS[key].title, *(cell(one.policies[name], key) for name in names)] for key in keys]
    if one.bound:
        rows = [
            [*row, cell_of(one.bound[key], key) if key in one.bound else ""]
            for key, row in zip(keys, rows, strict=True)
        ]
    yield table(["", *names, *(["no less than"] if one.bound else [])], rows)
    others = [name for name in names if one.policies[name].differences]
    if not others:
        return
    yield (
        f"<h4>Differences from {escape(found.baseline)}</h4><p>In per cent of its value, paired by seed; "
        f"* where the interval does not reach 0.</p>"
    )
    drawn = []
    for key in COMPARED:
        shares = [one.policies[name].differences[key].relative for name in others]
        if any(share is not None for share in shares):
            scaled = [None if share is None else share.times(100.0) for share in shares]
            series = [names.index(name) for name in others]
            drawn.append(charts.forest(f"{HEADINGS[key].bare}, %", others, scaled, series=series))
    yield plots(drawn)
    cells = [[name, *(relative(one.policies[name].differences[key].relative) for key in COMPARED)] for name in others]
    yield table(["", *(HEADINGS[key].bare for key in COMPARED)], cells)


# --- what is drawn of the first seed ---------------------------------------------------------------------


def _distributions(shown: Sequence[tuple[RunRow, Drawing]], names: Sequence[str]) -> Iterator[str]:
    row = shown[0][0]
    yield section("Distributions", f"All jobs of seed {row.seed} at load {row.load:g}.")
    yield legend(names)
    kinds = (("Wait", "seconds", "wait_s"), ("Turnaround", "seconds", "turnaround_s"), ("Slowdown", "", "slowdown"))
    drawn = []
    for title, unit, kind in kinds:
        lines = [Curve(names.index(row.policy), getattr(drawing, kind), QUANTILES) for row, drawing in shown]
        drawn.append(
            charts.distribution(title, unit or "turnaround / run time of 10 s and more", lines, kind == "wait_s")
        )
    yield plots(drawn)
    some = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
    places = [QUANTILES.index(share) for share in some]
    rows = [
        [title, row.policy, *(written(getattr(drawing, kind)[place]) for place in places)]
        for title, _, kind in kinds
        for row, drawing in shown
    ]
    yield details("Numbers", table(["", "policy", *(f"{100 * share:g} %" for share in some)], rows, 2))


def _over_time(shown: Sequence[tuple[RunRow, Drawing]], names: Sequence[str]) -> Iterator[str]:
    yield section("Over time", f"Seed {shown[0][0].seed}, the whole grid.")
    yield legend(names) if len(names) > 1 else ""
    waiting = [Curve(names.index(row.policy), one.times_s, one.waiting) for row, one in shown]
    busy = [Curve(names.index(row.policy), one.times_s, [100 * x for x in one.busy]) for row, one in shown]
    yield plots([charts.course("Jobs that wait", "jobs", waiting)], wide=True)
    yield plots([charts.course("Processors that are busy", "%", busy, 102.0)], wide=True)
    marks = range(9, 200, 10)
    rows = [
        [row.policy, written(one.times_s[at]), f"{one.waiting[at]:,}", f"{100 * one.busy[at]:.1f}"]
        for row, one in shown
        for at in marks
    ]
    yield details("Numbers", table(["policy", "seconds", "waiting", "busy %"], rows))


def _one_run(row: RunRow, one: Drawing) -> Iterator[str]:
    yield section(f"One run: {row.policy}", f"Seed {row.seed}, load {row.load:g}; {one.jobs:,} jobs done.")
    names = [site.name for site in one.sites]
    more = f", the busiest {len(names)} of {len(names) + one.other_sites} sites" if one.other_sites else ""
    yield plots([charts.heat(f"How busy each site was{more}", names, one.times_s, one.site_busy)], wide=True)
    rows = [
        [s.name, f"{s.processors:,}", f"{s.jobs:,}", f"{100 * s.utilisation:.1f}", f"{s.exported:,}", f"{s.imported:,}"]
        for s in one.sites
    ]
    headings = ["site", "processors", "jobs run", "busy %", "ran elsewhere", "came from elsewhere"]
    yield details("Numbers", table(headings, rows), is_open=True)
    yield from _flows(one, names)
    yield from _gantt(one)


def _flows(one: Drawing, names: Sequence[str]) -> Iterator[str]:
    kinds = (
        ("Jobs placed at other sites than their own, by start", one.exports, one.imports),
        ("Jobs moved because their site was congested", one.moved_out, one.moved_in),
    )
    for title, out, into in kinds:
        totals = [sum(left) + sum(came) for left, came in zip(out, into, strict=True)]
        if not sum(totals):
            continue
        most = sorted(sorted(range(len(totals)), key=lambda place: (-totals[place], place))[:FLOW_SITES])
        picked = [[rows[place] for place in most] for rows in (out, into)]
        yield legend(["came from other sites", "went to other sites"], dashed=False)
        yield plots([charts.flows(title, [names[place] for place in most], one.times_s, *picked)], wide=True)
        rows = [[names[place], f"{sum(out[place]):,}", f"{sum(into[place]):,}"] for place in most]
        yield details("Numbers", table(["site", "went", "came"], rows))


def _gantt(one: Drawing) -> Iterator[str]:
    jobs: dict[int, int] = {}
    for bar in one.bars:
        jobs[bar.user] = jobs.get(bar.user, 0) + 1
    users = sorted(sorted(jobs, key=lambda user: (-jobs[user], user))[:GANTT_USERS])
    series = {user: place for place, user in enumerate(users)}
    bands = []
    for place in sorted({bar.site for bar in one.bars}):
        bars = [
            (series.get(bar.user, -1), bar.start_s, bar.end_s, bar.lane, bar.lanes)
            for bar in one.bars
            if bar.site == place
        ]
        lanes = max(max(lane + wide for _, _, _, lane, wide in bars), min(one.sites[place].processors, 200))
        bands.append(Band(one.sites[place].name, lanes, bars))
    if not bands:
        return
    yield legend([one.users[user] for user in users], others=len(jobs) > len(users), dashed=False)
    title = "Who ran where and when" + ("" if one.all_bars else ": the first jobs of the busiest sites")
    yield plots([charts.gantt(title, bands, one.bars_until_s)], wide=True)
    rows = [[one.users[user], f"{jobs[user]:,}"] for user in sorted(jobs, key=lambda user: (-jobs[user], user))[:50]]
    yield details("Numbers", table(["user", "bars"], rows))


def _runs(runs: Sequence[RunRow]) -> Iterator[str]:
    yield section("Runs", "")
    rows = [
        [
            row.policy,
            f"{row.load:g}",
            str(row.seed),
            *(written(value) if (value := getattr(row.figures, key)) is not None else "-" for key in NAMES),
            "" if row.good else "failed",
        ]
        for row in runs[:MOST_ROWS]
    ]
    many = f"{len(runs):,} runs" + (f", the first {MOST_ROWS:,}" if len(runs) > MOST_ROWS else "")
    yield details(many, table(["policy", "load", "seed", *(HEADINGS[key].title for key in NAMES), ""], rows))
