"""An origin whose database was put back takes stock: each peer tells what it holds, or held, of its groups, and that
counts (PROMISES section 2, "Database lost or restored"; the sentences `waits_for_report`, `adopts`, `reports_done` and
`epoch_above_reported` of `tests/protocol/dbloss.py`).

Until all have told, none of the groups it had goes on. Jobs that run elsewhere are then its own again, whatever the
copy said of them; those whose results went with the database are held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from diana.engine.handover import execution, leases, machine_events, own_runs, receipts, results
from diana.engine.handover import origin as handover_origin
from diana.engine.handover.gangs import attempts
from diana.engine.journal import fold_recovery
from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import GoOn
from diana.engine.journal.records import (
    ControlIssued,
    HoldLifted,
    JobsCancelled,
    JobsRetried,
    PartReported,
    PeerReported,
)
from diana.engine.journal.state import Custody, Group, Step, Subgroup
from diana.engine.messages.recovery import GroupShown, Holding, Holdings, Met
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.timers import PeerTimer
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, origin_of
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from diana.policy.trust import seals
from diana.policy.trust.authorise import Action, authorise

MOST_ROWS = 2000
"""Transfers told of in one message,"""
MOST_RANGES = 20_000
"""and ranges of jobs;"""
MOST_PAGES = 256
"""and messages of one report."""
MOST_UNKNOWN = 20_000
"""Rows kept of groups that the journal lost. Once there are more no further group comes back, for nobody would know
any more who has jobs of it."""
SHOWN_BYTES = 3 << 20
"""Bytes of groups in one message, unless the first takes more (`receipts.MOST_SPEC_BYTES`),"""
MOST_SHOWN = 10_000
"""and groups. Further ones are asked for, message by message: a stream holds a few of these."""
MOST_SINCE = 1000
"""Offers and orders of a group that its origin may have made since it was copied, beyond one for each job."""


# --- the destination -----------------------------------------------------------------------------------------


class Stocktaking:
    """Answers that came in part. Volatile: a restart asks again."""

    def __init__(self) -> None:
        self.pages: dict[SiteId, dict[int, Holdings]] = {}
        """Peer -> pages of what it holds, without the groups that it shows, until all are here."""
        self.unknown: dict[GroupId, dict[tuple[SiteId, SubgroupId, int], tuple[str, Holding]]] = {}
        """Group that the journal lost -> what peers hold of it: by site, subgroup and epoch the site's database and
        row. It counts once the group comes back."""
        self.overflown = False
        """True if not all such rows were kept."""


def on_met(core: Context, sender: SiteId, message: Met) -> None:
    journal_doubt.on_met(core, sender, message)
    _recalled_meanwhile(core, sender)
    if message.asks and message.boot_nonce == core.state.boot_nonce and not core.book(JournalDoubt).fallen:
        _report(core, sender, message.since)


def _recalled_meanwhile(core: Context, origin: SiteId) -> None:
    """Give back what was asked for while nobody knew whether it had run."""
    for key in core.parties.taken_from(origin):
        custody = core.state.custodies[key]
        if custody.runnable and custody.recalled:
            execution.revoke(core, custody)


def _report(core: Context, asker: SiteId, since: int) -> None:
    """All that stands here for the asker, and what is over: its tombstones; once the last of its groups from this
    number on can be shown beside it."""
    groups, more_from = _shown(core, asker, since)
    if more_from:
        core.send(
            asker,
            Holdings(
                db_uuid=core.state.db_uuid,
                seq=core.state.seq,
                part=0,
                parts=1,
                rows=(),
                groups=groups,
                more_from=more_from,
            ),
        )
        return
    rows = [_row(core.state.custodies[key]) for key in core.parties.taken_from(asker)]
    for key, stone in core.state.tombstones.items():
        if stone.origin == asker:
            rows.append(
                Holding(
                    subgroup=key[0],
                    epoch=key[1],
                    told=stone.indices,
                    dropped=not stone.done,
                    over=stone.done,
                    offered=stone.offered,
                    offer=stone.offer,
                )
            )
    pages = _pages(rows)
    for number, page in enumerate(pages):
        core.send(
            asker,
            Holdings(
                db_uuid=core.state.db_uuid,
                seq=core.state.seq,
                part=number,
                parts=len(pages),
                rows=tuple(page),
                groups=groups if number == 0 else (),
            ),
        )


def _shown(core: Context, asker: SiteId, since: int) -> tuple[tuple[GroupShown, ...], int]:
    """The asker's groups from this number on (0: none) of which something stands here under a receipt, as many as go
    in a message; and the number from which on there are more, 0: none."""
    found: dict[int, Custody] = {}
    for key in core.parties.taken_from(asker) if since > 0 else ():
        custody, number = core.state.custodies[key], int(group_of(key[0]).rpartition("-")[2])
        if number >= since and custody.receipt and len(custody.spec_bytes) <= receipts.MOST_SPEC_BYTES:
            found.setdefault(number, custody)
    shown: list[GroupShown] = []
    room = SHOWN_BYTES
    for number in sorted(found):
        custody = found[number]
        room -= len(custody.spec_bytes) + len(custody.receipt)
        if shown and (room < 0 or len(shown) == MOST_SHOWN):
            return tuple(shown), number
        shown.append(GroupShown(spec=custody.spec_bytes, receipt=custody.receipt))
    return tuple(shown), 0


def _row(custody: Custody) -> Holding:
    """An inert copy says nothing by itself: it is asked for again, or aborted."""
    if not custody.runnable:
        return Holding(subgroup=custody.subgroup, epoch=custody.epoch, offered=custody.offered, offer=custody.offer)
    coming = [batch for batch in custody.outgoing.values() if not batch.acked]
    ended = (some for batch in coming for some in (batch.ended, batch.cancelled))
    still = IndexSet.union([custody.pending, IndexSet.of(custody.running), *ended])
    return Holding(
        subgroup=custody.subgroup,
        epoch=custody.epoch,
        open=still,
        told=custody.indices - still,
        revoked=IndexSet.union(batch.revoked for batch in coming),
        control_seq=custody.control_seq,
        cancelled=custody.cancelled,
        held=custody.held,
        recalled=custody.recalled,
        offered=custody.offered,
        offer=custody.offer,
    )


def _pages(rows: Iterable[Holding]) -> list[list[Holding]]:
    pages: list[list[Holding]] = [[]]
    ranges = 0
    for row in rows:
        size = len(row.open.bounds) + len(row.told.bounds) + len(row.revoked.bounds) + len(row.offered.bounds)
        if pages[-1] and (len(pages[-1]) >= MOST_ROWS or ranges + size > MOST_RANGES):
            pages.append([])
            ranges = 0
        pages[-1].append(row)
        ranges += size
    return pages


# --- the origin ----------------------------------------------------------------------------------------------


def missing(core: Context) -> list[SiteId]:
    """Sites that have not told yet what they hold, of those this site knew when it was put back."""
    return sorted(site for site, told in core.state.reported.items() if not told and journal_doubt.asks(core, site))


def hope(core: Context) -> str:
    """Return the mend for the user of a group that the journal lost."""
    if some := missing(core):
        return (
            f"it comes back if a site that has jobs of it shows it, and {core.site} waits for {_first(some)}; "
            "submit it again if it is not back then"
        )
    return "submit it again"


def _not_told(core: Context, group: Group) -> str:
    if some := missing(core):
        return f"waits for what {_first(some)} can tell (diana site go-on NAME if it is gone for good)"
    # What goes on since is known of each machine.
    machines = journal_doubt.silent_machines(core) if group.on_hold or group.state else []
    names = _first(machines)
    return f"waits for what {names} runs (diana site remove-machine NAME if it is gone for good)" if machines else ""


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def in_doubt(core: Context, group: Group) -> str:
    """Who may have jobs of it, in words; of a group submitted since the copy was made all are known."""
    if not fold_recovery.in_the_copy(core.state, group):
        return ""
    return _not_told(core, group) or own_runs.waits_for(core, group.group)


def note(core: Context, group: Group) -> str:
    """The reason why a group waits that a restored store or an older copy has."""
    if not group.state and (gone := journal_doubt.fallen(core)):
        return f"{core.site} {gone}"
    if group.state or not group.on_hold:
        return journal_doubt.waiting_for(core) if group.unplaced else ""
    told = f"; {group.note}" if group.note else ""
    if others := sorted(site for site, groups in core.book(JournalDoubt).strangers.items() if group.group in groups):
        told += f"; {_first(others)} says that it has jobs of it, and shows no offer of this site's"
    if unheard := in_doubt(core, group):
        return f"{group.on_hold}; {unheard}{told}"
    return f"{group.on_hold}; diana release {group.group} lets it go on{told}"


def on_holdings(core: Context, sender: SiteId, message: Holdings) -> None:
    """A destination's word on what it holds counts, as far as it can be true."""
    if not journal_doubt.asks(core, sender) or not 0 <= message.part < message.parts <= MOST_PAGES:
        return
    doubt = core.book(JournalDoubt)
    # At once: nobody is to fill the memory with groups that never were.
    if back := _bring_back(core, sender, message.groups):
        _came_back(core, back)
    if message.more_from:
        if message.more_from > doubt.shown_to.get(sender, 0):
            doubt.shown_to[sender] = message.more_from
            journal_doubt.greet(core, sender)
        return
    pages = core.book(Stocktaking).pages.setdefault(sender, {})
    if pages and next(iter(pages.values())).parts != message.parts:
        pages.clear()
    pages[message.part] = msgspec.structs.replace(message, groups=())
    if len(pages) < message.parts:
        return
    del core.book(Stocktaking).pages[sender]
    every = [row for number in sorted(pages) for row in pages[number].rows]
    if _keep_unknown(core, sender, message.db_uuid, every):
        core.book(JournalDoubt).heard_out.add(sender)
    known = {name: group for row in every if (group := core.state.groups.get(name := group_of(row.subgroup)))}
    most = {name: (group.epoch, group.next_number) for name, group in known.items()}
    for row in sorted(every, key=lambda row: (row.epoch, row.subgroup)):
        _take_over(core, sender, message.db_uuid, row, most)
    _requeue(core, {group_of(row.subgroup) for row in every})
    doubt.shown_to.pop(sender, None)
    if sender not in doubt.strangers and sender not in doubt.heard_out:
        core.persist(PeerReported(site=sender))
    _all_heard_out(core)
    core.settle(PeerTimer("met", sender))
    for group, subgroup in core.parties.handed_to(sender):
        if subgroup.step is Step.OFFERED and subgroup.unreachable:
            # It is not runnable there, and no COMMIT of this boot was said.
            handover_origin.take_back(core, group, subgroup, f"{core.site} was restored from a backup")
        elif subgroup.step is Step.COMMITTED:
            leases.committed(core, group, subgroup)
    _told(core)


