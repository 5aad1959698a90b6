"""The black-hole guard: a site that fails every job fast looks empty and attracts all work (SPEC U10, D7; PROMISES
section 3).

One breaker per (site, group) stands before the site's starts of that group. A site begins with one canary job, or with
more where nothing speaks against it, and may have one more under way for each that proves itself, so twice as many each
round; when too many fail fast it is put on probation, where one job at a time is tried after pauses that grow; one that
does well opens the ramp again. Whatever happens, the jobs that failed fast there and those not proven stay within 2 %
of the group, or 10 jobs if that is more, plus as many as did well or ran long enough.

A breaker is an immutable value of a few numbers: each event gives a new one. Nothing in it is per job. Time proves jobs
only where starts and ends are told at once: a job that failed at once counts as proven if its end is told later than
`fast_s`. Where they are told late, as by a batch system, only what was seen to run so long is proven (`seen`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from math import pow
from typing import NamedTuple

import msgspec

from diana.model.durations import seconds
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.words import counted
from diana.policy.ranges import check

STEPS = 4
"""Number of steps into which the time until a job is proven is cut; starts within one step are kept as one number."""


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    most_share: float = 0.02
    """Share of a group's jobs that a site may fail fast or have unproven, in addition to as many as did well."""
    most_jobs: int = 10
    """The same for small groups, where the share is less: enough for a ramp and some probation."""
    canaries: int = 1
    """Jobs under way at first, and after probation."""
    trusted_after: int = 64
    """Jobs that must do well since the site was last on probation; then it is limited no more."""
    trip_jobs: int = 3
    """Fast failures that are more than bad luck; one or two are as likely the jobs' own fault."""
    trip_share: float = 0.5
    """Share of the jobs that ended lately; if more of them failed fast, the site goes on probation."""
    half_life: float = 64.0
    """Number of ended jobs after which an earlier end counts half, so that a site that turned bad is noticed."""
    fast_share: float = 0.1
    """Share of the expected run time: a failure within it is fast, and a job that ran longer is proven."""
    fast_least_s: float = 1.0
    """Seconds within which a failure is fast whatever run time was expected: starting alone takes so long on a busy
    machine."""
    fast_most_s: float = 60.0
    """Seconds after which no failure is fast: broken sites fail within a minute, and the ramp must not wait for
    hours."""
    fast_unknown_s: float = 10.0
    """Seconds within which a failure is fast where no run time is expected."""
    probation_s: float = 60.0
    """Pause before the next try; twice as long after each try that failed."""
    probation_most_s: float = 3600.0

    def __post_init__(self) -> None:
        check(
            self,
            ("most_share", 0.0, 1.0),
            ("most_jobs", 1, 1_000_000),
            ("canaries", 1, 1_000_000),
            ("trusted_after", 1, 1_000_000_000),
            ("trip_jobs", 1, 1_000_000),
            ("trip_share", 0.01, 1.0),
            ("half_life", 1.0, 1e9),
            ("fast_share", 0.0, 1.0),
            ("fast_least_s", 0.01, 3600.0),
            ("fast_most_s", self.fast_least_s, 86400.0),
            ("fast_unknown_s", 0.01, 86400.0),
            ("probation_s", 1.0, 86400.0),
            ("probation_most_s", self.probation_s, 30 * 86400.0),
        )

    def fast_s(self, expected_s: float) -> float:
        """Seconds within which a failure is fast. `expected_s`: run time of one job there; 0: not known."""
        if expected_s <= 0:
            return self.fast_unknown_s
        return min(max(self.fast_share * expected_s, self.fast_least_s), self.fast_most_s)

    def bound(self, group_jobs: int) -> int:
        return max(self.most_jobs, int(self.most_share * group_jobs))


class Stand(Enum):
    TRYING = "trying"
    """On the ramp."""
    TRUSTED = "trusted"
    PROBATION = "probation"
    BARRED = "barred"
    """The site has failed all it may: it gets no more of this group."""


