"""The origin's side of a gang: its components are claimed, and all are let go by one record, or none (SPEC K5;
docs/decisions/gangs.md).

Before that record the origin gives an attempt up at will, since nothing of it can start. After it, what becomes of the
gang is told by its sites (`groups/gang_closing.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from diana.engine.data import checkpoints
from diana.engine.handover import inputs, leases, results
from diana.engine.handover.gangs import attempt_book
from diana.engine.handover.gangs.attempt_book import GangAttempts, GangKey, is_of_gang, key_of
from diana.engine.journal import columns
from diana.engine.journal.effects import KeepFacts
from diana.engine.journal.records import ClaimedPart, GangGo, JobsFailed, TakenBack, facts_key
from diana.engine.journal.state import Group, Step, Subgroup
from diana.engine.messages.messages import Abort, Commit, GangClaim, GangClaimed, Prepared
from diana.engine.site.context import Context
from diana.engine.site.timers import GangTimer, GroupTimer, PartTimer, part_timers
from diana.model.facts import JobError, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.job import gang
from diana.model.job.resources import PROCESSORS, countable, of_job
from diana.policy.gang import holding
from diana.policy.trust import seals

LAST_WORD_S = 20.0
"""Seconds by which a claim outlasts the time that its origin waits for the others: a Commit that is on its way finds
it."""
MUCH_LATER_S = 600.0
"""Seconds of wait from which a gang may wait for the end of a maintenance that a site announces, and not for jobs."""
UNABLE_TRIES = 3
"""Attempts in which a component could not begin, after which its gang has failed."""
WAYS_MADE = 3
"""Tries from which on a gang that makes way for another one prefers other sites: where it always has to, it would not
begin."""
NOT_FOUND_EXIT = 127
"""Exit code of such a component, as a shell has it."""
MOST_WORDS = 300
"""Characters kept of a site's words."""
RENEWALS = 8
"""Times that a claim may be asked for in vain before a site drops it as forgotten."""


def begin(core: Context) -> None:
    """Find the gangs of an earlier boot, at start."""
    for group in core.state.groups.values():
        if not group.state and group.spec.is_gang:
            for key in sorted(_find(core, group)):
                if not group.unplaced.isdisjoint(gang.members(group.spec, key[1])):
                    attempt_book.stopping(core, group, key)


def _find(core: Context, group: Group) -> set[GangKey]:
    """Note the attempts of the group's gangs, as its parts show them; return their keys."""
    book, found = core.book(GangAttempts), set[GangKey]()
    for part in sorted(group.subgroups, key=lambda name: group.subgroups[name].epoch):
        subgroup = group.subgroups[part]
        if is_of_gang(group, subgroup):
            key = key_of(group, subgroup)
            book.parts[key] = (*(book.parts.get(key, ()) if key in found else ()), part)
            found.add(key)
            if subgroup.step is Step.OFFERED:
                book.claiming.add(key)
    return found


def at_home(core: Context) -> list[tuple[Group, Subgroup]]:
    """Return the parts at this very site that are offered, or let go and not taken."""
    out = []
    for (name, _), parts in core.book(GangAttempts).parts.items():
        group = core.state.groups.get(name)
        some = [group.subgroups[part] for part in parts if part in group.subgroups] if group is not None else []
        out += [(group, one) for one in some if group is not None and one.site == core.site and not one.acked]
    return out


def placed(core: Context, group: Group, parts: Iterable[SubgroupId], expected_s: Mapping[SiteId, float]) -> None:
    """Note an attempt, the record of which stands. `expected_s`: site -> seconds until its processors come free."""
    book, names = core.book(GangAttempts), tuple(parts)
    key = key_of(group, group.subgroups[names[0]])
    book.forget(key)
    book.parts[key] = names
    book.placed_s[key] = core.now
    for name in names:
        claim = book.claim(name)
        claim.expected_s, claim.since_s = expected_s.get(group.subgroups[name].site, 0.0), core.now
    book.claiming.add(key)


