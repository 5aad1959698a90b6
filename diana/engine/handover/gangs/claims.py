"""The executing site's side of a gang: it claims processors for a component, holds its task at the barrier, and lets it
go, or lets the claim lapse (SPEC K5; docs/decisions/gangs.md).

A component's custody is inert until its origin's Commit, as any other. A claim starts its runs all the same, and the
machine holds them. Whatever ends there before the Commit never ran: its custody becomes a tombstone.
"""

from __future__ import annotations

from functools import partial

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import claim_book, gang_quota, maintenance, renewals
from diana.engine.dispatch.claim_book import NO_SHARE, ClaimBook
from diana.engine.dispatch.predictions import Predictions
from diana.engine.dispatch.way_book import WayBook
from diana.engine.handover import saving
from diana.engine.journal.effects import CancelStage, DropSubgroup, ForgetRuns, Go, KillRuns, MeetHosts
from diana.engine.journal.events import AtBarrier, HostsMet, Run
from diana.engine.journal.records import CustodyDropped, CustodyRunnable, RunsReturned
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.messages.messages import Aborted, Commit, Committed, GangClaim, GangClaimed, GangYield, Lost
from diana.engine.site import journal_doubt, links
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.timers import CustodyTimer
from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job import gang

MOST_MET = 64
"""Hosts that a site looks for, for one claim: a gang of more sites is let go without."""
MOST_CLAIM_S = 86_400.0
"""Longest claim, whatever a peer says."""
YIELD_AFTER_S = 2.0
"""A claim that waits for so long has lesser ones asked to yield, and again each time that so much has passed."""


def on_claim(core: Context, sender: SiteId, message: GangClaim, custody: Custody | None) -> None:
    if custody is None or message.db_uuid != core.state.db_uuid:
        core.send(sender, Lost(subgroup=message.subgroup, epoch=message.epoch, db_uuid=core.state.db_uuid))
        return
    if not custody.spec.is_gang:
        core.warn(f"{sender} claims {message.subgroup}, which is no component of a gang")
        return
    if custody.runnable:
        core.send(sender, Committed(subgroup=message.subgroup, epoch=message.epoch))
        return
    book, key = core.book(ClaimBook), custody.key
    if key in book.ending:
        # Its origin hears what became of it when the last of its runs has ended.
        return
    asked_before = key in book.until_s
    book.until_s[key] = core.now + min(max(0.0, message.wait_s), MOST_CLAIM_S)
    book.hold_s[key] = min(message.hold_s if message.hold_s > 0 else max(0.0, message.wait_s), MOST_CLAIM_S)
    if claim_book.waits(custody):
        core.timers.set(CustodyTimer("claim", *key), book.until_s[key])
    _next_begins(core)
    if not asked_before:
        core.after(CustodyTimer("claim-waits", *key), YIELD_AFTER_S)
        # What is let go runs under a lease from its first moment on.
        renewals.committed(core, custody)
    if not _look(core, custody, message):
        _tell(core, custody)


def _look(core: Context, custody: Custody, message: GangClaim) -> bool:
    """Look for the hosts of the others, once for the same ones. True if the answer to the claim waits for that."""
    book, hosts, ports = core.book(ClaimBook), message.meet_hosts[:MOST_MET], message.meet_ports[:MOST_MET]
    if not hosts or not book.host or len(hosts) != len(ports):
        return False
    if not all(map(gang.is_host, hosts, ports)):
        core.warn(f"{custody.origin} tells {custody.subgroup} addresses that are none")
    elif book.met.get(custody.key, ((), ""))[0] != hosts and _stands(core, custody):
        book.met[custody.key] = hosts, None
        core.emit(MeetHosts(subgroup=custody.subgroup, epoch=custody.epoch, hosts=hosts, ports=ports))
    return book.met.get(custody.key, ((), ""))[1] is None


def on_reached(core: Context, event: HostsMet) -> None:
    key = (event.subgroup, event.epoch)
    custody, book = core.state.custodies.get(key), core.book(ClaimBook)
    if custody is not None and book.met.get(key) == (event.hosts, None):
        book.met[key] = event.hosts, event.out_of_reach
        _tell(core, custody)


