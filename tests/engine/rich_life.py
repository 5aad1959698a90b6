"""A life of three sites in which `alpha` writes every kind of record: the origin of the stored fixtures."""

from __future__ import annotations

import msgspec

from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holding, Holdings
from diana.model.facts import Outcome
from diana.model.ids import MAIN_MACHINE, SiteId, SubgroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.components import components_of
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import Axis, Sweep
from diana.model.settings import Settings
from diana.model.trust.invitation import Invitation
from diana.model.trust.register import Copy, Register
from tests.engine.bench import Grid
from tests.engine.builders import OPERATOR, dataset, facts_of, result, spec, whole
from tests.engine.handing import with_offer

DAY_S = 86400.0


def rich_life() -> Grid:
    grid = Grid(alpha=1, beta=4, gamma=2)
    for site in grid.sites.values():
        site.outputs = ("out",)
    alpha = grid["alpha"]
    alpha.handle(ev.AddDataset(request=89, principal=OPERATOR, dataset=dataset("gone", "f")))
    alpha.handle(ev.RemoveDataset(request=89, principal=OPERATOR, name="gone"))
    alpha.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "f", "g")))
    alpha.handle(ev.SettingsLoaded(settings=Settings(slots=1, summary_every_s=2.0)))
    alpha.handle(ev.LinkMeasured(site=SiteId("beta"), rtt_s=0.02, bytes_per_s=1e8, sent=3, lost=1))
    _decided_by_operators(grid)
    alpha.handle(
        ev.DrainSite(request=91, principal=OPERATOR, on=True, reason="switches", from_wall_s=2e9, to_wall_s=2.1e9)
    )
    _split_repeated_and_merged(grid)
    _refused_late_and_cancelled(grid)
    _taken_from_others(grid)
    _held_and_retried(grid)
    alpha.handle(ev.Received(SiteId("beta"), ms.Gossip(entries=(_far(),), ages_s=(0.0,))))
    # A contact is kept by the word of its own site.
    moved = msgspec.structs.replace(grid["beta"].engine.summary(), address="beta:7400")
    alpha.handle(ev.Received(SiteId("beta"), moved))
    grid.pass_time(6.0)
    # The groups so far expire, and with them the tombstones.
    grid.now += 31 * DAY_S
    grid.pass_time(5.0)
    _lost_with_its_database(grid)
    _placed_anew(grid)
    _given_up_with_its_machine(grid)
    alpha.submit(spec(3, sites=("alpha",)), 3, 5, key="last")
    _put_back(grid)
    _let_go_together(grid)
    _made_way(grid)
    _unable_to_begin(grid)
    _ended_with_its_lease(grid)
    return grid


def _let_go_together(grid: Grid) -> None:
    """A gang of a slow component and its spare at beta."""
    sweep = Sweep(axes=(Axis(name=COMPONENT, start=0, stop=2),))
    together = msgspec.structs.replace(spec(2), sweep=sweep, components=components_of("2x1@beta"), spares=1)
    grid["alpha"].submit(together, 2, 6)
    for done in range(5):
        grid.pass_time(2.0)
        for run in grid["beta"].gone:
            steps, own = ((run.index, run.attempt, grid.now, float(done), 99.0),), ((0.9 - 0.8 * run.index, 0),)
            where = {"worker": MAIN_MACHINE, "subgroup": run.subgroup, "epoch": run.epoch}
            grid["beta"].handle(ev.StepsReported(**where, steps=steps, own=own))
    grid.pass_time(2.0)
    for site in (grid["alpha"], grid["beta"]):
        site.end()
    grid.settle()


