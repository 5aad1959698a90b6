"""Running jobs make way for a claim: of those whose group says so, a site ends as few as the claim lacks processors for
(SPEC D4, K5; docs/decisions/gangs.md).

That they are to end is durable before any machine is told, and is told again until they have ended. Their attempts are
closed here then, and their origin places them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diana.engine.dispatch import capacity, claim_book, maintenance, start, wide_places
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.dispatch.way_book import WayBook
from diana.engine.guard import guard, machine_guard
from diana.engine.handover import execution, saving
from diana.engine.journal.effects import RecallRuns
from diana.engine.journal.records import RunsMakeWay
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines import requirements
from diana.engine.machines.machine import Worker
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.timers import CustodyTimer
from diana.model.ids import group_of
from diana.model.indexset import IndexSet
from diana.model.job import resources
from diana.model.job.resources import SCRATCH, ResourceRequest, amount, devices, give_back, shared
from diana.policy.gang.making_way import EndableJob, MachineRoom, WayMade, make_way
from diana.policy.gang.queues import GangLevel
from diana.policy.queueing import limits

GRACE_S = 10.0
"""Seconds beyond the `wait_s` of its checkpoint in which a job that was asked to stop has done so, or is ended."""
MOST_OWNERS = 4
"""Users named of those whose jobs made way."""

_Endable = Mapping[CustodyKey, tuple[IndexSet, IndexSet]]
"""Transfer -> jobs of it that may end for a claim, and those that do."""


def look(core: Context) -> None:
    """Look who may make way for the best claim, after it was looked whether it has its processors by itself; and forget
    what was kept for one that waits no more. It ends each dispatch."""
    book, claims = core.book(WayBook), core.book(ClaimBook)
    best = core.state.custodies.get(claims.best) if claims.best is not None else None
    waits = best is not None and claim_book.waits(best) and best.key not in claims.ending
    if book.key is not None and not (waits and best is not None and book.key == best.key):
        book.key, book.rooms, book.note = None, {}, ""
        core.workers.look_again()
    if not book.due:
        return
    book.due = False
    if best is None or not waits:
        return
    why = _in_vain(core, best)
    made = WayMade({}, {}, why) if why else _chosen(core, best)
    book.note = "" if made.rooms else made.reason
    ending = made.ended or any(one.making_way for one in core.state.custodies.values())
    if not made.rooms or not ending:
        return
    book.key = best.key
    book.rooms = {name: some * best.spec.resources.processors for name, some in made.rooms.items()}
    core.workers.look_again()
    if made.ended:
        _end(core, best, made)


def again(core: Context, custody: Custody) -> None:
    """Have the jobs ended that were to end when their machine, or this node, went away."""
    some = custody.makes_way()
    if some:
        _order(core, custody, some)


def too_late(core: Context, key: CustodyKey) -> None:
    """End the jobs that were asked to save their state first, and did not."""
    custody = core.state.custodies.get(key)
    if custody is not None and (some := custody.makes_way() & IndexSet.of(custody.running)):
        execution.kill(core, custody, some)


# --- who may end ---------------------------------------------------------------------------------------------


def _in_vain(core: Context, claim: Custody) -> str:
    """Return why the claim would not begin though it had room; empty: it would."""
    lacks, settings = len(claim.pending), core.state.settings
    if why := core.book(ClaimBook).lacks:
        return why
    if claim.startable() != claim.pending or journal_doubt.stays(core, claim) or core.calendar.closed:
        return f"nothing of it starts at {core.site} just now"
    if limits.startable(settings, capacity.running_of(core).get(claim.owner, 0)) < lacks:
        return f"{claim.owner} has as many jobs running at {core.site} as one user may"
    let = guard.allowed(core, claim)
    if let is not None and let < lacks:
        return f"{core.site} gets no more of its group for now"
    if shared(requirements.asked(claim.spec).amounts):
        return "it waits for licences, too"
    return ""


def _chosen(core: Context, claim: Custody) -> WayMade:
    request, takes_s = requirements.asked(claim.spec), maintenance.takes_s(core, claim)
    caps = machine_guard.caps(core, group_of(claim.subgroup), claim)
    caps = maintenance.Closing(core).caps(request.processors, maintenance.Takes(takes_s, takes_s), caps)
    # What is idle and kept for a wide job is not the claim's.
    kept = bool(wide_places.standing(core))
    endable = {key: found for key in core.state.custodies if (found := _may_end(core, key)) is not None}
    plain = [worker for worker in core.workers.takers(request) if _is_plain(worker)]
    rooms = [_room(core, worker, request, caps, endable, kept=kept) for worker in plain]
    level = GangLevel(claim.spec.gang_level or GangLevel.LOW)
    return make_way(len(claim.pending), request.processors, devices(request.amounts), level, rooms, core.now)


def _is_plain(worker: Worker) -> bool:
    """True for a machine; a cluster gives its slots away itself."""
    return worker.ahead < 0 and not worker.widest and not worker.closed


def _room(
    core: Context,
    worker: Worker,
    request: ResourceRequest,
    caps: Mapping[str, int],
    endable: _Endable,
    *,
    kept: bool,
) -> MachineRoom:
    lane = worker.lane
    # What waits there and is given back is asked back before anybody ends.
    load = lane.used if worker.name in core.totals.runs.recalling else lane.load
    processors, left = 0 if kept else lane.slots - load, core.workers.left(worker, devices(request.amounts))
    jobs = []
    for job, ends in _endable(worker, endable):
        if ends:
            processors += job.processors
            give_back(left, job.held)
        else:
            jobs.append(job)
    most = caps.get(worker.name, lane.slots)
    if core.workers.free_of(worker, SCRATCH) < amount(request.amounts, SCRATCH):
        most = 0
    return MachineRoom(worker.name, processors, resources.of(left), most, tuple(jobs))


def _endable(worker: Worker, endable: _Endable) -> Iterator[tuple[EndableJob, bool]]:
    """Yield the jobs on slots of the machine that may end for a claim, and whether they do already."""
    # At most sites no group may: the jobs that run are then not looked at one by one.
    for (key, index), run in worker.lane.on.items() if endable else ():
        found = endable.get(key)
        if found is not None and (index in found[0] or index in found[1]):
            job = EndableJob(key[0], key[1], index, run.processors, devices(run.held), run.on_s)
            yield job, index in found[1]


def _may_end(core: Context, key: CustodyKey) -> tuple[IndexSet, IndexSet] | None:
    """Return the jobs of a custody that may end, and those that do; None: it has none of either."""
    custody = core.state.custodies.get(key)
    if custody is None or not custody.running or not custody.spec.preemptible or custody.spec.is_gang:
        return None
    if journal_doubt.stays(core, custody):
        return None
    if start.merge_directory(core, custody):
        return None
    ending = custody.makes_way()
    return IndexSet.of(custody.running) - custody.cancelled - custody.saving - ending, ending


# --- they end ------------------------------------------------------------------------------------------------


def _end(core: Context, claim: Custody, made: WayMade) -> None:
    book, rank = core.book(WayBook), claim_book.rank(claim)
    by_custody: dict[CustodyKey, list[int]] = {}
    for job in (job for some in made.ended.values() for job in some):
        by_custody.setdefault((job.part, job.epoch), []).append(job.number)
    owners = dict.fromkeys(core.state.custodies[key].owner for key in sorted(by_custody))
    for key, indices in sorted(by_custody.items()):
        custody, some = core.state.custodies[key], IndexSet.of(sorted(indices))
        gang = f"gang {rank[2]} of {rank[1]}" if custody.owner == claim.owner else f"a gang of {claim.owner}"
        core.persist(
            RunsMakeWay(
                subgroup=key[0],
                epoch=key[1],
                indices=some,
                gang=f"{rank[1]}.{rank[2]}",
                why=f"made way for {gang}",
                reason=made.reason,
            )
        )
        _order(core, custody, some)
    core.count("jobs_made_way", sum(map(len, by_custody.values())))
    whose = ", ".join(list(owners)[:MOST_OWNERS]) + (" and others" if len(owners) > MOST_OWNERS else "")
    book.told[claim.key] = f"jobs of {whose} made way: {made.reason}"
    for name in made.ended:
        _ask_back(core, name)


def _order(core: Context, custody: Custody, indices: IndexSet) -> None:
    """Have the jobs save their state and stop, if they can, or end."""
    checkpoint = custody.spec.checkpoint
    if checkpoint is None:
        execution.kill(core, custody, indices & IndexSet.of(custody.running))
        return
    saving.ask(core, custody, indices)
    core.after(CustodyTimer("make-way", *custody.key), checkpoint.wait_s + GRACE_S)


def _ask_back(core: Context, name: str) -> None:
    """Ask back what waits on the machine: it would take the processors that come free."""
    worker, back = core.workers.find(name), dict[CustodyKey, list[int]]()
    if worker is None or name not in core.totals.runs.recalling:
        return
    for key, index in worker.lane.ahead:
        back.setdefault(key, []).append(index)
    for key, indices in sorted(back.items()):
        custody = core.state.custodies.get(key)
        if custody is not None and not journal_doubt.stays(core, custody):
            core.emit(RecallRuns(worker=name, subgroup=key[0], epoch=key[1], indices=IndexSet.of(sorted(indices))))
