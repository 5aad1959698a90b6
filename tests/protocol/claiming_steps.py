"""Steps of claiming's model: what an origin does, what a site does, what they hear, and what a liar says.

A function yields (name, kind, jobs and rows after) for every way a step can go now, and nothing if it cannot. Names
begin with who acts. A decision and its durable record are one step, so that a crash falls between steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tests.protocol.claiming_setting import Setting
from tests.protocol.claiming_state import (
    AT_BARRIER,
    CAN_BE_ABORTED,
    FOR_EVER,
    HOLDS,
    RUNS,
    SETTLED,
    Job,
    Message,
    Part,
    Place,
    Row,
    RowState,
    What,
    replaced,
    with_part,
)
from tests.protocol.search import Kind

Jobs = tuple[Job, ...]
Rows = tuple[Row, ...]
Local = tuple[int, ...]
SITES_WORDS: tuple[What, ...] = ("CLAIMED", "CLOSED", "RESULT", "YIELD")
ORIGINS_WORDS: tuple[What, ...] = ("CLAIM", "RELEASE", "ABORT")


class Heard(NamedTuple):
    """A word that arrived, and what came of it."""

    name: str
    jobs: Jobs
    rows: Rows


# --- the origin -------------------------------------------------------------------------------------------


def origins(on: Setting, jobs: Jobs, rows: Rows) -> Iterator[tuple[str, Kind, Jobs]]:
    """Steps of the jobs' origins, of their own accord."""
    for at, job in enumerate(jobs):
        for name, kind, after in origin_acts(on, rows, at, job):
            yield name, kind, replaced(jobs, at, after)


def origin_acts(on: Setting, rows: Rows, at: int, job: Job) -> Iterator[tuple[str, Kind, Job]]:
    """Places, claims, commits (GO) or gives up one job; crashes; takes a silent component for dead."""
    phase, parts = job
    if phase == "placing" and (not on.world.late or all(part.epoch < on.world.epochs for part in parts)):
        for sites in product(*(on.sites_for(at, c, part.failed) for c, part in enumerate(parts))):
            placed = tuple(Part(site, p.epoch + 1, "placed", p.failed) for site, p in zip(sites, parts, strict=True))
            yield f"J{at} is placed at {sites}", "by itself", Job("claiming", placed)
    if phase == "claiming":
        asks = [c for c, part in enumerate(parts) if part.known == "placed"]
        for some in filter(None, [asks] if on.world.atomic else [[c] for c in asks]):
            asked = tuple(part._replace(known="asked") if c in some else part for c, part in enumerate(parts))
            yield f"J{at} claims {some}", "by itself", Job(phase, asked)
        if all(part.known == "claimed" for part in parts):
            yield f"J{at}: GO", "by itself", Job("released" if on.rules.go_kept_first else "going", parts)
        if on.rules.lets_go:
            silent = tuple(p if p.known == "claimed" else on.failing(at, c, p) for c, p in enumerate(parts))
            yield f"J{at} gives up", "time-out", Job("placing", silent)
    if phase == "going":
        yield f"J{at}: GO is durable", "by itself", Job("released", parts)
    if phase in ("claiming", "going") and on.world.faults and any(p.known in ("asked", "claimed") for p in parts):
        yield f"origin of J{at} crashes", "fault", Job("claiming", tuple(p._replace(known="placed") for p in parts))
    if phase in ("released", "giving up"):
        for c, part in enumerate(parts):
            if (on.world.faults or part.site == on.world.liar) and part.known not in SETTLED:
                row = Row() if part.site == on.world.liar else rows[on.at[Place(at, c, part.site)]]
                if row.epoch != part.epoch or row.state not in HOLDS or not on.rules.lease_waited_for:
                    yield f"lease of J{at}.{c} is over at its origin", "time-out", closed(on, at, job, c)[0]


def closed(on: Setting, at: int, job: Job, c: int) -> list[Job]:
    """The ways its origin may go on when component `c` is closed."""
    phase, parts = job
    if parts[c].known in SETTLED or phase in ("placing", "done"):
        return [job]
    _, epoch, _, failed = part = on.failing(at, c, parts[c])
    if phase == "claiming":
        anew = on.sites_for(at, c, failed) if not on.world.late or epoch < on.world.epochs else ()
        alone = [with_part(job, c, Part(other, epoch + 1, "placed", failed)) for other in anew]
        return [Job("placing", replaced(parts, c, part)), *alone]
    parts = replaced(parts, c, part._replace(known="closed"))
    over = all(part.known in SETTLED for part in parts) or not on.rules.all_closed_first
    return [Job("placing" if over else "giving up", parts)]


