"""The black-hole guard: ends of jobs fold into breakers, which hold starts back here and sites out of plans (SPEC U10).

Each executing site watches its own ends, per group: it needs no word from anywhere to stop a group it fails, and one
that does well costs nothing. Each origin folds the results it accepts in the same way, per group and site, and per site
over its groups; it concludes which sites to ask no more, and `placement/pull_back.py` calls back the jobs that wait
there.

All of it is volatile. After a restart a site may fail another bound of a group; both ends would have to restart for it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from diana.engine.guard import machine_guard
from diana.engine.guard.machine_guard import MachineGuard
from diana.engine.guard.programs import Program, Programs
from diana.engine.site.timers import GroupTimer
from diana.model.durations import seconds
from diana.model.history import program_key
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.job.sweep import sweep_size
from diana.policy import breaker
from diana.policy.breaker import Breaker, BreakerSettings, EndCounts, Stand

if TYPE_CHECKING:
    from diana.engine.journal.events import RunsSeen
    from diana.engine.journal.state import Custody, CustodyKey, Group, Subgroup
    from diana.engine.site.context import Context
    from diana.model.facts import Facts
    from diana.model.settings import Settings

MANY_GROUPS = 1_000_000
"""Groups that a site is assumed to get yet: so many that none bars it for good."""
MOST_REASON = 200
"""Characters kept of a reason that a peer sent."""


class Shunned(NamedTuple):
    until_s: float
    why: str
    since_s: float


class Guard:
    """The record of ends of jobs here and, as an origin, at other sites, and of its consequences."""

    def __init__(self) -> None:
        self.here: dict[GroupId, Breaker] = {}
        """Breaker of each group here; set by `put` alone."""
        self.stopped: set[GroupId] = set()
        """Groups of `here` that get nothing here just now: few, where `here` has all of the last minutes."""
        self.keys: dict[GroupId, dict[CustodyKey, tuple[int, int]]] = {}
        """Custodies here of the groups that have a breaker: (given and not ended, of these on slots), last counted."""
        self.seen: dict[GroupId, dict[tuple[CustodyKey, str], int]] = {}
        """Jobs proven by a look, by custody and worker, less all that ended since."""
        self.bases: dict[GroupId, int] = {}
        """The most attempts a placement here had before it: one with more means that the user retries what failed."""
        self.programs: dict[GroupId, Program] = {}
        """Program, with its user, of each group that has a breaker."""
        self.words = Programs()
        self.firsts: dict[Program, GroupId] = {}
        """Per program, the group here that began first, of those with jobs on slots: its jobs are proven first."""
        self.failing = False
        """True if some group was stopped here, and none did well since."""
        self.there: dict[GroupId, dict[SiteId, Breaker]] = {}
        self.sites: dict[SiteId, Breaker] = {}
        """Breaker of each site over groups, each counted once, by its first ends there."""
        self.shunned: dict[GroupId, dict[SiteId, Shunned]] = {}
        self.lifted: set[GroupId] = set()
        """Own groups that nobody else takes: the guard does not hold them back here, their failures are their own."""
        self._settings: tuple[tuple[float, ...], BreakerSettings | None] = ((), None)

    def settings(self, site: Settings) -> BreakerSettings | None:
        """Return the breakers' settings; None: the guard is off here."""
        key = (site.guard_jobs, site.guard_share, site.guard_pause_s)
        if self._settings[0] != key:
            made = (
                BreakerSettings(
                    most_jobs=site.guard_jobs,
                    most_share=site.guard_share,
                    probation_s=site.guard_pause_s,
                    probation_most_s=max(3600.0, site.guard_pause_s),
                )
                if site.guard_jobs
                else None
            )
            self._settings = (key, made)
        return self._settings[1]

    def forget(self, group: GroupId) -> None:
        """Forget what speaks against any site: the user tries again what failed, or the group is over."""
        for known in (self.there, self.shunned, self.bases):
            known.pop(group, None)
        self.begin_anew(group)
        self.lifted.discard(group)

    def put(self, group: GroupId, b: Breaker) -> Breaker:
        self.here[group] = b
        if b.stand in (Stand.PROBATION, Stand.BARRED):
            self.stopped.add(group)
        else:
            self.stopped.discard(group)
        return b

    def begin_anew(self, group: GroupId) -> None:
        """Forget what the group's jobs did here."""
        self.here.pop(group, None)
        program = self.programs.pop(group, None)
        if program is not None and self.firsts.get(program) == group:
            del self.firsts[program]
        self.stopped.discard(group)
        self.keys.pop(group, None)
        self.seen.pop(group, None)


