"""One simulation: a safety phase with faults, then all heals and everything has to come to a visible end (I8)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diana.model.ids import GroupId, SiteId, group_of, origin_of
from diana.model.views.views import Explanation, GroupView
from diana.sim.central import bounds
from diana.sim.faults import swarm
from diana.sim.kernel.trace import Trace
from diana.sim.load.workload import Submission
from diana.sim.report import report as rp
from diana.sim.sites.driver import Boot
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world import ahead
from diana.sim.world.world import World

LOOK_S = 1.0
"""Simulated seconds between two looks whether all is over; in long runs `LOOK_SHARE` of the time so far."""
LOOK_SHARE = 0.001
NAMED = 20
"""Groups of an entry that are named one by one."""
COLLECT_EVERY = 50_000
"""New objects between two collections of garbage."""
DRAIN_S = 60.0
"""Seconds left for acknowledgements and clean-up after the last group ended."""

Watch = Callable[[World], None]


def simulate(
    scenario: Scenario,
    seed: int,
    *,
    boot: Boot | None = None,
    trace: Trace | None = None,
    crash_at: tuple[str, int] | None = None,
    watch: Watch | None = None,
) -> rp.Report:
    """Run one seed to its end. `trace` may follow a group's story, `crash_at` makes one boundary a crash; `watch` sees
    the world now and then and changes nothing."""
    return run(World(scenario, seed, ahead.booted(scenario, seed, boot), trace, crash_at), watch)


def run(world: World, watch: Watch | None = None) -> rp.Report:
    try:
        with _rare_collections():
            _run(world, watch)
        return _report(world)
    except Exception as error:
        world.checkers.fell(error)
        return _bare_report(world)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: a world is nearly all live, and looking through it again and again finds nothing. A
    caller that collects none at all keeps to that."""
    if not gc.isenabled():
        yield
        return
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, 20, 100)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def _run(world: World, watch: Watch | None) -> None:
    scenario = world.scenario
    world.begin()
    faulty_s = scenario.faults.until_s
    if faulty_s > 0:
        world.clock.run_until(faulty_s)
    if world.faults.crash_at is None:
        world.heal()
    faulty = faulty_s > 0 or world.faults.crash_at is not None
    over = _run_to_end(world, faulty_s + scenario.faults.heal_s if faulty else scenario.limit_s, watch)
    world.heal()
    if over:
        _drain(world)
    for site in world.sites.values():
        site.recount()


def _run_to_end(world: World, limit_s: float, watch: Watch | None) -> bool:
    """Run until every group is final and every user answered; False when time is up."""
    final: set[GroupId] = set()
    ended: set[str] = set()
    """Submissions of these groups, which are not looked at again."""
    while world.clock.now_s < limit_s:
        look_s = max(LOOK_S, LOOK_SHARE * world.clock.now_s)
        world.clock.run_until(min(limit_s, world.clock.now_s + look_s))
        if watch is not None:
            watch(world)
        if not world.settled():
            continue
        over = final | world.checkers.aftermath.gone
        rest = (s for name, s in world.users.submissions.items() if name not in ended)
        open_groups = [s for s in rest if s.group is not None and s.group not in over]
        for submission in open_groups:
            view = _view(world, submission)
            if view is None or not (view.final or _rests(world, view)):
                break
            if view.final:
                final.add(view.group)
                ended.add(submission.name)
        else:
            return True
    return False


def _drain(world: World) -> None:
    """Once all ends are acknowledged nothing may be left: no run in an LRM, no custody, nothing to gather."""
    end_s = world.clock.now_s + DRAIN_S
    while world.clock.now_s < end_s and any(s.left_over() for s in world.sites.values()):
        world.clock.run_until(world.clock.now_s + LOOK_S)
    for site in world.sites.values():
        if left := site.left_over():
            group, text = left
            world.checkers.stuck(site.site, group, f"{DRAIN_S:g} s after the last group ended {text}")


def _view(world: World, submission: Submission) -> GroupView | None:
    answer = world.sites[submission.site].ask("group", submission.group)
    return answer if isinstance(answer, GroupView) else None