# --- what is heard ----------------------------------------------------------------------------------------


def hears(on: Setting, jobs: Jobs, rows: Rows, m: Message) -> Iterator[Heard]:
    """Steps that a message leads to where it arrives."""
    name = f"{m.what} of J{m.job}.{m.part} epoch {m.epoch} at {m.site}"
    if m.what in ORIGINS_WORDS:
        if m.site == on.world.liar:
            return
        n = on.number(m)
        after = site_hears(on, rows[n], m)
        if after is not None:
            yield Heard(name, jobs, replaced(rows, n, after))
    elif m.what == "YIELD" and not on.rules.origin_yields and rows[on.number(m)].state == "stands":
        n = on.number(m)
        yield Heard(name, jobs, replaced(rows, n, Row(rows[n].epoch, "closed")))
    else:
        for job in origin_hears(on, jobs[m.job], m):
            yield Heard(name, replaced(jobs, m.job, job), rows)


def site_hears(on: Setting, row: Row, m: Message) -> Row | None:
    """The row of a component after a word of its origin; None: nothing comes of it."""
    what, epoch, any_epoch = m.what, m.epoch, not on.rules.epochs
    newer, same = epoch > row.epoch, epoch == row.epoch
    if what == "CLAIM":
        claimable = row.state == "unknown" or row.state in FOR_EVER
        claimable = claimable or (row.state in ("waits", "stands") and not any_epoch)
        if claimable and (newer or any_epoch or (same and row.state == "unknown")):
            return Row(epoch, "waits")
        return None
    if what == "RELEASE" and row.state in AT_BARRIER and (same or any_epoch):
        return Row(row.epoch, "runs")
    if what == "ABORT" and row.state in CAN_BE_ABORTED and (same or any_epoch):
        return Row(row.epoch, aborted(on, row.state, m.site))
    if newer and row.state not in RUNS:  # it was never heard of, and it is too late now
        return Row(epoch, "closed")
    return None


def aborted(on: Setting, state: RowState, site: int) -> RowState:
    """A component after ABORT."""
    if not on.rules.abort_ends and state in ("runs", "stands"):
        return "runs on" if state == "runs" else "stray"
    return "withdrawn" if state == "waits" and site in on.world.clusters else "closed"


def origin_hears(on: Setting, job: Job, m: Message) -> Iterator[Job]:
    """The job after a word of a site: only that of the component's site counts, under the component's epoch."""
    phase, part = job.phase, job.parts[m.part]
    if on.rules.epochs and (part.site != m.site or part.epoch != m.epoch):
        return
    if m.what == "CLAIMED":
        if phase == "claiming" and part.known in ("placed", "asked"):
            yield with_part(job, m.part, part._replace(known="claimed"))
    elif m.what == "CLOSED":
        yield from closed(on, m.job, job, m.part)
    elif m.what == "RESULT":
        if phase in ("released", "giving up") and part.known not in SETTLED:
            yield ended(on, with_part(job, m.part, part._replace(known="ended")))
    elif phase == "claiming":
        yield Job("placing", replaced(job.parts, m.part, on.failing(m.job, m.part, part)))
    elif phase == "released" and on.world.preempts:
        yield Job("giving up", job.parts)


def ended(on: Setting, job: Job) -> Job:
    """A job after a component's result."""
    if job.phase == "released" and (all(p.known == "ended" for p in job.parts) or not on.rules.all_results):
        return Job("done", job.parts)
    if job.phase == "giving up" and all(p.known in SETTLED for p in job.parts):
        return Job("placing", job.parts)
    return job


# --- a site -----------------------------------------------------------------------------------------------


def sites(on: Setting, rows: Rows, local: Local) -> Iterator[tuple[str, Kind, Rows, Local]]:
    """Steps of sites, of their own accord."""
    for n, row in enumerate(rows):
        for name, kind, state in site_acts(on, rows, local, n, row):
            yield name, kind, replaced(rows, n, Row(row.epoch, state)), local
    for site, used in enumerate(local):
        if used:
            yield f"local work ends at {site}", "by itself", rows, replaced(local, site, used - 1)
        if on.world.local and on.free(rows, local, site) > 0:
            yield f"local work begins at {site}", "fault", rows, replaced(local, site, used + 1)


