"""The incremental claiming policy (Mohamed & Epema, section 6.2, Algorithm 2; SPEC K5)."""

from diana.policy.gang.incremental import RunningWork, claim_try
from diana.policy.gang.queues import GangLevel
from diana.policy.gang.requests import PlacedComponent, PlacedFile, Unplaced

GANG = [PlacedComponent(0, 8, "A"), PlacedComponent(1, 8, "B"), PlacedComponent(2, 4, "C")]
NOWHERE = Unplaced("no room")


def attempt(idle, *, started=(), threshold=1.0, level=GangLevel.HIGH, replace=lambda _: NOWHERE, lower=()):
    return claim_try(GANG, frozenset(started), idle, threshold, level, 100.0, 200.0, replace, lower)


def names(parts):
    return [(part.component, part.site) for part in parts]


def test_an_atomic_claim_takes_all_or_nothing():
    whole = attempt({"A": 8, "B": 8, "C": 4})
    assert whole.go_on and whole.share == 1 and names(whole.claimed) == [(0, "A"), (1, "B"), (2, "C")]
    part = attempt({"A": 8, "B": 7, "C": 4})
    assert not part.go_on and part.claimed == () and part.missing == (0, 1, 2)


def test_an_incremental_claim_takes_what_can_start_once_the_share_reaches_the_threshold():
    done = attempt({"A": 8, "B": 0, "C": 4}, threshold=0.5)
    assert done.go_on and names(done.claimed) == [(0, "A"), (2, "C")] and done.missing == (1,)
    assert not attempt({"A": 8}, threshold=0.5).go_on


def test_what_earlier_tries_started_counts_and_is_not_claimed_again():
    done = attempt({"B": 8}, started=(0,), threshold=0.5)
    assert done.go_on and names(done.claimed) == [(1, "B")] and done.missing == (2,)


def test_a_component_without_room_is_placed_anew_if_its_files_come_before_the_start():
    def near(component):
        return PlacedComponent(component, 8, "D", (PlacedFile("f", "A", 99.0),))

    def far(component):
        return PlacedComponent(component, 8, "D", (PlacedFile("f", "A", 100.0),))

    idle = {"A": 8, "B": 0, "C": 4, "D": 8}
    assert attempt(idle, threshold=0.5, replace=near).replaced == (1,)
    assert attempt(idle, threshold=0.5, replace=far).missing == (1,)


def test_lower_work_gives_way_the_newest_start_first_and_no_more_than_needed():
    work = [
        RunningWork("old", "B", 4, GangLevel.LOW, 10.0),
        RunningWork("new", "B", 4, GangLevel.LOW, 30.0),
        RunningWork("middle", "B", 4, GangLevel.LOW, 20.0),
        RunningWork("elsewhere", "C", 8, GangLevel.LOW, 40.0),
        RunningWork("equal", "B", 8, GangLevel.HIGH, 50.0),
    ]
    done = attempt({"A": 8, "B": 0, "C": 4}, threshold=0.5, lower=work)
    assert done.pre_empted == ("new", "middle") and done.missing == ()


def test_work_is_not_ended_where_all_of_it_would_not_do():
    work = [RunningWork("small", "B", 4, GangLevel.LOW, 10.0)]
    done = attempt({"A": 8, "B": 3, "C": 4}, threshold=0.5, lower=work)
    assert done.pre_empted == () and done.missing == (1,)


def test_super_low_gangs_end_nobodys_work():
    work = [RunningWork("low", "B", 8, GangLevel.SUPER_LOW, 10.0)]
    idle = {"A": 8, "B": 0, "C": 4}
    assert attempt(idle, threshold=0.5, level=GangLevel.SUPER_LOW, lower=work).pre_empted == ()
    assert attempt(idle, threshold=0.5, level=GangLevel.LOW, lower=work).pre_empted == ("low",)


def test_two_components_do_not_take_the_same_room():
    done = claim_try(
        [PlacedComponent(0, 8, "A"), PlacedComponent(1, 8, "A")],
        frozenset(),
        {"A": 12},
        0.5,
        GangLevel.HIGH,
        0.0,
        10.0,
        lambda _: NOWHERE,
    )
    assert names(done.claimed) == [(0, "A")] and done.missing == (1,)
