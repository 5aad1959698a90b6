"""Invitations (SPEC D7: a site below capacity invites work). A site with idle slots and nothing waiting asks a few
peers whose summaries tell of waiting work to look at their queues now, and their work's origins to ask it for quotes.

An invitation promises nothing: the work moves by the same rules as any. It only saves the time until the loaded site
looks by itself, and brings a site to mind that its origins' view shows as busy or leaves out.
"""

from __future__ import annotations

from zlib import crc32

from diana.engine.dispatch import capacity
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.messages.migration import WorkInvited
from diana.engine.migration import surplus
from diana.engine.migration.table import LongerPause, MigrationBook
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal
from diana.policy.migration import invitations
from diana.policy.migration.invitations import LoadedPeer
from diana.policy.trust.authorise import Action, authorise

MOST_PAUSE_S = 600.0
"""Longest pause between two invitations of a peer that sends nothing."""
HEARD_AGAIN_S = 4.0
"""Seconds for which a peer's further invitations count for nothing."""
NOT_INVITED = ("", "0.1.0")
"""Releases that do not know invitations, or are not known."""
MOST_INVITERS = 16
"""Invitations kept until the next look."""


def look(core: Context) -> None:
    """Invite work, at each turn, if this site has stood idle for a moment drawn by chance."""
    book, every_s = core.book(MigrationBook), core.state.settings.invite_work_s
    idle = _idle_slots(core) if every_s else 0
    if not idle:
        book.idle_since_s = None
        return
    if book.idle_since_s is None:
        # Work came since: whoever sent none before may have some now, after the least pause.
        book.idle_since_s = core.now
        book.inviting = {site: one._replace(tries=0) for site, one in book.inviting.items() if one.until_s > core.now}
        book.invite_due_s = core.now + every_s / 4 * _chance(core)
    if core.now < book.invite_due_s:
        return
    book.invite_round += 1
    book.invite_due_s = core.now + every_s * (0.5 + _chance(core) / 2)
    least_s = 0.0 if core.state.settings.migration == "paper" else core.state.settings.migration_gain_s
    seed = crc32(f"{core.site} {core.state.generation} {book.invite_round}".encode())
    for site in invitations.invited(_loaded(core), least_s, seed):
        book.inviting[site] = book.inviting.get(site, LongerPause()).again(core.now, every_s, MOST_PAUSE_S)
        core.count("invitations_sent")
        core.send(site, WorkInvited(free_slots=idle))


def _chance(core: Context) -> float:
    """A number in [0, 1) of this site, boot and round: sites that come free together do not invite together."""
    text = f"{core.site} {core.state.generation} {core.book(MigrationBook).invite_round} idle"
    return crc32(text.encode()) / 2**32


def _idle_slots(core: Context) -> int:
    """Return the processors here that nothing wants; 0 where no work may come, too."""
    settings = core.state.settings
    refuses = not settings.migrates() or not settings.accept_remote or core.low_room or core.drained()
    refuses = refuses or journal_doubt.fallen(core)
    if refuses or len(core.queues) or capacity.queued_jobs(core):
        return 0
    return max(0, capacity.free_slots(core) - core.book(PromisedCapacity).rooms.total(core.now))


def _loaded(core: Context) -> list[LoadedPeer]:
    """Return the peers that may be invited now, with the load they told."""
    pauses, out = core.book(MigrationBook).inviting, []
    for site in core.view.alive(core.now, core.state.settings.suspect_after_s):
        peer = core.view.peers[site]
        told = peer.summary
        apart = site in core.view.banned or peer.release in NOT_INVITED
        if told is None or apart or pauses.get(site, LongerPause()).until_s > core.now:
            continue
        out.append(LoadedPeer(site, told.queued_jobs, told.work_ahead_s, told.slots, told.speed))
    return out


def on_invited(core: Context, sender: SiteId, message: WorkInvited) -> None:
    """Take an invitation in: at most one of a peer in so long, and few in all between two looks."""
    why = authorise(Principal.peer(sender), Action.QUOTE)
    if why or message.free_slots < 1:
        core.warn(f"{sender} invites work: {why or 'makes no sense'}")
        return
    book = core.book(MigrationBook)
    if not core.state.settings.migrates() or not len(core.queues):
        return
    book.heard = {site: at_s for site, at_s in book.heard.items() if core.now - at_s < HEARD_AGAIN_S}
    if sender in book.heard or len(book.inviters) >= MOST_INVITERS:
        core.count("invitations_ignored")
        return
    book.heard[sender] = core.now
    book.inviters.add(sender)
    core.count("invitations_heard")
    surplus.look(core)
