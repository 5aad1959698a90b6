"""The queues give the order that separate jobs would have, each re-prioritised by the paper (SPEC D4, D5)."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from diana.policy.queueing import priority
from tests.engine.naive_queue import Job, NaiveColumns, NaiveQueue
from tests.engine.queueing import Waiting, entry, key

USERS = ("ann", "bob", "cy")
ORIGINS = ("home", "beta")


class Histories(RuleBasedStateMachine):
    """Arrivals, starts, time, holds and releases, on both; the same entries start at every step."""

    @initialize(
        mode=st.sampled_from(["paper", "default"]),
        quotas=st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0, 1700.0, 1900.0]), min_size=3, max_size=3),
        threshold_s=st.sampled_from([0.0, 10.0]),
        by_user=st.sampled_from([0, 3, 8]),
        by_site=st.sampled_from([0, 5, 12]),
        half_life=st.sampled_from([1.0, 30.0, 100.0]),
    )
    def open(
        self, mode: str, quotas: list[float], threshold_s: float, by_user: int, by_site: int, half_life: float
    ) -> None:
        self.waiting = Waiting(
            priority_mode=mode,
            quotas=dict(zip(USERS, quotas, strict=True)),
            time_threshold_s=threshold_s,
            job_threshold=by_user,
            site_job_threshold=by_site,
            service_half_life=half_life,
        )
        self.naive = NaiveQueue(self.waiting.settings)
        self.now = 0.0
        self.numbers = count()
        self.held: dict[str, list[Job]] = {}

    @rule(
        user=st.sampled_from(USERS),
        jobs=st.integers(1, 9),
        processors=st.sampled_from([1, 1, 2, 5]),
        origin=st.sampled_from(ORIGINS),
        bound=st.booleans(),
        offset=st.sampled_from([0.0, 0.0, 0.5]),
        unready=st.integers(0, 9),
        earlier_s=st.sampled_from([0.0, 0.0, 7.0]),
    )
    def arrive(
        self,
        user: str,
        jobs: int,
        processors: int,
        origin: str,
        bound: bool,
        offset: float,
        unready: int,
        earlier_s: float,
    ) -> None:
        name = f"g{next(self.numbers):03}"
        submitted_s = max(0.0, self.now - earlier_s)
        # The last of a group are those whose inputs come last.
        ready = jobs if unready < 6 else max(0, jobs - unready + 5)
        rows = [
            Job(name, k, user, processors, submitted_s, origin, bound, offset, ready=k < ready) for k in range(jobs)
        ]
        self._put(rows)

    def _put(self, rows: list[Job]) -> None:
        one = rows[0]
        self.waiting.arrive(
            entry(
                one.group,
                one.user,
                len(rows),
                one.processors,
                one.submitted_s,
                ready=sum(j.ready for j in rows),
                origin=one.origin,
                bound=one.bound,
                offset=one.offset,
            ),
            now=self.now,
        )
        self.naive.arrive(rows)

    @rule(jobs=st.integers(1, 7))
    def start(self, jobs: int) -> None:
        assert self.waiting.start(jobs, self.now) == self.naive.start(jobs, self.now)

    @rule(seconds=st.sampled_from([1.0, 4.0, 10.0, 35.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.naive.jobs)
    @rule(pick=st.integers(0, 99))
    def hold(self, pick: int) -> None:
        groups = sorted({j.group for j in self.naive.jobs})
        name = groups[pick % len(groups)]
        self.held[name] = self.naive.leave(name)
        self.waiting.queues.remove(key(name))

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self._put(self.held.pop(min(self.held)))

    @precondition(lambda self: any(not j.ready for j in self.naive.jobs))
    @rule()
    def staged(self) -> None:
        """Inputs of one group have come; nothing is re-prioritised."""
        name = min(j.group for j in self.naive.jobs if not j.ready)
        rows = [j for j in self.naive.jobs if j.group == name]
        for job in rows:
            job.ready = True
        self.naive.settle()
        one = rows[0]
        self.waiting.arrive(
            entry(
                name,
                one.user,
                len(rows),
                one.processors,
                one.submitted_s,
                origin=one.origin,
                bound=one.bound,
                offset=one.offset,
            ),
            now=self.now,
        )

    def teardown(self) -> None:
        if hasattr(self, "naive"):
            for job in self.naive.jobs:
                job.ready = True
            for rows in {j.group: [x for x in self.naive.jobs if x.group == j.group] for j in self.naive.jobs}.values():
                old = self.waiting.queues.entries[key(rows[0].group)]
                old.ready = old.jobs
                self.waiting.queues.classes.place(old)
            left = len(self.naive.jobs)
            assert self.waiting.start(left + 1, self.now) == self.naive.start(left, self.now)
            assert not self.waiting.queues.entries


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@pytest.mark.wide
@pytest.mark.parametrize("mode", ["paper", "default"])
def test_near_a_million_jobs_the_order_is_that_of_separate_jobs(mode: str) -> None:
    """1,000 users x 8 sizes x 124 jobs, then arrivals and starts in turns."""
    rng = np.random.default_rng(7)
    users = [f"u{k:03}" for k in range(1000)]
    quotas = {user: float(q) for user, q in zip(users, rng.integers(1, 2000, 1000), strict=True)}
    waiting = Waiting(priority_mode=mode, quotas=quotas, service_half_life=100.0)
    naive = NaiveColumns(waiting.settings, users, room=1_000_000)
    first = [(u, t, 124, float(rng.integers(0, 50))) for u in range(1000) for t in (1, 2, 3, 4, 6, 8, 12, 16)]
    for number, (user, processors, jobs, submitted_s) in enumerate(first):
        name = f"g{number:05}"
        waiting.queues.put(entry(name, users[user], jobs, processors, submitted_s), 0.0)
        naive.add(name, user, processors, jobs, submitted_s)
    naive.prioritise()
    for turn in range(12):
        assert waiting.start(12) == naive.start(12)
        name, user, processors, jobs = f"n{turn}", int(rng.integers(1000)), int(rng.integers(1, 20)), 50
        waiting.arrive(entry(name, users[user], jobs, processors, 60.0))
        naive.add(name, user, processors, jobs, 60.0)
        naive.prioritise()
    assert int(naive.waits.sum()) == 1000 * 8 * 124 + 12 * (50 - 12)


def test_what_aged_to_the_top_keeps_the_order_of_its_entry() -> None:
    """Clamped to one priority, jobs within the threshold still go before the demoted ones, whatever rows they have."""
    for steps in (8, 9, 10, 11, 12):
        waiting = Waiting(entry("A", jobs=15), entry("B", jobs=15), time_threshold_s=60, job_threshold=10)
        for step in range(1, steps + 1):
            waiting.standing(60.0 * step)
        now = 60.0 * steps
        assert len({one.priority for some in waiting.standing(now).values() for one in some}) <= 2
        started = [name for _ in range(30) for name in waiting.start(1, now)]
        assert sorted(started) == ["A"] * 15 + ["B"] * 15 and not waiting.queues.entries
        again = Waiting(entry("A", jobs=15), entry("B", jobs=15), time_threshold_s=60, job_threshold=10)
        for step in range(1, steps + 1):
            again.standing(60.0 * step)
        assert again.start(30, now) == started


def test_a_start_may_take_others_of_its_user_from_the_place_that_is_looked_at() -> None:
    """The job that waited longest stands at the top, demoted or not; with the first start the others' waiting begins
    anew."""
    waiting = Waiting(priority_mode="default", time_threshold_s=10.0, slots=64, job_threshold=1)
    waiting.arrive(entry("ann-1"), now=0.0)
    waiting.arrive(entry("ann-2", user="a", submitted_s=1.0), now=1.0)
    waiting.arrive(entry("bob", jobs=3, submitted_s=1.0), now=1.0)
    assert {waiting.at(name, 1e5).priority for name in ("ann-1", "ann-2")} == {priority.BELOW_ONE}
    assert waiting.start(2, 1e5) == ["ann-1", "bob"]
    assert waiting.at("ann-2", 1e5).priority < priority.BELOW_ONE
    assert sorted(waiting.start(9, 1e5)) == ["ann-2", "bob", "bob"]
