"""SPEC D8: GPUs of a machine are counted like its slots. No machine holds jobs of more than it has, and none stands
idle while a job waits that could have it."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import quote_answer, use
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.dispatch.promised_capacity import keep
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.machines import requirements
from diana.engine.messages import messages as ms
from diana.engine.messages.migration import RoomRequest
from diana.model.ids import GroupId, SiteId
from diana.model.job.resources import ResourceRequest
from diana.model.job.spec import GroupSpec
from diana.policy.queueing.backfill import reserve
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.dispatch.test_maintenance import announce
from tests.engine.machines.test_workers import Machines

LONG = 500.0
ONE_EACH = ResourceRequest(1, (("gpus", 1),))


class Equipped(Machines):
    """Machines of so many (slots, GPUs)."""

    def __init__(self, site: Site, **machines: tuple[int, int]) -> None:
        super().__init__(site, **{name: slots for name, (slots, _) in machines.items()})
        self.gpus = {name: gpus for name, (_, gpus) in machines.items()}
        for name in machines:
            self.ready(name)

    def handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.LrmReady):
            gpus = self.gpus[event.worker]
            event = msgspec.structs.replace(event, gpus=gpus, all_gpus=gpus)
        super().handle(event)

    def used(self, name: str) -> int:
        """By what it really holds."""
        custodies = self.site.engine.core.state.custodies
        open_ = [run for run, over in self.held[name].items() if not over]
        return sum(custodies[run.subgroup, run.epoch].spec.resources.gpus for run in open_)


def equipped(**machines: tuple[int, int]) -> tuple[Site, Equipped]:
    site = Grid({"guard_jobs": 0}, alpha=0)["alpha"]
    return site, Equipped(site, **machines)


def wanting(gpus: int, jobs: int, work_s: float = LONG, processors: int = 1) -> GroupSpec:
    made = spec(jobs, work_s=work_s, processors=processors)
    return msgspec.structs.replace(made, resources=msgspec.structs.replace(made.resources, gpus=gpus))


def given_of(site: Site) -> dict[str, Counter[str]]:
    """Group -> machine -> jobs."""
    found: dict[str, Counter[str]] = {}
    for effect in site.trace:
        if isinstance(effect, fx.Start):
            some = found.setdefault(effect.subgroup.partition("/")[0], Counter())
            some[effect.worker] += len(effect.indices)
    return found


@pytest.mark.parametrize("work_s", [1.0, LONG])
def test_no_more_jobs_are_given_than_gpus_are_free_be_they_quick_or_long(work_s: float) -> None:
    """Quick ones are else given ahead of free slots."""
    site, machines = equipped(m1=(8, 2), m2=(8, 1), m3=(8, 0))
    machines.submit(wanting(1, 20, work_s), 20)
    assert [machines.open(name) for name in ("m1", "m2", "m3")] == [2, 1, 0]
    machines.end("m1", 1)
    assert [machines.open(name) for name in ("m1", "m2", "m3")] == [2, 1, 0]
    for _ in range(20):
        machines.end("m2", 1)
        machines.end("m1", 2)
    assert given_of(site)["alpha-1"].total() == 20 and len(machines.executed) == 20


@pytest.mark.parametrize("work_s", [1.0, LONG])
def test_jobs_that_want_none_use_the_slots_beside_gpus_that_are_all_in_use(work_s: float) -> None:
    _, machines = equipped(m1=(4, 1))
    machines.submit(wanting(1, 10), 10, 1, who=BOB)
    machines.submit(spec(40, work_s=work_s), 40, 2)
    assert machines.used("m1") == 1
    assert machines.open("m1") >= 4


def test_the_next_free_slot_beside_a_free_gpu_is_that_of_the_job_that_waits_for_both() -> None:
    """No quick job is claimed ahead of it."""
    site, machines = equipped(m1=(1, 1))
    machines.submit(spec(1, work_s=LONG), 1, 1, who=BOB)
    machines.submit(wanting(1, 2, 1.0), 2, 2)
    machines.submit(spec(20, work_s=1.0), 20, 3)
    assert "alpha-3" not in given_of(site)
    machines.end("m1", 1)
    assert machines.used("m1") == 1


def test_a_job_that_wants_all_gpus_of_a_machine_is_not_kept_from_them_by_smaller_ones() -> None:
    site, machines = equipped(m1=(8, 2))
    machines.submit(msgspec.structs.replace(wanting(1, 2), argv=("other",)), 2, 1, who=BOB)
    machines.submit(wanting(2, 1, 10.0), 1, 2)
    machines.submit(wanting(1, 10), 10, 3, who=BOB)
    # What needs no GPU goes past it.
    machines.submit(spec(3, work_s=LONG), 3, 4, who=BOB)
    assert given_of(site)["alpha-4"] == {"m1": 3} and "alpha-3" not in given_of(site)
    machines.end("m1", 1)
    assert "alpha-2" not in given_of(site) and "alpha-3" not in given_of(site)
    machines.end("m1", 1)
    assert given_of(site)["alpha-2"] == {"m1": 1}
    assert machines.used("m1") == 2


def test_what_needs_fewer_gpus_passes_one_that_waits_for_more_if_it_ends_before_that_starts() -> None:
    """The machines that can run them are the same: one that finds no room says nothing of the others."""
    site, machines = equipped(m1=(8, 2))
    machines.submit(wanting(1, 1), 1, 1, who=BOB)
    machines.submit(wanting(2, 1), 1, 2)
    machines.submit(wanting(1, 3, 100.0), 3, 3)
    assert given_of(site)["alpha-3"] == {"m1": 1} and "alpha-2" not in given_of(site)


def test_before_a_maintenance_gpus_are_given_to_what_ends_in_time_and_no_more_than_there_are() -> None:
    site, machines = equipped(m1=(8, 2), m2=(8, 1))
    announce(site, (100.0, 200.0))
    machines.submit(wanting(1, 2), 2, 1)
    machines.submit(wanting(1, 9, 90.0), 9, 2, who=BOB)
    assert given_of(site) == {"alpha-2": {"m1": 2, "m2": 1}}
    machines.end("m2", 1)
    assert given_of(site)["alpha-2"] == {"m1": 2, "m2": 2}
    # Now only one machine closes: the long ones run on the other, once there is a GPU.
    announce(site, (100.0, 200.0), machines=("m2",))
    machines.obey()
    machines.end("m1", 2)
    machines.end("m2", 1)
    assert given_of(site)["alpha-1"] == {"m1": 2} and machines.used("m2") == 1


def test_gpus_of_a_machine_under_maintenance_are_no_ones_and_come_back_with_it() -> None:
    site, machines = equipped(m1=(8, 2), m2=(8, 1))
    workers = site.engine.core.workers
    announce(site, (-1.0, 200.0), machines=("m1",))
    assert (workers.offer().most["gpus"], workers.whole("gpus"), workers.lanes(ONE_EACH)) == (1, 1, 1)
    machines.submit(wanting(1, 9), 9)
    assert (machines.used("m1"), machines.used("m2")) == (0, 1)
    announce(site)
    machines.obey()
    assert (machines.used("m1"), machines.used("m2")) == (2, 1) and workers.whole("gpus") == 3


def test_a_reservation_waits_for_processors_and_gpus_and_lets_pass_what_needs_neither() -> None:
    one, two = (("gpus", 1),), (("gpus", 2),)
    ends = [(10.0, 2, ()), (20.0, 1, one), (30.0, 1, one)]
    place = reserve(2, 0, ends, 0.0, two, {"gpus": 0})
    assert (place.start_s, place.spare, place.spare_left) == (30.0, 2, {"gpus": 0})
    assert place.lets_pass(1, 100.0, 4, 0.0) == 2
    assert place.lets_pass(1, 100.0, 4, 0.0, one, {"gpus": 1}) == 0
    assert place.lets_pass(1, 25.0, 4, 0.0, one, {"gpus": 1}) == 1
    assert reserve(1, 4, ends, 0.0, one, {"gpus": 1}).start_s == 0.0


def test_a_job_that_waits_for_what_a_machine_has_in_pieces_is_told_so() -> None:
    site, machines = equipped(m1=(8, 2), m2=(8, 1))
    machines.submit(wanting(1, 2), 2)
    core = site.engine.core
    assert [use.short(core, ResourceRequest(1, (("gpus", each),))) for each in (1, 2)] == [
        "",
        "waits for GPUs: too few are free at alpha",
    ]
    machines.submit(wanting(1, 9), 9, 2)
    assert use.short(core, ONE_EACH) == "waits for GPUs: too few are free at alpha"
    machines.end("m2", 1)
    assert use.short(core, ResourceRequest(1)) == ""
    assert use.short(core, ResourceRequest(9, (("gpus", 1),))) == "", "no machine has it, however long it waits"


def test_gpus_in_use_are_known_after_a_restart_of_the_node_and_a_machine_that_was_away() -> None:
    site, machines = equipped(m1=(4, 2), m2=(4, 1))
    machines.submit(wanting(1, 10), 10)
    machines.up.clear()
    site.restart()
    assert site.engine.core.workers.offer().most["gpus"] == 2
    for name in ("m1", "m2"):
        machines.ready(name)
    assert [machines.used(name) for name in ("m1", "m2")] == [2, 1]
    machines.lose("m1")
    machines.end("m1", 2)
    machines.ready("m1")
    assert [machines.used(name) for name in ("m1", "m2")] == [2, 1] and len(machines.executed) == 5


def test_what_the_nodes_own_machine_has_outlives_a_restart_and_is_written_once() -> None:
    site = Grid({"guard_jobs": 0}, alpha=4)["alpha"]

    def ready(session: int, gpus: int) -> None:
        site.handle(ev.LrmReady(session=session, slots=4, known=(), gpus=gpus, all_gpus=gpus))

    ready(2, 2)
    ready(3, 2)
    assert len(site.records(r.MachineKnown)) == 1
    site.boot()
    assert site.engine.core.workers.offer().most["gpus"] == 2
    ready(4, 0)
    assert "gpus" not in site.engine.core.workers.offer().most


def test_a_machine_with_fewer_gpus_than_before_gets_no_job_until_enough_have_ended() -> None:
    _, machines = equipped(m1=(8, 4))
    machines.submit(wanting(1, 12), 12)
    assert machines.used("m1") == 4
    machines.gpus["m1"] = 2
    machines.ready("m1")
    machines.end("m1", 2)
    assert machines.used("m1") == 2
    machines.end("m1", 1)
    assert machines.used("m1") == 2


def quoted(site: Site, gpus: int, jobs: int = 1) -> float:
    """Seconds a newcomer's jobs of 100 s would lose to what is before them."""
    asked = ms.QuoteRequest(
        quote=1, processors=1, memory_bytes=0, jobs=jobs, refs=(), owner=ALICE.name, work_s=100.0, gpus=gpus
    )
    return quote_answer.quote(site.engine.core, asked).wait_s