class EndCounts(NamedTuple):
    """Numbers of ended jobs, by the judgement of the site that follows from them."""

    good: int = 0
    slow: int = 0
    """Jobs that failed, but not fast: as likely their own fault."""
    fast: int = 0
    other: int = 0
    """Jobs cancelled, interrupted or lost from sight: they say nothing of the site."""

    @property
    def total(self) -> int:
        return self.good + self.slow + self.fast + self.other


def tally(ended: Iterable[tuple[int, float]], fast_s: float) -> EndCounts:
    """Count ends given as (outcome, seconds the job ran); 0 s where it never ran, however long it was staged or
    tried."""
    good = slow = fast = other = 0
    for outcome, ran_s in ended:
        match outcome:
            case Outcome.DONE:
                good += 1
            case Outcome.FAILED | Outcome.NOT_STARTED | Outcome.STAGING_FAILED if ran_s <= fast_s:
                fast += 1
            case Outcome.FAILED | Outcome.NOT_STARTED | Outcome.STAGING_FAILED | Outcome.TIMED_OUT:
                slow += 1
            case _:
                other += 1
    return EndCounts(good, slow, fast, other)


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    group_jobs: int
    fast_s: float
    """A failure within this is fast; a job that ran longer is proven."""
    window: int
    """Jobs that may be under way unproven, before any did well."""
    stand: Stand = Stand.TRYING
    reason: str = "no job of the group has ended there yet"
    """Reason for `stand`, in words for an operator."""
    out: int = 0
    """Jobs given to the site and not ended."""
    running: int = 0
    """Those of `out` that have started; too few by the jobs that ended and never ran."""
    good: int = 0
    """Jobs that ever did well."""
    lost: int = 0
    """Jobs that ever failed fast."""
    seen: int = 0
    """Those of `out`, besides `running`, that were seen to run too long to fail fast any more, as of the last look."""
    streak: int = 0
    """Jobs that did well since the ramp last began."""
    recent_ended: float = 0.0
    recent_fast: float = 0.0
    """`recent_ended`: jobs that ended good, slow or fast since the ramp last began, the latest counting most;
    `recent_fast`: those of them that failed fast."""
    tries: int = 0
    """Number of probations one after the other."""
    until_s: float = 0.0
    """On probation: time at which the next try is due."""
    since_s: float = 0.0
    """On probation or barred: time since which it is, whatever was tried meanwhile."""
    credit: int = 0
    """Jobs that may be unproven even beyond the bound, until one fails fast."""
    starts: tuple[tuple[float, int], ...] = ()
    """(beginning of a step, jobs started in it) of the latest starts, at most `STEPS` + 2 entries."""

    def proven(self, now: float) -> int:
        """Number of running jobs that have run too long to fail fast any more."""
        if not self.running:
            return self.seen
        recent = sum(jobs for began_s, jobs in self.starts if began_s + self._reach_s() > now)
        return max(0, self.running - recent) + self.seen

    def _reach_s(self) -> float:
        """Seconds after which an entry of `starts` is proven: it also holds jobs that started up to a step later."""
        return self.fast_s * (1 + 1 / STEPS)


def begin(
    site: SiteId, group_jobs: int, expected_s: float, settings: BreakerSettings, *, first: int = 0, credit: int = 0
) -> Breaker:
    """Make the breaker of a group at a site. `expected_s`: run time of one job there, 0 if not known; `first`: jobs
    under way at first, 0: as the settings say; `credit`: jobs that may be unproven in any case, because jobs like these
    did well there before."""
    window = max(credit, min(first or settings.canaries, settings.bound(group_jobs)))
    return Breaker(site=site, group_jobs=group_jobs, fast_s=settings.fast_s(expected_s), window=window, credit=credit)


def credited(b: Breaker, jobs: int) -> Breaker:
    """Give credit after the breaker began, because jobs like these do well there: `jobs` may be unproven, until one
    fails fast."""
    return msgspec.structs.replace(b, credit=jobs, window=max(b.window, jobs))


