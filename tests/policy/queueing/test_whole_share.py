"""A user's share over all sites (SPEC D11): sums of what the sites say, each with its age."""

from __future__ import annotations

import pytest

from diana.model.ids import SiteId
from diana.model.views.queue import QueueUser, QueueView
from diana.policy.queueing.whole_share import SiteAnswer, shares


def answer(site: str, total: int, age_s: float, **users: tuple[int, int, float]) -> SiteAnswer:
    """`users`: name -> (queued, running, share of the processors that are wanted there)."""
    rows = tuple(QueueUser(user=name, queued=q, running=r, queued_share=s) for name, (q, r, s) in users.items())
    return SiteAnswer(QueueView(site=SiteId(site), total_processors=total, users=rows), age_s)


def test_shares_count_processors_of_all_sites_and_not_the_mean_of_shares() -> None:
    """SPEC D11: ann wants 9 of 10 processors at alpha, 10 of 90 at beta: 19 of 100; bob has the rest."""
    some = [
        answer("alpha", 10, 0.5, ann=(9, 1, 0.9), bob=(1, 0, 0.1)),
        answer("beta", 90, 3.0, ann=(10, 0, 1 / 9), bob=(40, 3, 8 / 9)),
    ]
    bob, ann = shares(some)
    assert (ann.user, ann.queued, ann.running, ann.sites, ann.age_s) == ("ann", 19, 1, 2, 3.0)
    assert ann.queued_share == pytest.approx(0.19)
    assert bob.queued_share == pytest.approx(0.81)
    assert (ann.running_share, bob.running_share) == (0.25, 0.75)


def test_an_age_is_that_of_the_oldest_view_that_names_the_user() -> None:
    some = [answer("alpha", 1, 0.5, ann=(1, 0, 1.0)), answer("beta", 1, 9.0, bob=(1, 0, 1.0))]
    assert {row.user: row.age_s for row in shares(some)} == {"ann": 0.5, "bob": 9.0}


def test_where_nothing_waits_shares_are_nothing() -> None:
    (row,) = shares([answer("alpha", 0, 1.0, ann=(0, 2, 0.0))])
    assert (row.queued_share, row.running_share) == (0.0, 1.0)
    assert shares([]) == ()


def test_users_are_in_the_order_of_their_shares_then_of_their_names() -> None:
    some = [answer("alpha", 4, 0.0, zoe=(1, 0, 0.25), bob=(1, 0, 0.25), ann=(2, 0, 0.5))]
    assert [row.user for row in shares(some)] == ["ann", "bob", "zoe"]
