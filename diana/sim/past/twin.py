"""A replay beside what truly happened: how far the simulator can be believed about this grid, and where it errs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean, median

import msgspec

from diana.sim.past.replay import GroupRow, Replayed, Tell, as_it_was, replayed
from diana.sim.past.waits import observed
from diana.sim.past.whatif import Side, side
from diana.sim.specs.scenario_spec import Scenario

MOST_SHOWN = 10
MAKESPAN_ERROR, TURNAROUND_ERROR = 0.05, 0.10
"""Errors up to which a replay counts as true, of the makespan and of the median group's turnaround."""
RUN_ERROR, BYTES_ERROR = 0.02, 0.10
"""Relative errors up to which nothing is said of run times and of bytes moved."""
LEAST_BYTES = 1e6
NOISE_S = 1.0
"""Seconds by which a replayed group may differ for no reason."""


class GroupError(msgspec.Struct, frozen=True):
    group: str
    truly_s: float
    """Turnaround."""
    replayed_s: float
    wait_error_s: float
    """Replayed minus true start of its first job."""
    run_error: float
    """Replayed over true time its jobs held slots, less 1."""


class TwinCheck(msgspec.Struct, frozen=True, kw_only=True):
    history: str
    truly: Side
    replayed: Side
    makespan_error: float
    """Relative; positive: the replay takes longer."""
    median_turnaround_error: float
    """Median over groups of the relative error of the turnaround, without sign. A group's replay is its median over the
    seeds: what happened is one draw of what could, and a replay under one seed is another."""
    sites_error: float
    """Share of the jobs that ran at another site than in the replay, at least."""
    bytes_error: float
    """Relative error of the bytes moved between sites; 0 where none were."""
    holds: bool
    """True if makespan and median turnaround are within the errors of this page."""
    forecast_error: float
    """Median over groups of |achieved / foretold - 1|, of ends as they were foretold then; negative: none was."""
    replayed_forecast_error: float
    """The same of the replay's forecasts."""
    waits: list[str]
    """Waits of sites that the replay draws as they were observed (`waits.py`), one line each."""
    lacks: list[str]
    """Parts that the model lacks, the largest first, each with its measure."""
    worst: list[GroupError]


def twin(scenario: Scenario, seeds: range, workers: int = 0, tell: Tell | None = None) -> TwinCheck:
    scenario = observed(scenario)
    (runs,) = replayed([scenario], seeds, workers, tell)
    return compared(scenario, runs)


def compared(scenario: Scenario, runs: Sequence[Replayed]) -> TwinCheck:
    """Compare replays of a scenario, one per seed, with what its histories tell."""
    truly = as_it_was(scenario)
    real, again = side([truly]), side(runs)
    pairs = [
        (row, one.groups[name]) for one in runs for name, row in sorted(truly.groups.items()) if name in one.groups
    ]
    ends_s: dict[str, list[float]] = {}
    for row, made in pairs:
        ends_s.setdefault(row.name, []).append(made.end_s)
    end_s = {name: median(some) for name, some in ends_s.items()}
    errors = [
        abs(each_s - truly.groups[name].end_s) / max(NOISE_S, truly.groups[name].end_s)
        for name, each_s in end_s.items()
    ]
    makespan = again.makespan_s / real.makespan_s - 1.0 if real.makespan_s else 0.0
    middle = median(errors) if errors else math.inf
    moved = again.bytes_moved / real.bytes_moved - 1.0 if real.bytes_moved else float(again.bytes_moved > 0)
    # The first seed's, each group once.
    wrong = [
        GroupError(row.name, row.end_s, made.end_s, made.first_s - row.first_s, made.run_s / row.run_s - 1.0)
        for row, made in pairs[: len(runs[0].groups)]
        if abs(made.end_s - row.end_s) > max(NOISE_S, TURNAROUND_ERROR * row.end_s)
    ]
    return TwinCheck(
        history=scenario.name,
        truly=real,
        replayed=again,
        makespan_error=makespan,
        median_turnaround_error=middle,
        sites_error=_elsewhere(pairs),
        bytes_error=moved,
        holds=abs(makespan) <= MAKESPAN_ERROR and middle <= TURNAROUND_ERROR,
        forecast_error=_forecast_error([row for row, _ in pairs]),
        replayed_forecast_error=_forecast_error([made for _, made in pairs]),
        waits=list(_waits(scenario)),
        lacks=_lacks(truly, pairs, moved),
        worst=sorted(wrong, key=lambda one: -abs(one.replayed_s - one.truly_s))[:MOST_SHOWN],
    )


def _forecast_error(rows: Sequence[GroupRow]) -> float:
    errors = [abs(row.end_s / row.foretold_s - 1.0) for row in rows if row.foretold_s > 0]
    return median(errors) if errors else -1.0


def _waits(scenario: Scenario) -> Iterator[str]:
    for site in scenario.sites:
        if site.gaps_s:
            yield f"{site.name}: slots stay empty for {fmean(site.gaps_s):.1f} s after a job (mean)"
        if site.waits_s:
            yield f"{site.name}: jobs wait {fmean(site.waits_s):.1f} s for their begin though slots are free (mean)"


def _elsewhere(pairs: Sequence[tuple[GroupRow, GroupRow]]) -> float:
    there = Counter[str]()
    here = Counter[str]()
    for row, made in pairs:
        there.update({f"{row.name} {site}": jobs for site, jobs in row.sites.items()})
        here.update({f"{row.name} {site}": jobs for site, jobs in made.sites.items()})
    total = there.total()
    return (there - here).total() / total if total else 0.0


def _lacks(truly: Replayed, pairs: Sequence[tuple[GroupRow, GroupRow]], bytes_error: float) -> list[str]:
    """Each part of the difference that exceeds the noise, told with its size: run times, waits, bytes and places."""
    if not pairs:
        return ["no group of the history ended in the replay"]
    found: list[tuple[float, str]] = []
    run_s = math.fsum(row.run_s for row, _ in pairs)
    off = math.fsum(made.run_s - row.run_s for row, made in pairs) / run_s if run_s else 0.0
    if abs(off) > RUN_ERROR:
        why = f"its jobs are at {'faster' if off < 0 else 'slower'} sites, by the speeds that sites tell"
        found.append((abs(off), f"run times: {off:+.0%} in the replay; {why}"))
    late_s = median(made.first_s - row.first_s for row, made in pairs)
    if abs(late_s) > NOISE_S:
        why = "staging or a batch system's own queue took longer" if late_s < 0 else "true sites had room sooner"
        of_s = max(NOISE_S, median(row.end_s for row, _ in pairs))
        found.append((abs(late_s) / of_s, f"first starts: {late_s:+.1f} s in the replay; {why}"))
    if abs(bytes_error) > BYTES_ERROR and truly.bytes_moved > LEAST_BYTES:
        why = "which files a job reads, and what caches held, is not in a history"
        found.append((abs(bytes_error), f"bytes moved: {bytes_error:+.0%} in the replay; {why}"))
    made_at = {site for _, made in pairs for site in made.sites}
    unused = sorted({site for row, _ in pairs for site in row.sites} - made_at - {""})
    if unused:
        found.append((0.0, f"sites: the replay runs no job at {', '.join(unused)}"))
    return [text for _, text in sorted(found, key=lambda one: -one[0])]
