"""The state table of a gang, row by row: an engine is brought into the row's state and given its message; then it is
started anew on what is durable."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.handover import gangs
from diana.engine.handover.gangs.attempt_book import GangAttempts
from diana.engine.handover.gangs.table import AFTER_RESTART, TABLE, Attempt, SiteClaim
from diana.engine.handover.table import Row, text
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import Step
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import Drafts
from diana.model.facts import Outcome
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import ALICE, facts_of, result
from tests.engine.handing import PART, receive
from tests.engine.handover.rows import ORDERS, REPORTS, named, told_messages, told_records
from tests.engine.handover.test_gangs import gang

NAME = GroupId("alpha-1")
OTHERS = "alpha-1/1"
"""gamma's component; the two of beta are `PART`."""
BOTH = IndexSet.span(0, 2)
THERE = "db-beta"
LEASE_S = 20.0

NAMED_RECORDS = frozenset(kind for row in TABLE for kind in row.records)

Case = tuple[Row, type | str]
CASES: list[Case] = [(row, on) for row in TABLE for on in row.on]


# --- the states ------------------------------------------------------------------------------------------


def attempt(origin: Site) -> Attempt:
    """The state of the gang, by what its origin has written and what its book says."""
    state, book, key = origin.engine.core.state, origin.engine.core.book(GangAttempts), (NAME, 0)
    group = state.groups[NAME]
    parts = [one for one in group.subgroups.values() if one.open_jobs()]
    offered = [one for one in parts if one.step is Step.OFFERED]
    if any(not old.closed for some in state.disowned.values() for old in some.values()):
        return Attempt.CLOSING
    if offered:
        assert offered == parts, "no component is let go alone"
        holds = [bool(book.claim(one.subgroup).host) for one in parts]
        if key not in book.over_s:
            return Attempt.OFFERED
        return Attempt.MEETING if all(holds) else Attempt.HOLDING if any(holds) else Attempt.CLAIMING
    if not parts:
        return Attempt.WAITING if group.unplaced else Attempt.OVER
    ending = all(group.open_of(one.indices).issubset(one.cancelling) for one in parts)
    return Attempt.ENDING if ending else Attempt.STARTED


def claim(site: Site) -> SiteClaim:
    state, book, key = site.engine.core.state, site.engine.core.book(ClaimBook), (PART, 1)
    custody, tombstone = state.custodies.get(key), state.tombstones.get(key)
    if custody is None:
        assert tombstone is None or not tombstone.done
        return SiteClaim.UNKNOWN if tombstone is None else SiteClaim.DROPPED
    if custody.runnable:
        return SiteClaim.LET_GO
    if key in book.ending:
        return SiteClaim.LAPSING
    if custody.indices.issubset(book.at_barrier.get(key, IndexSet())):
        return SiteClaim.STANDING
    if custody.running:
        return SiteClaim.TAKING
    return SiteClaim.ASKED if key in book.until_s else SiteClaim.INERT


def state_of(site: Site, side: type) -> Attempt | SiteClaim:
    return attempt(site) if side is Attempt else claim(site)


# --- scenes: a grid in each state --------------------------------------------------------------------------

Losing = Callable[[Post], bool]


def of(kind: type, *, by: str = "", to: str = "", **fields: object) -> Losing:
    """Messages of that kind, by that sender and to that receiver, with these values."""
    return lambda post: (
        isinstance(post[2], kind)
        and by in ("", post[0])
        and to in ("", post[1])
        and all(getattr(post[2], name) == value for name, value in fields.items())
    )


def begun(losing: Losing | None = None, *, looks: bool = False, leased: bool = False) -> Grid:
    """alpha's gang: two components at beta, one at gamma. `losing`: messages that are lost. `looks`: the sites know
    their addresses, and so look whether they reach each other. `leased`: the components run under leases."""
    grid = Grid({"claim_wait_s": 90.0, "lease_s": LEASE_S, "migration": "off"}, alpha=0, beta=2, gamma=1)
    for name, site in grid.sites.items():
        site.engine.core.book(ClaimBook).host = f"{name}.example" if looks else ""
    grid.fate = (lambda _, __, post: "lose" if losing(post) else "deliver") if losing is not None else None
    wanted = gang("2x1@beta+1x1@gamma", work_s=100.0, on_site_lost="rerun" if leased else "hold")
    grid["alpha"].submit(wanted, 3, settle=False)
    return grid


def until(grid: Grid, kind: type) -> Grid:
    """Deliver all before the next message of that kind."""
    while not isinstance(grid.post_box[0][2], kind):
        grid.deliver_one()
    return grid