def forget(core: Context, group: GroupId) -> None:
    """Forget what speaks against any site or machine: the user tries again what failed, or the group is over."""
    core.book(Guard).forget(group)
    core.book(MachineGuard).forget(group)


def _begin_anew(core: Context, group: GroupId) -> None:
    """Forget what the group's jobs did at this site and its machines."""
    core.book(Guard).begin_anew(group)
    core.book(MachineGuard).forget(group)


# --- where jobs run ----------------------------------------------------------------------------------------------


def allowed(core: Context, custody: Custody) -> int | None:
    """Return how many more of its jobs may start here now; None: no limit. A timer is set to when a limit grows."""
    guard, settings = core.book(Guard), core.book(Guard).settings(core.state.settings)
    name = group_of(custody.subgroup)
    if settings is None or custody.unguarded or name in guard.lifted or _is_merge(core, custody):
        return None
    if custody.recalled and custody.pending.issubset(custody.recalled):
        # Called back and still here: they were tried here before, so here they end.
        return None
    if custody.attempt_base > guard.bases.setdefault(name, custody.attempt_base):
        guard.bases[name] = custody.attempt_base
        _begin_anew(core, name)
    b = guard.here.get(name)
    if b is not None and b.stand is Stand.TRUSTED:
        return None
    b = _in_step(core, custody, b if b is not None else _begin(core, custody, settings))
    if b.credit and not b.good and (guard.failing or _fails(core, name, settings)):
        b = breaker.uncredited(b, settings)
    if b.stand is Stand.TRYING and not (b.credit or b.lost or guard.failing) and _does_well(core, name):
        # Others of its kind began when it did, and were proven first.
        b = breaker.credited(b, core.workers.slots())
    guard.put(name, b)
    more = breaker.allowed(b, core.now, settings)
    if more is not None and more < len(custody.pending):
        first = guard.here.get(guard.firsts.get(guard.programs[name], name), b)
        due = [at for at in (breaker.next_s(b, core.now), breaker.next_s(first, core.now)) if at is not None]
        if due:
            core.timers.set(GroupTimer("guard", name), min(due))
    return more


def room(core: Context, group: GroupId, program: Program, template: str, jobs: int) -> int | None:
    """Return how many more jobs of a group may be given to machines here now; None: no limit. `jobs`: those that are
    asked about. Nothing changes by the question."""
    guard, settings = core.book(Guard), core.book(Guard).settings(core.state.settings)
    if settings is None or group in guard.lifted:
        return None
    b = guard.here.get(group)
    if b is None:
        if guard.failing:
            return settings.canaries
        known = core.state.run_times.mean_s(template, program.user) is not None
        well = _program_does_well(core, program) or (known and not _program_fails(core, program, settings))
        return None if well else settings.bound(jobs)
    if b.stand is Stand.TRYING and not (b.credit or b.lost or guard.failing) and _does_well(core, group):
        return None
    return breaker.allowed(b, core.now, settings)


def opens_s(core: Context, group: GroupId) -> float | None:
    """Return the time at which more of the group's jobs may begin here even if none ends; None: there is no such
    time."""
    b = core.book(Guard).here.get(group)
    return breaker.next_s(b, core.now) if b is not None else None


