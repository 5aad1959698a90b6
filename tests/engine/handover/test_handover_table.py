"""The state table of the hand-over, row by row: an engine is brought into the row's state and given its message."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from diana.engine import handover
from diana.engine.engine import Engine
from diana.engine.handover.gangs import table as gangs
from diana.engine.handover.table import STEPS, TABLE, Destination, Origin, Row, text
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import SiteState
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import Drafts
from diana.engine.site.surroundings import Journal
from diana.model.facts import Facts, Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, OPERATOR, dataset, facts_of, result, spec, whole
from tests.engine.handing import PART, receive
from tests.engine.handover.rows import MESSAGES, ORDERS, REPORTS, named, told_messages, told_records

JOBS = 4
ALL = whole(JOBS)
SOME = whole(1)
NAME = GroupId("alpha-1")
NOTHING = IndexSet()
THERE = "db-beta"
"""beta's database."""
LEASE_S = 20.0
FILE = "dataset:d/f"

NAMED_RECORDS = frozenset(kind for row in TABLE for kind in row.records)

Case = tuple[Row, type | str]
CASES: list[Case] = [(row, on) for row in TABLE for on in row.on]


# --- the states ------------------------------------------------------------------------------------------


def origin_state(state: SiteState, home: SiteId) -> Origin:
    group = state.groups.get(NAME)
    subgroup = group.subgroups.get(PART) if group is not None else None
    if any(PART in parts for parts in state.disowned.values()):
        found = Origin.DISOWNED
    elif subgroup is None:
        found = Origin.PAST if group is not None and PART in group.past else Origin.UNPLACED
    elif not subgroup.open_jobs():
        found = Origin.FINISHED
    elif subgroup.site == home:
        found = Origin.LOCAL
    elif subgroup.step is STEPS[Origin.OFFERED]:
        found = Origin.OFFERED
    elif subgroup.unreachable:
        found = Origin.UNREACHABLE
    elif subgroup.control_acked < subgroup.control_seq:
        found = Origin.ORDERED
    else:
        found = Origin.TAKEN if subgroup.acked else Origin.COMMITTED
    assert STEPS[found] is (subgroup.step if subgroup is not None else None)
    return found


def destination_state(state: SiteState) -> Destination:
    custody, tombstone = state.custodies.get((PART, 1)), state.tombstones.get((PART, 1))
    if custody is not None:
        assert tombstone is None
        if not custody.runnable:
            return Destination.PREPARED
        if custody.over():
            return Destination.ENDED
        return Destination.STARTING if custody.running else Destination.RUNNABLE
    if tombstone is not None:
        return Destination.DONE if tombstone.done else Destination.DROPPED
    return Destination.UNKNOWN


def state_of(site: Site, side: type, state: SiteState) -> Origin | Destination:
    return origin_state(state, site.name) if side is Origin else destination_state(state)


def restored(site: Site) -> SiteState:
    """The state that a restart would find."""
    journal = Journal(snapshot=None, seq=len(site.stored), at_s=site.grid.now, records=list(site.stored))
    return Engine.restore(journal, site=site.name, keyring=site.keyring, now=site.grid.now).core.state


# --- scenes: a grid in each state --------------------------------------------------------------------------


@dataclass
class Scene:
    grid: Grid
    prepare: ms.Prepare | None = None

    @property
    def alpha(self) -> Site:
        return self.grid["alpha"]

    @property
    def beta(self) -> Site:
        return self.grid["beta"]

    def until(self, kind: type) -> Scene:
        """Deliver all before the next message of that kind."""
        while not isinstance(self.grid.post_box[0][2], kind):
            self.grid.deliver_one()
        return self

    def after(self, kind: type) -> Scene:
        """Deliver up to the next message of that kind, and this one too."""
        self.until(kind).grid.deliver_one()
        return self