def settled(losing: Losing | None = None, *, looks: bool = False, leased: bool = False) -> Grid:
    grid = begun(losing, looks=looks, leased=leased)
    grid.settle()
    return grid


def offered() -> Grid:
    return until(begun(), ms.Prepare)


def unable_twice() -> Grid:
    """beta could not begin its components in two attempts before this one."""
    grid = offered()
    grid["alpha"].engine.core.book(GangAttempts).unable[NAME, 0] = (SiteId("beta"), SiteId("beta"))
    return grid


def waiting() -> Grid:
    grid = settled(of(ms.GangClaimed, by="beta"))
    receive(grid["alpha"], "beta", ms.GangYield(subgroup=PART, epoch=1))
    grid.settle()
    return grid


def quoted() -> Grid:
    """The next attempt's last quote is under way."""
    grid = waiting()
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()
    while True:
        grid.now = max(grid.now, min(site.engine.deadline() or 1e9 for site in grid.sites.values()))
        for site in grid.sites.values():
            site.handle(ev.Tick())
        while grid.post_box:
            sender, _, message = grid.post_box[0]
            drafts = list(grid["alpha"].engine.core.book(Drafts).open.values())
            if isinstance(message, ms.Quote) and drafts and drafts[0].waiting == {sender}:
                return grid
            grid.deliver_one()


def others_end(outcome: Outcome, losing: Losing | None = None) -> Grid:
    """gamma's component has ended, and beta's run."""
    grid = settled(losing)
    grid["gamma"].end(outcome=outcome)
    grid.settle()
    return grid


def silent() -> Grid:
    """The components of beta, which cannot be reached, run under its lease."""
    grid = settled(leased=True)
    grid.part("beta")
    return grid


def closing(*, leased: bool = False) -> Grid:
    """gamma came too late; beta has not heard that its own are to end."""
    losing = [of(ms.Control), of(ms.Committed, by="gamma")]
    grid = settled(lambda post: any(lost(post) for lost in losing), leased=leased)
    receive(grid["alpha"], "gamma", ms.Aborted(subgroup=OTHERS, epoch=2, db_uuid="db-gamma"))  # type: ignore[arg-type]
    grid.settle()
    return grid


def over() -> Grid:
    grid = settled()
    grid["beta"].end()
    grid["gamma"].end()
    grid.settle()
    return grid


def inert(*, leased: bool = False) -> Grid:
    return settled(of(ms.GangClaim, to="beta"), leased=leased)


def without_machine(*, asked: bool = True) -> Grid:
    grid = inert()
    grid["beta"].handle(ev.LrmLost())
    if asked:
        receive(grid["beta"], "alpha", order(ms.GangClaim, ""))
    return grid


def without_lease() -> Grid:
    return settled(of(lm.Renewed), leased=True)


def lease_over() -> Grid:
    """beta's components stand at the barrier, and the lease under which they would run is over."""
    grid = settled(of(ms.GangClaimed), leased=True)
    grid.part("beta")
    grid.pass_time(LEASE_S + 1.0)
    return grid


def behind_lesser() -> Grid:
    """A later gang has what this one's claim, lost at first, waits for."""
    grid = inert()
    # Else their origin itself would keep them apart.
    grid["alpha"].engine.core.book(GangAttempts).parts.clear()
    grid.fate = lambda _, __, post: "lose" if of(ms.GangClaimed)(post) else "deliver"
    grid["alpha"].submit(gang("2x1@beta"), 2, 2)
    receive(grid["beta"], "alpha", order(ms.GangClaim, ""))
    return grid


def at_machine() -> Grid:
    """beta's components were given to its machine, which has not said that they stand at the barrier."""
    grid = inert()
    grid["beta"].barrier_told = False
    receive(grid["beta"], "alpha", order(ms.GangClaim, ""))
    return grid


def taking() -> Grid:
    """It has said so of one of them."""
    grid = at_machine()
    grid["beta"].handle(barrier([0]))
    return grid


def standing(*, looks: bool = False) -> Grid:
    return settled(of(ms.GangClaimed), looks=looks)


def looking() -> Grid:
    """beta looks whether it reaches gamma's host."""
    grid = standing(looks=True)
    site = grid["beta"]
    site.keep(site.engine.handle(ev.Received(SiteId("alpha"), order(ms.GangClaim, "to meet")), grid.now))
    return grid


def cancelled_before() -> Grid:
    """beta's components were cancelled, and it started anew before they had ended."""
    grid = standing()
    receive(grid["beta"], "alpha", order(ms.Control, ""))
    grid["beta"].boot()
    return grid


