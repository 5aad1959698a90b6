"""SPEC D8: jobs that want a container or modules are given only to machines of the site that offer them; what no
machine here can run waits with the reason, and nobody behind it waits for that."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import capacity, quote_answer
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.machines.machine import EXPECTED_BACK_S
from diana.engine.machines.requirements import Kind
from diana.engine.messages import messages as ms
from diana.engine.placement.pull_back import NO_SLOTS_S
from diana.model.ids import GroupId, SiteId
from diana.model.job import software
from diana.model.job.resources import ResourceRequest
from diana.model.job.spec import GroupSpec
from diana.model.views.queue import Waiting
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.machines.test_workers import Machines
from tests.engine.queueing import entry

GCC = {"modules": ("gcc/12",)}
IMAGE = {"container": "image"}
LONG = 500.0


class Offering(Machines):
    """Machines, each with what jobs may ask for there; None: as the site's settings say."""

    def __init__(self, site: Site, **machines: tuple[int, tuple[str, ...] | None]) -> None:
        super().__init__(site, **{name: slots for name, (slots, _) in machines.items()})
        self.offered = {name: has for name, (_, has) in machines.items()}
        for name in machines:
            self.ready(name)

    def handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.LrmReady):
            event = msgspec.structs.replace(event, software=self.offered[event.worker])
        super().handle(event)


def offering(**machines: tuple[int, tuple[str, ...] | None]) -> tuple[Site, Offering]:
    site = Grid({"guard_jobs": 0}, alpha=0)["alpha"]
    return site, Offering(site, **machines)


def given_to(site: Site) -> dict[str, Counter[str]]:
    """Group -> machine -> jobs."""
    found: dict[str, Counter[str]] = {}
    for effect in site.trace:
        if isinstance(effect, fx.Start):
            some = found.setdefault(effect.subgroup.partition("/")[0], Counter())
            some[effect.worker] += len(effect.indices)
    return found


def waiting(site: Site, group: str) -> list[Waiting]:
    site.handle(ev.Ask(request=50, principal=ALICE, what="explain", group=GroupId(group)))
    return list(site.replies[50].waiting)  # type: ignore[attr-defined]


def notes(site: Site, group: str) -> list[str]:
    return [one.note for one in waiting(site, group)]


def test_jobs_go_only_to_machines_that_offer_what_they_want() -> None:
    site, machines = offering(m1=(8, ("containers",)), m2=(2, ("module gcc/12",)), m3=(2, ("containers", "module *")))
    machines.submit(spec(4, work_s=LONG, **GCC), 4, 1)
    machines.submit(spec(20, work_s=LONG, **IMAGE), 20, 2)
    machines.submit(spec(4, work_s=LONG, **GCC, **IMAGE), 4, 3)
    for _ in range(8):
        for name in ("m1", "m2", "m3"):
            machines.end(name, 9)
        machines.pass_time(1.0)
    found = given_to(site)
    assert set(found["alpha-1"]) == {"m2", "m3"} and set(found["alpha-3"]) == {"m3"}
    assert set(found["alpha-2"]) <= {"m1", "m3"}
    assert {name: sum(some.values()) for name, some in found.items()} == {"alpha-1": 4, "alpha-2": 20, "alpha-3": 4}


@pytest.mark.parametrize("work_s", [1.0, LONG])
def test_quick_jobs_too_wait_only_at_machines_that_offer_what_they_want(work_s: float) -> None:
    """Quick ones are also given ahead of free slots."""
    _, machines = offering(m1=(4, ()), m2=(1, ("containers",)))
    machines.submit(spec(40, work_s=work_s, **IMAGE), 40)
    assert machines.open("m1") == 0
    assert machines.open("m2") == (1 if work_s == LONG else 3)


