"""The outcome of a world whose run is over, from the facts that each origin keeps."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from diana.model import facts as fa
from diana.sim.load.workload import Submission
from diana.sim.report.outcome import Ints, JobTimes
from diana.sim.world.world import World


def outcome_of(world: World) -> JobTimes:
    """The outcome of a run that is over: the last attempt of each job, as its origin keeps it. Merging is no job."""
    rows = _Rows(world)
    for submission in world.users.submissions.values():
        if submission.group is not None:
            rows.add(submission)
    return rows.outcome()


class _Rows:
    """Facts of all groups end to end, then one sort for all; a row of the group columns per group."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._users = {user.name: place for place, user in enumerate(world.scenario.users)}
        self._sites = {site.name: place for place, site in enumerate(world.scenario.sites)}
        self._groups: list[Submission] = []
        self._group, self._index, self._attempt = array("i"), array("q"), array("i")
        self._outcome, self._site = array("i"), array("i")
        self._start_s, self._end_s = array("d"), array("d")

    def add(self, submission: Submission) -> None:
        assert submission.group is not None, "asked for groups that have an id"
        number = len(self._groups)
        self._groups.append(submission)
        self._users.setdefault(submission.principal.name, len(self._users))
        for _, facts in self._world.sites[submission.site].store.facts(submission.group):
            count = len(facts.indices)
            self._group.extend([number] * count)
            self._site.extend([self._sites[facts.site]] * count)
            self._index.extend(facts.indices)
            self._attempt.extend(facts.attempts)
            self._outcome.extend(facts.outcomes)
            self._start_s.extend(facts.started_s)
            self._end_s.extend(facts.ended_s)

    def outcome(self) -> JobTimes:
        group, index = np.array(self._group, np.int32), np.array(self._index, np.int64)
        order = np.lexsort((np.array(self._attempt, np.int32), index, group))
        group, index = group[order], index[order]
        last = np.ones(len(order), bool)
        last[:-1] = (group[1:] != group[:-1]) | (index[1:] != index[:-1])
        jobs = np.array([s.jobs for s in self._groups], np.int64)
        done = np.array(self._outcome, np.int32)[order] == fa.Outcome.DONE
        kept = last & done & (index < jobs[group]) if len(group) else last
        rows, group, index = order[kept], group[kept], index[kept]
        lives = (self._groups[g].life(k).run_s for g, k in zip(group.tolist(), index.tolist(), strict=True))
        return JobTimes(
            user=_column(self._users[s.principal.name] for s in self._groups)[group],
            home=_column(self._sites[s.site] for s in self._groups)[group],
            site=np.array(self._site, np.int32)[rows],
            processors=_column(s.spec.resources.processors for s in self._groups)[group],
            submit_s=np.array([s.submit_s for s in self._groups], np.float64)[group],
            start_s=np.array(self._start_s, np.float64)[rows],
            end_s=np.array(self._end_s, np.float64)[rows],
            run_s=np.fromiter(lives, np.float64, len(group)),
            users=tuple(self._users),
            sites=tuple(self._sites),
            bytes_moved=float(sum(site.stager.bytes_in for site in self._world.sites.values())),
        )


def _column(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int32)