def _rests(world: World, view: GroupView) -> bool:
    """True if nothing more can come of a group since a database was put back, or of one that it waits for."""
    aftermath = world.checkers.aftermath
    if aftermath.rests(view) or (aftermath.touched and aftermath.rests(view, _held_away(world, view.group))):
        return True
    if view.group in aftermath.touched and _stands_still(world, view.group):
        return True
    if view.state != "waiting":
        return False
    before = {name: world.sites[origin_of(name)].ask("group", name) for name in view.after}
    return any(
        name in aftermath.gone or (isinstance(one, GroupView) and one.state != "done" and _rests(world, one))
        for name, one in before.items()
    )


def _held_away(world: World, group: GroupId) -> int:
    """Number of the group's jobs that other sites hold, as these know it: progress is said once, and may be lost."""
    held = 0
    for site in world.sites.values():
        custodies = site.engine.state.custodies if site.engine is not None else {}
        for custody in custodies.values():
            if group_of(custody.subgroup) == group and custody.origin != site.site:
                held += len(custody.pending & custody.held)
    return held


def _stands_still(world: World, group: GroupId) -> bool:
    """True if its origin holds the group until its user's word, and the jobs that other sites have of it wait as well:
    on hold, or under a lease that the database that was put back does not grant."""
    origin = world.sites[origin_of(group)].engine
    if origin is None or group not in origin.state.groups or not origin.state.groups[group].on_hold:
        return False
    engines = [site.engine for site in world.sites.values() if site.engine is not None]
    return not any(
        custody.running or (custody.startable() and not custody.on_hold and not engine.lease_lapsed(custody))
        for engine in engines
        for custody in engine.state.custodies.values()
        if group_of(custody.subgroup) == group
    )


def _report(world: World) -> rp.Report:
    report = _bare_report(world)
    if "bound" in world.scenario.report:
        report.bound = bounds.bound(world.scenario, world.seed)
    entries: dict[str, list[Submission]] = {}
    for submission in world.users.in_order():
        entries.setdefault(submission.entry, []).append(submission)
    for name, submissions in entries.items():
        seen = [(s, _view(world, s) if s.group is not None else None) for s in submissions]
        answered = [(s, view) for s, view in seen if view is not None]
        for submission, view in seen:
            if view is None:
                _unanswered(world, report, submission)
            else:
                _live(world, report, submission, view)
        if len(answered) < len(seen):
            missing = next(s for s, view in seen if view is None)
            report.groups[name] = _refused(missing, missing.group in world.checkers.aftermath.gone)
            continue
        _entry(world, report, name, answered)
    report.unmet = unmet(world.scenario, report)
    return report


def _entry(world: World, report: rp.Report, name: str, seen: list[tuple[Submission, GroupView]]) -> None:
    """One entry of the workload: one group, with a forced plan one per site, or all that a generator drew."""
    decided, predicted_s = [], 0.0
    submit_s = seen[0][0].submit_s
    for submission, _ in seen:
        explained = world.sites[submission.site].ask("explain", submission.group)
        decided.append(explained.decisions if isinstance(explained, Explanation) else ())
        if isinstance(explained, Explanation) and explained.predicted_s > 0:
            predicted_s = max(predicted_s, submission.submit_s - submit_s + explained.predicted_s)
    first = [made[0] for made in decided if made]
    if first:
        report.decisions[name] = tuple(decision for made in decided for decision in made)
    group = report.groups[name] = _group(world, seen, predicted_s)
    row = rp.plan_row(name, seen[0][0].work, first, group.makespan_s)
    if row is not None:
        report.plans.append(row)


def _live(world: World, report: rp.Report, submission: Submission, view: GroupView) -> None:
    """Count a group's jobs that came to no end."""
    ended = view.done + view.failed + view.cancelled + view.held
    live = view.unplaced + view.staging + view.queued + view.running + view.unreachable
    report.lost += max(0, view.jobs - ended - live)
    if _rests(world, view):
        return
    if not view.final or view.unreachable:
        report.stuck += view.jobs - ended
        text = f"{view.state}: {view.jobs - ended} jobs live ({view.note})"
        world.checkers.stuck(submission.site, view.group, text)