def test_a_wait_is_foreseen_by_the_gpus_that_come_free_and_not_by_slots_beside_them() -> None:
    site, machines = equipped(m1=(100, 2))
    assert quoted(site, 1) == quoted(site, 1, jobs=10) == 0.0
    machines.submit(wanting(1, 20, 100.0), 20, 1, who=ALICE)
    # Two run, and eighteen before it: nine times 100 s after them.
    assert quoted(site, 0) < 20.0 and quoted(site, 1) == pytest.approx(1000.0)
    site.handle(ev.Ask(request=50, principal=ALICE, what="explain", group=GroupId("alpha-1")))
    (first,) = site.replies[50].waiting  # type: ignore[attr-defined]
    assert 40.0 <= first.low_s <= 100.0 <= first.high_s
    machines.submit(wanting(2, 1, 100.0), 1, 2, who=ALICE)
    site.handle(ev.Ask(request=51, principal=ALICE, what="explain", group=GroupId("alpha-2")))
    (later,) = site.replies[51].waiting  # type: ignore[attr-defined]
    assert later.low_s > first.high_s


def test_room_is_kept_for_as_many_jobs_as_there_are_gpus_for_and_not_slots() -> None:
    site, _ = equipped(m1=(100, 4))
    asked = RoomRequest(room=1, jobs=50, processors=1, memory_bytes=0, owner=ALICE.name, work_s=100.0, gain_s=50.0)
    core = site.engine.core

    def kept(room: int, gpus: int) -> int:
        return keep(core, SiteId("beta"), msgspec.structs.replace(asked, room=room, gpus=gpus)).jobs

    assert kept(1, 0) == 50
    core.book(PromisedCapacity).rooms.over("beta 1")
    assert (kept(2, 1), kept(3, 1)) == (4, 0)
    core.book(PromisedCapacity).rooms.over("beta 2")
    assert kept(4, 2) == 2


