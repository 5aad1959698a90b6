"""The origin's side of leases: work with `on_site_lost = "rerun"` is placed anew once its site has been silent for so
long that it has surely ended it itself (PROMISES 1.7 and section 2, "Leases"; tests/protocol/lease.py).

One renewal speaks for all such work of a pair of sites. The wait for a site stands in memory alone: an origin that
boots waits the whole time again. Work that was placed anew is remembered until its old site has said that it starts
none of it; that site is granted nothing before. A gang that had a component there is ended everywhere, and begins anew
when all of it is over: by the word of each site, or since its lease is.
"""

from __future__ import annotations

from diana.engine.dispatch.lease_book import LeaseBook
from diana.engine.handover import results
from diana.engine.handover.gangs import attempt_book
from diana.engine.journal.records import ControlIssued, JobsMoved, PartClosed, PartDisowned, PartDropped
from diana.engine.journal.state import Disowned, Group, Step, Subgroup
from diana.engine.messages.leases import Renew, Renewed
from diana.engine.messages.messages import (
    Aborted,
    Committed,
    Control,
    ControlAck,
    GangClaimed,
    GangYield,
    Lost,
    Prepared,
    Progress,
    Refused,
    Result,
)
from diana.engine.site.context import Context
from diana.engine.site.timers import PeerTimer, part_timers
from diana.model.ids import SiteId, SubgroupId, group_of
from diana.model.indexset import IndexSet

LONGER = 1.1
"""Factor on the length of a lease: clocks differ by less."""
MARGIN_S = 30.0
"""Seconds for TERM, grace and KILL at the other site."""
AVOID_S = 30.0
"""A site that lost work of a group is no candidate for it for this long."""

Answer = Prepared | GangClaimed | GangYield | Refused | Committed | Aborted | Lost | Progress | Result | ControlAck


def wait_s(core: Context) -> float:
    """Return the seconds after the last granted renewal by which the jobs at a silent site are surely dead."""
    return LONGER * core.book(LeaseBook).longest_s + MARGIN_S


def begin(core: Context) -> None:
    """Wait for all sites that have such work, at start: nobody knows what was granted before. Other sites are told what
    is no longer theirs when they are up; this one is told now."""
    closing = {site for site in core.state.disowned if _closing(core, site)}
    for site in sorted({subgroup.site for _, subgroup in _under_lease(core, None)} | closing):
        _wait(core, site)
    disown(core, core.site)


def configured(core: Context) -> None:
    """Take the settings: a lease granted before they shortened it may still stand for its full length."""
    core.book(LeaseBook).longest_s = max(core.book(LeaseBook).longest_s, core.state.settings.lease_s)


def committed(core: Context, group: Group, subgroup: Subgroup) -> None:
    if group.spec.on_site_lost == "rerun":
        _wait(core, subgroup.site)


def _wait(core: Context, site: SiteId) -> None:
    due_s = max(core.book(LeaseBook).waits.get(site, 0.0), core.now + wait_s(core))
    core.book(LeaseBook).waits[site] = due_s
    core.timers.set(PeerTimer("lease", site), due_s)


def _under_lease(core: Context, site: SiteId | None) -> list[tuple[Group, Subgroup]]:
    parts = core.parties.handed_to(site)
    return [(g, s) for g, s in parts if s.step is Step.COMMITTED and g.spec.on_site_lost == "rerun"]


def on_renew(core: Context, sender: SiteId, message: Renew) -> None:
    """Grant a renewal, after beginning the wait for the site anew. Grant none while the site could start jobs that were
    placed anew, or has a database that does not know what runs there."""
    if sender in core.state.disowned:
        disown(core, sender)
        return
    parts = _under_lease(core, sender)
    if any(subgroup.unreachable and not group.on_hold for group, subgroup in parts):
        return
    if parts:
        _wait(core, sender)
    lease_s = core.state.settings.lease_s
    core.send(sender, Renewed(generation=message.generation, sent_s=message.sent_s, lease_s=lease_s))


def over(core: Context, site: SiteId) -> None:
    """Place the site's work anew: no renewal was granted for the whole wait."""
    core.book(LeaseBook).waits.pop(site, None)
    lease_s = core.state.settings.lease_s
    more_s = wait_s(core) - lease_s
    why = f"{site} was silent for its lease of {lease_s:g} s and {more_s:g} s more: on_site_lost = rerun"
    for group, subgroup in _under_lease(core, site):
        if group.on_hold:
            # A store that was put back: their site knows better what became of these since.
            _wait(core, site)
        else:
            if group.spec.is_gang:
                attempt_book.broke(core, attempt_book.key_of(group, subgroup), why, site)
            place_anew(core, group, subgroup, why)
    for part, old in _closing(core, site):
        core.persist(PartClosed(subgroup=part, epoch=old.epoch, site=site))
        core.to_place.add(group_of(part))
    disown(core, site)


