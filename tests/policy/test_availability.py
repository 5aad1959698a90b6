"""SPEC D8: the RootGrid is the most available machine of a site and the standby the next."""

from __future__ import annotations

import random
from math import log

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.presence import Presence
from diana.policy import availability as rule

DAY_S = 86400.0


def machine(
    name: str, here_s: float = 0.0, away_s: float = 0.0, goings: float = 0.0, standing: str = "here"
) -> Presence:
    return Presence(machine=name, at_s=0.0, standing=standing, here_s=here_s, away_s=away_s, goings=goings)  # type: ignore[arg-type]


def site(*machines: Presence) -> dict[str, Presence]:
    return {one.machine: one for one in machines}


def test_a_machine_that_nobody_knows_counts_as_there_for_99_percent() -> None:
    assert rule.availability(machine("new")) == pytest.approx(0.99)


def test_each_going_costs_an_hour_beside_the_absence_itself() -> None:
    went = machine("a", here_s=DAY_S, goings=1)
    absent = machine("b", here_s=DAY_S, away_s=rule.GOING_S)
    assert rule.availability(went) == rule.availability(absent) < rule.availability(machine("c", here_s=DAY_S))


def test_half_of_what_was_seen_counts_after_three_days_and_the_sums_stay_bounded() -> None:
    bad = rule.counted(machine("a", away_s=DAY_S, goings=8, standing="unknown"), rule.HALF_LIFE_S)
    assert (bad.away_s, bad.goings, bad.here_s) == (pytest.approx(DAY_S / 2), pytest.approx(4), 0.0)
    old = rule.counted(machine("a"), 100 * rule.HALF_LIFE_S)
    assert old.known_s == pytest.approx(rule.HALF_LIFE_S / log(2), rel=1e-3)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from(["here", "away", "unknown"])), max_size=12), st.data())
def test_how_often_the_figures_are_looked_at_changes_nothing(
    turns: list[tuple[float, str]], data: st.DataObject
) -> None:
    once = often = machine("a")
    now = 0.0
    for seconds, standing in turns:
        for share in sorted(data.draw(st.lists(st.floats(0, 1), max_size=3))):
            often = rule.counted(often, now + share * seconds)
        now += seconds
        once, often = (rule.turned(one, now, standing, 1.0) for one in (once, often))  # type: ignore[arg-type]
    assert rule.availability(once) == pytest.approx(rule.availability(often))
    assert 0 < rule.availability(once) < 1


def test_most_available_first_and_ties_by_name() -> None:
    some = [machine("c", here_s=DAY_S), machine("b"), machine("a"), machine("d", goings=3)]
    assert rule.ranked(some) == ["c", "a", "b", "d"]


def test_a_new_leader_that_went_three_times_ought_to_hand_over_and_an_old_one_that_went_five_times() -> None:
    for known_s, goings in ((0.0, 3), (rule.HALF_LIFE_S / log(2), 5)):
        spare = machine("spare", here_s=known_s)
        for times, to in ((goings - 1, ""), (goings, "spare")):
            found = rule.successor(site(machine("main", here_s=known_s, goings=times), spare), "main", "spare", True)
            assert found.to == to, found
    assert found.why == "spare is more available than main: 99.5 % against 97.3 %"


def test_a_new_standby_is_no_better_than_a_leader_that_was_hardly_ever_away() -> None:
    main = machine("main", here_s=4 * DAY_S, goings=1)
    assert not rule.successor(site(main, machine("spare")), "main", "spare", True).to


def test_nobody_is_elected_without_a_majority_of_the_machines() -> None:
    """The standby is in sync and far better each time; what differs is how many of the others are here."""
    bad, good = machine("main", goings=20), machine("spare", here_s=DAY_S)
    for away, to in ((0, "spare"), (1, "spare"), (2, ""), (3, ""), (30, "")):
        others = [machine(f"m{n}", standing="away" if n % 2 else "unknown") for n in range(away)]
        found = rule.successor(site(bad, good, *others), "main", "spare", True)
        assert found.to == to, (away, found)
        assert to or found.why == f"2 of {2 + away} machines are here, which is no majority"


def test_nobody_is_elected_who_lacks_what_was_acknowledged() -> None:
    bad, good = machine("main", goings=20), machine("spare", here_s=DAY_S)
    assert not rule.successor(site(bad, good), "main", "spare", False).to
    assert not rule.successor(site(bad, good), "main", "", True).to
    away = msgspec.structs.replace(good, standing="away")
    assert not rule.successor(site(bad, away, machine("m"), machine("n")), "main", "spare", True).to


@pytest.mark.parametrize("seed", range(20))
def test_two_machines_alike_do_not_pass_the_lead_to_and_fro(seed: int) -> None:
    """Both go twice a day, at random; the rest of a day between two hand-overs is left out, the margin alone counts."""
    rng = random.Random(seed)
    now, leader, standby, moves = 0.0, "a", "b", 0
    presences = site(machine("a"), machine("b"))
    for _ in range(400):
        now += rng.expovariate(4 / DAY_S)
        name = rng.choice("ab")
        for one in "ab":
            going = 1.0 if one == name else 0.0
            presences[one] = rule.turned(presences[one], now, "here", going)
        if rule.successor(presences, leader, standby, True).to:
            leader, standby, moves = standby, leader, moves + 1
    assert moves <= 8, f"seed {seed}: {moves} moves in {now / DAY_S:.0f} days"


def test_the_most_available_machine_beside_the_leader_ought_to_stand_by() -> None:
    main, spare, third = machine("main"), machine("spare", goings=9), machine("third", here_s=DAY_S)
    some = site(main, spare, third)
    assert rule.stand_in(some, "main", "spare") == "third"
    assert rule.stand_in(some, "main", "") == "third"
    assert rule.stand_in(site(main, machine("spare"), third), "main", "spare") == "spare", "within the margin"
    assert rule.stand_in(site(main), "main", "") == ""