@pytest.mark.parametrize("processors", [1, 4])
@pytest.mark.parametrize("work_s", [1.0, LONG])
def test_what_no_machine_in_touch_can_run_waits_with_the_reason_and_delays_nobody(
    processors: int, work_s: float
) -> None:
    site, machines = offering(m1=(4, ("module gcc/12",)), m2=(4, ()))
    machines.submit(spec(1, work_s=LONG, processors=4), 1, 1, who=BOB)
    machines.lose("m1")
    machines.submit(spec(30, work_s=work_s, processors=processors, **GCC), 30, 2)
    # Bob's jobs come later and want nothing: they have m2 for themselves, wide ones as well.
    machines.submit(spec(6, work_s=LONG, processors=4), 6, 3, who=BOB)
    machines.submit(spec(6, work_s=1.0), 6, 4, who=BOB)
    assert machines.open("m1") == 1 and given_to(site)["alpha-3"] == {"m2": 1}
    assert "alpha-2" not in given_to(site)
    assert notes(site, "alpha-2") == ["alpha has no module gcc/12 just now: machine m1 is away"]
    for _ in range(40):
        machines.end("m2", 4)
        machines.pass_time(1.0)
    assert sum(given_to(site)["alpha-3"].values()) == 6 and sum(given_to(site)["alpha-4"].values()) == 6
    machines.end("m1", 4)
    machines.ready("m1")
    for _ in range(40):
        machines.end("m1", 4)
        machines.pass_time(1.0)
    assert given_to(site)["alpha-2"] == {"m1": 30}


def test_a_wide_job_keeps_its_machine_and_the_best_of_those_that_want_nothing_keeps_another() -> None:
    """Else narrow jobs would keep a wide one from all machines while another wide one waits for a certain one."""
    site, machines = offering(m1=(2, ("containers",)), m2=(2, ()))
    machines.submit(spec(3, work_s=LONG), 3, 1, who=BOB)
    machines.submit(spec(1, processors=2, work_s=10.0, **IMAGE), 1, 2)
    machines.submit(spec(1, processors=2, work_s=10.0), 1, 3)
    # These would end after what runs now.
    machines.submit(spec(20, work_s=2 * LONG), 20, 4, who=BOB)
    first = given_to(site)["alpha-1"]
    assert sum(first.values()) == 3 and "alpha-4" not in given_to(site)
    for name in ("m1", "m2"):
        machines.end(name, 2)
    wide = {effect.subgroup: effect.worker for effect in site.trace if isinstance(effect, fx.Start)}
    assert (wide["alpha-2/0"], wide["alpha-3/0"]) == ("m1", "m2")


def test_quick_jobs_behind_one_that_waits_for_a_machine_are_still_given_ahead_to_the_others() -> None:
    site, machines = offering(m1=(1, ("containers",)), m2=(1, ()))
    machines.submit(spec(2, work_s=LONG), 2, 1, who=BOB)
    machines.submit(spec(1, work_s=LONG, **IMAGE), 1, 2)
    machines.submit(spec(20, work_s=1.0), 20, 3)
    # The next slot of m1 is the container's.
    assert given_to(site)["alpha-3"] == {"m2": 2}
    machines.end("m1", 1)
    assert given_to(site)["alpha-2"] == {"m1": 1}


def test_what_a_site_offers_is_what_its_machines_do_and_is_refused_where_none_has_it_all() -> None:
    site, machines = offering(m1=(4, ("containers",)), m2=(8, ("module gcc/12",)))
    request = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner="a")
    core = site.engine.core

    def refused(processors: int, *wanted: str) -> str:
        asked = msgspec.structs.replace(request, processors=processors, software=wanted)
        return capacity.rejection(core, asked)

    assert core.workers.offer().capabilities == ("containers", "module gcc/12")
    assert refused(4, "containers") == refused(8, "module gcc/12") == ""
    assert refused(1, "module root") == "has no module root"
    assert refused(5, "containers") == "has no machine with 5 processors and containers, which a job needs"
    both = "has no machine with 1 processor and containers and module gcc/12, which a job needs"
    assert refused(1, "containers", "module gcc/12") == both
    # Where a job of it would stand is forecast by the machines that can run it.
    assert [core.workers.lanes(ResourceRequest(1, (), some)) for some in ((), ("containers",), ("module gcc/12",))] == [
        12,
        4,
        8,
    ]
    machines.lose("m1")
    assert refused(4, "containers") == ""
    machines.pass_time(EXPECTED_BACK_S + 1)
    assert refused(4, "containers") == "runs no containers"