def outstanding(core: Context) -> dict[SiteId, Counter[str]]:
    """Return site -> resource, processors among them -> how much gangs placed there have yet to claim. What they hold
    the site itself counts as taken; gangs that may wait for the end of a maintenance leave it to others until then."""
    out: dict[SiteId, Counter[str]] = {}
    book = core.book(GangAttempts)
    for key in book.claiming:
        group = core.state.groups[key[0]]
        parts = _offered(core, group, key)
        for one in () if any(_awaited(core, each) for each in parts) else parts:
            if book.claim(one.subgroup).host:
                continue
            each = gang.of_part(group.spec, one.indices, one.processors).resources
            asked = ((PROCESSORS, each.processors), *countable(of_job(each)))
            some = out.setdefault(one.site, Counter())
            for name, count in asked:
                some[name] += count * len(one.indices)
    return out


def _offered(core: Context, group: Group, key: GangKey) -> list[Subgroup]:
    """Return the parts that were not let go. One with a result was, though a copy of the journal does not say so."""
    some = (group.subgroups.get(part) for part in core.book(GangAttempts).parts.get(key, ()))
    return [one for one in some if one is not None and one.step is Step.OFFERED and not group.settled(one.indices)]


# --- claims --------------------------------------------------------------------------------------------------


def prepared(core: Context, group: Group, subgroup: Subgroup, message: Prepared) -> None:
    """Claim all components once the inputs of all are there, so that no processor waits for a transfer."""
    book, key = core.book(GangAttempts), key_of(group, subgroup)
    claim = book.claim(subgroup.subgroup)
    before = claim.state
    if claim.db_uuid != message.db_uuid:
        claim.host = ""
    claim.db_uuid, claim.staged = message.db_uuid, message.staged
    claim.since_s = claim.since_s if claim.state == before else core.now
    core.settle(PartTimer("offer", subgroup.subgroup))
    core.timers.cancel(PartTimer("offer-over", subgroup.subgroup))
    parts = _offered(core, group, key)
    if not all(book.claim(one.subgroup).staged for one in parts):
        return
    if key not in book.over_s:
        _begin_claims(core, key, parts)
        return
    for one in parts:
        if book.claim(one.subgroup).asked_s and not book.claim(one.subgroup).host:
            _ask(core, key, one)


def _begin_claims(core: Context, key: GangKey, parts: list[Subgroup]) -> None:
    """Ask for the claims, that at the site with the longest wait first: those that are expected to come sooner are
    asked for later, so that others use their processors meanwhile."""
    book, first_s = core.book(GangAttempts), core.state.settings.claim_wait_s
    tries = book.in_vain.get(key, 0)
    last_s = max(book.claim(one.subgroup).expected_s for one in parts)
    book.begun_s[key] = core.now
    if book.not_before_s.get(key, 0.0) <= core.now:
        # Its inputs took longer than its pause.
        book.early.discard(key)
    patience_s = holding.EARLY_HOLD_S if key in book.early else holding.patience_s(first_s, tries, last_s)
    _over_at(core, key, core.now + patience_s)
    placed_s = book.placed_s.get(key, core.now)
    for one in parts:
        at_s = holding.asked_at_s(placed_s, last_s - book.claim(one.subgroup).expected_s, tries)
        if at_s > core.now:
            core.timers.set(PartTimer("claim", one.subgroup), at_s)
        else:
            _ask(core, key, one)
    _note_waits(core, key, parts)


def _hold_s(core: Context, key: GangKey) -> float:
    book = core.book(GangAttempts)
    if key in book.early:
        return holding.EARLY_HOLD_S
    return holding.hold_s(core.state.settings.claim_wait_s, book.in_vain.get(key, 0))


def _over_at(core: Context, key: GangKey, at_s: float) -> None:
    core.book(GangAttempts).over_s[key] = at_s
    core.timers.set(GangTimer("claims-over", *key), at_s)


