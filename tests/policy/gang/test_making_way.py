"""SPEC D4 and K5: as few pre-emptible jobs as will do end for a gang, the newest start first, and none in vain."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SubgroupId
from diana.model.job.resources import of
from diana.policy.gang.making_way import EndableJob, MachineRoom, WayMade, make_way
from diana.policy.gang.queues import GangLevel

NOW_S = 1000.0


def job(index: int, started_s: float, processors: int = 1, gpus: int = 0) -> EndableJob:
    return EndableJob(SubgroupId("alpha-1/0"), 1, index, processors, of({"gpus": gpus}), started_s)


def room(name: str, idle: int, *jobs: EndableJob, gpus: int = 0, most: int = 99) -> MachineRoom:
    return MachineRoom(name, idle, of({"gpus": gpus}), most, jobs)


def way(components: int, processors: int, *machines: MachineRoom, gpus: int = 0) -> WayMade:
    return make_way(components, processors, of({"gpus": gpus}), GangLevel.LOW, machines, NOW_S)


def ended(made: WayMade) -> list[int]:
    return sorted(one.number for some in made.ended.values() for one in some)


def test_the_newest_start_ends_first_and_no_more_than_are_lacking() -> None:
    made = way(2, 1, room("main", 0, job(0, 10.0), job(1, 30.0), job(2, 20.0)))
    assert ended(made) == [1, 2]
    assert made.rooms == {"main": 2}


def test_what_is_idle_is_taken_before_anybody_is_ended() -> None:
    assert ended(way(3, 1, room("main", 2, job(0, 10.0), job(1, 30.0)))) == [1]
    assert way(2, 1, room("main", 2, job(0, 10.0))).ended == {}


def test_a_component_has_its_processors_on_one_machine() -> None:
    made = way(1, 4, room("a", 1, job(0, 90.0), job(1, 80.0)), room("b", 0, *(job(i, 10.0) for i in range(10, 14))))
    assert ended(made) == [10, 11, 12, 13]
    assert made.rooms == {"b": 1}


def test_nobody_ends_where_all_that_may_would_not_do() -> None:
    made = way(3, 1, room("main", 0, job(0, 10.0), job(1, 20.0)))
    assert (made.ended, made.rooms) == ({}, {})
    assert "2 preemptible jobs" in made.reason


def test_a_wide_job_ends_alone_rather_than_with_newer_narrow_ones() -> None:
    assert ended(way(1, 4, room("main", 0, job(0, 90.0), job(1, 80.0, 4)))) == [1]


def test_the_machine_where_fewer_end_is_taken_though_newer_ones_run_elsewhere() -> None:
    wide = room("a", 0, job(0, 90.0), job(1, 80.0, 4))
    assert ended(way(1, 4, wide, room("b", 0, job(10, 95.0, 2), job(11, 94.0, 2)))) == [1]


def test_a_gang_with_gpus_ends_those_that_hold_them() -> None:
    made = way(1, 1, room("main", 3, job(0, 90.0), job(1, 10.0, gpus=1)), gpus=1)
    assert ended(made) == [1]


def test_a_machine_gets_no_more_than_it_may() -> None:
    assert way(2, 1, room("main", 0, job(0, 1.0), job(1, 2.0), most=1)).rooms == {}


def test_super_low_gangs_end_nobody() -> None:
    some = [room("main", 0, job(0, 10.0))]
    assert make_way(1, 1, (), GangLevel.SUPER_LOW, some, NOW_S).rooms == {}
    assert ended(make_way(1, 1, (), GangLevel.LOW, some, NOW_S)) == [0]


MACHINES = st.lists(
    st.tuples(st.integers(-2, 3), st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=5)), max_size=3
)


@given(st.integers(1, 4), st.integers(1, 4), MACHINES)
def test_no_job_that_is_ended_could_be_spared_and_all_have_room(
    components: int, processors: int, drawn: list[tuple[int, list[tuple[int, int]]]]
) -> None:
    rooms = [
        room(f"m{at}", idle, *(job(100 * at + i, float(start), width) for i, (width, start) in enumerate(jobs)))
        for at, (idle, jobs) in enumerate(drawn)
    ]
    made = way(components, processors, *rooms)
    if not made.rooms:
        assert not made.ended
        could = sum(max(0, one.processors + sum(j.processors for j in one.jobs)) // processors for one in rooms)
        assert could < components
        return
    assert sum(made.rooms.values()) == components
    for one in rooms:
        gone = made.ended.get(one.name, ())
        free, holds = one.processors + sum(j.processors for j in gone), made.rooms.get(one.name, 0) * processors
        assert len(set(gone)) == len(gone) and (free >= holds or not holds)
        for some in combinations(gone, 1):
            assert free - sum(j.processors for j in some) < holds, "one of them could have been spared"