def claim_ends() -> Grid:
    grid = standing()
    receive(grid["beta"], "alpha", ms.Abort(subgroup=PART, epoch=1))
    return grid


def dropped() -> Grid:
    grid = inert()
    receive(grid["beta"], "alpha", ms.Abort(subgroup=PART, epoch=1))
    return grid


SCENES: dict[Attempt | SiteClaim, Callable[[], Grid]] = {
    Attempt.WAITING: waiting,
    Attempt.OFFERED: offered,
    Attempt.CLAIMING: partial(settled, of(ms.GangClaimed)),
    Attempt.HOLDING: partial(settled, of(ms.GangClaimed, by="beta")),
    Attempt.MEETING: partial(settled, of(ms.GangClaimed, by="beta", met=True), looks=True),
    Attempt.STARTED: partial(settled, of(ms.Committed, by="beta")),
    Attempt.ENDING: partial(others_end, Outcome.FAILED, of(ms.Control)),
    Attempt.CLOSING: closing,
    Attempt.OVER: over,
    SiteClaim.UNKNOWN: offered,
    SiteClaim.INERT: inert,
    SiteClaim.ASKED: without_machine,
    SiteClaim.TAKING: taking,
    SiteClaim.STANDING: standing,
    SiteClaim.LAPSING: claim_ends,
    SiteClaim.LET_GO: settled,
    SiteClaim.DROPPED: dropped,
}


def of_member(made: Callable[[], Grid]) -> Grid:
    """beta's component is at a machine that is not its node's own."""
    grid = made()
    grid["beta"].engine.core.workers.own = "another"
    return grid


SPECIAL: dict[tuple[Attempt | SiteClaim, type | str, str], Callable[[], Grid]] = {
    (Attempt.WAITING, ms.Quote, "the last one"): quoted,
    (Attempt.OFFERED, ms.Prepared, "the last"): partial(settled, of(ms.Prepared, by="beta")),
    (Attempt.OFFERED, ms.Aborted, "unable, thrice"): unable_twice,
    (Attempt.HOLDING, ms.GangClaimed, "all look"): partial(settled, of(ms.GangClaimed, by="beta"), looks=True),
    (Attempt.MEETING, ms.GangClaimed, "not all meet"): partial(settled, of(ms.GangClaimed, met=True), looks=True),
    (Attempt.STARTED, ms.Aborted, "taken"): settled,
    (Attempt.STARTED, ms.Aborted, "other has ended"): partial(others_end, Outcome.DONE, of(ms.Committed, by="beta")),
    (Attempt.STARTED, ms.Result, "of the last"): partial(others_end, Outcome.DONE),
    (Attempt.STARTED, "lease", "site is silent"): silent,
    (Attempt.CLOSING, "lease", "site is silent"): partial(closing, leased=True),
    (Attempt.ENDING, ms.Aborted, "not taken"): partial(
        others_end,
        Outcome.FAILED,
        lambda post: of(ms.Control)(post) or of(ms.Committed, by="beta")(post),
    ),
    (SiteClaim.INERT, ms.GangClaim, "no machine"): partial(without_machine, asked=False),
    (SiteClaim.INERT, ms.GangClaim, "needs a lease"): partial(inert, leased=True),
    (SiteClaim.ASKED, lm.Renewed, ""): without_lease,
    (SiteClaim.ASKED, "claim-waits", "behind lesser"): behind_lesser,
    (SiteClaim.TAKING, ms.Commit, "cancelled"): cancelled_before,
    (SiteClaim.TAKING, ev.AtBarrier, "not the last"): at_machine,
    (SiteClaim.STANDING, ms.Commit, "lease is over"): lease_over,
    (SiteClaim.STANDING, ms.GangClaim, "to meet"): partial(standing, looks=True),
    (SiteClaim.STANDING, ev.HostsMet, ""): looking,
    (SiteClaim.TAKING, ev.LrmLost, "a member"): partial(of_member, taking),
    (SiteClaim.STANDING, ev.LrmLost, "a member"): partial(of_member, standing),
    (SiteClaim.LAPSING, ev.LrmLost, "a member"): partial(of_member, claim_ends),
}
"""Scenes of single rows, where the state alone does not say all."""


# --- what comes in -----------------------------------------------------------------------------------------