def _program_does_well(core: Context, program: Program) -> bool:
    """True if a group of the program does well here, or runs for long enough."""
    guard = core.book(Guard)
    b = guard.here.get(guard.firsts[program]) if program in guard.firsts else None
    proven = b is not None and b.stand is Stand.TRYING and not b.lost and b.proven(core.now) > 0
    return proven or guard.words.word(program).well is not None


def _does_well(core: Context, name: GroupId) -> bool:
    """True if another group of its program does well here, or runs for long enough. A group's own ends do not count
    for it: they open its ramp."""
    guard = core.book(Guard)
    program = guard.programs[name]
    first = guard.firsts.get(program, name)
    b = guard.here.get(first)
    if first != name and b is not None and b.stand is Stand.TRYING and not b.lost and b.proven(core.now):
        guard.words.went_well(program, first)
    return (guard.words.word(program).well or name) != name


def _fails(core: Context, name: GroupId, settings: BreakerSettings) -> bool:
    """True if its program fails here by the latest ends: a group of it was stopped, or more of its jobs than bad luck
    explains failed fast one after the other, in whatever groups. One failure now and then is no such sign."""
    return _program_fails(core, core.book(Guard).programs[name], settings)


def _program_fails(core: Context, program: Program, settings: BreakerSettings) -> bool:
    word = core.book(Guard).words.word(program)
    return word.stopped or word.fast >= settings.trip_jobs


def _begin(core: Context, custody: Custody, settings: BreakerSettings) -> Breaker:
    """Begin a breaker for the custody's group. Work like this that does well here, or did and has not failed since,
    needs no ramp: it may fill all slots. If nothing is known, as many jobs start as may fail; at a site that stopped
    another group just now, one canary."""
    name, guard = group_of(custody.subgroup), core.book(Guard)
    guard.programs[name] = program = Program(custody.owner, program_key(custody.spec))
    first = guard.here.get(guard.firsts.get(program, name))
    if first is None or not (first.running or first.seen):
        guard.firsts[program] = name
    jobs = sweep_size(custody.spec.sweep)
    known_s = core.state.run_times.mean_s(custody.template, custody.owner)
    expected_s = known_s or custody.spec.resources.work_s / core.state.settings.speed
    if guard.failing:
        return breaker.begin(core.site, jobs, expected_s, settings)
    did_well = _does_well(core, name) or (known_s is not None and not _fails(core, name, settings))
    credit = core.workers.slots() if did_well else 0
    return breaker.begin(core.site, jobs, expected_s, settings, first=settings.bound(jobs), credit=credit)


def _in_step(core: Context, custody: Custody, b: Breaker, over: int = 0) -> Breaker:
    """Return the breaker with the custody's jobs under way counted anew, so that no way in which a job comes or goes
    can be forgotten. `over`: jobs that ended since the last count."""
    counts = core.book(Guard).keys.setdefault(group_of(custody.subgroup), {})
    was_out, was_running = counts.setdefault(custody.key, (0, 0))
    if not (custody.running or was_out or was_running):
        # Nothing of it was or is given, as of most custodies that wait.
        return b
    told = len(core.run_book.ended[custody.key].indices) if custody.key in core.run_book.ended else 0
    runs = core.totals.runs
    out, running = len(custody.running) - told, runs.running_of(custody.key) - runs.unsure_of(custody.key) - told
    counts[custody.key] = (out, running)
    out, began = b.out + out - was_out, max(0, running - max(0, was_running - over))
    running += b.running - was_running
    if began:
        b = breaker.started(b, began, core.now)
    return b if (b.out, b.running) == (out, running) else msgspec.structs.replace(b, out=out, running=running)


def counted(core: Context, custody: Custody) -> None:
    """Count jobs that were given to a machine just now, or came back from one without an end. To be called while the
    custody is here: its counts go with it."""
    name = group_of(custody.subgroup)
    b = core.book(Guard).here.get(name)
    if b is not None and custody.key in core.book(Guard).keys.get(name, {}) and b.stand is not Stand.TRUSTED:
        core.book(Guard).put(name, _in_step(core, custody, b))