def site_acts(on: Setting, rows: Rows, local: Local, n: int, row: Row) -> Iterator[tuple[str, Kind, RowState]]:
    """Claims, lets lapse, runs and ends one component."""
    job, part, site = on.places[n]
    epoch, state = row
    rules, name = on.rules, f"J{job}.{part} epoch {epoch} at {site}"
    if state == "unknown" or state in ("over", "closed"):
        return
    room = on.free(rows, local, site) > 0
    if state == "waits" and room and not (rules.ranks and rules.better_first and on.better_waits(rows, n)):
        yield f"{name} is claimed", "by itself", begun(on)
    if state in ("waits", "stands", "stands unkept", "stray") and rules.lets_go:
        gone: RowState = "withdrawn" if state == "waits" and site in on.world.clusters else "closed"
        yield (
            f"{name} lapses",
            "deadline" if rules.gives_up_first else "time-out",
            gone if rules.tombstone or state == "waits" else "unknown",
        )
    if state == "withdrawn":
        yield f"{name} meets its gate", "by itself", "closed" if rules.gate or not room else "stray"
    if state in RUNS:
        yield f"{name} ends", "by itself", "over" if state == "runs" else "closed"
    if on.world.faults and state in HOLDS:
        yield f"{name} dies, or its lease is over", "fault", "closed"
    if on.world.faults and state == "stands unkept":
        yield f"node of {site} crashes", "fault", "stray"


def begun(on: Setting) -> RowState:
    """A component that got its processors."""
    if not on.rules.barrier:
        return "runs"
    return "stands" if on.rules.claim_kept_first else "stands unkept"


# --- the liar ---------------------------------------------------------------------------------------------


def lies(on: Setting, jobs: Jobs, rows: Rows) -> Iterator[Heard]:
    """Whatever the liar says, of any component, as at any site, under any epoch, and what comes of it."""
    liar = on.world.liar
    if liar is None:
        return
    for at, job in enumerate(jobs):
        if (at, job) not in on.lies_about:
            on.lies_about[at, job] = [(name, after) for name, after in lies_about(on, at, job, liar) if after != job]
        for name, after in on.lies_about[at, job]:
            yield Heard(name, replaced(jobs, at, after), rows)
    if not on.rules.site_hears_the_origin_alone:
        for (n, place), what in product(enumerate(on.places), ORIGINS_WORDS):
            for epoch in range(rows[n].epoch + 2) if place.site != liar else ():
                row = site_hears(on, rows[n], Message(what, *place, epoch))
                if row is not None:
                    name = f"the liar says {what} of J{place.job}.{place.part} epoch {epoch} to {place.site}"
                    yield Heard(name, jobs, replaced(rows, n, row))


def lies_about(on: Setting, at: int, job: Job, liar: int) -> Iterator[tuple[str, Job]]:
    """Lies to a job's origin, each with the job after it."""
    for c, part in enumerate(job.parts):
        places = dict.fromkeys((*on.world.allowed[at][c], liar))
        for site, what, epoch in product(places, SITES_WORDS, range(part.epoch + 2)):
            said = Message(what, at, c, site, epoch)
            for after in believed(on, job, said, liar):
                yield f"the liar says {what} of J{at}.{c} epoch {epoch} at {site}", after


def believed(on: Setting, job: Job, m: Message, sender: int) -> Iterator[Job]:
    """A job after a word of `sender`, who may not be the site that the word names."""
    part = job.parts[m.part]
    if m.site == sender or not on.rules.site_speaks_for_itself:
        yield from origin_hears(on, job, m)
    if m.site == sender != part.site:
        if m.epoch < part.epoch and sender in on.world.allowed[m.job][m.part] and not on.rules.epoch_of_now:
            yield from origin_hears(on, job, m._replace(site=part.site, epoch=part.epoch))
        if m.what == "CLAIMED" and job.phase in ("placing", "claiming") and not on.rules.offered_only:
            yield with_part(job, m.part, Part(sender, max(m.epoch, part.epoch), "claimed"))