def _ask(core: Context, key: GangKey, subgroup: Subgroup) -> None:
    book = core.book(GangAttempts)
    core.back_off(PartTimer("claim", subgroup.subgroup))
    claim = book.claim(subgroup.subgroup)
    if not claim.asked_s:
        claim.asked_s = claim.since_s = core.now
    forgotten_s = RENEWALS * core.state.settings.resend_most_s
    hosts, ports = _others(core, key, subgroup) if claim.meets else ((), ())
    core.send(
        subgroup.site,
        GangClaim(
            subgroup=subgroup.subgroup,
            epoch=subgroup.epoch,
            db_uuid=claim.db_uuid,
            wait_s=max(0.0, min(forgotten_s, book.over_s[key] - core.now)) + LAST_WORD_S,
            hold_s=_hold_s(core, key) + LAST_WORD_S,
            meet_hosts=hosts,
            meet_ports=ports,
        ),
    )


def claim_again(core: Context, part: SubgroupId) -> None:
    """Ask once more for a claim that is not answered."""
    group = core.state.groups.get(group_of(part))
    subgroup = group.subgroups.get(part) if group is not None else None
    if group is None or subgroup is None or subgroup.step is not Step.OFFERED:
        return
    key = key_of(group, subgroup)
    book, claim = core.book(GangAttempts), core.book(GangAttempts).claim(part)
    if key in book.over_s and (not claim.host or (claim.meets and not claim.met)):
        _ask(core, key, subgroup)
        _note_waits(core, key, _offered(core, group, key))


def claimed(core: Context, group: Group, subgroup: Subgroup, message: GangClaimed) -> None:
    """Take a claim; with the last of them the gang is let go."""
    # A part that is given up may have no jobs left, and then is of no gang.
    if subgroup.step is not Step.OFFERED or not subgroup.indices:
        return
    book, key = core.book(GangAttempts), key_of(group, subgroup)
    if key not in book.over_s:
        return
    told = (message.host, *message.hosts)
    if not all(gang.is_host(host, message.port) for host in told) or len(told) not in (1, 1 + len(subgroup.indices)):
        core.warn(f"{subgroup.site} names an address of {subgroup.subgroup} that is none")
        return
    claim = book.claim(subgroup.subgroup)
    claim.since_s = claim.since_s if claim.host else core.now
    claim.host, claim.port, claim.hosts, claim.looks = message.host, message.port, message.hosts, message.looks
    claim.made_way = message.made_way[:MOST_WORDS] or claim.made_way
    if not claim.meets or message.met:
        core.settle(PartTimer("claim", subgroup.subgroup))
    parts = _offered(core, group, key)
    if claim.meets and message.out_of_reach:
        _do_not_meet(core, group, subgroup, parts, message.out_of_reach)
        return
    claim.met = claim.met or (claim.meets and message.met)
    if all(book.claim(one.subgroup).host for one in parts):
        if _have_met(core, group, key, parts):
            _let_go(core, group, key, parts)
        return
    book.holds_s.setdefault(key, core.now)
    hold_s = _hold_s(core, key)
    # A site that does not know counts from when it was asked: earlier it cannot have held anything.
    left_s = message.left_s if message.left_s > 0 else claim.asked_s + hold_s + LAST_WORD_S - core.now
    until_s = core.now + min(hold_s, left_s - LAST_WORD_S)
    if until_s < book.over_s[key]:
        _over_at(core, key, until_s)
    for one in parts:
        if not book.claim(one.subgroup).asked_s:
            _ask(core, key, one)
    _note_waits(core, key, parts)
    core.notify(group.group)


def _have_met(core: Context, group: Group, key: GangKey, parts: list[Subgroup]) -> bool:
    """Ask the sites that can look whether they reach each other's hosts; True once all of them do."""
    book = core.book(GangAttempts)
    if group.spec.runner == "none" or len({book.claim(one.subgroup).host for one in parts}) == 1:
        return True
    for one in parts:
        claim = book.claim(one.subgroup)
        if claim.looks and not claim.meets:
            claim.meets = True
            _ask(core, key, one)
    waits = sorted({one.site for one in parts if book.claim(one.subgroup).meets and not book.claim(one.subgroup).met})
    if waits:
        told = ", ".join(waits[:4])
        core.waiting_notes[group.group] = f"its components hold processors; {told} look whether they reach the others"
    return not waits