def _requeue(core: Context, groups: Collection[GroupId]) -> None:
    """Some of what lies here of these groups may be another's now."""
    for key in [key for key in core.state.custodies if group_of(key[0]) in groups]:
        core.requeue.add(key)
        execution.close_if_over(core, core.state.custodies[key])


def _all_heard_out(core: Context) -> None:
    """No group comes back any more once all have told: what was kept for that goes."""
    if missing(core):
        return
    doubt, book = core.book(JournalDoubt), core.book(Stocktaking)
    for site in sorted(doubt.heard_out - doubt.strangers.keys()):
        core.persist(PeerReported(site=site))
    doubt.heard_out.clear()
    book.unknown.clear()
    book.overflown = False


def _bring_back(core: Context, sender: SiteId, shown: Iterable[GroupShown]) -> dict[GroupId, None]:
    """Take back groups that went with the end of the journal, by this site's own receipts; return their names in the
    order shown. They are on hold as those of the copy are: jobs of them may have run."""
    back: dict[GroupId, None] = {}
    if core.book(Stocktaking).overflown or not missing(core):
        # What others told of them is not known any more, and would run a second time.
        return back
    for one in shown:
        submitted = receipts.read(one.receipt, one.spec, core.state.seal_key)
        name = submitted.group if submitted is not None else GroupId("")
        if submitted is None or name in core.state.groups or not journal_doubt.forgotten(core, name):
            continue
        core.persist(submitted)
        core.count("groups_returned")
        core.warn(f"{sender} shows {name}, which went with the end of this site's database: it is on hold")
        back[name] = None
    return back