def on_barrier(core: Context, event: AtBarrier) -> None:
    """Take a machine's word that runs hold their slots and wait to be let go. It is said again after each connection:
    those that were let go meanwhile are told so again."""
    custody = core.state.custodies.get((event.subgroup, event.epoch))
    _end_strays(core, event, custody)
    if custody is None or not custody.spec.is_gang:
        return
    held = IndexSet.of(run.index for run in event.runs if custody.running.get(run.index) == run.attempt)
    if not held:
        return
    if custody.runnable:
        _go(core, custody, held)
        return
    book, key = core.book(ClaimBook), custody.key
    book.at_barrier[key] = book.at_barrier.get(key, IndexSet()) | held
    book.reached.setdefault(key, {}).update(dict.fromkeys(held, (event.host, event.port)))
    _next_begins(core)
    _tell(core, custody)


def _end_strays(core: Context, event: AtBarrier, custody: Custody | None) -> None:
    """End what stands at a barrier for a claim, or a try of it, that came to nothing while the machine was away."""
    if core.state.recovering or core.book(JournalDoubt).fallen:
        return
    running = custody.running if custody is not None and custody.key not in core.book(ClaimBook).ending else {}
    strays = [run.index for run in event.runs if running.get(run.index) != run.attempt]
    if custody is not None and custody.runnable:
        # What was let go there under the same number runs on.
        let_go = custody.by_machine(custody.running).get(event.worker, [])
        strays = [index for index in strays if index not in let_go]
    if strays:
        indices = IndexSet.of(strays)
        core.emit(KillRuns(worker=event.worker, subgroup=event.subgroup, epoch=event.epoch, indices=indices))


def _stands(core: Context, custody: Custody) -> bool:
    """True if all of the claim stands at the barrier."""
    book, key = core.book(ClaimBook), custody.key
    here = book.at_barrier.get(key, IndexSet())
    return not (custody.runnable or custody.pending or key in book.ending) and custody.indices.issubset(here)


def _tell(core: Context, custody: Custody) -> None:
    """Tell the origin that the claim stands, if all of it does."""
    book, key = core.book(ClaimBook), custody.key
    if not _stands(core, custody):
        return
    # From here on its machine's own clock ends it.
    core.timers.cancel(CustodyTimer("claim", *key))
    core.timers.cancel(CustodyTimer("claim-waits", *key))
    reached = [book.reached[key][index] for index in custody.indices]
    hosts = tuple(host or book.host or core.site for host, _ in reached)
    unmet = book.met.get(key, ((), None))[1]
    core.send(
        custody.origin,
        GangClaimed(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            host=hosts[0],
            port=reached[0][1],
            hosts=hosts if len(set(hosts)) > 1 else (),
            left_s=book.left_s(key, core.now),
            looks=bool(book.host),
            met=unmet is not None,
            out_of_reach=unmet or "",
            made_way=core.book(WayBook).told.get(key, ""),
        ),
    )


def let_go(core: Context, sender: SiteId, message: Commit, custody: Custody) -> None:
    """Let the component go. One that does not stand whole any more comes to nothing, as its origin is told."""
    if custody.runnable:
        core.send(sender, Committed(subgroup=message.subgroup, epoch=message.epoch))
        return
    key = custody.key
    if key in core.book(ClaimBook).ending:
        return
    told = all(gang.is_host(host, message.port) for host in message.hosts) and message.token.isalnum()
    size = len(message.hosts)
    if not (_counts(custody, size) and gang.is_division(message.items, size) and told):
        core.warn(f"{sender} lets {message.subgroup} go with addresses that are not those of its gang")
        return
    if custody.cancelled:
        # Before a restart, which may find runs that it had begun to end.
        end(core, custody, "its origin cancelled it")
        return
    if custody.pending or not custody.running:
        end(core, custody, f"{core.site} did not hold all of its processors any more")
        return
    if renewals.lapsed(core, custody):
        # Its origin says it again; a lease is asked for.
        return
    environment = gang.met(message.hosts, message.port, message.token, message.items)
    core.persist(CustodyRunnable(subgroup=message.subgroup, epoch=message.epoch, environment=environment))
    core.settle(CustodyTimer("prepared", *key))
    _settle(core, key)
    core.moved.add(key)
    core.queues.let_go(custody.owner)
    _go(core, custody, IndexSet.of(custody.running))
    core.send(sender, Committed(subgroup=message.subgroup, epoch=message.epoch))