def submitted(*, leased: bool = False, inputs: bool = False, rerun: bool = False) -> Scene:
    """alpha's group of four jobs, which only beta takes: gamma, where they may run too, has no disk space."""
    grid = Grid({"lease_s": LEASE_S, "migration": "off"}, alpha=0, beta=JOBS, gamma=JOBS)
    grid["gamma"].handle(ev.RoomChecked(low="not yet"))
    grid.pass_time(2.0)
    grid["beta"].stage_at_once = False
    if inputs:
        grid["alpha"].handle(ev.AddDataset(request=7, principal=OPERATOR, dataset=dataset("d", "f")))
        grid.settle()
    wanted = spec(
        JOBS,
        work_s=100.0,
        not_sites=("alpha",),
        on_site_lost="rerun" if leased else "hold",
        on_crash="rerun" if rerun else "hold",
    )
    grid["alpha"].submit(wanted, JOBS, refs=((FILE, ALL),) if inputs else (), settle=False)
    return Scene(grid)


def unplaced() -> Scene:
    """Every site asked has given its quote but one, whose quote is under way."""
    scene = submitted()
    while True:
        sender, _, message = scene.grid.post_box[0]
        (draft,) = scene.alpha.engine.core.book(Drafts).open.values()
        if isinstance(message, ms.Quote) and draft.waiting == {sender}:
            return scene
        scene.grid.deliver_one()


def offered(*, leased: bool = False, inputs: bool = False, rerun: bool = False) -> Scene:
    scene = submitted(leased=leased, inputs=inputs, rerun=rerun).until(ms.Prepare)
    prepare = scene.grid.post_box[0][2]
    assert isinstance(prepare, ms.Prepare)
    scene.prepare = prepare
    return scene


def prepared(*, leased: bool = False, inputs: bool = False) -> Scene:
    return offered(leased=leased, inputs=inputs).after(ms.Prepare)


def committed(*, leased: bool = False) -> Scene:
    return prepared(leased=leased).after(ms.Prepared)


def taken(*, leased: bool = False) -> Scene:
    scene = committed(leased=leased)
    scene.grid.settle()
    return scene


def ordered() -> Scene:
    scene = taken()
    scene.alpha.cancel(NAME, SOME, settle=False)
    return scene


def unreachable() -> Scene:
    scene = taken(leased=True)
    receive(scene.alpha, "beta", ms.Lost(subgroup=PART, epoch=1, db_uuid="db-other"))
    return scene


def silent() -> Scene:
    scene = taken(leased=True)
    scene.grid.part("beta")
    return scene


def disowned() -> Scene:
    """Placed anew; the stream to beta stands again, and beta has said nothing of it."""
    scene = silent()
    fire(scene.alpha, "lease")
    scene.alpha.handle(ev.PeerUp(scene.beta.hello()))
    return scene


def finished() -> Scene:
    scene = taken()
    scene.beta.end()
    scene.grid.settle()
    return scene


def past() -> Scene:
    scene = offered()
    receive(scene.alpha, "beta", ms.Refused(subgroup=PART, epoch=1, reason="no"))
    return scene


def at_home() -> Scene:
    grid = Grid({"migration": "off"}, alpha=JOBS, beta=0, gamma=0)
    grid["alpha"].submit(spec(JOBS, work_s=100.0, sites=("alpha",)), JOBS)
    return Scene(grid)


def runnable(*, leased: bool = False, inputs: bool = False) -> Scene:
    scene = prepared(leased=leased, inputs=inputs)
    if not leased and not inputs:
        scene.beta.handle(ev.LrmLost())
    receive(scene.beta, "alpha", ms.Commit(subgroup=PART, epoch=1, db_uuid=THERE))
    return scene


def starting(*, rerun: bool = False) -> Scene:
    scene = offered(rerun=rerun)
    scene.grid.settle()
    return scene


def ended(outputs: tuple[str, ...] = ()) -> Scene:
    scene = taken()
    scene.beta.outputs = scene.beta.collected[PART] = outputs
    scene.beta.end()
    return scene


def dropped() -> Scene:
    scene = prepared()
    receive(scene.beta, "alpha", ms.Abort(subgroup=PART, epoch=1))
    return scene


