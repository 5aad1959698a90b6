"""A central broker like that of the EGEE workload management system, which the DIANA paper compares itself with
(papers/diana-bulk-scheduling, section XI and its reference 5).

- All jobs of the grid pass through one broker, first come first served and one by one, a bulk group too; each costs it
  `job_s` for the match and for handing it over.
- It knows the sites by what they last published, all of them every `refresh_s`, and does not count what it has sent
  since: jobs between two publications all see the same grid. Several sites that look best are drawn from by an even
  chance.
- It ranks them by the estimated response time alone, the default of gLite's `Rank` (minus
  `GlueCEStateEstimatedResponseTime`): the time from a job's coming to its start. Speed, links and bytes do not count.
- A job stays where it was sent, in the queue of the site's batch system. Its inputs are fetched when its turn has
  come, and it holds its processors meanwhile; its start is when they are there, as for `first-start`.

The model errs in the broker's favour: the published estimate is the true wait at that moment, where sites guessed it
from the past; a narrow job may pass a wide one that waits (backfilling without a reservation lost); and neither
sandboxes, nor outputs, nor the way from broker to site take time.
"""

from __future__ import annotations

import numpy as np

from diana.policy.allocation import chance
from diana.sim.central.jobs import Floats, Jobs, Kind
from diana.sim.central.mapping import Free
from diana.sim.specs.compare_spec import BrokerSpec

_Ends = tuple[list[int], list[float], list[float], float]


def brokered(jobs: Jobs, spec: BrokerSpec) -> _Ends:
    """Machine, start and end of every job, and the bytes that moved for their inputs. Ties are drawn by the job's
    number, so that the same jobs always give the same."""
    information, free = _Information(jobs, spec.refresh_s), Free(jobs.machines)
    machine, start_s, end_s, moved = list[int](), list[float](), list[float](), 0.0
    broker_s = 0.0
    for job, (number, kind) in enumerate(zip(jobs.submission.tolist(), jobs.kind.tolist(), strict=True)):
        broker_s = max(broker_s, float(jobs.submit_s[number])) + spec.job_s
        its = jobs.kinds[kind]
        best = _matched(jobs, its, information.response_s(free, its.processors, broker_s), job)
        where = _machine(jobs, free, its, best)
        begin_s = max(broker_s, float(free.first_s(its.processors)[where]))
        ready = jobs.items.ready_s(its, begin_s)
        there_s = begin_s if ready is None else max(begin_s, float(ready[where]))
        moved += jobs.items.send_for(its, where, begin_s)
        run_s = float(jobs.work_s[job] * its.pace[where])
        free.take(where, its.processors, begin_s, there_s - begin_s + run_s)
        machine.append(where)
        start_s.append(there_s)
        end_s.append(there_s + run_s)
    return machine, start_s, end_s, moved


class _Information:
    """The estimates that the sites published last."""

    def __init__(self, jobs: Jobs, refresh_s: float) -> None:
        self._site, self._every_s = jobs.machines.site, refresh_s
        self._sites = len(jobs.machines.sites)
        self._wide = sorted({kind.processors for kind in jobs.kinds})
        self._turn = -1.0
        self._known: dict[int, Floats] = {}

    def response_s(self, free: Free, processors: int, now_s: float) -> Floats:
        """(S,) estimated response times as the broker has them: the least over a site's machines, 0 with enough idle
        processors, infinite where no machine has so many. `free`: as it is now; since the last publication nothing
        else can have happened to it, because the broker alone sends jobs."""
        turn = now_s // self._every_s
        if turn != self._turn:
            self._turn, at_s = turn, turn * self._every_s
            self._known = {wide: self._published(np.maximum(0.0, free.first_s(wide) - at_s)) for wide in self._wide}
        return self._known[processors]

    def _published(self, wait_s: Floats) -> Floats:
        by_site: Floats = np.full(self._sites, np.inf)
        np.minimum.at(by_site, self._site, wait_s)
        return by_site


def _matched(jobs: Jobs, kind: Kind, response_s: Floats, job: int) -> int:
    """The place in `sites` of the match."""
    may = np.zeros(len(response_s), np.bool_)
    may[jobs.machines.site[np.isfinite(kind.pace)]] = True
    known = np.where(may, response_s, np.inf)
    best = np.flatnonzero(known == known.min())
    return int(best[chance.draw("broker", job) % len(best)])


def _machine(jobs: Jobs, free: Free, kind: Kind, site: int) -> int:
    """The machine of the site that gets free first; a batch system has one queue for all of its own."""
    here = (jobs.machines.site == site) & np.isfinite(kind.pace)
    return int(np.where(here, free.first_s(kind.processors), np.inf).argmin())