def report(kind: type, when: str) -> ms.Message:
    """beta's report to the origin."""
    made: dict[type, ms.Message] = {
        ms.Prepared: ms.Prepared(subgroup=PART, epoch=1, db_uuid=THERE, seq=0, staged=when != "inputs to come"),
        ms.Refused: ms.Refused(subgroup=PART, epoch=1, reason="no"),
        ms.GangClaimed: ms.GangClaimed(
            subgroup=PART,
            epoch=1,
            host="beta.example",
            port=7,
            looks=when in ("all look", "all meet", "out of reach"),
            met=when in ("all meet", "out of reach", "not all meet"),
            out_of_reach="gamma.example" if when == "out of reach" else "",
        ),
        ms.GangYield: ms.GangYield(subgroup=PART, epoch=1),
        ms.Committed: ms.Committed(subgroup=PART, epoch=1),
        ms.Aborted: ms.Aborted(subgroup=PART, epoch=1, db_uuid=THERE, reason="no", unable=when == "unable, thrice"),
        ms.Lost: ms.Lost(subgroup=PART, epoch=1, db_uuid="db-other"),
        ms.Progress: ms.Progress(subgroup=PART, epoch=1, counter=1, staging=0, queued=0, running=2, held=IndexSet()),
        ms.ControlAck: ms.ControlAck(subgroup=PART, epoch=1, control_seq=1),
    }
    if kind is not ms.Result:
        return made[kind]
    if when == "gives back all":
        return msgspec.structs.replace(result("beta", PART, []), revoked=BOTH)
    return result("beta", PART, [0, 1], outcome=Outcome.FAILED if when == "fails" else Outcome.DONE)


def order(kind: type, when: str) -> ms.Message:
    """alpha's order to beta."""
    meets = {"meet_hosts": ("gamma.example",), "meet_ports": (7,)} if when == "to meet" else {}
    made: dict[type, ms.Message] = {
        ms.GangClaim: ms.GangClaim(subgroup=PART, epoch=1, db_uuid=THERE, wait_s=60.0, **meets),
        ms.Commit: ms.Commit(
            subgroup=PART,
            epoch=1,
            db_uuid="db-other" if when == "other database" else THERE,
            hosts=("beta", "gamma") if when == "other hosts" else ("beta", "beta", "gamma"),
            token="0",
        ),
        ms.Abort: ms.Abort(subgroup=PART, epoch=1),
        ms.Control: ms.Control(subgroup=PART, epoch=1, control_seq=1, cancel=BOTH, hold=IndexSet(), recall=IndexSet()),
        ms.ResultAck: ms.ResultAck(subgroup=PART, epoch=1, batch=0, outputs_taken=True),
    }
    return made[kind]


def barrier(indices: list[int]) -> ev.AtBarrier:
    runs = tuple(ev.Run(PART, 1, index, 1) for index in indices)
    return ev.AtBarrier(worker=MAIN_MACHINE, subgroup=PART, epoch=1, runs=runs, port=7)


def event(row: Row, on: type, grid: Grid) -> ev.Event:
    if on in REPORTS:
        return ev.Received(SiteId("beta"), report(on, row.when))
    if on is ms.Prepare:
        (message,) = (m for _, to, m in offered().post_box if to == "beta" and isinstance(m, ms.Prepare))
        return ev.Received(SiteId("alpha"), message)
    if on in ORDERS:
        return ev.Received(SiteId("alpha"), order(on, row.when))
    if on is lm.Renewed:
        site = grid["beta"]
        renewed = lm.Renewed(generation=site.engine.generation, sent_s=grid.now, lease_s=LEASE_S)
        return ev.Received(SiteId("alpha"), renewed)
    if on is ms.Quote:
        sender, _, quote = grid.post_box[0]
        return ev.Received(sender, quote)
    if on is ev.PeerUp:
        other = "beta" if row.side is Attempt else "alpha"
        hello = grid[other].hello()
        return ev.PeerUp(msgspec.structs.replace(hello, db_uuid="db-other") if row.when else hello)
    if on in (ev.CancelJobs, ev.HoldJobs):
        return on(request=1, principal=ALICE, group=NAME, indices=None)
    if on is ev.AtBarrier:
        return barrier([0] if row.when == "not the last" else [0, 1])
    if on is ev.LrmLost:
        return ev.LrmLost()
    if on is ev.HostsMet:
        return ev.HostsMet(subgroup=PART, epoch=1, hosts=("gamma.example",), out_of_reach="")
    if on is ev.LrmReady:
        none = row.when == "none is there" or row.state is SiteClaim.ASKED
        known = () if none else tuple(ev.Run(PART, 1, index, 1) for index in (0, 1))
        return ev.LrmReady(session=grid["beta"].session + 1, slots=2, known=known)
    assert on is ev.JobsEnded
    some = [ev.Run(PART, 1, index, 1) for index in ([0] if row.when == "one" else [0, 1])]
    return ev.JobsEnded(subgroup=PART, epoch=1, facts=facts_of(SiteId("beta"), some, Outcome.UNBEGUN, grid.now))