def test_what_machines_offer_outlives_a_restart_of_the_node() -> None:
    site, machines = offering(m1=(4, ("containers",)), m2=(4, ()))
    machines.up.clear()
    site.boot()
    workers = site.engine.core.workers
    assert workers.offer().capabilities == ("containers",)
    assert [workers.suits_any(ResourceRequest(p, (), ("containers",))) for p in (4, 5)] == [True, False]
    before = len(site.records(r.MachineKnown))
    machines.ready("m1")
    assert len(site.records(r.MachineKnown)) == before
    machines.offered["m1"] = ()
    machines.ready("m1")
    assert workers.offer().capabilities == ()


def test_a_machine_that_says_nothing_of_itself_offers_what_the_settings_say() -> None:
    site, machines = offering(own=(2, None), m1=(2, ()))
    site.handle(ev.SettingsLoaded(site.settings, software=("containers",)))
    machines.submit(spec(4, work_s=LONG, **IMAGE), 4)
    assert (machines.open("own"), machines.open("m1")) == (2, 0)
    site.handle(ev.SettingsLoaded(site.settings))
    machines.end("own", 2)
    assert given_to(site)["alpha-1"] == {"own": 2}
    assert notes(site, "alpha-1") == ["alpha runs no containers"]
    # It is offered again: nothing more has to happen for them to start.
    machines.handle(ev.SettingsLoaded(site.settings, software=("containers",)))
    assert given_to(site)["alpha-1"] == {"own": 4}


def gone_for_long(grid: Grid, machines: Offering) -> None:
    machines.lose("m1")
    machines.pass_time(EXPECTED_BACK_S + NO_SLOTS_S + 30.0)


@pytest.mark.parametrize("where", ["alpha", "beta"])
@pytest.mark.parametrize("migration", ["off", "default"])
def test_what_waits_for_a_machine_that_is_gone_for_long_goes_to_a_site_that_has_it(where: str, migration: str) -> None:
    grid = Grid({"migration": migration, "guard_jobs": 0}, alpha=2, beta=2, gamma=1)
    machines = Offering(grid[where], m1=(4, ("containers",)))
    pinned = (where,)
    grid["alpha"].submit(spec(3, work_s=LONG, sites=pinned, **IMAGE), 3)
    machines.obey()
    grid["alpha"].submit(spec(30, work_s=LONG, **IMAGE), 30)
    machines.obey()
    gamma = grid["gamma"]
    gamma.handle(ev.SettingsLoaded(gamma.settings, software=("containers",)))
    first = grid["alpha"].group("alpha-2")
    assert {part.site for part in first.subgroups.values()} == {where}
    gone_for_long(grid, machines)
    assert machines.executed and not grid[where].started
    left = {part.site for part in first.subgroups.values() if part.open_jobs()}
    # Those that were given to m1 may run there still.
    assert left == {where, "gamma"} and any(run.subgroup.startswith("alpha-2/") for run in machines.executed)
    reasons = [decision.reason for decision in first.decisions]
    assert any(f"moved ({where} runs no containers just now: machine m1 is away)" in one for one in reasons), reasons
    # What may run nowhere else keeps its place.
    kept = grid["alpha"].group("alpha-1")
    assert {part.site for part in kept.subgroups.values()} == {where} and not kept.moving