# --- rules ---------------------------------------------------------------------------------------------------

FLEET = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=3)
GROUPS = st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 6), st.sampled_from([1.0, 20.0, LONG]))
STEPS = st.one_of(GROUPS, st.tuples(st.sampled_from(["end", "away"]), st.integers(0, 2), st.integers(1, 4)))


@pytest.mark.wide
@settings(max_examples=120, deadline=None)
@given(fleet=FLEET, steps=st.lists(STEPS, min_size=2, max_size=14))
def test_none_has_more_in_use_than_it_has_and_none_idles_while_a_job_waits_that_could_start(
    fleet: list[tuple[int, int]], steps: list[tuple[object, ...]]
) -> None:
    names = [f"m{number}" for number in range(len(fleet))]
    site, machines = equipped(**dict(zip(names, fleet, strict=True)))
    core, number = site.engine.core, 0

    def check() -> None:
        waiting = {custody.key: custody for custody in core.state.custodies.values() if custody.startable()}
        for name, (slots, gpus) in zip(names, fleet, strict=True):
            assert machines.used(name) <= gpus
            lane = core.totals.runs.lane(name)
            assert lane.held["gpus"] == machines.used(name)
            free = slots - lane.load
            for custody in waiting.values():
                need = custody.spec.resources
                # One GPU and one processor: nothing may keep it from there but the place of a wide one.
                fits = need.gpus == need.processors == 1 and free >= 1 and gpus > machines.used(name)
                wide = any(c.spec.resources.processors > 1 or c.spec.resources.gpus > 1 for c in waiting.values())
                assert not fits or wide or name not in machines.up, (name, custody.key)

    for step in steps:
        if isinstance(step[0], int):
            gpus, processors, jobs, work_s = step
            number += 1
            machines.submit(wanting(gpus, jobs, work_s, processors), jobs, number)  # type: ignore[arg-type]
        elif step[0] == "end":
            machines.end(names[step[1] % len(names)], step[2])  # type: ignore[operator,arg-type]
        else:
            name = names[step[1] % len(names)]  # type: ignore[operator]
            machines.lose(name)
            machines.end(name, step[2])  # type: ignore[arg-type]
            machines.ready(name)
        check()
    for _ in range(60):
        for name in names:
            machines.end(name, 99)
        machines.pass_time(1.0)
        check()
    could = [c for c in core.state.custodies.values() if core.workers.suits_any(requirements.asked(c.spec))]
    assert not [c.key for c in could if c.startable()]