def _came_back(core: Context, names: Collection[GroupId]) -> None:
    """Take over what others told of these groups before, and what runs at home."""
    for name in names:
        group = core.state.groups[name]
        bounds = {name: (group.epoch, group.next_number)}
        told = core.book(Stocktaking).unknown.pop(name, {})
        for site, subgroup, epoch in sorted(told, key=lambda one: (one[2], one[1], one[0])):
            _take_over(core, site, *told[site, subgroup, epoch], bounds)
    machine_events.groups_came_back(core, names)
    _requeue(core, names)


def _keep_unknown(core: Context, sender: SiteId, db_uuid: str, rows: Iterable[Holding]) -> bool:
    """Keep rows of groups that the journal lost, for another site may show these groups; return whether there are
    such. Of who shows no offer nothing is taken over later either: the group's note will name it."""
    book, strangers = core.book(Stocktaking), core.book(JournalDoubt).strangers
    room = MOST_UNKNOWN - sum(map(len, book.unknown.values()))
    some = False
    for row in rows:
        name = group_of(row.subgroup)
        if name in core.state.groups or origin_of(name) != core.site or not journal_doubt.forgotten(core, name):
            continue
        if not _was_offered(core, sender, row):
            named = strangers.get(sender, set())
            if (row.open or row.told or row.revoked) and len(named) < MOST_UNKNOWN:
                strangers.setdefault(sender, named).add(name)
            continue
        some = True
        key = (sender, row.subgroup, row.epoch)
        kept = book.unknown.setdefault(name, {})
        # Who says one row many times takes the room of one.
        room -= key not in kept
        if room >= 0:
            kept[key] = (db_uuid, row)
    if room < 0 and not book.overflown:
        book.overflown = True
        core.warn(f"{sender} tells of more parts of lost groups than are kept: no more groups come back")
    return some