def test_what_nobody_else_has_is_placed_again_when_the_machine_is_back() -> None:
    grid = Grid({"guard_jobs": 0}, alpha=2, beta=2)
    machines = Offering(grid["alpha"], m1=(4, ("containers",)))
    grid["alpha"].submit(spec(12, work_s=LONG, **IMAGE), 12)
    gone_for_long(grid, machines)
    assert "beta: runs no containers" in grid["alpha"].engine.core.waiting_notes[GroupId("alpha-1")]
    machines.ready("m1")
    for _ in range(20):
        machines.pass_time(30.0)
        machines.end("m1", 4)
    group = grid["alpha"].group("alpha-1")
    assert len(group.done) == 12 and len({(run.subgroup, run.index) for run in machines.executed}) == 12


def test_a_newcomer_is_told_nothing_of_what_nobody_can_take() -> None:
    site, machines = offering(m1=(2, ("containers",)), m2=(2, ()))
    machines.submit(spec(40, work_s=LONG, **IMAGE), 40, 1, who=BOB)
    machines.lose("m1")
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner=BOB.name, work_s=LONG)
    waits = quote_answer.quote(site.engine.core, asked)
    assert waits.jobs_ahead > 0 and waits.wait_s > 0
    machines.pass_time(EXPECTED_BACK_S + 1)
    now = quote_answer.quote(site.engine.core, asked)
    assert (now.jobs_ahead, now.wait_s) == (0, 0.0)
    machines.submit(spec(2, work_s=LONG), 2, 2)
    machines.submit(spec(2, work_s=LONG), 2, 3)
    (first,) = waiting(site, "alpha-3")
    assert first.low_s < LONG <= first.high_s < 5 * LONG


def test_kinds_of_wide_jobs_that_can_run_anywhere_keep_one_machine_in_all() -> None:
    any_module = ("module *",)
    site, machines = offering(m1=(2, any_module), m2=(2, any_module), m3=(2, any_module))
    machines.submit(spec(3, work_s=LONG), 3, 1, who=BOB)
    for number, name in enumerate(("a", "b", "c"), 2):
        machines.submit(spec(1, processors=2, work_s=10.0, modules=(name,)), 1, number)
    machines.submit(spec(20, work_s=2 * LONG), 20, 5, who=BOB)
    assert sum(given_to(site)["alpha-5"].values()) == 2


def test_what_is_back_within_the_patience_keeps_its_work() -> None:
    grid = Grid({"migration": "off", "guard_jobs": 0}, alpha=2, beta=2)
    machines = Offering(grid["alpha"], m1=(4, ("containers",)))
    grid["alpha"].submit(spec(30, work_s=LONG, **IMAGE), 30)
    grid["beta"].handle(ev.SettingsLoaded(grid["beta"].settings, software=("containers",)))
    for _ in range(3):
        machines.lose("m1")
        machines.pass_time(EXPECTED_BACK_S + NO_SLOTS_S - 10.0)
        machines.ready("m1")
        machines.pass_time(10.0)
    assert not grid["alpha"].records(r.JobsMoved)
    assert {p.site for p in grid["alpha"].group("alpha-1").subgroups.values()} == {SiteId("alpha")}


# --- the order of the queue --------------------------------------------------------------------------------------


def test_kinds_that_are_closed_come_no_more_however_many_entries_wait() -> None:
    from diana.engine.journal.state import Service
    from diana.engine.queue.order import Closed
    from diana.engine.queue.queues import Queues
    from diana.model.settings import Settings

    queues = Queues(Settings(priority_mode="paper"), Service())
    for number in range(200):
        one = entry(f"a{number}", processors=1 + number % 2)
        one.kind = one.kind._replace(capabilities=("containers",) if number % 4 < 2 else ())
        queues.put(one, 0.0)
    closed = Closed()
    seen: Counter[Kind] = Counter()
    for one, _ in queues.order(0.0, closed):
        seen[one.kind] += 1
        if not one.kind.is_plain:
            closed.add(one.kind)
    plain = [ResourceRequest(width) for width in (1, 2)]
    special = [kind._replace(capabilities=("containers",)) for kind in plain]
    assert seen == {**dict.fromkeys(special, 1), **dict.fromkeys(plain, 50)}
    assert set(queues.classes.special()) == set(special)
    for number in range(200):
        queues.remove(entry(f"a{number}").key)
    assert not queues.classes.special()