SCENES: dict[Origin | Destination, Callable[[], Scene]] = {
    Origin.UNPLACED: unplaced,
    Origin.LOCAL: at_home,
    Origin.OFFERED: offered,
    Origin.COMMITTED: committed,
    Origin.TAKEN: taken,
    Origin.ORDERED: ordered,
    Origin.UNREACHABLE: unreachable,
    Origin.DISOWNED: disowned,
    Origin.FINISHED: finished,
    Origin.PAST: past,
    Destination.UNKNOWN: offered,
    Destination.PREPARED: prepared,
    Destination.RUNNABLE: runnable,
    Destination.STARTING: starting,
    Destination.ENDED: ended,
    Destination.DROPPED: dropped,
    Destination.DONE: finished,
}

SPECIAL: dict[tuple[Origin | Destination, type | str, str], Callable[[], Scene]] = {
    (Origin.UNPLACED, ev.SubmitGroup, "home only"): lambda: Scene(Grid({"migration": "off"}, alpha=JOBS, beta=0)),
    (Origin.TAKEN, ms.Result, "told before"): lambda: in_part(taken()),
    (Origin.TAKEN, "lease", "site is silent"): silent,
    (Origin.ORDERED, ev.ReleaseJobs, "after a hold"): lambda: held(taken()),
    (Origin.ORDERED, ms.Result, "gives back all"): lambda: recalled(taken()),
    (Origin.PAST, ms.Result, "told before"): lambda: in_part(past()),
    (Destination.PREPARED, ms.Commit, "no machine"): lambda: without_machine(prepared()),
    (Destination.PREPARED, ms.Commit, "needs a lease"): lambda: prepared(leased=True),
    (Destination.UNKNOWN, ms.Prepare, "not acceptable"): lambda: full(offered()),
    (Destination.RUNNABLE, ev.StageDone, ""): lambda: runnable(inputs=True),
    (Destination.RUNNABLE, lm.Renewed, ""): lambda: runnable(leased=True),
    (Destination.RUNNABLE, ms.Control, "obeyed before"): lambda: obeyed(runnable()),
    (Destination.STARTING, ev.JobsEnded, "unknown, rerun"): lambda: starting(rerun=True),
    (Destination.ENDED, ms.ResultAck, "without outputs"): lambda: ended(("out",)),
}
"""Scenes of single rows, where the state alone does not say all."""


def settled(scene: Scene) -> Scene:
    scene.grid.settle()
    return scene


def in_part(scene: Scene) -> Scene:
    receive(scene.alpha, "beta", result("beta", PART, [0]))
    return scene


def held(scene: Scene) -> Scene:
    scene.alpha.hold(NAME, SOME, settle=False)
    return scene


def recalled(scene: Scene) -> Scene:
    scene.grid["gamma"].handle(ev.RoomChecked(low=""))
    scene.alpha.move(NAME, "gamma", settle=False)
    return scene


def without_machine(scene: Scene) -> Scene:
    scene.beta.handle(ev.LrmLost())
    return scene


def full(scene: Scene) -> Scene:
    scene.beta.handle(ev.RoomChecked(low="disk is full"))
    return scene


def obeyed(scene: Scene) -> Scene:
    receive(scene.beta, "alpha", control(hold=SOME))
    return scene


# --- what comes in -----------------------------------------------------------------------------------------


def fire(site: Site, name: str) -> list[fx.Effect]:
    """Let the timer of that name run out, and no other."""
    timers = site.engine.core.timers
    (key,) = [key for key in timers._due if key[0] == name]
    due_s = timers._due[key]
    if name == "housekeeping":
        due_s = max(due_s, site.grid.now + site.settings.tombstone_s + 1.0)
    for other in [other for other in timers._due if other != key]:
        timers.cancel(other)
    site.grid.now = max(site.grid.now, due_s)
    return site.handle(ev.Tick())


def control(*, cancel: IndexSet = NOTHING, hold: IndexSet = NOTHING, recall: IndexSet = NOTHING) -> ms.Control:
    return ms.Control(subgroup=PART, epoch=1, control_seq=1, cancel=cancel, hold=hold, recall=recall)