def _take_over(
    core: Context, sender: SiteId, db_uuid: str, row: Holding, most: Mapping[GroupId, tuple[int, int]]
) -> None:
    """`most`: group -> the last epoch and the next number of a part when the report began."""
    name = group_of(row.subgroup)
    group = core.state.groups.get(name)
    if origin_of(name) != core.site:
        return
    inert = not (row.open or row.told or row.revoked or row.dropped or row.over)
    if inert and (group is None or row.subgroup in group.subgroups or row.subgroup in group.past):
        return
    # An inert copy that the journal lost will be aborted, and its epoch is not given a second time.
    if group is None:
        if row.open:
            core.warn(f"{sender} has jobs of {name}, which this site's database does not know any more")
        return
    known = group.subgroups.get(row.subgroup)
    former = known or group.past.get(row.subgroup)
    if not _can_be(core, group, sender, row, most[name]):
        core.warn(f"{sender} tells of {row.subgroup} what cannot be")
        return
    if former is None and not _was_offered(core, sender, row):
        _without_offer(core, sender, db_uuid, row)
        return
    # In a part that the copy does not have they were tried again since: what is known of an earlier attempt counts no
    # more, but for those that are done. A part it has only ever lost jobs, and what ended since they left it did so
    # elsewhere.
    done = group.done.within(row.open | row.revoked) if former is None else IndexSet()
    still, revoked = row.open - done, row.revoked - done
    going = still | revoked if former is None else IndexSet()
    again = going - group.open_of(going) if going else going
    # Who cancelled it did not know where it was.
    cancel = known.cancelling - row.cancelled if known is not None else group.cancel_asked & (still | revoked)
    if again:
        core.persist(JobsRetried(group=name, indices=again))
    core.persist(
        PartReported(
            subgroup=row.subgroup,
            epoch=row.epoch,
            site=sender,
            db_uuid=db_uuid,
            open=still,
            told=row.told,
            revoked=revoked,
            dropped=row.dropped,
            control_seq=row.control_seq,
            cancelled=row.cancelled,
            holding=row.held,
            recalled=row.recalled,
        )
    )
    _mark_placed_anew(core, group)
    part = group.subgroups.get(row.subgroup)
    if part is not None and group.open_of(part.indices & cancel):
        # Ordered before this site had heard under which number.
        _order(core, part, part.cancelling | cancel)
    results.cancel_unplaced(core, group, cancel)
    if known is None:
        cancel_what_is_told(core, group, cancel)
    core.to_check.add(name)
    core.notify(name)