def seen(core: Context, event: RunsSeen) -> None:
    """Take in a look at jobs of which nobody tells when they begin: those seen to run for long enough are proven."""
    name = group_of(event.subgroup)
    guard, key = core.book(Guard), (event.subgroup, event.epoch)
    b = guard.here.get(name)
    if b is None or key not in core.state.custodies:
        return
    known = guard.seen.setdefault(name, {})
    known[(key, event.worker)] = sum(jobs for age_s, jobs in event.ages if age_s > b.fast_s)
    guard.put(name, msgspec.structs.replace(b, seen=min(b.out, sum(known.values()))))
    core.workers.look_again()


def _unseen(core: Context, custody: Custody, jobs: int) -> int:
    """Return how many of the group's jobs are proven by looks still, once `jobs` of the custody ended: any of them may
    have been among those."""
    known = core.book(Guard).seen.get(group_of(custody.subgroup), {})
    for key in [key for key in known if key[0] == custody.key]:
        known[key] = max(0, known[key] - jobs)
    return sum(known.values())


def ended(core: Context, custody: Custody, facts: Facts, rows: list[int], *, ran: bool = True) -> bool:
    """Fold in jobs that ended here, given to a machine before or not (`ran`). True if fast failures among them find the
    group stopped: its origin is to hear of it now."""
    settings = core.book(Guard).settings(core.state.settings)
    name = group_of(custody.subgroup)
    b = core.book(Guard).here.get(name)
    if settings is None or b is None or custody.unguarded or not rows:
        return False
    ends = _tally(facts, rows, b.fast_s)
    theirs = 0
    if ends.fast or name in core.book(MachineGuard).breakers:
        each = ((facts.indices[at], _tally(facts, [at], b.fast_s)) for at in rows)
        theirs = machine_guard.ended(core, name, custody, each, settings)
    before, counted = b.stand, _in_step(core, custody, b, ends.total if ran else 0)
    # Judged with the ends, and then with what is under way by now: claimed jobs have taken the slots already.
    told = ends._replace(fast=ends.fast - theirs, other=ends.other + theirs)
    judged = breaker.charged(breaker.ended(b, told, core.now, settings), theirs, core.now, settings)
    still = min(counted.out, _unseen(core, custody, ends.total))
    b = msgspec.structs.replace(judged, out=counted.out, running=counted.running, starts=counted.starts, seen=still)
    core.book(Guard).put(name, b)
    stopped = name in core.book(Guard).stopped
    if stopped and before is not b.stand:
        core.book(Guard).failing = True
        core.count("groups_stopped")
    elif ends.good and not stopped:
        core.book(Guard).failing = False
    core.book(Guard).words.ended(core.book(Guard).programs[name], name, ends.good, told.fast, stopped=stopped)
    if stopped and custody.origin == core.site:
        group = core.state.groups[name]
        shun(core, group, core.site, b.reason, b.until_s if b.stand is Stand.PROBATION else inf)
    return stopped and ends.fast > 0


def stopped(core: Context, custody: Custody) -> str:
    """Return why no more of its jobs start here, in one line; empty: they do."""
    name = group_of(custody.subgroup)
    if custody.unguarded or not custody.pending:
        return ""
    return stopped_group(core, name)


def stopped_group(core: Context, name: GroupId) -> str:
    """Return why no more of the group's jobs start here, in one line; empty: they do."""
    b = core.book(Guard).here.get(name)
    if b is None or name in core.book(Guard).lifted:
        return ""
    return b.reason if b.stand in (Stand.PROBATION, Stand.BARRED) else ""


def stopped_keys(core: Context) -> list[CustodyKey]:
    """Others' custodies of groups that are stopped here: their origins hear so until they call them back."""
    return [key for name in sorted(core.book(Guard).stopped) for key in sorted(core.book(Guard).keys.get(name, ()))]