def _others(core: Context, key: GangKey, subgroup: Subgroup) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return hosts of the other parts, each once, and a port at each: that of the gang's own use there."""
    book, group = core.book(GangAttempts), core.state.groups[key[0]]
    mine, found = book.claim(subgroup.subgroup), dict[str, int]()
    for one in _offered(core, group, key):
        claim = book.claim(one.subgroup)
        for host in (claim.host, *claim.hosts) if claim.host else ():
            found.setdefault(host, claim.port)
    for host in (mine.host, *mine.hosts):
        found.pop(host, None)
    return tuple(found), tuple(found.values())


def _do_not_meet(core: Context, group: Group, subgroup: Subgroup, parts: list[Subgroup], host: str) -> None:
    """Give the attempt up, which would start and hang. The next one avoids one of the two sites: that which did not
    meet others more often."""
    book, key = core.book(GangAttempts), key_of(group, subgroup)
    claims = {one.site: book.claim(one.subgroup) for one in parts}
    there = next((site for site, claim in claims.items() if host in (claim.host, *claim.hosts)), "")
    other = f"{there} at {host}" if there else f"{subgroup.site}'s peer"
    why = f'{subgroup.site} does not reach {other}, and components talk (gang.runner = "none" if they do not)'
    unmet = book.unmet.setdefault(key, {})
    for site in {subgroup.site, *([SiteId(there)] if there else [])}:
        unmet[site] = unmet.get(site, 0) + 1
    worst = max(unmet, key=lambda site: (unmet[site], site != core.site, site))
    give_up(core, group, subgroup, why, failed=frozenset({worst}))
    book.failed[key] = frozenset({worst})


def _note_waits(core: Context, key: GangKey, parts: list[Subgroup]) -> None:
    """Note for the group's user which sites its components wait for, and which of these do not answer."""
    book = core.book(GangAttempts)
    asked = [one for one in parts if book.claim(one.subgroup).asked_s]
    holds = any(book.claim(one.subgroup).host for one in asked)
    if not (lacking := _lacking(core, asked)):
        return
    told = ", ".join(_told(core, site, asked) for site in lacking)
    waits = "hold processors and wait for" if holds else "wait for processors at"
    core.waiting_notes[key[0]] = f"its components {waits} {told}"


def _told(core: Context, site: SiteId, asked: list[Subgroup]) -> str:
    """Return the site, and why it may be that its processors take long."""
    if silent(core, site):
        return f"{site}, which does not answer"
    notices = (_awaited(core, one) for one in asked if one.site == site)
    notice = next(filter(None, notices), "")
    return f"{site}, which announces {inputs.clipped(notice)}" if notice else site


def _awaited(core: Context, part: Subgroup) -> str:
    """Return the maintenance of its site, the end of which a part may wait for that has its processors much later;
    empty: none is announced, or they were expected soon."""
    if core.book(GangAttempts).claim(part.subgroup).expected_s <= MUCH_LATER_S:
        return ""
    peer = core.view.peers.get(part.site)
    return core.calendar.notice if peer is None else peer.summary.notice if peer.summary is not None else ""


def silent(core: Context, site: SiteId) -> bool:
    """True for a site with which no stream stands."""
    peer = core.view.peers.get(site)
    return site != core.site and (peer is None or not peer.up)


def _lacking(core: Context, parts: list[Subgroup]) -> list[SiteId]:
    """Return the sites, the first of them, at which components have no processors yet."""
    book = core.book(GangAttempts)
    return sorted({one.site for one in parts if not book.claim(one.subgroup).host})[:4]


