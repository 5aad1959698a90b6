"""SPEC D8: jobs that want of their machine what not every one has are looked at by kinds, never machine by machine or
job by job; a kind that no machine can run any more is let go as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import capacity, forecast, quote_answer
from diana.engine.dispatch.predictions import Predictions
from diana.engine.guard.machine_guard import MachineGuard
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.machines.machine import EXPECTED_BACK_S
from diana.engine.machines.requirements import about
from diana.engine.messages import messages as ms
from diana.engine.messages.migration import Surplus
from diana.engine.migration import stranded
from diana.engine.migration.stranded import Stranded
from diana.engine.migration.surplus import LOOK_S, MOST_PARTS
from diana.engine.placement.pull_back import NO_SLOTS_S
from diana.model.ids import GroupId, SiteId
from diana.model.job.resources import ResourceRequest
from diana.model.job.software import MOST_NEEDED
from diana.model.job.spec import GroupSpec
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.machines.test_machine_software import (
    GROUPS,
    IMAGE,
    LONG,
    NAMES,
    OFFERS,
    Offering,
    given_to,
    gone_for_long,
    offering,
    wanting,
)
from tests.engine.queueing import entry

ANY = ("module *",)
GIB = 2**30


def calls(act: Callable[[], object]) -> int:
    """Functions called meanwhile: what it costs, whatever else the machine does."""
    found = 0

    def count(*event: object) -> None:
        nonlocal found
        found += event[1] in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def full(machines: int, kinds: int, work_s: float = LONG) -> tuple[Site, Offering]:
    """All slots are taken, and a job of each kind waits."""
    site, lrm = offering(**{f"m{number:03}": (2, ANY) for number in range(machines)})
    lrm.submit(spec(2 * machines, work_s=LONG), 2 * machines, 1, who=BOB)
    # Quick ones are given ahead of free slots as well.
    jobs = 1 if work_s == LONG else 6 * machines + 1
    for kind in range(kinds):
        lrm.submit(spec(jobs, work_s=work_s, modules=(f"k{kind}",)), jobs, 100 + kind)
    assert len(site.engine.core.queues) == kinds
    return site, lrm


def ask(site: Site) -> None:
    site.engine.handle(ev.Ask(request=9, principal=ALICE, what="group", group=GroupId("alpha-1")), site.grid.now)


def big(memory_bytes: int, jobs: int = 1, **needs: object) -> GroupSpec:
    wanted = spec(jobs, work_s=LONG, **needs)  # type: ignore[arg-type]
    return msgspec.structs.replace(
        wanted, resources=msgspec.structs.replace(wanted.resources, memory_bytes=memory_bytes)
    )


class Large(Offering):
    """m0 has more memory than the others."""

    def handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.LrmReady):
            event = msgspec.structs.replace(event, memory_bytes=(600 if event.worker == "m0" else 64) * GIB)
        super().handle(event)


# --- what it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work_s", [1.0, LONG])
def test_while_nothing_is_free_an_event_costs_neither_by_machines_nor_by_kinds(work_s: float) -> None:
    few, many = full(2, 1, work_s)[0], full(60, 30, work_s)[0]
    assert calls(lambda: ask(many)) <= calls(lambda: ask(few)) + 20


def test_an_end_costs_by_what_offers_differ_in_and_not_by_machines_and_names() -> None:
    def cost(machines: int, kinds: int) -> int:
        lrm = full(machines, kinds)[1]
        # Of the waiting ones one starts where another ended: no slot stays free.
        return min(calls(lambda: lrm.end("m001", 1)) for _ in range(2))

    assert cost(40, 60) < 3 * cost(4, 6)


def test_a_quote_costs_not_by_what_others_ask_for() -> None:
    def cost(kinds: int) -> int:
        core = full(20, kinds)[0].engine.core
        asked = ms.QuoteRequest(
            quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner="a", software=("module k1",)
        )
        quote_answer.quote(core, asked)
        return calls(lambda: quote_answer.quote(core, asked))

    assert cost(60) <= cost(2) + 20


def test_what_a_site_offers_is_kept_until_a_machine_changes() -> None:
    _, machines = offering(m1=(2, ("containers",)), m2=(2, ()))
    workers = machines.site.engine.core.workers
    assert workers.offer() is workers.offer()
    machines.offered["m2"] = ANY
    machines.ready("m2")
    assert workers.offer().capabilities == ("containers", "module *")


def test_what_one_machine_tells_costs_no_look_at_the_figures_of_the_others() -> None:
    _, machines = offering(**{f"m{number:03}": (2, ANY) for number in range(20)})
    workers = machines.site.engine.core.workers
    some = [workers.find(name) for name in workers.names()]
    had = [workers.offers.of(one) for one in some if one is not None]
    alike = {id(offer) for offer in had}
    workers.scratch_seen("m003", 5 << 30)
    machines.offered["m004"] = ()
    machines.ready("m004")
    now = [workers.offers.of(one) for one in some if one is not None]
    other = [one.name for one, old, new in zip(some, had, now, strict=True) if one is not None and old is not new]
    assert other == ["m004"] and len(alike) <= 2


def test_that_no_machine_suits_is_seen_without_a_look_at_each() -> None:
    def cost(machines: int) -> int:
        workers = full(machines, 2)[0].engine.core.workers
        asked = ResourceRequest(1, (("fpga", 1),))
        assert not workers.suits_any(asked) and not workers.whole("fpga")
        return calls(lambda: (workers.suits_any(asked), workers.whole("fpga")))

    assert cost(60) == cost(2)


def test_jobs_for_the_memory_of_one_machine_cost_no_look_each_while_that_one_is_full() -> None:
    def cost(groups: int) -> int:
        site = Grid({"guard_jobs": 0}, alpha=0)["alpha"]
        lrm = Large(site, m0=(1, ("containers",)), m1=(8, ("containers",)))
        lrm.submit(big(500 * 10**9, **IMAGE), 1, 1)
        for number in range(groups):
            lrm.submit(big(500 * 10**9, **IMAGE), 1, 100 + number)
        lrm.submit(spec(8, work_s=LONG, **IMAGE), 8, 2)
        assert lrm.open("m0") == 1 and lrm.open("m1") == 8
        lrm.end("m1", 2)
        site.engine.core.workers.look_again()
        return calls(lambda: ask(site))

    assert cost(60) <= cost(5) + 20


@pytest.mark.parametrize("size", [0, 1, 7, 9, GIB, 3 * GIB - 1, 500 * 10**9])
def test_the_memory_of_a_kind_is_never_more_than_its_jobs_ask_and_not_much_less(size: int) -> None:
    assert about(size) <= size < about(size) * 1.25 + 1 and about(about(size)) == about(size)


def test_behind_many_that_fit_nowhere_others_of_other_needs_start() -> None:
    """By their memory: within a step of the kind, and just too much for the machine."""
    site = Grid({"guard_jobs": 0}, alpha=0)["alpha"]
    lrm = Large(site, m0=(1, ("containers",)), m1=(8, (*NAMES,)))
    lrm.submit(big(500 * 10**9, **IMAGE), 1, 1)
    for number in range(80):
        lrm.submit(big(65 * GIB, **IMAGE), 1, 100 + number)
    lrm.submit(spec(1, work_s=LONG, modules=("a",)), 1, 2)
    lrm.submit(spec(1, work_s=LONG), 1, 3)
    assert lrm.open("m1") == 2


# --- who is kept waiting ---------------------------------------------------------------------------------------------


def test_a_machine_that_gets_no_more_of_a_group_does_not_wait_for_it() -> None:
    site, machines = offering(m1=(1, ("containers",)), m2=(1, ("containers",)))
    machines.submit(spec(2, work_s=LONG), 2, 1, who=BOB)
    machines.submit(spec(3, work_s=LONG, **IMAGE), 3, 2)
    core = site.engine.core
    core.book(MachineGuard).out[GroupId("alpha-2")] = {"m1": core.now + 1000.0}
    machines.submit(spec(20, work_s=1.0), 20, 3)
    assert given_to(site)["alpha-3"] == {"m1": 2}


def test_jobs_too_wide_for_the_machines_that_are_left_go_where_one_is_wide_enough() -> None:
    grid = Grid({"guard_jobs": 0}, alpha=0, gamma=16)
    has = ("containers",)
    machines = Offering(grid["alpha"], m1=(16, has), m2=(4, has), m3=(8, ()))
    grid["alpha"].submit(spec(30, processors=8, work_s=LONG, **IMAGE), 30)
    machines.obey()
    gamma = grid["gamma"]
    gamma.handle(ev.SettingsLoaded(gamma.settings, software=has))
    group = grid["alpha"].group("alpha-1")
    assert {part.site for part in group.subgroups.values()} == {"alpha"}
    gone_for_long(grid, machines)
    assert not grid["alpha"].engine.core.queues.entries
    assert any("m1 is away" in decision.reason for decision in group.decisions)
    assert {part.site for part in group.subgroups.values() if part.open_jobs()} == {"alpha", "gamma"}


# The narrow version of a kind still runs where the wide one does not.
@example([(3, ("containers",)), (1, ("containers",))], [(("containers",), 2, 4, LONG)], {0})
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), OFFERS), min_size=1, max_size=3),
    st.lists(GROUPS, min_size=1, max_size=4),
    st.sets(st.integers(0, 2)),
)
def test_what_no_machine_left_can_run_is_let_go_whatever_it_needs(
    machines: list[tuple[int, tuple[str, ...]]],
    groups: list[tuple[tuple[str, ...], int, int, float]],
    lost: set[int],
) -> None:
    grid = Grid({"guard_jobs": 0, "summary_every_s": 5.0, "suspect_after_s": 20.0}, alpha=0, gamma=8)
    site, gamma = grid["alpha"], grid["gamma"]
    lrm = Offering(site, **{f"m{k}": one for k, one in enumerate(machines)}, plain=(1, ()))
    for number, one in enumerate(groups):
        site.submit(wanting(*one), one[2], 100 + number)
        lrm.obey()
    gamma.handle(ev.SettingsLoaded(gamma.settings, software=NAMES))
    for name in sorted({f"m{k % len(machines)}" for k in lost}):
        lrm.lose(name)
    lrm.pass_time(EXPECTED_BACK_S + NO_SLOTS_S + 60.0)
    core = site.engine.core
    stay = {one.kind for one in core.queues.entries.values() if not one.kind.is_plain}
    assert not stay & capacity.untaken(core)
    for kind in stay:
        assert core.workers.lanes(kind), kind


def test_what_an_origin_was_not_told_of_for_want_of_room_it_is_told_next() -> None:
    grid = Grid({"guard_jobs": 0}, alpha=2, beta=2)
    core, kind = grid["alpha"].engine.core, ResourceRequest(1, (), ("containers",))
    for number in range(MOST_PARTS + 6):
        one = entry(f"beta-1/{number}", origin="beta")
        one.kind = kind
        core.queues.put(one, core.now)
    core.book(Stranded).since[kind] = core.now - NO_SLOTS_S
    told = []
    for _ in range(2):
        stranded.look(core)
        core.now += LOOK_S
        sent = [one.message for one in core.effects if isinstance(one, fx.Send) and isinstance(one.message, Surplus)]
        told.append([len(group.parts) for message in sent for group in message.groups])
    assert told == [[MOST_PARTS], [MOST_PARTS, 6]] and len(core.book(Stranded).told) == MOST_PARTS + 6


def test_a_group_nobody_can_run_is_not_called_back_each_time_its_machine_goes() -> None:
    grid = Grid({"migration": "off", "guard_jobs": 0}, alpha=2, beta=2)
    machines = Offering(grid["alpha"], m1=(1, ("containers",)))
    grid["alpha"].submit(spec(30, work_s=LONG, **IMAGE), 30)
    for _ in range(8):
        gone_for_long(grid, machines)
        machines.ready("m1")
        machines.pass_time(60.0)
    # In half an hour: at once, after five minutes, after ten more.
    assert 1 <= len(grid["alpha"].records(r.JobsMoved)) <= 4


# --- what is said ----------------------------------------------------------------------------------------------------


def test_no_start_is_predicted_for_what_no_machine_can_run() -> None:
    site, machines = offering(m1=(2, ("containers",)), m2=(2, ()))
    machines.submit(spec(2, work_s=LONG, sites=("alpha",)), 2, 1)
    machines.submit(spec(4, work_s=LONG, **IMAGE), 4, 2)
    machines.submit(spec(4, work_s=LONG), 4, 3)
    machines.lose("m1")
    machines.pass_time(EXPECTED_BACK_S + 10.0)
    core = site.engine.core
    nobody, somebody = sorted(core.queues.entries)
    assert core.queues.entries[nobody].kind in capacity.untaken(core)
    for key in (nobody, somebody):
        core.book(Predictions).forget(key)
        core.book(Predictions)._next_sample_s = core.now
        forecast.learn(core, key)
    assert list(core.book(Predictions)._open) == [somebody]


def test_what_a_peer_asks_for_is_cut_and_put_in_order_once() -> None:
    grid = Grid(alpha=2, beta=2)
    alpha = grid["alpha"]
    alpha.handle(ev.SettingsLoaded(alpha.settings, software=ANY))
    names = tuple(f"module {1000 - number}" for number in range(400))
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner="a", software=names * 2)
    effects = alpha.engine.handle(ev.Received(SiteId("beta"), asked), grid.now)
    (quote,) = [one.message for one in effects if isinstance(one, fx.Send) and isinstance(one.message, ms.Quote)]
    assert quote.software == tuple(sorted(names[:MOST_NEEDED])) and not quote.rejected
