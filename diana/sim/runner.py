"""One simulation: a safety phase with faults, then all heals and everything has to come to a visible end (I8)."""

from __future__ import annotations

from typing import Any

from diana.model.ids import GroupId, SiteId
from diana.model.views import Explanation, GroupView
from diana.sim import report as rp
from diana.sim.driver import Boot
from diana.sim.scenario import Scenario
from diana.sim.trace import Trace
from diana.sim.workload import Submission
from diana.sim.world import World

LOOK_S = 1.0
"""How often the runner looks whether all is over, in simulated seconds."""
DRAIN_S = 60.0
"""After the last group ended, this long for acknowledgements and clean-up."""


def simulate(
    scenario: Scenario,
    seed: int,
    *,
    boot: Boot | None = None,
    trace: Trace | None = None,
    crash_at: tuple[str, int] | None = None,
) -> rp.Report:
    """Run one seed to its end. `trace` may follow a group's story, `crash_at` makes one boundary a crash."""
    return run(World(scenario, seed, boot or Boot(), trace, crash_at))


def run(world: World) -> rp.Report:
    scenario = world.scenario
    world.begin()
    faulty_s = scenario.faults.until_s
    if world.faults.on and faulty_s > 0:
        world.clock.run_until(faulty_s)
    if world.faults.crash_at is None:
        world.heal()
    faulty = faulty_s > 0 or world.faults.crash_at is not None
    limit_s = faulty_s + scenario.faults.heal_s if faulty else scenario.limit_s
    over = _run_to_end(world, limit_s)
    world.heal()
    if over:
        _drain(world)
    for site in world.sites.values():
        site.recount()
    return _report(world)


def _run_to_end(world: World, limit_s: float) -> bool:
    """Until every group is final and every user answered; False when time is up."""
    final: set[GroupId] = set()
    while world.clock.now_s < limit_s:
        world.clock.run_until(min(limit_s, world.clock.now_s + LOOK_S))
        if not world.settled():
            continue
        open_groups = [s for s in world.users.submissions.values() if s.group is not None and s.group not in final]
        for submission in open_groups:
            view = _view(world, submission)
            if view is None or not view.final:
                break
            final.add(view.group)
        else:
            return True
    return False


def _drain(world: World) -> None:
    """Nothing may be left in any LRM once all ends are acknowledged."""
    end_s = world.clock.now_s + DRAIN_S
    while world.clock.now_s < end_s:
        world.clock.run_until(world.clock.now_s + LOOK_S)
        if all(s.up() and not s.lrm.holds() for s in world.sites.values()):
            return
    for site in world.sites.values():
        if not site.up() or site.lrm.holds():
            text = f"{site.lrm.holds()} runs never forgotten" if site.up() else "not up again"
            world.checkers.stuck(site.site, GroupId("-"), text)


def _view(world: World, submission: Submission) -> GroupView | None:
    answer = world.sites[submission.site].ask("group", submission.group)
    return answer if isinstance(answer, GroupView) else None