def _let_go(core: Context, group: Group, key: GangKey, parts: list[Subgroup]) -> None:
    # Ranks are those of the components that there are: a flexible gang may have fewer than it has indices.
    members = gang.members(group.spec, key[1])
    unused = members & group.unplaced if group.spec.flexible is not None else IndexSet()
    book, hosts, port = core.book(GangAttempts), [""] * (len(members) - len(unused)), 0
    for one in parts:
        claim = book.claim(one.subgroup)
        for at, index in enumerate(one.indices):
            hosts[index % group.spec.gang_size] = claim.hosts[at] if claim.hosts else claim.host
            port = claim.port if index % group.spec.gang_size == 0 else port
    epoch = max(one.epoch for one in parts)
    token = seals.gang(core.state.seal_key, group=group.group, gang=key[1], epoch=epoch)
    core.persist(
        GangGo(
            group=group.group,
            parts=tuple(
                ClaimedPart(
                    subgroup=one.subgroup,
                    epoch=one.epoch,
                    db_uuid=book.claim(one.subgroup).db_uuid,
                    made_way=book.claim(one.subgroup).made_way,
                )
                for one in parts
            ),
            environment=gang.met(hosts, port, token, _items(group, parts[0], len(hosts))),
            unused=unused,
        )
    )
    core.timers.cancel(GangTimer("claims-over", *key))
    book.claiming.discard(key)
    book.over_s.pop(key, None)
    book.forget_tries(key)
    book.gone_s[key] = core.now
    core.count("gangs_started")
    core.count("gang_wait_s", round(core.now - group.submitted_s))
    core.waiting_notes.pop(group.group, None)
    for one in parts:
        leases.committed(core, group, one)
        core.settle(PartTimer("claim", one.subgroup))
        core.back_off(PartTimer("commit", one.subgroup))
        core.send(one.site, commit(one))
    if group.unplaced:
        core.to_place.add(group.group)
    core.notify(group.group)


def _items(group: Group, part: Subgroup, size: int) -> list[int]:
    """Return the items of data of each of so many components, by rank; empty: the placement divided none."""
    decided = group.decisions[part.decision].gang
    items = [place.items for place in decided.components] if decided is not None else []
    return items if len(items) == size and any(items) else []


def commit(subgroup: Subgroup) -> Commit:
    """Return the order by which a part is let go; that of an ordinary one has no addresses."""
    told = dict(subgroup.environment)
    return Commit(
        subgroup=subgroup.subgroup,
        epoch=subgroup.epoch,
        db_uuid=subgroup.db_uuid,
        hosts=tuple(told["DIANA_GANG_HOSTS"].split(",")) if told else (),
        port=int(told.get("DIANA_GANG_PORT", "0")),
        token=told.get("DIANA_GANG_TOKEN", ""),
        items=tuple(map(int, told[gang.ITEMS].split(","))) if gang.ITEMS in told else (),
    )


# --- attempts that come to nothing ---------------------------------------------------------------------------


def restored(core: Context, group: Group, why: str) -> None:
    """Take up the gangs of a group that goes on since this site's store was put back, after the others have told what
    they hold. The copy knows nothing of a GO that came later: what it shows as offered here is taken back, and
    components that run elsewhere without it are ended, so that their gang starts whole. A gang of which any component
    has its end is not torn: the others run on."""
    book = core.book(GangAttempts)
    for key in sorted(_find(core, group)):
        offered = _offered(core, group, key)
        if any(one.unreachable for one in offered):
            # Its site never told: it may have begun there.
            continue
        if offered:
            names = book.parts[key]
            give_up(core, group, offered[0], why, failed=frozenset())
            book.parts[key] = tuple(name for name in names if name in group.subgroups)
        members = gang.members(group.spec, key[1])
        if not (group.unplaced.isdisjoint(members) or group.settled(members)):
            attempt_book.broke(core, key, why)


def yielded(core: Context, group: Group, subgroup: Subgroup) -> None:
    """Give the attempt up for a better gang that waits there; one that was let go goes on."""
    if subgroup.step is Step.OFFERED:
        book, key = core.book(GangAttempts), key_of(group, subgroup)
        before = book.failed.get(key, frozenset())
        why = f"it makes way for another gang at {subgroup.site}"
        give_up(core, group, subgroup, why, failed=frozenset())
        if book.tries.get(key, 0) >= WAYS_MADE:
            book.failed[key] = before | {subgroup.site}


def unrestored(core: Context, group: Group, subgroup: Subgroup, why: str) -> None:
    """Give the attempt up, the checkpoint of which is not as it was saved at one of its sites. All components go on
    without it, since they begin together."""
    number = key_of(group, subgroup)[1]
    text = checkpoints.not_used(group, gang.members(group.spec, number), why)
    give_up(core, group, subgroup, text, failed=frozenset(), without=subgroup.subgroup)
    core.book(GangAttempts).failed[group.group, number] = frozenset((subgroup.site,))


