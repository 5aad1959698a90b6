"""Advice from a history: changes that an operator could make, each replayed, the most helpful first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from diana.sim.load import past
from diana.sim.past.changes import Change, changed
from diana.sim.past.replay import Replayed, Tell, as_it_was, replayed
from diana.sim.past.waits import observed
from diana.sim.past.whatif import Side, difference, side, units
from diana.sim.report.intervals import Interval
from diana.sim.specs.scenario_spec import Scenario

MORE_SLOTS = 0.25
"""Share of a site's slots by which more are tried."""
FASTER = 4.0
"""Factor by which a faster link is tried."""
MOST_OF_A_KIND = 4
"""Sites, links and datasets tried of each kind: those with the most work, data or reads."""
MORE_QUOTA = 2.0


class TriedChange(NamedTuple):
    changes: tuple[Change, ...]
    order: str
    """The command or line of `site.toml` that makes it so."""


class Advised(msgspec.Struct, frozen=True, kw_only=True):
    """One change, replayed."""

    changes: list[str]
    order: str
    turnaround_difference_s: Interval
    """Mean over groups, changed minus as it was."""
    wait_difference_s: Interval
    sure: bool
    """True if the interval of the turnaround lies below 0."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    history: str
    base: Side
    tried: int
    advised: list[Advised]
    """The changes that help, the most helpful first."""


def advice(scenario: Scenario, seeds: range, workers: int = 0, tell: Tell | None = None) -> Advice:
    scenario = observed(scenario)
    some = list(candidates(scenario))
    base, *rest = replayed([scenario, *(changed(scenario, one.changes) for one in some)], seeds, workers, tell)
    rows = [_row(one, base, runs) for one, runs in zip(some, rest, strict=True)]
    helpful = [row for row in rows if row.turnaround_difference_s.mean < 0]
    return Advice(
        history=scenario.name,
        base=side(base),
        tried=len(rows),
        advised=sorted(helpful, key=lambda row: (not row.sure, row.turnaround_difference_s.mean)),
    )


def _row(one: TriedChange, base: Sequence[Replayed], runs: Sequence[Replayed]) -> Advised:
    pairs = [
        (before.groups[name], after.groups[name])
        for before, after in zip(base, runs, strict=True)
        for name in sorted(before.groups.keys() & after.groups.keys())
    ]
    drawn = units(pairs)
    ends = difference(pairs, [after.end_s - before.end_s for before, after in pairs], drawn)
    return Advised(
        changes=[f"--{option} {word}" for option, word in one.changes],
        order=one.order,
        turnaround_difference_s=ends,
        wait_difference_s=difference(pairs, [after.wait_s - before.wait_s for before, after in pairs], drawn),
        sure=ends.high is not None and ends.high < 0,
    )


def candidates(scenario: Scenario) -> Iterator[TriedChange]:
    """The changes that are tried: slots where the most work was done, links and replicas where data are read, settings
    that decide, a quota for who waited longest."""
    truly = as_it_was(scenario).groups.values()
    busy: dict[str, float] = defaultdict(float)
    """Site -> seconds that jobs held slots there."""
    slow: dict[str, list[float]] = defaultdict(list)
    for row in truly:
        for site, jobs in row.sites.items():
            busy[site] += jobs * row.run_s / row.jobs
        slow[row.user].append(row.slowdown)
    of = {site.name: site for site in scenario.sites}
    for name in sorted(busy, key=lambda site: -busy[site])[:MOST_OF_A_KIND]:
        if name in of and of[name].slots:
            more = max(1, round(of[name].slots * MORE_SLOTS))
            wanted = of[name].slots + more
            yield TriedChange(
                (("site", f"{name}.slots+{more}"),), f"at {name}, in site.toml: [settings] slots = {wanted}"
            )
    reads = _reads(scenario)
    for dataset, _ in reads.most_common(MOST_OF_A_KIND):
        yield from _nearer(scenario, dataset, busy)
    held = {dataset.site for dataset in scenario.datasets if dataset.name in reads}
    links = [link for link in scenario.links if held & set(link.between)]
    for link in sorted(links, key=lambda one: one.bytes_per_s)[:MOST_OF_A_KIND]:
        a, b = link.between
        rate = f"{FASTER * link.bytes_per_s * 8 / 1e6:g}Mbit/s"
        yield TriedChange((("link", f"{a}-{b}={rate}"),), f"a link of {rate} between {a} and {b}")
    for key, values in (("migration", ("off", "default")), ("binding", ("late", "early"))):
        for value in values:
            if str(scenario.settings.get(key, _usual(scenario, key))) != value:
                order = f'at each site, in site.toml: [settings] {key} = "{value}"'
                yield TriedChange((("setting", f"{key}={value}"),), order)
    if len(slow) > 1:
        user = max(slow, key=lambda name: sum(slow[name]) / len(slow[name]))
        quota = next((one.quota for one in scenario.users if one.name == user), 0.0) or 1.0
        more_s = f"{quota * MORE_QUOTA:g}"
        order = f'at each site, in site.toml: [settings.quotas] "{user}" = {more_s}'
        yield TriedChange((("quota", f"{user}={more_s}"),), order)


def _usual(scenario: Scenario, key: str) -> object:
    return getattr(scenario.site_settings(scenario.sites[0]), key)


def _reads(scenario: Scenario) -> Counter[str]:
    """Dataset -> bytes that groups read of it, each once."""
    sizes = {dataset.name: dataset.files * dataset.file_bytes for dataset in scenario.datasets}
    found: Counter[str] = Counter()
    for work in scenario.workload:
        for group in past.read(work.history.file).groups if work.history else ():
            for name in group.note.datasets:
                found[name] += sizes.get(name, 0)
    return Counter({name: size for name, size in found.items() if size})


def _nearer(scenario: Scenario, name: str, busy: dict[str, float]) -> Iterator[TriedChange]:
    """A copy at the busiest site that has none, or else at the largest."""
    dataset = next(one for one in scenario.datasets if one.name == name)
    has = {dataset.site, *dataset.replicas}
    others = [site for site in scenario.sites if site.slots and site.name not in has]
    if others:
        at = max(others, key=lambda site: (busy.get(site.name, 0.0), site.slots, site.name)).name
        yield TriedChange(
            (("replica", f"{name}@{at}"),), f"at {at}: diana datasets add {name} PATH, with the same files"
        )