def cancel_what_is_told(core: Context, group: Group, wanted: IndexSet) -> None:
    """Cancel these jobs at sites too that have yet to tell that they have some."""
    if not wanted or not fold_recovery.in_the_copy(core.state, group):
        return
    if any(journal_doubt.asks(core, site) for site in core.state.peers):
        core.persist(JobsCancelled(group=group.group, indices=IndexSet(), asked=wanted))


def _can_be(core: Context, group: Group, sender: SiteId, row: Holding, most: tuple[int, int]) -> bool:
    """True where a site may say that of a part. One that the journal knows is where and what that says. Of one that it
    does not know its group must be in the copy, for it has all parts of later ones; and no number may be beyond what
    can have been given since, or the next one could not be given at all."""
    known, past = group.subgroups.get(row.subgroup), group.past.get(row.subgroup)
    bound = MOST_SINCE + group.jobs
    if known is not None:
        there = (known.site, known.epoch) == (sender, row.epoch)
    elif past is not None:
        # An older release did not keep the epoch.
        there = past.site == sender and (row.epoch == past.epoch or (not past.epoch and row.epoch <= most[0]))
    else:
        there = fold_recovery.in_the_copy(core.state, group)
    number = int(row.subgroup.rpartition("/")[2])
    bounded = row.epoch <= most[0] + bound and number <= most[1] + bound
    ordered = row.control_seq <= (known.control_seq if known is not None else 0) + bound
    return there and bounded and ordered and _named(row).issubset(IndexSet.span(0, group.jobs))


def _named(row: Holding) -> IndexSet:
    return IndexSet.union((row.open, row.told, row.revoked, row.cancelled, row.held, row.recalled))


def _was_offered(core: Context, sender: SiteId, row: Holding) -> bool:
    """True if the site shows this one's own offer to it, under that epoch, of all the jobs it names: then it is no
    matter whether the copy knows the part, or the site (`tests/protocol/holding_word.py`)."""
    made = seals.offer(
        core.state.seal_key, site=sender, subgroup=row.subgroup, epoch=row.epoch, bounds=row.offered.bounds
    )
    return seals.fits(made, row.offer) and _named(row).issubset(row.offered)


def _without_offer(core: Context, sender: SiteId, db_uuid: str, row: Holding) -> None:
    """Who shows no offer takes over nothing that the copy does not have there: any site of the VO could say that it was
    given since. It may be true of a site whose release keeps no offers, so whoever lets the group go on is told first,
    after each start anew; and its epoch is not given a second time."""
    if row.open or row.told or row.revoked:
        name = group_of(row.subgroup)
        core.book(JournalDoubt).strangers.setdefault(sender, set()).add(name)
        core.warn(f"{sender} says that it has jobs of {name}, and shows no offer of this site's")
    if sender in core.state.reported and sender not in core.book(JournalDoubt).showing:
        core.persist(PartReported(subgroup=row.subgroup, epoch=row.epoch, site=sender, db_uuid=db_uuid, dropped=True))