# --- rules ---------------------------------------------------------------------------------------------------

NAMES = ("containers", "module a", "module b")
OFFERS = st.sets(st.sampled_from([*NAMES, "module *"])).map(lambda some: tuple(sorted(some)))
WANTS = st.sets(st.sampled_from(NAMES)).map(lambda some: tuple(sorted(some)))
GROUPS = st.tuples(WANTS, st.integers(1, 3), st.integers(1, 6), st.sampled_from([1.0, LONG]))
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["end", "lose", "ready", "change"]), st.integers(0, 2), OFFERS), max_size=12
)


def wanting(wanted: tuple[str, ...], processors: int, jobs: int, work_s: float) -> GroupSpec:
    modules = tuple(name.removeprefix("module ") for name in wanted if name != "containers")
    container = "image" if "containers" in wanted else ""
    return spec(jobs, processors=processors, work_s=work_s, container=container, modules=modules)


@pytest.mark.wide
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), OFFERS), min_size=1, max_size=3), st.lists(GROUPS, max_size=6), ACTIONS)
def test_nothing_is_given_where_it_cannot_run_and_no_free_machine_is_kept_from_what_can_run_there(
    machines: list[tuple[int, tuple[str, ...]]],
    groups: list[tuple[tuple[str, ...], int, int, float]],
    actions: list[tuple[str, int, tuple[str, ...]]],
) -> None:
    site, lrm = offering(**{f"m{k}": one for k, one in enumerate(machines)})
    for number, one in enumerate(groups):
        lrm.submit(wanting(*one), one[2], 100 + number)
    seen = check(site, lrm, 0)
    for what, at, has in actions:
        name = f"m{at % len(machines)}"
        if what == "end":
            lrm.end(name, 2)
        elif what == "lose":
            lrm.lose(name)
        else:
            if what == "change":
                lrm.offered[name] = has
            lrm.ready(name)
        lrm.pass_time(1.0)
        seen = check(site, lrm, seen)
    for name in lrm.slots:
        lrm.offered[name] = NAMES
        lrm.ready(name)
    for _ in range(40):
        for name in lrm.slots:
            lrm.end(name, 9)
        lrm.pass_time(1.0)
    assert not site.engine.core.queues.entries


def check(site: Site, lrm: Offering, seen: int) -> int:
    """All that was given since, and whether something waits for nothing."""
    core = site.engine.core
    for effect in site.trace[seen:]:
        if isinstance(effect, fx.Start):
            lacks = software.lacking(lrm.offered[effect.worker] or (), software.needed(effect.spec))
            # An order of an older session is dropped, which is how a machine changes what it offers.
            assert not lacks or effect.session != lrm.sessions[effect.worker], f"{effect.worker} {lacks}"
    # A round that was left out would have given nothing. (That the next in line waits for a free slot holds on.)
    given = len(site.trace)
    core.workers.rests = None
    lrm.handle(ev.Ask(request=51, principal=ALICE, what="groups"))
    assert not [effect for effect in site.trace[given:] if isinstance(effect, fx.Start)]
    widest_waits = any(e.processors > 1 for e in core.queues.entries.values())
    for one in core.queues.entries.values() if not widest_waits else ():
        for name in lrm.up:
            lane = core.totals.runs.lane(name)
            free = lane.slots - lane.load
            assert free <= 0 or software.lacking(lrm.offered[name] or (), one.kind.capabilities), (one.key, name)
    return len(site.trace)