def report(kind: type, when: str, scene: Scene) -> ms.Message:
    """beta's report to the origin."""
    found = scene.alpha.engine.core.state.groups[NAME].subgroups.get(PART)
    issued = found.control_seq if found is not None else 0
    old = scene.alpha.engine.core.state.disowned.get(SiteId("beta"), {}).get(PART)
    made: dict[type, ms.Message] = {
        ms.Prepared: ms.Prepared(subgroup=PART, epoch=1, db_uuid=THERE, seq=0, staged=True),
        ms.Refused: ms.Refused(subgroup=PART, epoch=1, reason="no"),
        ms.GangClaimed: ms.GangClaimed(subgroup=PART, epoch=1, host="beta", port=7),
        ms.GangYield: ms.GangYield(subgroup=PART, epoch=1),
        ms.Committed: ms.Committed(subgroup=PART, epoch=1),
        ms.Aborted: ms.Aborted(subgroup=PART, epoch=1, db_uuid="db-other" if when == "other database" else THERE),
        ms.Lost: ms.Lost(subgroup=PART, epoch=1, db_uuid="db-other"),
        ms.Progress: ms.Progress(subgroup=PART, epoch=1, counter=1, staging=0, queued=0, running=JOBS, held=NOTHING),
        ms.ControlAck: ms.ControlAck(subgroup=PART, epoch=1, control_seq=old.control_seq if old else issued),
    }
    if kind is not ms.Result:
        return made[kind]
    if when == "gives back all":
        return msgspec.structs.replace(result("beta", PART, []), revoked=ALL)
    indices = {"all jobs": range(JOBS), "other jobs": [JOBS]}.get(when, [0])
    return result("beta", PART, list(indices))


def order(kind: type, when: str, scene: Scene) -> ms.Message:
    """alpha's order to the destination."""
    if kind is ms.Prepare:
        assert scene.prepare is not None
        return msgspec.structs.replace(scene.prepare, indices=SOME) if when == "other work" else scene.prepare
    orders = {"cancels all": control(cancel=ALL), "recalls all": control(recall=ALL)}
    there = "db-other" if when == "other database" else THERE
    made: dict[type, ms.Message] = {
        ms.GangClaim: ms.GangClaim(subgroup=PART, epoch=1, db_uuid=THERE, wait_s=60.0),
        ms.Commit: ms.Commit(subgroup=PART, epoch=1, db_uuid=there, token="0"),
        ms.Abort: ms.Abort(subgroup=PART, epoch=1),
        ms.Control: orders.get(when, control(hold=SOME)),
        ms.ResultAck: ms.ResultAck(subgroup=PART, epoch=1, batch=0, outputs_taken=when != "without outputs"),
    }
    return made[kind]


def from_machine(kind: type, when: str, site: Site) -> ev.Event:
    """News of the machine that has the jobs, or of the stager."""
    if kind is ev.StageDone:
        return ev.StageDone(ticket=site.staging[0].ticket, bytes_moved=1)
    if kind is ev.LrmReady:
        return ev.LrmReady(session=site.session + 1, slots=JOBS, known=())
    outcomes = {"unbegun": Outcome.UNBEGUN, "unknown, rerun": Outcome.UNKNOWN}
    runs = list(site.running)[: 1 if when.startswith(("some", "un")) else JOBS]
    facts: Facts = facts_of(site.name, runs, outcomes.get(when, Outcome.DONE), site.grid.now)
    return ev.JobsEnded(subgroup=PART, epoch=1, facts=facts)