def fire(site: Site, name: str) -> list[fx.Effect]:
    """Let the timer of that name run out, and no other; of those of several parts, that of beta's."""
    timers = site.engine.core.timers
    found = [key for key in timers._due if key[0] == name]
    (key,) = [key for key in found if len(found) == 1 or PART in key or "beta" in key]
    due_s = timers._due[key]
    for other in [other for other in timers._due if other != key]:
        timers.cancel(other)
    site.grid.now = max(site.grid.now, due_s)
    return site.handle(ev.Tick())


# --- the rows ------------------------------------------------------------------------------------------------


def scene(row: Row, on: type | str) -> tuple[Grid, Site]:
    state = row.state
    assert isinstance(state, Attempt | SiteClaim)
    grid = SPECIAL.get((state, on, row.when), SCENES[state])()
    site = grid["alpha" if row.side is Attempt else "beta"]
    assert state_of(site, row.side) is state
    return grid, site


def does(row: Row, on: type | str, grid: Grid, site: Site) -> list[fx.Effect]:
    """Let the row's message come in; nothing follows from what the engine says then."""
    if isinstance(on, str):
        return fire(site, on)
    effects = site.engine.handle(event(row, on, grid), grid.now)
    site.keep(effects)
    return effects


@pytest.mark.parametrize(("row", "on"), CASES, ids=named)
def test_an_engine_does_as_the_row_says_and_one_that_starts_anew_is_where_it_says(row: Row, on: type | str) -> None:
    grid, site = scene(row, on)
    effects = does(row, on, grid, site)
    assert told_records(effects, NAMED_RECORDS) == row.records
    assert tuple(kind for _, kind in told_messages(effects)) == row.replies
    assert state_of(site, row.side) is row.to
    if row.side is SiteClaim:
        lets_go = [effect for effect in effects if isinstance(effect, fx.Go)]
        assert row.to is SiteClaim.LET_GO or not lets_go, "nothing begins before the order to start is durable"
        assert (
            row.to is not SiteClaim.LAPSING or row.state is row.to or any(isinstance(e, fx.KillRuns) for e in effects)
        )
    site.boot()
    assert state_of(site, row.side) is AFTER_RESTART.get(row.to, row.to)


@pytest.mark.parametrize("crashes", ["alpha", "beta", "gamma"])
@pytest.mark.parametrize("state", [*Attempt, *SiteClaim])
def test_from_each_state_a_crash_of_any_site_tears_no_gang(state: Attempt | SiteClaim, crashes: str) -> None:
    grid = SCENES[state]()
    grid.fate, grid["beta"].barrier_told = None, True
    # Orders that its machine has not had are lost with it.
    grid[crashes].kills.clear()
    grid[crashes].restart()
    if state is SiteClaim.ASKED:
        grid["beta"].lrm_ready()
    grid.settle()
    grid.finish(rounds=400)
    group = grid["alpha"].group(NAME)
    assert group.state == ("failed" if state is Attempt.ENDING else "done")
    orders = grid["alpha"].records(r.GangGo)
    by_order = [{(part.subgroup, part.epoch) for part in go.parts} for go in orders if isinstance(go, r.GangGo)]
    let_go = [run for site in grid.sites.values() for run in site.gone]
    assert all(any((run.subgroup, run.epoch) in parts for parts in by_order) for run in let_go)
    last = Counter(run.index for run in let_go if (run.subgroup, run.epoch) in by_order[-1])
    assert last == {0: 1, 1: 1, 2: 1}, "each began once, and none without the others"


def test_no_two_rows_answer_one_message() -> None:
    keys = [(row.state, on, row.when) for row, on in CASES]
    assert len(keys) == len(set(keys))


def test_each_side_answers_each_message_in_each_state() -> None:
    answered = {(row.state, on) for row, on in CASES}
    assert not {(state, kind) for state in Attempt for kind in REPORTS} - answered
    assert not {(state, kind) for state in SiteClaim for kind in ORDERS} - answered


def test_every_state_is_reached_and_none_is_the_others() -> None:
    assert {row.to for row in TABLE} == {*Attempt, *SiteClaim}
    assert len({*Attempt, *SiteClaim}) == len(Attempt) + len(SiteClaim)


def test_the_docstring_shows_the_table() -> None:
    said = ast.get_docstring(ast.parse(Path(gangs.__file__).read_text()), clean=False)
    assert said is not None and text(TABLE) in said, f"gangs/__init__.py should show:\n{text(TABLE)}"