def unable(core: Context, group: Group, subgroup: Subgroup, why: str) -> None:
    """Give the attempt up of which a component cannot begin at its site: its command is not there, say. Other sites are
    tried where there are some; after a few attempts the component has failed, and its gang with it."""
    book, key, indices = core.book(GangAttempts), key_of(group, subgroup), subgroup.indices
    sites = (*book.unable.get(key, ()), subgroup.site)
    give_up(core, group, subgroup, why, failed=frozenset())
    book.unable[key] = sites
    if len(sites) < UNABLE_TRIES:
        return
    count = len(indices)
    errors = [JobError(index, why) for index in indices]
    ends = [0] * count, [int(Outcome.NOT_STARTED)] * count
    facts = columns.never_ran(subgroup.site, list(indices), *ends, NOT_FOUND_EXIT, errors, core.now)
    core.emit(KeepFacts(facts_key(subgroup.subgroup, subgroup.epoch, 0), facts))
    core.persist(JobsFailed(group=group.group, indices=indices, note=why))
    core.count("jobs_failed", count)
    results.cancel_unplaced(core, group, gang.members(group.spec, key[1]))
    book.forget_tries(key)
    core.to_check.add(group.group)


def over(core: Context, name: GroupId, number: int) -> None:
    """Give an attempt up that waited for long enough."""
    group, book = core.state.groups.get(name), core.book(GangAttempts)
    parts = _offered(core, group, (name, number)) if group is not None else []
    if group is not None and parts:
        failed = frozenset(one.site for one in parts if not book.claim(one.subgroup).host)
        waited_s = core.now - book.begun_s.get((name, number), core.now)
        why = f"{', '.join(_lacking(core, parts))} had no processors for it within {waited_s:.0f} s"
        give_up(core, group, parts[0], why, failed=failed)


def give_up(
    core: Context,
    group: Group,
    subgroup: Subgroup,
    why: str,
    *,
    failed: frozenset[SiteId] | None = None,
    without: SubgroupId | None = None,
    ordered: bool = False,
) -> None:
    """Take back all parts of the attempt that this one belongs to. Safe, since none was let go. The next attempt waits,
    so that gangs that stand in each other's way do not meet again and again. `failed`: sites that the next one avoids
    where it can; None: that of this part; none at all: nobody failed it. `without`: the part that says that the gang's
    checkpoint cannot be used. `ordered`: its user wants it so, and it counts as no try; what it held is left alone for
    as long all the same."""
    book, key = core.book(GangAttempts), key_of(group, subgroup)
    for one in _offered(core, group, key):
        core.send(one.site, Abort(subgroup=one.subgroup, epoch=one.epoch))
        # Once for the attempt: each such record has its gang go on from the checkpoint before.
        spoilt = one.subgroup == without
        core.persist(TakenBack(subgroup=one.subgroup, epoch=one.epoch, reason=why, unrestored=spoilt))
        for timer in part_timers(one.subgroup):
            core.settle(timer)
        results.cancel_unplaced(core, group, one.cancelling)
    core.timers.cancel(GangTimer("claims-over", *key))
    held_s, tries = core.now - book.holds_s.get(key, core.now), book.tries.get(key, 0)
    book.look_s[key] = core.now + (min(held_s, holding.EARLY_EVERY_S) if ordered else holding.EARLY_EVERY_S)
    if ordered:
        core.waiting_notes.pop(group.group, None)
        book.not_before_s[key] = max(book.not_before_s.get(key, 0.0), core.now + held_s)
    elif key not in book.early:
        book.failed[key] = frozenset((subgroup.site,)) if failed is None else failed
        if key in book.begun_s and book.failed[key]:
            book.in_vain[key] = book.in_vain.get(key, 0) + 1
        book.tries[key] = tries + 1
        core.count("gangs_given_up")
        book.not_before_s[key] = core.now + holding.pause_s(tries, held_s)
        core.waiting_notes[group.group] = why
    book.forget(key)
    core.timers.sooner(GroupTimer("place", group.group), max(core.now, book.looked_at_s(key)))
    core.notify(group.group)