def uncredited(b: Breaker, settings: BreakerSettings) -> Breaker:
    """Take the credit back, because the site now fails such jobs or others: it has to prove itself anew by a canary."""
    window = min(settings.canaries, settings.bound(b.group_jobs))
    return msgspec.structs.replace(b, credit=0, window=window)


def allowed(b: Breaker, now: float, settings: BreakerSettings) -> int | None:
    """Number of further jobs of the group that may start there now; None: no limit."""
    if b.stand is Stand.TRUSTED:
        return None
    if b.stand is Stand.BARRED:
        return 0
    # Those that run on count as if they did well, though they may fail later: else jobs of hours would wait for hours.
    proven = b.proven(now)
    young = b.out - proven
    if b.stand is Stand.PROBATION:
        # It has at least one left, or it would be barred.
        return max(0, 1 - young) if now >= b.until_s else 0
    bound = max(settings.bound(b.group_jobs) + b.good + proven, b.credit) - b.lost - young
    return max(0, min(bound, b.window + b.streak + proven - young))


def next_s(b: Breaker, now: float) -> float | None:
    """Latest time at which `allowed` grows by itself; None: not before a job ends."""
    if b.stand is Stand.PROBATION and b.until_s > now:
        return b.until_s
    ripe = [began_s + b._reach_s() for began_s, _ in b.starts if began_s + b._reach_s() > now]
    return min(ripe) if ripe and b.out and b.stand is Stand.TRYING else None


def given(b: Breaker, jobs: int) -> Breaker:
    """Record that `jobs` were given to be run: they may start at any time from now on. Never give more than
    `allowed`."""
    return msgspec.structs.replace(b, out=b.out + jobs)


def started(b: Breaker, jobs: int, now: float) -> Breaker:
    """Record that `jobs` of those given have started."""
    step_s = b.fast_s / STEPS
    kept = tuple(entry for entry in b.starts if entry[0] + b._reach_s() > now)
    if kept and now < kept[-1][0] + step_s:
        kept = (*kept[:-1], (kept[-1][0], kept[-1][1] + jobs))
    else:
        kept = (*kept, (now, jobs))
    return msgspec.structs.replace(b, running=b.running + jobs, starts=kept)


def ended(b: Breaker, ends: EndCounts, now: float, settings: BreakerSettings) -> Breaker:
    """Fold ends in; `stand` and `reason` show the result."""
    known = ends.good + ends.slow + ends.fast
    b = msgspec.structs.replace(
        b,
        out=max(0, b.out - ends.total),
        running=min(max(0, b.running - ends.total), max(0, b.out - ends.total)),
        seen=max(0, b.seen - ends.total),
        good=b.good + ends.good,
        lost=b.lost + ends.fast,
        credit=0 if ends.fast else b.credit,
        streak=b.streak + ends.good,
        recent_ended=_faded(b.recent_ended, known, known, settings),
        recent_fast=_faded(b.recent_fast, ends.fast, known, settings),
    )
    if not known:
        return b
    spent = b.lost >= settings.bound(b.group_jobs) + b.good
    if b.stand is Stand.BARRED:
        # Jobs that were under way still end, and may do well after all.
        return _ramp(b, ends) if ends.good and not spent else b
    if b.stand is Stand.PROBATION:
        return _judged_on_probation(b, ends, now, settings)
    # Half a job for rounding: the earlier of three count a little less than one.
    if spent or (b.recent_fast > settings.trip_jobs - 0.5 and b.recent_fast >= settings.trip_share * b.recent_ended):
        of = f"of the last {counted(max(1, round(b.recent_ended)), 'job')} {max(1, round(b.recent_fast))} failed"
        return _probation(b, f"{of} within {seconds(b.fast_s)}", now, settings)
    if b.stand is Stand.TRYING:
        stand = Stand.TRUSTED if b.streak >= settings.trusted_after else Stand.TRYING
        tries = 0 if stand is Stand.TRUSTED else b.tries
        told = f"{counted(b.streak, 'job')} did well lately, {b.lost} failed fast in all"
        return msgspec.structs.replace(b, stand=stand, tries=tries, reason=told)
    return b