def _unanswered(world: World, report: rp.Report, submission: Submission) -> None:
    """A group its origin does not know is lost if it was acknowledged; refused is an answer; silence is not."""
    if submission.group is not None:
        report.lost += submission.jobs if submission.group not in world.checkers.aftermath.gone else 0
    elif not submission.refused:
        report.stuck += submission.jobs
        text = f"submission {submission.name} got no id: {submission.why or 'no answer'}"
        world.checkers.stuck(submission.site, GroupId("-"), text)


def _bare_report(world: World) -> rp.Report:
    """The report without what the engines would have to be asked for."""
    return rp.Report(
        seed=world.seed,
        arrivals=world.arrivals.reports if world.arrivals else [],
        transfers=world.transfers.rows,
        options=world.faults.options(),
        drawn=swarm.told(world.scenario) if world.swarming else [],
        sites=_sites(world),
        network=rp.NetworkReport(
            sent=world.network.sent,
            arrived=world.network.arrived,
            events=world.trace.handled_events,
            simulated_s=world.clock.now_s,
        ),
        faults=world.faults.total(),
        fault_kinds=dict(sorted(world.faults.counts.items())),
        lost=0,
        doubled=world.checkers.doubled,
        stuck=0,
        violations=world.checkers.found,
        digest=world.trace.digest(),
        coverage=world.coverage.table() if world.coverage else {},
        migration=world.flows.report() if world.flows else None,
        gang_figures=world.gangs.report() if world.gangs else None,
        traces=world.users.traces,
        outcome=world.outcome.result(world.seed) if world.outcome else None,
        takeovers_s=[took_s for pair in world.pairs for took_s in pair.takeovers],
        unmet=[],
    )


def _group(world: World, seen: list[tuple[Submission, GroupView]], predicted_s: float) -> rp.GroupReport:
    tally = rp.Tally(seen[0][0].submit_s)
    views = [view for _, view in seen]
    for submission, view in seen:
        for _, facts in world.sites[submission.site].store.facts(view.group):
            tally.add(facts, submission.first, submission.submit_s)
    return rp.GroupReport(
        group=_named([view.group for view in views]),
        state=next((view.state for view in views if view.state != "done"), views[0].state),
        note="; ".join(view.note for view in views if view.note),
        jobs=sum(view.jobs for view in views),
        done=sum(view.done for view in views),
        failed=sum(view.failed for view in views),
        cancelled=sum(view.cancelled for view in views),
        held=sum(view.held for view in views),
        unreachable=sum(view.unreachable for view in views),
        sites=tally.sites(),
        **tally.times(),
        bytes_moved=sum(view.bytes_moved for view in views),
        predicted_s=predicted_s,
    )


def _named(groups: list[GroupId]) -> str:
    return ",".join(groups) if len(groups) <= NAMED else f"{groups[0]},...,{groups[-1]} ({len(groups)} groups)"


def _refused(submission: Submission, gone: bool) -> rp.GroupReport:
    return rp.GroupReport(
        group=submission.group or "",
        state="gone" if gone else "refused",
        note=submission.refused or submission.why,
        jobs=submission.jobs,
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
            warnings=site.warnings,
            others=rp.others(site.lrm.others, capacity_s),
        )
    return out


def unmet(scenario: Scenario, report: rp.Report) -> list[str]:
    expect = scenario.expect
    groups = report.groups.values()
    used = {SiteId(site) for g in groups for site, jobs in g.sites.items() if jobs}
    makespan_s = max((g.makespan_s for g in groups), default=0.0)
    starts = sum(site.executed for site in report.sites.values())
    rows: tuple[tuple[str, float, float, bool], ...] = (
        ("done", expect.done, sum(g.done for g in groups), sum(g.done for g in groups) == expect.done),
        ("failed", expect.failed, sum(g.failed for g in groups), sum(g.failed for g in groups) == expect.failed),
        ("sites_used", expect.sites_used, len(used), len(used) >= expect.sites_used),
        ("makespan_s", expect.makespan_s, makespan_s, makespan_s <= expect.makespan_s),
        ("starts", expect.starts, starts, starts == expect.starts),
        ("faults", expect.faults, report.faults, report.faults >= expect.faults),
    )
    return [f"expect {key} = {want:g}: got {got:g}" for key, want, got, met in rows if want >= 0 and not met]