def tidy(core: Context) -> None:
    """Forget own groups that are over, and groups that have nothing here any more and are not stopped."""
    guard, groups = core.book(Guard), core.state.groups
    for name in [name for name in (*guard.there, *guard.shunned) if name not in groups or groups[name].state]:
        forget(core, name)
    for name in list(guard.here):
        counts = guard.keys.get(name, {})
        guard.keys[name] = kept = {key: held for key, held in counts.items() if key in core.state.custodies}
        b = _without(guard.here[name], [held for key, held in counts.items() if key not in kept])
        if looked := guard.seen.get(name):
            looked = guard.seen[name] = {key: jobs for key, jobs in looked.items() if key[0] in kept}
            b = msgspec.structs.replace(b, seen=min(b.out, sum(looked.values())))
        guard.put(name, b)
        if not kept and guard.here[name].until_s <= core.now:
            _begin_anew(core, name)
            guard.bases.pop(name, None)


def _without(b: Breaker, gone: list[tuple[int, int]]) -> Breaker:
    """Take out of the breaker the counts of custodies that are not here any more (`gone`)."""
    out, running = sum(held[0] for held in gone), sum(held[1] for held in gone)
    if not (out or running):
        return b
    return msgspec.structs.replace(b, out=max(0, b.out - out), running=max(0, b.running - running))


def _is_merge(core: Context, custody: Custody) -> bool:
    group = core.state.groups.get(group_of(custody.subgroup)) if custody.origin == core.site else None
    return group is not None and custody.indices.bounds[:1] == (group.jobs,)


def _tally(facts: Facts, rows: list[int], fast_s: float) -> EndCounts:
    ran = ((facts.ended_s[at] - facts.started_s[at]) if facts.attempts[at] else 0.0 for at in rows)
    return breaker.tally(zip((facts.outcomes[at] for at in rows), ran, strict=True), fast_s)


# --- where they come from ----------------------------------------------------------------------------------------


def accepted(core: Context, group: Group, subgroup: Subgroup, facts: Facts) -> None:
    """Fold in what the accepted results of a site say of it."""
    settings = core.book(Guard).settings(core.state.settings)
    if settings is None or subgroup.unguarded or not facts.indices or facts.indices == [group.jobs]:
        return
    guard, site = core.book(Guard), subgroup.site
    breakers = guard.there.setdefault(group.group, {})
    first = site not in breakers
    b = breakers[site] if not first else _expect(core, group, site, settings)
    ends = _tally(facts, list(range(len(facts.indices))), b.fast_s)
    b = breakers[site] = breaker.ended(b, ends, core.now, settings)
    if first:
        _of_the_site(core, site, ends, settings)
    if b.stand is Stand.PROBATION and _machines(core, site) > 1:
        # Only the site knows whether it is one of its machines: it stops by itself, and says so.
        return
    if b.stand in (Stand.PROBATION, Stand.BARRED) and ends.fast:
        shun(core, group, site, b.reason, b.until_s if b.stand is Stand.PROBATION else inf)
    elif b.stand in (Stand.TRYING, Stand.TRUSTED):
        guard.shunned.get(group.group, {}).pop(site, None)


def _machines(core: Context, site: SiteId) -> int:
    if site == core.site:
        return len(core.workers.names())
    peer = core.view.peers.get(site)
    return peer.summary.machines if peer is not None and peer.summary is not None else 0


def _expect(core: Context, group: Group, site: SiteId, settings: BreakerSettings) -> Breaker:
    """Begin a breaker as the site itself would, as far as this one knows."""
    peer = core.view.peers.get(site)
    told = peer.summary if peer is not None else None
    speed = told.speed if told is not None else core.state.settings.speed
    return breaker.begin(site, group.jobs, group.spec.resources.work_s / max(speed, 1e-3), settings)