def charged(b: Breaker, jobs: int, now: float, settings: BreakerSettings) -> Breaker:
    """Count fast failures that something else is to blame for, such as one machine of the site. Told as `other` to
    `ended`, they say nothing of the site, but the jobs are lost all the same."""
    b = msgspec.structs.replace(b, lost=b.lost + jobs)
    if b.lost < settings.bound(b.group_jobs) + b.good:
        return b
    return _probation(b, "all it may fail has failed", now, settings)


def _faded(before: float, more: int, known: int, settings: BreakerSettings) -> float:
    """Return the faded count with `more` of `known` jobs that ended now; the same whether told one by one or at once,
    in any order."""
    if not known:
        return before
    fade, faded = pow(0.5, 1 / settings.half_life), pow(0.5, known / settings.half_life)
    return before * faded + more / known * (1 - faded) / (1 - fade)


def _judged_on_probation(b: Breaker, ends: EndCounts, now: float, settings: BreakerSettings) -> Breaker:
    if ends.fast:
        return _probation(b, f"another {counted(ends.fast, 'job')} failed within {seconds(b.fast_s)}", now, settings)
    # A failure that took its time shows that the site runs jobs; only who wrote it can say why it failed.
    return _ramp(b, ends) if ends.good or ends.slow else b


def _probation(b: Breaker, why: str, now: float, settings: BreakerSettings) -> Breaker:
    """Put the site on probation, or bar it if there is no job left to try with."""
    since_s = b.since_s if b.stand in (Stand.PROBATION, Stand.BARRED) else now
    if b.lost >= settings.bound(b.group_jobs) + b.good:
        told = f"{why}: {counted(b.lost, 'job')} of the group failed fast at {b.site}, it gets no more of them"
        return msgspec.structs.replace(b, stand=Stand.BARRED, reason=told, until_s=0.0, since_s=since_s)
    pause_s = min(settings.probation_most_s, settings.probation_s * 2.0 ** min(b.tries, 60))
    told = f"{why}: {b.site} is on probation, one job is tried in {seconds(pause_s)}"
    return msgspec.structs.replace(
        b, stand=Stand.PROBATION, reason=told, tries=b.tries + 1, until_s=now + pause_s, since_s=since_s, streak=0
    )


def _ramp(b: Breaker, ends: EndCounts) -> Breaker:
    """Begin the ramp again from one canary, counting one good job at most: the others may have started before the site
    went bad. The count of lost jobs stays."""
    did = f"{counted(ends.good, 'job')} did well" if ends.good else f"{counted(ends.slow, 'job')} ran long enough"
    return msgspec.structs.replace(
        b,
        stand=Stand.TRYING,
        reason=f"{did} on probation: {b.site} is tried again, a few at first",
        window=1,
        streak=min(1, ends.good),
        recent_ended=0.0,
        recent_fast=0.0,
        until_s=0.0,
    )


class Fault(Enum):
    NOBODY = "nobody"
    SITE = "site"
    WORK = "work"
    UNKNOWN = "unknown"
    """Only one site tried it, and it failed there."""


def at_fault(breakers: Mapping[SiteId, Breaker], settings: BreakerSettings) -> tuple[Fault, str]:
    """Judge whose fault fast failures of one group are. Where it fails at several sites and does well at none, the jobs
    are broken and not the sites: going from site to site would only fail them all."""
    failing = sorted(s for s, b in breakers.items() if b.lost >= settings.trip_jobs and b.lost > b.good)
    doing_well = sorted(s for s, b in breakers.items() if b.good and s not in failing)
    if not failing:
        return Fault.NOBODY, ""
    if doing_well:
        return Fault.SITE, f"fails fast at {', '.join(failing)} and does well at {', '.join(doing_well)}"
    if len(failing) > 1:
        return Fault.WORK, f"fails fast at {', '.join(failing)} and does well nowhere"
    return Fault.UNKNOWN, f"fails fast at {failing[0]}, the only site that tried it"
