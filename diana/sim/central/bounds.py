"""Lower bounds of a scenario's makespan and turnaround: no schedule does better, whoever makes it."""

from __future__ import annotations

import numpy as np

from diana.sim.central.jobs import Jobs, Only, jobs_of
from diana.sim.report.report import Bound
from diana.sim.specs.scenario_spec import Scenario


def bound(scenario: Scenario, seed: int) -> Bound:
    """The bounds of a scenario under a seed; all zeros without jobs. UsageError as `central.run`."""
    return of_jobs(jobs_of(scenario, seed))


def of_jobs(jobs: Jobs) -> Bound:
    if not len(jobs.kind):
        return Bound(0.0, 0.0, 0.0, 0.0, 0.0)
    submit_s = jobs.submit_s[jobs.submission]
    submit_s = submit_s - submit_s.min()
    fastest_s = jobs.work_s * np.array([kind.pace.min() for kind in jobs.kinds])[jobs.kind]
    capacity = float((jobs.machines.slots * jobs.machines.speed).sum())
    processors = np.array([kind.processors for kind in jobs.kinds])[jobs.kind]
    later = np.cumsum((jobs.work_s * processors)[::-1])[::-1]
    work_s = float((submit_s + later / capacity).max())
    longest_s = float((submit_s + fastest_s).max())
    link_s = _busiest_s(jobs)
    return Bound(max(work_s, longest_s, link_s), work_s, longest_s, link_s, float(fastest_s.mean()))


def _busiest_s(jobs: Jobs) -> float:
    """Seconds that the busiest link needs. Data read at one site alone that lie at one other alone come over the link
    between them."""
    sites = jobs.machines.site
    run_at = [frozenset(sites[np.isfinite(kind.pace)].tolist()) for kind in jobs.kinds]
    counts = np.bincount(jobs.kind, minlength=len(jobs.kinds)).tolist()
    read_at: dict[int, frozenset[int]] = {}
    found: list[tuple[frozenset[int], Only, int]] = []
    for kind, where, count in zip(jobs.kinds, run_at, counts, strict=True):
        found += [(where, only, count) for only in kind.own_from if count]
        for item in kind.items if count else ():
            read_at[item] = read_at.get(item, frozenset()) | where
    found += [(where, only, 1) for item, where in sorted(read_at.items()) if (only := jobs.items.only[item])]
    busy_s: dict[tuple[int, int], float] = {}
    for where, only, count in found:
        if len(where) == 1 and only.holder not in where:
            (at,) = where
            takes_s = float(only.takes_s[np.flatnonzero(sites == at)[0]])
            busy_s[only.holder, at] = busy_s.get((only.holder, at), 0.0) + count * takes_s
    return max(busy_s.values(), default=0.0)