def _report(world: World) -> rp.Report:
    lost = stuck = 0
    groups: dict[str, rp.GroupReport] = {}
    decisions: dict[str, Any] = {}
    plans: dict[str, rp.Plan] = {}
    for submission in world.users.submissions.values():
        view = _view(world, submission) if submission.group is not None else None
        if view is None:
            if submission.group is not None:
                lost += submission.work.jobs
            elif not submission.refused:
                stuck += submission.work.jobs
                world.checkers.stuck(submission.site, GroupId("-"), f"submission {submission.name} never answered")
            groups[submission.name] = _refused(submission)
            continue
        ended = view.done + view.failed + view.cancelled + view.held
        live = view.unplaced + view.staging + view.queued + view.running + view.unreachable
        lost += max(0, view.jobs - ended - live)
        if not view.final or view.unreachable:
            stuck += view.jobs - ended
            world.checkers.stuck(
                submission.site, view.group, f"{view.state}: {view.jobs - ended} jobs live ({view.note})"
            )
        explained = world.sites[submission.site].ask("explain", submission.group)
        made = explained.decisions if isinstance(explained, Explanation) else ()
        groups[submission.name] = _group(world, submission, view, made[0].whole_s if made else 0.0)
        if made:
            decisions[submission.name] = made
            plans[submission.name] = rp.Plan(
                plan=made[0].plan, reason=made[0].reason, parts={p.site: p.jobs for p in made[0].parts}
            )
            predicted = made[0].split_s if made[0].plan == "split" else made[0].whole_s
            groups[submission.name] = _group(world, submission, view, predicted)
    report = rp.Report(
        seed=world.seed,
        options=world.faults.options(),
        groups=groups,
        sites=_sites(world),
        decisions=decisions,
        plans=plans,
        network=rp.NetworkReport(
            sent=world.network.sent,
            arrived=world.network.arrived,
            events=world.trace.handled_events,
            simulated_s=world.clock.now_s,
        ),
        faults=world.faults.total(),
        fault_kinds=dict(sorted(world.faults.counts.items())),
        lost=lost,
        doubled=world.checkers.doubled,
        stuck=stuck,
        violations=world.checkers.found,
        digest=world.trace.digest(),
        unmet=[],
    )
    report.unmet = _unmet(world.scenario, report)
    return report


def _group(world: World, submission: Submission, view: GroupView, predicted_s: float) -> rp.GroupReport:
    tally = rp.Tally(submission.submit_s)
    for _, facts in world.sites[submission.site].store.facts(view.group):
        tally.add(facts)
    return rp.GroupReport(
        group=view.group,
        state=view.state,
        note=view.note,
        jobs=view.jobs,
        done=view.done,
        failed=view.failed,
        cancelled=view.cancelled,
        held=view.held,
        unreachable=view.unreachable,
        sites=tally.sites(),
        **tally.times(),
        bytes_moved=view.bytes_moved,
        predicted_s=predicted_s,
    )


def _refused(submission: Submission) -> rp.GroupReport:
    return rp.GroupReport(
        group=submission.group or "",
        state="refused",
        note=submission.refused or submission.why,
        jobs=submission.work.jobs,
        sites={},
        predicted_s=0.0,
        done=0,
        failed=0,
        cancelled=0,
        held=0,
        unreachable=0,
        bytes_moved=0,
        **rp.Tally(submission.submit_s).times(),
    )


def _sites(world: World) -> dict[str, rp.SiteReport]:
    out: dict[str, rp.SiteReport] = {}
    for name, site in world.sites.items():
        capacity_s = max(1e-9, site.lrm.slots * world.clock.now_s)
        out[name] = rp.SiteReport(
            slots=site.lrm.slots,
            speed=site.settings.speed,
            executed=site.lrm.executed,
            busy_fraction=site.lrm.busy_s / capacity_s,
            bytes_in=site.stager.bytes_in,
            boots=site.boots,
            warnings=len(site.warnings),
        )
    return out


def _unmet(scenario: Scenario, report: rp.Report) -> list[str]:
    expect = scenario.expect
    groups = report.groups.values()
    used = {SiteId(site) for g in groups for site, jobs in g.sites.items() if jobs}
    makespan_s = max((g.makespan_s for g in groups), default=0.0)
    rows: tuple[tuple[str, float, float, bool], ...] = (
        ("done", expect.done, sum(g.done for g in groups), sum(g.done for g in groups) == expect.done),
        ("failed", expect.failed, sum(g.failed for g in groups), sum(g.failed for g in groups) == expect.failed),
        ("sites_used", expect.sites_used, len(used), len(used) >= expect.sites_used),
        ("makespan_s", expect.makespan_s, makespan_s, makespan_s <= expect.makespan_s),
        ("faults", expect.faults, report.faults, report.faults >= expect.faults),
    )
    return [f"expect {key} = {want:g}: got {got:g}" for key, want, got, met in rows if want >= 0 and not met]
