"""Worst-Fit and Close-to-Files (Mohamed & Epema, section 5.1, Algorithm 1; SPEC K2, K3)."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from diana.policy.gang.close_to_files import PairHistory, close_to_files
from diana.policy.gang.requests import Component, GangPlacement, NeededFile, Unplaced
from diana.policy.gang.worst_fit import worst_fit
from tests.policy.gang.grids import rooms

GB = 1e9


def by_distance(source: str, site: str, size: float) -> float:
    """Sites lie on a line by the last letter of their name, 1 GB takes 10 s per step."""
    return abs(ord(source[-1]) - ord(site[-1])) * 10.0 * size / GB


def full(*sites: str) -> PairHistory:
    return PairHistory(itertools.product(sites, sites))


def test_the_first_file_site_by_name_with_room_is_taken():
    file = NeededFile("f", GB, ("C", "B"))
    answer = close_to_files([Component(4, files=(file,))], rooms({"A": 99, "B": 4, "C": 9}), by_distance, full(*"ABC"))
    assert isinstance(answer, GangPlacement)
    assert answer.sites == ("B",) and answer.transfer_s == 0


def test_where_no_file_site_has_room_the_cheapest_pair_of_the_history_is_taken():
    file = NeededFile("f", 2 * GB, ("A", "B"))
    answer = close_to_files(
        [Component(4, files=(file,))], rooms({"A": 1, "B": 0, "C": 9, "D": 9}), by_distance, full(*"ABCD")
    )
    assert isinstance(answer, GangPlacement)
    part = answer.parts[0]
    assert (part.site, part.files[0].source, part.transfer_s) == ("C", "B", 20.0)


def test_the_history_learns_the_chosen_site_with_all_file_sites_of_the_gang():
    file = NeededFile("f", GB, ("A", "B"))
    history = PairHistory([("C", "A")])
    close_to_files([Component(4, files=(file,))], rooms({"C": 9}), by_distance, history)
    assert ("C", "B") in history and ("C", "A") in history and len(history) == 2


def test_without_a_history_all_pairs_are_looked_at() -> None:
    file = NeededFile("f", GB, ("A",))
    answer = close_to_files([Component(4, files=(file,))], rooms({"A": 1, "C": 9, "B": 9}), by_distance)
    assert isinstance(answer, GangPlacement) and answer.sites == ("B",) and answer.transfer_s == 10.0


def test_a_set_of_files_is_looked_at_once_for_a_site_however_many_components_read_it() -> None:
    asked: list[str] = []

    def counted(source: str, site: str, size: float) -> float:
        asked.append(site)
        return by_distance(source, site, size)

    files = tuple(NeededFile(f"f{n}", GB, ("A", "B")) for n in range(5))
    gang = [Component(1, files=files)] * 200
    assert isinstance(close_to_files(gang, rooms({"C": 100, "D": 100}), counted), GangPlacement)
    assert len(asked) == 2 * 2 * 5
    asked.clear()
    assert isinstance(worst_fit(gang, rooms({"C": 100, "D": 100}), counted), GangPlacement)
    assert len(asked) == 2 * 2 * 5


def test_an_empty_history_places_nothing_and_stays_empty():
    history = PairHistory()
    file = NeededFile("f", GB, ("A",))
    answer = close_to_files([Component(4, files=(file,))], rooms({"A": 1, "B": 9}), by_distance, history)
    assert isinstance(answer, Unplaced) and "known to be near its files" in answer.reason
    assert len(history) == 0


def test_large_components_go_first_and_those_before_leave_less_room():
    file = NeededFile("f", GB, ("A",))
    gang = [Component(2, files=(file,)), Component(6, files=(file,))]
    answer = close_to_files(gang, rooms({"A": 7, "B": 2}), by_distance, full("A", "B"))
    assert isinstance(answer, GangPlacement)
    assert [part.site for part in answer.parts] == ["B", "A"]
    assert answer.transfer_s == 10.0


def test_worst_fit_reads_the_replica_of_least_transfer_time():
    file = NeededFile("f", GB, ("A", "C"))
    answer = worst_fit([Component(4, files=(file,))], rooms({"A": 1, "B": 2, "C": 3, "D": 9}), by_distance)
    assert isinstance(answer, GangPlacement)
    assert (answer.parts[0].site, answer.parts[0].files[0].source) == ("D", "C")


def test_a_history_is_bounded_and_forgets_what_was_of_no_use_for_longest(monkeypatch):
    monkeypatch.setattr("diana.policy.gang.close_to_files.MOST_PAIRS", 2)
    history = PairHistory([("A", "B"), ("C", "D")])
    history.insert([("A", "B"), ("E", "F")])
    assert ("A", "B") in history and ("E", "F") in history and ("C", "D") not in history


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=5),
    st.integers(1, 8),
    st.sets(st.integers(0, 4), min_size=1, max_size=3),
)
def test_with_a_full_history_one_component_gets_the_least_transfer_time_of_all_pairs(idle, wanted, holders):
    sites = {chr(ord("A") + at): free for at, free in enumerate(idle)}
    file = NeededFile("f", GB, tuple(chr(ord("A") + at) for at in sorted(holders)))
    names = sorted({*sites, *file.sites})
    answer = close_to_files([Component(wanted, files=(file,))], rooms(sites), by_distance, full(*names))
    times = [
        by_distance(source, site, GB) for site, source in itertools.product(sites, file.sites) if sites[site] >= wanted
    ]
    if not times:
        assert isinstance(answer, Unplaced)
    else:
        assert isinstance(answer, GangPlacement) and answer.transfer_s == min(times)


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(0, 4), min_size=1, max_size=3)), min_size=1, max_size=4),
)
def test_with_a_full_history_each_component_in_turn_gets_the_least_transfer_time_that_those_before_left(idle, wanted):
    """Algorithm 1 places one component after the other, the largest first: the least is that of each step."""
    left = {chr(ord("A") + at): free for at, free in enumerate(idle)}
    gang = [
        Component(size, files=(NeededFile(f"f{at}", GB, tuple(chr(ord("A") + to) for to in sorted(holders))),))
        for at, (size, holders) in enumerate(wanted)
    ]
    answer = close_to_files(gang, rooms(dict(left)), by_distance, full(*"ABCDE"))
    if isinstance(answer, Unplaced):
        assert sum(each.processors for each in gang) > min(left.values())
        return
    for part, component in sorted(zip(answer.parts, gang, strict=True), key=lambda each: -each[1].processors):
        assert part.transfer_s == min(
            by_distance(source, site, GB)
            for site, source in itertools.product(left, component.files[0].sites)
            if left[site] >= component.processors
        )
        left[part.site] -= component.processors