def _of_the_site(core: Context, site: SiteId, ends: EndCounts, settings: BreakerSettings) -> None:
    """Count a group's first ends at a site: many small groups that fail at once say as much as one of their size."""
    b = core.book(Guard).sites.get(site) or breaker.begin(site, MANY_GROUPS, 0.0, settings)
    one = EndCounts(good=1) if ends.good else EndCounts(fast=1) if ends.fast else EndCounts()
    core.book(Guard).sites[site] = breaker.ended(b, one, core.now, settings)


def on_stopped(core: Context, group: Group, subgroup: Subgroup, why: str) -> None:
    """Shun a site for the group by its own word that it stopped it: it may be stricter than this one."""
    if why and not subgroup.unguarded:
        shun(core, group, subgroup.site, why[:MOST_REASON], core.now + core.state.settings.guard_pause_s)


def on_stopped_group(core: Context, group: Group, site: SiteId, why: str) -> None:
    """Shun a site for a group that waits for its turn there, by the site's own word. A lie costs the liar the group's
    jobs."""
    shun(core, group, site, why[:MOST_REASON], core.now + core.state.settings.guard_pause_s)


def shun(core: Context, group: Group, site: SiteId, why: str, until_s: float) -> None:
    """Send no more of the group there until `until_s`, and call back what waits there. Jobs that are bound to no site
    are priced anew: nobody may be left for them."""
    known = core.book(Guard).shunned.setdefault(group.group, {})
    old = known.get(site)
    if group.unplaced and (old is None or old.until_s <= core.now):
        core.to_place.add(group.group)
    if old is None or old.until_s < until_s:
        # A pause that begins anew counts from the first: nothing went well between.
        known[site] = Shunned(until_s, why, old.since_s if old is not None else core.now)
    core.to_pull[(group.group, site)] = f"{site} fails them fast: {known[site].why}"
    core.notify(group.group)


def shunned(core: Context, group: GroupId) -> str:
    """Return which sites the group is kept away from because its jobs fail there, and why; empty: none."""
    some = sorted(core.book(Guard).shunned.get(group, {}).items())
    return "; ".join(f"{site} fails them fast: {one.why}" for site, one in some if one.until_s > core.now)


def shuns(core: Context, group: GroupId | None, site: SiteId) -> bool:
    """True if this very group has failed there, and is kept away still."""
    found = core.book(Guard).shunned.get(group, {}).get(site) if group else None
    return found is not None and found.until_s > core.now


def why_not(core: Context, group: GroupId | None, site: SiteId) -> str:
    """Return why the site is no candidate for the group, or for one that is new; empty: it is."""
    if core.book(Guard).settings(core.state.settings) is None:
        return ""
    if group is not None and shuns(core, group, site):
        found = core.book(Guard).shunned[group][site]
        left = "" if found.until_s == inf else f" for {seconds(found.until_s - core.now)} more"
        return f"on probation{left}: {found.why}"
    b = core.book(Guard).sites.get(site)
    if b is not None and b.stand is Stand.PROBATION and b.until_s > core.now:
        return f"on probation for {seconds(b.until_s - core.now)} more: the latest groups failed there at once"
    return ""


def note(core: Context, site: SiteId) -> str:
    """Return a line for those who look at sites: the groups it takes no more of. Empty: it takes all."""
    if site == core.site:
        mine = core.book(Guard).stopped - core.book(Guard).lifted
        names = sorted(name for name in mine if core.book(Guard).keys.get(name))
    else:
        names = sorted(name for name in core.book(Guard).shunned if shuns(core, name, site))
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"on probation: fails jobs of {names[0]}{more} at once"
    if site == core.site and core.book(MachineGuard).out:
        return "; ".join(core.book(MachineGuard).notes()[:3])
    return why_not(core, None, site)


def group_note(core: Context, group: Group) -> str:
    """Return a line about the first site that fails the group's jobs, while any are open; else empty."""
    known = core.book(Guard).shunned.get(group.group, {})
    first = next((site for site in sorted(known) if known[site].until_s > core.now), None)
    return f"{first} fails its jobs fast: {known[first].why}" if first is not None and not group.state else ""
