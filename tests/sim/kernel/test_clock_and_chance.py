"""Virtual time and chance: the two things that make a run its seed."""

from __future__ import annotations

from diana.sim.kernel import chance
from diana.sim.kernel.clock import Clock


def test_callbacks_run_by_time_and_at_one_time_in_the_order_asked_for() -> None:
    clock, seen = Clock(), []
    clock.at(2.0, seen.append, "late")
    clock.at(1.0, seen.append, "first")
    clock.at(1.0, seen.append, "second")
    clock.run_until(1.5)
    assert seen == ["first", "second"]
    assert clock.now_s == 1.5
    clock.at(0.5, seen.append, "a time gone by means now")
    assert clock.step() and clock.now_s == 1.5
    assert clock.step() and clock.now_s == 2.0
    assert not clock.step()
    assert seen[2:] == ["a time gone by means now", "late"]


def test_streams_of_one_seed_do_not_shift_each_other() -> None:
    first = chance.stream(7, "messages")
    other = chance.stream(7, "crashes")
    drawn = [first.random() for _ in range(3)]
    other.random()
    assert [chance.stream(7, "messages").random() for _ in range(1)] == drawn[:1]
    assert chance.stream(8, "messages").random() != drawn[0]


def test_a_jobs_luck_is_even_and_its_own() -> None:
    seed = chance.text_seed(1, "sweep")
    luck = [chance.fraction(seed, i) for i in range(10_000)]
    assert all(0 <= x < 1 for x in luck)
    assert abs(sum(luck) / len(luck) - 0.5) < 0.02
    assert luck[17] == chance.fraction(seed, 17)