def _made_way(grid: Grid) -> None:
    """A job of alpha's ends for a gang, and runs again."""
    alpha = grid["alpha"]
    for site in grid.sites.values():
        site.obey_kills()
        site.end()
    grid.settle()
    alpha.submit(spec(1, sites=("alpha",), work_s=500.0, preemptible=True), 1, 7)
    sweep = Sweep(axes=(Axis(name=COMPONENT, start=0, stop=1),))
    alpha.submit(msgspec.structs.replace(spec(1), sweep=sweep, components=components_of("1x1@alpha")), 1, 8)
    for _ in range(2):
        alpha.obey_kills()
        grid.pass_time(3.0)


def _unable_to_begin(grid: Grid) -> None:
    """Beta does not have the command of a gang's component."""
    sweep = Sweep(axes=(Axis(name=COMPONENT, start=0, stop=1),))
    beta = grid["beta"]
    beta.barrier_told = False
    grid["alpha"].submit(msgspec.structs.replace(spec(1), sweep=sweep, components=components_of("1x1@beta")), 1, 10)
    for _ in range(3):
        grid.pass_time(15.0)
        for run in list(beta.held):
            del beta.held[run]
            beta._ends(run, Outcome.NOT_STARTED)
        grid.settle()
    beta.reached.clear()
    beta.barrier_told = True


def _ended_with_its_lease(grid: Grid) -> None:
    """Beta, which has a gang's component, is silent for longer than its lease."""
    sweep = Sweep(axes=(Axis(name=COMPONENT, start=0, stop=1),))
    wanted = spec(1, work_s=500.0, on_site_lost="rerun")
    grid["alpha"].submit(msgspec.structs.replace(wanted, sweep=sweep, components=components_of("1x1@beta")), 1, 9)
    grid.pass_time(5.0)
    grid.part("beta")
    grid.pass_time(120.0)


def _far() -> ms.Summary:
    """A site that alpha only hears of."""
    return ms.Summary(
        site=SiteId("far"),
        generation=1,
        counter=1,
        seq=1,
        slots=0,
        free_slots=0,
        speed=1.0,
        queued_jobs=0,
        running_jobs=0,
        work_ahead_s=0.0,
        datasets=(),
        accepting=False,
        address="far:7400",
    )


def _given_up_with_its_machine(grid: Grid) -> None:
    """Jobs on a member machine end with it; what the bench's own LRM hears of them it ignores."""
    alpha = grid["alpha"]
    alpha.handle(ev.LrmReady(worker="m2", session=1, slots=2, known=(), recalls=True))
    alpha.submit(spec(4, sites=("alpha",), on_crash="hold"), 4, 9, key="members")
    custody = next(custody for custody in alpha.engine.core.state.custodies.values() if "m2" in custody.given)
    back = custody.given["m2"].bounds[0]
    alpha.hold(group_of(custody.subgroup), IndexSet.of([back]))
    facts = facts_of(alpha.name, [ev.Run(*custody.key, back, 1)], Outcome.UNBEGUN, grid.now)
    alpha.handle(ev.JobsEnded(subgroup=custody.subgroup, epoch=custody.epoch, facts=facts))
    alpha.release_jobs(group_of(custody.subgroup))
    alpha.handle(ev.LrmLost("m2"))
    alpha.handle(ev.MachineRemoved(request=91, principal=OPERATOR, machine="m2"))


def until(grid: Grid, kind: type) -> None:
    while not isinstance(grid.post_box[0][2], kind):
        grid.deliver_one()


def _split_repeated_and_merged(grid: Grid) -> None:
    alpha = grid["alpha"]
    wanted = spec(30, work_s=50.0, collect=("out",), merge=("sum",), on_crash="rerun")
    wanted = msgspec.structs.replace(wanted, outputs=msgspec.structs.replace(wanted.outputs, dataset="made"))
    alpha.submit(wanted, 30, 1, key="first")
    alpha.end(1, Outcome.UNKNOWN)
    alpha.running.popitem()
    alpha.lrm_ready()
    grid.finish()