def _counts(custody: Custody, hosts: int) -> bool:
    """True if the gang may have so many components; a flexible one has no more than it may, and those of here."""
    size = custody.spec.gang_size
    if custody.spec.flexible is None:
        return hosts == size
    return (custody.indices.bounds[-1] - 1) % size < hosts <= size


def was_let_go(core: Context, custody: Custody) -> None:
    """Note that a component was let go, as its own ends show."""
    core.persist(CustodyRunnable(subgroup=custody.subgroup, epoch=custody.epoch))
    core.settle(CustodyTimer("prepared", *custody.key))
    _settle(core, custody.key)
    core.moved.add(custody.key)


def _go(core: Context, custody: Custody, indices: IndexSet) -> None:
    for machine, some in custody.by_machine(indices).items():
        core.emit(
            Go(
                worker=machine,
                subgroup=custody.subgroup,
                epoch=custody.epoch,
                indices=IndexSet.of(some),
                environment=custody.environment,
                size=gang.size_told(custody.spec, custody.environment),
                spares=custody.spec.spares,
            )
        )
    # The order to save may have overtaken the word that lets it go: what is held is not asked.
    saving.ask(core, custody, custody.saving & indices)


# --- claims that come to nothing -----------------------------------------------------------------------------


def aborted(core: Context, custody: Custody) -> None:
    """Give the component up at its origin's word, before it was let go."""
    end(core, custody, "its origin took it back")


def ended(core: Context, custody: Custody, facts: Facts, rows: list[int]) -> None:
    """Take in runs that ended before they were let go: none of them ever began."""
    some = [(facts.indices[at], facts.attempts[at]) for at in rows]
    if not some:
        return
    indices = IndexSet.of(index for index, _ in some)
    core.persist(RunsReturned(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices))
    core.emit(ForgetRuns(tuple(Run(*custody.key, index, attempt) for index, attempt in some)))
    error = next((each.text for each in facts.errors if each.index in indices), "")
    unrestored = any(facts.outcomes[at] == Outcome.UNRESTORED for at in rows)
    if any(facts.outcomes[at] == Outcome.NOT_STARTED for at in rows):
        core.book(ClaimBook).unable.add(custody.key)
    end(core, custody, error or f"{core.site}: its claim lapsed", unrestored=unrestored)


def machine_away(core: Context, name: str) -> None:
    """End the claims that stand on a machine which is away: nothing there can be let go with the others. It begins
    nothing by itself, and what it holds still is ended when it is back. A claim that an older journal may show of what
    was let go since is left to its machine's word."""
    for key, indices in core.totals.runs.held_by(name).items():
        custody = core.state.custodies[key]
        if custody.spec.is_gang and not custody.runnable and _never_began(core, custody, indices):
            core.persist(RunsReturned(subgroup=key[0], epoch=key[1], indices=IndexSet.of(indices)))
            end(core, custody, f"{core.site}: its machine {name} went away")


def _never_began(core: Context, custody: Custody, indices: list[int]) -> bool:
    """True if these of a claim's runs surely never began: the claim is of this boot, or the journal cannot have lost
    its release, or their machine has told this boot that they stand at the barrier."""
    doubt, book = core.book(JournalDoubt), core.book(ClaimBook)
    told = book.at_barrier.get(custody.key, IndexSet())
    whole = doubt.newest and not (core.state.forgotten or custody.on_hold or custody.key in doubt.adopted)
    known = whole or custody.key not in book.older
    return not doubt.fallen and (known or IndexSet.of(indices).issubset(told))


def lapse(core: Context, key: CustodyKey) -> None:
    """Give up a claim whose time is over. What stands at the barrier leaves it by its machine's own clock."""
    custody, book = core.state.custodies.get(key), core.book(ClaimBook)
    if custody is None or custody.runnable or core.now < book.until_s.get(key, 0.0):
        return
    end(core, custody, f"{core.site} had no room for it in time")


