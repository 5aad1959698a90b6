"""Groups that are drawn become objects when their time comes, and nothing else of a run changes by that."""

from __future__ import annotations

from diana.sim.kernel.clock import Clock
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world import runner
from diana.sim.world.world import World

TEXT = """
version = 1
[[sites]]
name = "a"
slots = 2
[[sites]]
name = "b"
slots = 2
[[workload]]
name = "drawn"
site = "a"
jobs = 3
repeat = 15
every_s = 1.0
work_s = 2.0
generate = { arrivals = "even", homes = "equal" }
[[workload]]
name = "written"
site = "b"
jobs = 4
work_s = 1.0
submit_s = 3.0
"""


def test_what_is_asked_for_late_comes_in_the_place_that_was_kept_for_it() -> None:
    clock, came = Clock(), list[str]()
    clock.at(1.0, came.append, "before")
    place = clock.reserve(2)
    clock.at(1.0, came.append, "after")
    clock.at_place(place + 1, 1.0, came.append, "kept second")
    clock.at_place(place, 1.0, came.append, "kept first")
    clock.run_until(1.0)
    assert came == ["before", "kept first", "kept second", "after"]


def test_a_run_is_the_same_whether_its_groups_are_made_lazily_or_all_at_once() -> None:
    lazy, eager = (World(sc.parse(TEXT), 3, Boot()) for _ in range(2))
    users = eager.users
    users._planned = list(users.in_order())
    users.submissions.update((one.name, one) for one in users.in_order())
    users._open.update(users.submissions)
    assert len(lazy.users.submissions) == 1 and len(users.submissions) == 16
    one, other = runner.run(lazy), runner.run(eager)
    assert one.good() and (one.digest, one.groups) == (other.digest, other.groups)
    assert list(one.groups) == ["drawn", "written"]


def test_groups_whose_time_never_came_are_told_as_stuck() -> None:
    scenario = sc.parse(TEXT.replace("version = 1", "version = 1\nlimit_s = 6.0"))
    report = runner.run(World(scenario, 3, Boot()))
    assert report.stuck >= 8 * 3 and not report.lost