def _refused_late_and_cancelled(grid: Grid) -> None:
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(9, work_s=10.0, sites=("beta",)), 9, 2, settle=False)
    until(grid, ms.Prepare)
    beta.handle(ev.RoomChecked(low="disk is full"))
    grid.settle()
    part = SubgroupId("alpha-2/0")
    epoch = max(alpha.group("alpha-2").epoch, 1)
    alpha.handle(ev.Received(SiteId("beta"), result("beta", part, [0, 1], epoch=epoch)))
    alpha.cancel("alpha-2", whole(2))
    beta.handle(ev.RoomChecked(low=""))
    grid.pass_time(40.0)
    alpha.cancel("alpha-2", IndexSet.span(2, 4))
    grid.finish()


def _taken_from_others(grid: Grid) -> None:
    alpha, beta = grid["alpha"], grid["beta"]
    beta.submit(spec(8, work_s=50.0, sites=("alpha",)), 8, 3, settle=False)
    until(grid, ms.Prepared)
    beta.cancel("beta-1")
    beta.submit(spec(8, work_s=50.0, sites=("alpha",)), 8, 4)
    beta.cancel("beta-2", IndexSet.span(5, 8))
    alpha.obey_kills()
    grid.finish()


def _decided_by_operators(grid: Grid) -> None:
    alpha = grid["alpha"]
    for on in (True, False):
        alpha.handle(ev.DrainSite(request=91, principal=OPERATOR, on=on, reason="power"))
    alpha.handle(
        ev.NoteInvitation(
            request=93,
            invitation=Invitation(
                id="i1", kind="site", name="", certificate="PEM", made_by="ann@vo", expires_wall_s=9.0, noted_wall_s=1.0
            ),
        )
    )
    alpha.handle(
        ev.SayStatement(request=92, principal=OPERATOR, kind="revoke", about="user:eve@vo", reason="left", wall_s=1.0)
    )
    gamma, register = SiteId("gamma"), Register(1, "main", (Copy("main", "d1"),))
    alpha.handle(ev.RegisterAsked(request=93, by=gamma, site=gamma, register=register))


def _held_and_retried(grid: Grid) -> None:
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(6, sites=("beta",)), 6, 6, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    alpha.hold("alpha-3", whole(2))
    grid.heal("beta")
    alpha.move("alpha-3", "beta", settle=False)
    grid.pass_time(10.0)
    beta.end(1, Outcome.FAILED)
    alpha.release_jobs("alpha-3")
    grid.finish()
    alpha.retry("alpha-3")
    grid.finish()


def _lost_with_its_database(grid: Grid) -> None:
    gamma = grid["gamma"]
    grid["alpha"].submit(spec(5, work_s=10.0, sites=("gamma",)), 5, 4)
    gamma.db_uuid = "db-gamma-2"
    gamma.stored.clear()
    gamma.running.clear()
    gamma.restart()
    grid.settle()


def _placed_anew(grid: Grid) -> None:
    """Beta is silent for longer than its lease, and told afterwards what it has no more."""
    wanted = spec(3, work_s=500.0, not_sites=("alpha", "gamma"), on_site_lost="rerun")
    grid["alpha"].submit(wanted, 3, 11, key="leased")
    grid.pass_time(1.0)
    grid.part("beta")
    grid.pass_time(60.0)
    grid["beta"].end(outcome=Outcome.LEASE_OVER)
    grid.pass_time(60.0)
    grid.heal("beta")
    grid.pass_time(5.0)
    grid["beta"].end()
    grid.settle()


def _put_back(grid: Grid) -> None:
    """Alpha is restored, asks its peers what they hold, and beta has jobs that alpha knew at gamma."""
    alpha = grid["alpha"]
    alpha.restart(restored=True)
    row = with_offer(alpha, "beta", Holding(subgroup=SubgroupId("alpha-4/5"), epoch=9, open=whole(2)))
    told = Holdings(db_uuid="db-beta", seq=1, part=0, parts=1, rows=(row,))
    alpha.handle(ev.Received(SiteId("beta"), told))
    grid.settle()
    alpha.release_jobs("alpha-7")