def event(row: Row, on: type, scene: Scene) -> ev.Event:
    site, other = (scene.alpha, SiteId("beta")) if row.side is Origin else (scene.beta, SiteId("alpha"))
    if on is ms.Quote:
        sender, _, quote = scene.grid.post_box[0]
        return ev.Received(sender, quote)
    if on in ORDERS:
        return ev.Received(other, order(on, row.when, scene))
    if on in REPORTS:
        return ev.Received(other, report(on, row.when, scene))
    if on is lm.Renew:
        return ev.Received(other, lm.Renew(generation=1, sent_s=scene.grid.now))
    if on is lm.Renewed:
        renewed = lm.Renewed(generation=site.engine.generation, sent_s=scene.grid.now, lease_s=LEASE_S)
        return ev.Received(other, renewed)
    if on is ev.PeerUp:
        hello = scene.grid[other].hello()
        return ev.PeerUp(msgspec.structs.replace(hello, db_uuid="db-other") if row.when else hello)
    if on is ev.SubmitGroup:
        wanted = spec(JOBS, work_s=100.0, sites=("alpha",))
        return ev.SubmitGroup(
            request=1, principal=ALICE, key="", spec=wanted, jobs=JOBS, refs=(), wall_s=0.0, plan_only=False
        )
    if on is ev.MoveJobs:
        scene.grid["gamma"].handle(ev.RoomChecked(low=""))
        return ev.MoveJobs(request=1, principal=ALICE, group=NAME, indices=None, to=SiteId("gamma"))
    if on in (ev.CancelJobs, ev.HoldJobs, ev.ReleaseJobs):
        return on(request=1, principal=ALICE, group=NAME, indices=None)
    return from_machine(on, row.when, site)


# --- the rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "on"), CASES, ids=named)
def test_an_engine_does_as_the_row_says(row: Row, on: type | str) -> None:
    scene = SPECIAL.get((row.state, on, row.when), SCENES[row.state])()
    site, other = (scene.alpha, SiteId("beta")) if row.side is Origin else (scene.beta, SiteId("alpha"))
    assert state_of(site, row.side, site.engine.core.state) is row.state
    if isinstance(on, str):
        effects = fire(site, on)
    else:
        # The bench would release the effects, and more would follow from them.
        effects = site.engine.handle(event(row, on, scene), scene.grid.now)
        site.keep(effects)
    assert told_records(effects, NAMED_RECORDS) == row.records
    told = told_messages(effects)
    assert {to for to, _ in told} <= {other} and tuple(kind for _, kind in told) == row.replies
    assert state_of(site, row.side, site.engine.core.state) is row.to
    assert state_of(site, row.side, restored(site)) is row.to


def test_no_two_rows_answer_one_message() -> None:
    keys = [(row.state, on, row.when) for row, on in CASES]
    assert len(keys) == len(set(keys))


def test_every_message_of_the_hand_over_comes_in_and_goes_out() -> None:
    assert {on for _, on in CASES} >= MESSAGES
    assert {kind for row in (*TABLE, *gangs.TABLE) for kind in row.replies} == MESSAGES


def test_every_record_of_a_transfer_is_written_by_some_row() -> None:
    every = {kind for kind in get_args(r.Record) if "subgroup" in kind.__struct_fields__}
    # Outputs come home by `data/outputs.py`, a report of what a peer holds is `recovery`'s, and jobs make way for the
    # claim of another transfer (`making_way.py`).
    by_rows = {kind for row in (*TABLE, *gangs.TABLE) for kind in row.records}
    assert {kind.__name__ for kind in every - by_rows} == {"OutputsGathered", "PartReported", "RunsMakeWay"}


def test_each_side_answers_each_message_in_each_state() -> None:
    answered = {(row.state, on) for row, on in CASES}
    placed = set(Origin) - {Origin.UNPLACED}
    assert not {(state, kind) for state in placed for kind in REPORTS} - answered
    assert not {(state, kind) for state in Destination for kind in ORDERS} - answered


def test_every_state_is_reached() -> None:
    reached = {row.to for row in TABLE}
    assert reached >= {*Origin, *Destination} - {Origin.UNPLACED}


def test_the_docstring_shows_the_table() -> None:
    said = ast.get_docstring(ast.parse(Path(handover.__file__).read_text()), clean=False)
    assert said is not None and text(TABLE) in said, f"handover/__init__.py should show:\n{text(TABLE)}"