def _mark_placed_anew(core: Context, group: Group) -> None:
    """Whoever told first: what it has and a later part has as well does not start there again."""
    for part in group.subgroups.values() if group.spec.on_site_lost == "rerun" else ():
        if part.disowned and part.step is Step.COMMITTED and not part.unreachable and part.open_jobs():
            why = f"{part.site} has jobs of it that were placed anew since the copy of this site's database was made"
            handover_origin.mark_unreachable(core, group, part, why)


def _told(core: Context) -> None:
    """Somebody was heard out: what waited for that shows it."""
    for name, group in core.state.groups.items():
        if group.on_hold:
            core.notify(name)


def lift(core: Context, group: Group) -> None:
    """Its user's word after a restore: what no site has may run, though it may have run since the copy was made."""
    core.persist(HoldLifted(group=group.group))
    own = [each for each in core.state.custodies.values() if each.origin == core.site]
    here = [each for each in own if group_of(each.subgroup) == group.group]
    core.requeue.update(custody.key for custody in here)
    if group.spec.is_gang:
        attempts.restored(core, group, f"{core.site} was restored from a backup")
        for custody in here:
            execution.released(core, custody)
    for part in sorted(group.subgroups):
        _order_again(core, group, group.subgroups[part])
    core.to_place.add(group.group)
    core.to_check.add(group.group)
    core.notify(group.group)


def keeps_back(group: Group) -> bool:
    """True where nothing more of it starts at other sites, for their lease is of the database that is gone."""
    return bool(group.on_hold) and group.spec.on_site_lost == "rerun"


def _order_again(core: Context, group: Group, subgroup: Subgroup) -> None:
    """Jobs under a lease obey the database that gave the last order (`renewing.lapsed`). This one cannot know what it
    placed anew at home since the copy was made, so it gives the order once more at the user's word only; and none
    where a later part has some of its jobs."""
    leased = group.spec.on_site_lost == "rerun" and subgroup.site != core.site and subgroup.step is Step.COMMITTED
    if leased and subgroup.open_jobs() and not subgroup.disowned:
        _order(core, subgroup, subgroup.cancelling, origin_db=core.state.db_uuid)


def _order(core: Context, subgroup: Subgroup, cancel: IndexSet, origin_db: str = "") -> None:
    """The standing order under a new number."""
    order = ControlIssued(
        subgroup=subgroup.subgroup,
        epoch=subgroup.epoch,
        control_seq=subgroup.control_seq + 1,
        cancel=cancel,
        hold=subgroup.holding - cancel,
        recall=subgroup.recalled,
        origin_db=origin_db,
    )
    core.persist(order)
    handover_origin.send_control(core, subgroup)


# --- the operator ---------------------------------------------------------------------------------------------


def go_on(core: Context, event: GoOn) -> None:
    """The operator's word that a site is gone for good, or silent for too long: nothing waits for its word any more."""
    site, why = event.site, authorise(event.principal, Action.DRAIN)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    waited = core.state.reported.get(site) is False
    if waited:
        core.persist(PeerReported(site=site, waived=True))
        _all_heard_out(core)
        _told(core)
    doubts = core.book(JournalDoubt).doubted and site in core.state.peers and site not in core.book(JournalDoubt).spoken
    if doubts or site in core.book(JournalDoubt).denied_by or journal_doubt.waits_for(core, site):
        waited = True
        core.book(JournalDoubt).denied_by.discard(site)
        core.book(JournalDoubt).spoken.add(site)
        journal_doubt.begin_if_heard_out(core)
        journal_doubt.confirm(core)
        core.requeue.update(core.parties.taken_from(site))
        _recalled_meanwhile(core, site)
    if not waited:
        others = (*core.parties.sites(), *journal_doubt.unheard(core))
        some = sorted({*missing(core), *(s for s in others if journal_doubt.waits_for(core, s))})
        text = f"{core.site} does not wait for {site}; it waits for {', '.join(some[:8]) or 'nobody'}"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
        return
    core.settle(PeerTimer("met", site))
    core.reply(Reply(event.request, Ok(1)))