def end(core: Context, custody: Custody, why: str, *, unrestored: bool = False) -> None:
    """End a claim: at once where no machine has anything of it, else when the last run has ended. `unrestored`: its
    checkpoint is not as it was saved."""
    book, key = core.book(ClaimBook), custody.key
    why = book.ending.setdefault(key, why)
    if unrestored:
        book.unrestored.add(key)
    core.requeue.add(key)
    for machine, indices in custody.by_machine(custody.running).items():
        core.emit(KillRuns(worker=machine, subgroup=key[0], epoch=key[1], indices=IndexSet.of(indices)))
    if custody.running:
        return
    for ticket in core.book(StageBook).drop(key):
        links.settled(core, ticket)
        core.emit(CancelStage(ticket))
    core.persist(CustodyDropped(subgroup=key[0], epoch=key[1], at_s=core.now))
    # What else is due at this moment looks at the queue before it is counted anew.
    core.queues.remove(key)
    core.settle(CustodyTimer("prepared", *key))
    core.book(Predictions).forget(key)
    core.run_book.forget(key)
    core.moved.discard(key)
    core.emit(DropSubgroup(custody.subgroup))
    unrestored, unable = key in book.unrestored, key in book.unable
    _settle(core, key)
    state = core.state
    core.send(
        custody.origin,
        Aborted(
            subgroup=key[0],
            epoch=key[1],
            db_uuid=state.db_uuid,
            seq=state.seq,
            seal=core.seal(),
            reason=why[:300],
            unrestored=unrestored,
            unable=unable,
        ),
    )


def _settle(core: Context, key: CustodyKey) -> None:
    core.book(ClaimBook).forget(key)
    core.book(WayBook).told.pop(key, None)
    for kind in ("claim", "claim-waits"):
        core.timers.cancel(CustodyTimer(kind, *key))
    _next_begins(core)


# --- ranks ---------------------------------------------------------------------------------------------------


def _next_begins(core: Context) -> None:
    """Look again whose claim may begin now."""
    book, most = core.book(ClaimBook), core.state.settings.claim_share * core.workers.slots()
    before = book.best
    quota, stays = partial(gang_quota.waits_for, core), partial(_stays, core)
    core.requeue.update(book.look(core.state, core.now, core.site, most, quota, stays))
    if book.best != before:
        core.book(WayBook).due = True


def _stays(core: Context, custody: Custody) -> bool:
    """True for a claim that does not begin whole, whatever comes free: it has no lease, its inputs are not there, its
    origin holds it, or it would not end before the site closes."""
    blocked = core.book(StageBook).blocked(custody.key)
    whole = custody.held.isdisjoint(custody.pending) and blocked.isdisjoint(custody.pending)
    stays = not whole or renewals.lapsed(core, custody) or bool(journal_doubt.stays(core, custody))
    return stays or maintenance.is_late(core, custody)


def look_again(core: Context) -> None:
    """Look again whose claim is the best where leases changed, or where it waits by the quota and gangs hold more or
    less here than they did."""
    book = core.book(ClaimBook)
    if book.stale:
        _next_begins(core)
    if book.best is None or book.lacks in ("", NO_SHARE):
        return
    best = core.state.custodies.get(book.best)
    if best is None or gang_quota.waits_for(core, best) != book.lacks:
        _next_begins(core)


def waits_on(core: Context, key: CustodyKey) -> None:
    """Have lesser gangs asked to yield what the best of the waiting claims lacks, where no other jobs make way."""
    book, custodies = core.book(ClaimBook), core.state.custodies
    custody = custodies.get(key)
    if custody is None or key not in book.until_s or not claim_book.waits(custody) or key in book.ending:
        return
    core.after(CustodyTimer("claim-waits", *key), YIELD_AFTER_S)
    best = custodies.get(book.best) if book.best is not None else None
    better = best is None or claim_book.rank(custody) < claim_book.rank(best)
    # Its lease, its inputs or its origin's leave went, or came.
    if (best is custody or better) and _stays(core, custody) == (best is custody):
        _next_begins(core)
    if book.best != key:
        return
    core.book(WayBook).due = True
    if core.book(WayBook).key == key:
        return
    mine, lacks = claim_book.rank(custody), len(custody.pending) * custody.spec.resources.processors
    lesser = [other for other in map(custodies.get, book.until_s) if other is not None and claim_book.stands(other)]
    for other in sorted(lesser, key=claim_book.rank, reverse=True):
        if lacks <= 0 or claim_book.rank(other) <= mine:
            return
        if other.key not in book.ending:
            core.send(other.origin, GangYield(subgroup=other.subgroup, epoch=other.epoch))
            core.count("claims_asked_to_yield")
        lacks -= len(other.running) * other.spec.resources.processors
