"""Shares of service under endless work (SPEC D4, D11): by quota in the default mode, whatever the backlogs.

Each start is followed by an arrival that fills the backlog again. `-s` prints what the paper's mode gives instead.
"""

from __future__ import annotations

from collections import Counter

import pytest

from diana.policy.queueing import priority as pr
from tests.engine.queueing import Waiting, entry

DISPATCHES = 10_000
BACKLOGS = [
    (10, 10),
    pytest.param((10, 1_000_000), marks=pytest.mark.wide),
    (1_000_000, 10),
    pytest.param((1000, 1000), marks=pytest.mark.wide),
]


def endless(
    backlog: dict[str, int],
    sizes: dict[str, int] | None = None,
    *,
    dispatches: int = DISPATCHES,
    batch: int = 1,
    step_s: float = 0.0,
    **settings: object,
) -> Counter[str]:
    """Processors given to each user. One group per user and size is topped up after every batch; with `step_s` new work
    comes as new groups, that much time passing per start."""
    sizes = sizes or dict.fromkeys(backlog, 1)
    waiting = Waiting(**{"job_threshold": 10_000, **settings})
    now = 0.0
    waiting.arrive(*(entry(f"{u}-0", u, jobs, sizes[u]) for u, jobs in backlog.items()))
    given: Counter[str] = Counter()
    for turn in range(1, dispatches // batch + 1):
        now += step_s * batch
        started = Counter(name.partition("-")[0] for name in waiting.start(batch, now))
        for user, jobs in started.items():
            given[user] += jobs * sizes[user]
            old = waiting.queues.entries.get(entry(f"{user}-0").key)
            if step_s or old is None:
                waiting.arrive(entry(f"{user}-{turn}", user, jobs, sizes[user], now), now=now)
            else:
                waiting.arrive(entry(f"{user}-0", user, old.jobs + jobs, sizes[user]), now=now)
    return given


@pytest.mark.parametrize("backlog", BACKLOGS, ids=lambda b: f"{b[0]}-{b[1]}")
@pytest.mark.parametrize("slots", [2, pytest.param(10_000, marks=pytest.mark.wide)])
def test_two_users_get_shares_by_quota_whatever_their_backlogs(backlog: tuple[int, int], slots: int) -> None:
    """10,000 dispatches, quotas 2:1, endless work: 2:1 within 3 %, on small sites and on large ones."""
    given = endless(dict(zip("AB", backlog, strict=True)), quotas={"A": 2.0}, priority_mode="default", slots=slots)
    assert given["A"] / given["B"] == pytest.approx(2.0, rel=0.03)


@pytest.mark.wide
@pytest.mark.parametrize("backlog", BACKLOGS, ids=lambda b: f"{b[0]}-{b[1]}")
@pytest.mark.parametrize("step_s", [1.0, 30.0])
def test_a_backlog_of_hours_or_days_does_not_age_quotas_away(backlog: tuple[int, int], step_s: float) -> None:
    """SPEC D5 and D11 at once: ageing is on, and what waited long is still shared 2:1."""
    given = endless(
        dict(zip("AB", backlog, strict=True)),
        quotas={"A": 2.0},
        priority_mode="default",
        step_s=step_s,
        time_threshold_s=1800.0,
        job_threshold=0,
    )
    assert given["A"] / given["B"] == pytest.approx(2.0, rel=0.03)


def test_a_large_site_that_starts_thousands_at_once_shares_them_too() -> None:
    given = endless(
        {"A": 1_000_000, "B": 1_000_000}, quotas={"A": 2.0}, priority_mode="default", slots=5000, batch=5000
    )
    assert given["A"] / given["B"] == pytest.approx(2.0, rel=0.03)


def test_three_users_of_several_sizes_get_processors_by_quota() -> None:
    """A job's burden grows with its processors, so that what quotas share is processors, not jobs."""
    given = endless(
        {"A": 50, "B": 5000, "C": 500}, {"A": 1, "B": 4, "C": 2}, quotas={"A": 3.0, "B": 2.0}, priority_mode="default"
    )
    total = sum(given.values())
    assert [given[u] / total for u in "ABC"] == pytest.approx([3 / 6, 2 / 6, 1 / 6], rel=0.03)


def test_a_user_who_comes_late_gets_its_share_at_once_and_no_more() -> None:
    """Past service of others decays; a newcomer is not paid for the time it was away."""
    waiting = Waiting(priority_mode="default", quotas={"A": 1.0, "B": 1.0})
    waiting.arrive(entry("A", jobs=100_000))
    waiting.start(20_000)
    waiting.arrive(entry("B", jobs=100_000))
    first = Counter(waiting.start(8_000))
    later = Counter(waiting.start(20_000))
    assert first["B"] > first["A"] > 0
    assert later["A"] / later["B"] == pytest.approx(1.0, rel=0.15)


@pytest.mark.wide
@pytest.mark.parametrize("backlog", BACKLOGS, ids=lambda b: f"{b[0]}-{b[1]}")
def test_the_papers_mode_shares_as_it_does_and_starves_nobody(backlog: tuple[int, int]) -> None:
    """SPEC D4: the paper's mode equalises queued n/q, not service. Ageing gives everybody its turn."""
    backlogs = dict(zip("AB", backlog, strict=True))
    still = endless(backlogs, quotas={"A": 2.0})
    aged = endless(backlogs, quotas={"A": 2.0}, step_s=5.0, time_threshold_s=1800.0, job_threshold=0)
    share = {name: f"A {g['A'] / DISPATCHES:.1%}, B {g['B'] / DISPATCHES:.1%}" for name, g in
             (("no ageing", still), ("ageing", aged))}  # fmt: skip
    print(f"paper mode, backlogs {backlog}, quotas 2:1: {share}")
    assert sum(still.values()) == DISPATCHES
    assert min(aged["A"], aged["B"]) > 0


def test_equal_shares_are_first_come_first_served_in_the_default_mode_too() -> None:
    """A tie on paper is one here although decayed service is never a whole number."""
    waiting = Waiting(
        entry("bob", "bob", 9), entry("ann", "ann"), priority_mode="default", quotas={"cy": 5.0}, service_half_life=1.0
    )
    waiting.arrive(entry("cy", "cy", 9, 5))
    assert waiting.start(1) == ["ann"]
    waiting.queues.remove(entry("cy").key)
    waiting.arrive(entry("cy", "cy", 9, 5))
    assert waiting.at("bob").priority == waiting.at("cy").priority
    assert waiting.start(1) == ["bob"]


def test_rounding_errors_of_ageing_decide_nothing() -> None:
    """-1/3 + 7/4 - 1/2 and 2/3 + 3/4 - 1/2 are one number: the older work goes first."""
    waiting = Waiting(entry("cy1", "cy", 8), entry("cy2", "cy", 1, 2), site_job_threshold=5, time_threshold_s=10.0)
    waiting.arrive(entry("ann2", "ann", 1, 1, 35.0), entry("ann1", "ann", 1), now=35.0)
    waiting.queues.remove(entry("ann1").key)
    assert waiting.at("ann2", 70.0).base == 1 - 1 / 3
    assert waiting.start(10, 70.0) == ["cy1"] * 8 + ["ann2", "cy2"]


def test_ageing_lifts_the_demoted_to_the_top_too() -> None:
    waiting = Waiting(entry("A", jobs=500), *(entry(u) for u in "BCDEFGHIJ"), job_threshold=1, time_threshold_s=10)
    demoted = next(one for one in waiting.standing(1e4)["A"] if one.key.demoted)
    assert demoted.base < -0.75 and demoted.priority == pr.BELOW_ONE
