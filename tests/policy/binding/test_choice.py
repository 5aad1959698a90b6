"""The choice of jobs at a call: which of the waiting jobs a site is handed (policy/binding)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.binding import choice
from diana.policy.pricing.demand import Need

A, B, C = SiteId("alpha"), SiteId("beta"), SiteId("gamma")
SITES = (A, B, C)
JOBS = IndexSet.span(0, 12)


def need(name: str, readers: IndexSet, *holders: SiteId, size: int = 10) -> Need:
    return Need(files=(DataFile(f"dataset:{name}", size, name),), readers=readers, holders=frozenset(holders))


def chosen(jobs: int, site: SiteId, *needs: Need, left: IndexSet = JOBS) -> IndexSet:
    return choice.choose(left, jobs, site, SITES, choice.lots(needs, JOBS, SITES))


FIRST, LAST = IndexSet.span(0, 4), IndexSet.span(8, 12)


def test_a_site_is_handed_the_jobs_whose_data_it_has() -> None:
    assert chosen(3, B, need("a", FIRST, A), need("b", LAST, B)) == IndexSet.span(8, 11)


def test_jobs_that_read_nothing_go_before_jobs_whose_data_another_site_has() -> None:
    assert chosen(8, B, need("a", FIRST, A)) == IndexSet.span(4, 12)


def test_data_held_here_alone_come_before_data_that_others_hold_too() -> None:
    assert chosen(4, B, need("both", FIRST, A, B), need("b", LAST, B)) == LAST


def test_jobs_that_fetch_wherever_they_run_go_before_those_that_another_site_need_not_fetch() -> None:
    everywhere_else = need("a", FIRST, A), need("c", FIRST, C), need("whole", IndexSet.span(4, 12), A)
    assert chosen(4, B, *everywhere_else) == FIRST, "half of the data of these lie at alpha, half at gamma"


def test_data_that_every_job_reads_choose_nobody() -> None:
    assert choice.lots([need("all", JOBS, A)], JOBS, SITES) == ()
    assert chosen(2, B, need("all", JOBS, A)) == IndexSet.span(0, 2)


@pytest.mark.wide
def test_a_million_files_at_two_places_are_two_lots() -> None:
    halves = [need(f"f{n}", IndexSet.span(n, n + 1), A if n % 2 else B) for n in range(5_000)]
    some = choice.lots(halves, IndexSet.span(0, 5_000), SITES)
    assert len(some) == 2
    assert sum(len(lot.readers) for lot in some) == 5_000


def test_lots_beyond_the_bound_are_the_smallest() -> None:
    many = [SiteId(f"s{n}") for n in range(choice.MOST_LOTS + 5)]
    needs = [need(f"d{n}", IndexSet.span(n, n + 1), site, size=n) for n, site in enumerate(many)]
    some = choice.lots(needs, IndexSet.span(0, len(many)), many)
    assert {site for lot in some for site in lot.holders} == set(many[5:])


readers = st.sets(st.integers(0, 11)).map(IndexSet.of)
holders = st.sets(st.sampled_from(SITES))
needs = st.lists(st.builds(lambda r, h, n: need(f"d{n}", r, *h), readers, holders, st.integers()))


@given(needs, readers, st.integers(1, 12), st.sampled_from(SITES))
def test_as_many_as_were_called_are_chosen_and_fewer_fetch_than_in_order_of_their_numbers(
    some: list[Need], left: IndexSet, jobs: int, site: SiteId
) -> None:
    got = chosen(jobs, site, *some, left=left)
    assert got.issubset(left)
    assert len(got) == min(jobs, len(left))
    away = [n.readers for n in some if site not in n.holders and n.holders and not JOBS.issubset(n.readers)]
    fetching = IndexSet.union(away)
    assert len(got & fetching) <= len(left.take(jobs)[0] & fetching)