def _closing(core: Context, site: SiteId) -> list[tuple[SubgroupId, Disowned]]:
    """Return the components under a lease at that site which their gangs wait for before they begin anew."""
    parts, groups = core.state.disowned.get(site, {}), core.state.groups
    return [
        (part, old)
        for part, old in sorted(parts.items())
        if not old.closed and (group := groups.get(group_of(part))) is not None
        if group.spec.is_gang and group.spec.on_site_lost == "rerun" and site != core.site
    ]


def place_anew(core: Context, group: Group, subgroup: Subgroup, why: str, *, avoids: bool = True) -> int:
    """Take the part's jobs that have no result from its site; return how many. Their results from there are put aside
    from now on. `avoids`: the site is no candidate for the group for a while."""
    lost, cancelled = group.open_of(subgroup.indices), subgroup.cancelling
    if not lost:
        return 0
    held = subgroup.holding & lost
    order = ControlIssued(
        subgroup=subgroup.subgroup,
        epoch=subgroup.epoch,
        control_seq=subgroup.control_seq + 1,
        cancel=cancelled | lost,
        recall=subgroup.recalled,
    )
    core.persist(order)
    core.persist(PartDisowned(subgroup=subgroup.subgroup, epoch=subgroup.epoch, indices=lost, held=held))
    for timer in part_timers(subgroup.subgroup):
        core.settle(timer)
    core.view.progress.pop(subgroup.subgroup, None)
    if avoids:
        core.view.avoid(group.group, subgroup.site, core.now + AVOID_S, "lost part of this group just now")
    results.cancel_unplaced(core, group, cancelled & lost)
    again = lost & group.unplaced
    if again:
        core.persist(JobsMoved(group=group.group, indices=again, to=SiteId(""), why=why))
    core.count("jobs_placed_anew", len(again))
    core.to_place.add(group.group)
    core.to_check.add(group.group)
    core.notify(group.group)
    return len(lost)


def note(core: Context, subgroup: Subgroup) -> str:
    """Return what becomes of the part while its site is silent; empty: nothing, it is waited for."""
    group, due_s = core.state.groups[group_of(subgroup.subgroup)], core.book(LeaseBook).waits.get(subgroup.site)
    if group.spec.on_site_lost != "rerun" or due_s is None:
        return ""
    lease_s, left_s = core.state.settings.lease_s, max(0.0, due_s - core.now)
    return f"its jobs there end with their lease of {lease_s:g} s and are placed anew in {left_s:.0f} s"


# --- what was placed anew may not start at its old site -------------------------------------------------------


def disown(core: Context, site: SiteId) -> None:
    """Tell a site which jobs are no longer its own, until it has written that down."""
    parts = core.state.disowned.get(site)
    if not parts:
        core.settle(PeerTimer("disown", site))
        return
    peer = core.view.peers.get(site)
    if site != core.site and (peer is None or not peer.up):
        # It is told when it is back.
        return
    for part in sorted(parts):
        old = parts[part]
        order = Control(
            subgroup=part,
            epoch=old.epoch,
            control_seq=old.control_seq,
            cancel=old.cancel,
            hold=IndexSet(),
            recall=old.recall,
        )
        core.send(site, order)
    core.back_off(PeerTimer("disown", site))


def on_answer(core: Context, sender: SiteId, message: Answer) -> bool:
    """Take an answer about work that is no longer the sender's. True if it settles that: the sender starts none of
    it."""
    old = core.state.disowned.get(sender, {}).get(message.subgroup)
    if old is None or old.epoch != message.epoch:
        return False
    match message:
        case ControlAck() if message.control_seq >= old.control_seq:
            pass
        case Lost() | Aborted():
            pass
        case _:
            return False
    # Cancelled there, or never known: it starts none of it.
    core.persist(PartDropped(subgroup=message.subgroup, epoch=message.epoch, site=sender))
    group = core.state.groups.get(group_of(message.subgroup))
    if group is not None and group.spec.is_gang:
        # Its next attempt waited for that. A site that does not know it may run it still: its machines end it.
        if isinstance(message, Lost) and sender != core.site:
            attempt_book.pause(core, group, old.cancel, MARGIN_S)
        core.to_place.add(group.group)
    if sender not in core.state.disowned:
        core.settle(PeerTimer("disown", sender))
    return True
