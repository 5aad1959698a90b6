"""The table of sites: changed in place it prices as one built anew; the short list is the head of the full order."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.pricing.cost import short_list
from diana.policy.pricing.demand import Candidate, LinkForecast
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.sites import SiteTable
from diana.policy.pricing.turnaround import price
from tests.policy.grids import demand, need

HOME = SiteId("m")
NAMES = [SiteId(n) for n in "abcdefm"]

seen = st.builds(
    Candidate,
    site=st.sampled_from(NAMES),
    slots=st.integers(0, 5),
    speed=st.sampled_from([0.5, 1.0, 2.0]),
    work_ahead_s=st.sampled_from([0.0, 30.0]),
    rtt_s=st.sampled_from([0.0, 0.1]),
    link=st.sampled_from(
        [LinkForecast(), LinkForecast(bytes_per_s=1e6), LinkForecast(bytes_per_s=1e7, rtt_s=0.1, loss=0.001)]
    ),
)


@given(st.lists(st.one_of(seen, st.sampled_from(NAMES)), max_size=30), st.integers(1, 8))
def test_a_table_kept_as_summaries_arrive_prices_like_one_built_anew(
    told: list[Candidate | SiteId], count: int
) -> None:
    kept, truth = SiteTable(HOME, capacity=1), dict[SiteId, Candidate]()
    for word in told:
        if isinstance(word, Candidate):
            kept.add(word)
            truth[word.site] = word
        else:
            kept.remove(word)
            truth.pop(word, None)
    anew = SiteTable.of(truth[s] for s in sorted(truth, key=lambda s: (s != HOME, s)))
    asked = demand(10, work_s=7.0, needs=[need("d", 5_000_000, IndexSet.span(0, 10), "b", "url:host")])
    assert short_list(kept, asked, count) == short_list(anew, asked, count)
    ours = dict(zip(kept.sites, price(Grid(asked, kept)).total_s, strict=True))
    theirs = dict(zip(anew.sites, price(Grid(asked, anew)).total_s, strict=True))
    assert ours == pytest.approx(theirs)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=20), st.integers(1, 8))
def test_the_short_list_is_the_head_of_the_full_order_home_first_on_ties(
    sites: list[tuple[int, int]], count: int
) -> None:
    table = SiteTable(SiteId("s07"))
    for n, (slots, ahead) in reversed(list(enumerate(sites))):
        table.add(Candidate(site=SiteId(f"s{n:02}"), slots=slots, work_ahead_s=float(ahead)))
    asked = demand(12)
    total_s = price(Grid(asked, table)).total_s
    full = sorted(range(len(table)), key=lambda r: (total_s[r], table.sites[r] != "s07", table.sites[r]))
    assert short_list(table, asked, count) == [table.sites[r] for r in full][:count]


def test_a_row_is_changed_in_place() -> None:
    table = SiteTable()
    row = table.add(Candidate(site=HOME, slots=2, work_ahead_s=20.0))
    waits = table.wait_s
    table.update(row, work_ahead_s=40.0)
    assert waits.tolist() == [20.0]
    table.update(row, slots=4, speed=2.0)
    assert waits.tolist() == [5.0]
    table.update(row, wait_s=3.0, work_ahead_s=80.0)
    assert (waits.tolist(), table.wait_high_s.tolist()) == ([3.0], [3.0])


def test_a_link_of_its_own_stands_before_the_one_for_all() -> None:
    table = SiteTable()
    rows = [table.add(Candidate(site=SiteId(n), slots=1, link=LinkForecast(bytes_per_s=1e6))) for n in "abc"]
    table.set_link(rows[0], LinkForecast(bytes_per_s=1e7), SiteId("c"))
    asked = demand(1, work_s=1.0, needs=[need("d", 10_000_000, IndexSet.span(0, 1), "c")])
    assert price(Grid(asked, table)).total_s.tolist() == pytest.approx([2.0, 11.0, 1.0])
    table.remove(SiteId("c"))
    assert price(Grid(asked, table)).total_s.tolist() == pytest.approx([11.0, 11.0])


def test_a_site_that_can_take_nothing_is_on_no_short_list() -> None:
    table = SiteTable()
    table.add(Candidate(site=SiteId("a"), rejected="is full", slots=9))
    table.add(Candidate(site=SiteId("b"), slots=1))
    table.add(Candidate(site=SiteId("c"), slots=3, alive=False))
    assert short_list(table, demand(5), 3) == ["b"]
    assert np.isinf(price(Grid(demand(5), table)).total_s).sum() == 2
    assert table.max_jobs.tolist() == [inf, inf, inf]
