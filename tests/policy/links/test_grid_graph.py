"""SPEC D10, links: the grid as a graph, its nearest sites and best ways; what nobody measured is an estimate."""

from __future__ import annotations

import itertools
import subprocess
import sys
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.model.views.link import LinkView
from diana.policy.links.graph import GridGraph, Way

A, B, C, D = (SiteId(name) for name in "abcd")


def row(source: str, target: str, rtt_s: float = -1.0, bytes_per_s: float = -1.0, age_s: float = 0.0) -> LinkView:
    return LinkView(
        source=SiteId(source), target=SiteId(target), rtt_s=rtt_s, bytes_per_s=bytes_per_s, jitter_s=-1.0, loss=-1.0,
        error=-1.0, predictor="last", samples=1, age_s=age_s,
    )  # fmt: skip


def test_a_measured_round_trip_counts_both_ways_and_is_no_estimate() -> None:
    graph = GridGraph([row("a", "b", 0.010)])
    assert graph.rtt(A, B) == graph.rtt(B, A) == (0.010, False)


def test_an_unmeasured_pair_lies_in_the_middle_of_the_triangle_bounds() -> None:
    graph = GridGraph([row("a", "c", 0.010), row("c", "b", 0.004), row("a", "d", 0.009), row("d", "b", 0.002)])
    # Over c: 6 to 14 ms; over d: 7 to 11 ms.
    assert graph.rtt(A, B) == (pytest.approx(0.009), True)


def test_without_a_common_neighbour_nothing_is_known() -> None:
    graph = GridGraph([row("a", "c", 0.010), row("b", "d", 0.004)])
    assert graph.rtt(A, B) == (-1.0, True)
    assert graph.rtt(A, SiteId("nowhere")) == (-1.0, True)
    assert graph.shortest(A, B) == Way() == graph.widest(A, B)


def test_the_youngest_of_several_rows_counts() -> None:
    graph = GridGraph([row("a", "b", 0.5, age_s=90.0), row("b", "a", 0.1, age_s=1.0)])
    assert graph.rtt(A, B)[0] == 0.1


def test_the_shortest_way_may_lead_over_others() -> None:
    graph = GridGraph([row("a", "b", 0.100), row("a", "c", 0.010), row("c", "b", 0.020)])
    assert graph.shortest(A, B) == Way((A, C, B), pytest.approx(0.030))


def test_the_widest_way_is_that_of_the_widest_narrowest_link_in_the_direction_of_the_data() -> None:
    rows = [
        row("b", "a", bytes_per_s=1e6), row("b", "c", bytes_per_s=9e6), row("c", "a", bytes_per_s=5e6),
        row("a", "c", bytes_per_s=1e3), row("a", "b", bytes_per_s=2e3),
    ]  # fmt: skip
    graph = GridGraph(rows)
    assert graph.widest(B, A) == Way((B, C, A), 5e6)
    assert graph.widest(A, B) == Way((A, B), 2e3)


def test_near_sites_come_by_round_trip_then_those_nothing_is_known_of() -> None:
    rows = [row("a", "b", 0.02, 1e6), row("a", "c", 0.01), row("d", "e", 0.001)]
    near = GridGraph(rows).near(A)
    assert [(n.site, n.estimated) for n in near[:2]] == [("c", False), ("b", False)]
    assert [(n.site, n.rtt_s, n.shortest) for n in near[2:]] == [("d", -1.0, ()), ("e", -1.0, ())]
    (to_a,) = [n for n in GridGraph(rows).near(B) if n.site == "a"]
    assert (to_a.bytes_per_s, to_a.widest) == (1e6, (A, B))
    assert GridGraph(rows).near(SiteId("nowhere")) == []


COORDINATES = st.tuples(st.floats(0, 0.1), st.floats(0, 0.1))


@given(st.lists(COORDINATES, min_size=3, max_size=7))
def test_where_distances_are_distances_an_estimate_errs_by_no_more_than_the_bounds_are_apart(
    at: list[tuple[float, float]],
) -> None:
    """All pairs but the first are measured."""
    names = [f"s{n}" for n in range(len(at))]
    apart = {
        (p, q): hypot(at[p][0] - at[q][0], at[p][1] - at[q][1]) for p, q in itertools.combinations(range(len(at)), 2)
    }
    graph = GridGraph([row(names[p], names[q], rtt) for (p, q), rtt in apart.items() if (p, q) != (0, 1)])
    found, estimated = graph.rtt(SiteId("s0"), SiteId("s1"))
    sums = [apart[0, c] + apart[1, c] for c in range(2, len(at))]
    less = [abs(apart[0, c] - apart[1, c]) for c in range(2, len(at))]
    assert estimated
    assert max(less) - 1e-9 <= found <= min(sums) + 1e-9
    assert abs(found - apart[0, 1]) <= (min(sums) - max(less)) / 2 + 1e-9


@given(st.dictionaries(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), st.integers(1, 50), max_size=20))
def test_the_widest_way_is_the_best_of_all_ways(widths: dict[tuple[str, str], int]) -> None:
    links = {pair: width for pair, width in widths.items() if pair[0] != pair[1]}
    graph = GridGraph([row(s, t, bytes_per_s=w) for (s, t), w in links.items()])
    best = -1
    for count in range(4):
        for between in itertools.permutations("cde", count):
            way = ["a", *between, "b"]
            best = max(best, min(links.get(hop, -1) for hop in itertools.pairwise(way)))
    found = graph.widest(A, B)
    assert found.worth == best
    if found.sites:
        assert min(links[hop] for hop in itertools.pairwise(found.sites)) == best


def test_importing_the_engine_imports_no_networkx() -> None:
    program = "import sys, diana.engine.engine\nprint('networkx' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
