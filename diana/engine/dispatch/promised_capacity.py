"""The receiver's side of a move: it keeps room, until they come, for as many jobs as it can start so early that the
move pays (SPEC D7, beyond the paper).

Where this site and the origin both go by the paper's mode, jobs with such room stand a level higher; so whoever claims
that its work comes from a congested site passes no more of the queue than this site could start at once. Else nobody
stands higher.
"""

from __future__ import annotations

from math import ceil, inf

from diana.engine.dispatch import capacity as dispatch_capacity
from diana.engine.dispatch import forecast, maintenance, use
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.messages.messages import QuoteRequest
from diana.engine.messages.migration import RoomGrant, RoomRequest
from diana.engine.messages.wanted import carried
from diana.engine.site.context import Context
from diana.model.ids import SiteId, SubgroupId
from diana.model.job import resources
from diana.model.trust.principal import Principal
from diana.model.words import counted
from diana.policy.migration import capacity
from diana.policy.queueing.forecast import Slots
from diana.policy.trust.authorise import Action, authorise

LEAST_RUN_S = 0.001
MOST_GAIN_S = 7 * 86400.0
"""A larger gain is a broken forecast, and would keep room for ever more."""


def on_request(core: Context, sender: SiteId, asked: RoomRequest) -> None:
    why = authorise(Principal.peer(sender), Action.QUOTE)
    if why or asked.jobs < 1 or asked.processors < 1 or asked.room < 1 or not 0 <= asked.gain_s < inf:
        core.warn(f"{sender} asks for room: {why or 'makes no sense'}")
        return
    core.send(sender, keep(core, sender, asked))


def keep(core: Context, sender: SiteId, asked: RoomRequest) -> RoomGrant:
    """Keep room for as many of the jobs as can start in time. A question that is asked again is counted anew."""
    key = _key(sender, asked.room, asked.behind)
    core.book(PromisedCapacity).rooms.over(key)
    like = carried(QuoteRequest, asked, quote=0, refs=(), raised=not asked.behind, behind=asked.behind)
    placement = core.state.settings.placement
    if placement != "diana":
        return RoomGrant(room=asked.room, jobs=0, reason=f"takes no work that moves: it places by {placement}")
    obstacles = dispatch_capacity.obstacles(core, like, for_peer=sender != core.site, in_part=True)
    if obstacles:
        return RoomGrant(room=asked.room, jobs=0, reason=obstacles[0].why)
    gain_s = min(asked.gain_s, MOST_GAIN_S)
    # Raised work may pass what was granted room before it; other work comes behind it.
    behind = forecast.is_behind(core, like)
    within_s = gain_s if behind else min(gain_s, core.book(PromisedCapacity).within_s(core.now))
    found = _startable(core, like, within_s)
    if found.jobs:
        core.book(PromisedCapacity).rooms.make(key, found.jobs * asked.processors, core.now)
        core.book(PromisedCapacity).due(core.now, gain_s)
    return RoomGrant(room=asked.room, jobs=found.jobs, reason=found.reason)


def _startable(core: Context, asked: QuoteRequest, gain_s: float) -> capacity.Grant:
    """Return how many of the jobs can start in time, at the raised priority or behind all that waits, and behind
    all that was promised to others. Jobs that begin together end together: within less than their run time only
    those start that have a slot at once. Work ahead of them is taken both for whole jobs like these and for a
    fluid, and the lower number counts."""
    run = forecast.learned(core, asked)
    run_s = max(LEAST_RUN_S, run.mean_s if run.seen else forecast.guessed_s(core, asked))
    place = forecast.place_of(core, asked)
    slots, given_s = dispatch_capacity.slots_of(core)
    # None comes that would have to wait here for the end of a window.
    open_s = maintenance.open_s(core, forecast.holds_s(asked, run_s))
    if closes_first := open_s < gain_s:
        gain_s = max(0.0, open_s)
    starts = _starts(slots, given_s + place.work_ahead_s, run_s, gain_s)
    most = min(asked.jobs, dispatch_capacity.room(core, asked))
    # Jobs that others were promised room for may want the same devices and licences.
    promised = core.book(PromisedCapacity).rooms.total(core.now) // asked.processors
    for name, count in resources.countable(asked.request.amounts):
        used = use.of(core, name)
        ahead_s = used.given_s + core.queues.weighed_ahead_s(place, name, dispatch_capacity.untaken(core))
        most = min(most, max(0, _starts(used.slots, ahead_s, run_s, gain_s) // count - promised))
    granted = capacity.grant(
        most if open_s >= 0 else 0,
        asked.processors,
        gain_s,
        free_processors=max(0, starts),
        promised_processors=core.book(PromisedCapacity).rooms.total(core.now),
    )
    if closes_first and granted.jobs < asked.jobs:
        some = counted(granted.jobs, "job") if granted.jobs else "none"
        return granted._replace(reason=f"can start {some} that would end before the {core.calendar.notice}")
    return granted


def _starts(slots: Slots, ahead_s: float, run_s: float, gain_s: float) -> int:
    """Return how many jobs of one processor, or one GPU, start within the gain behind so much work."""
    waits_s = slots.starts_s(1, ahead_s)
    whole = slots.starts(run_s, 0.0, gain_s) - ceil(ahead_s / run_s)
    return min(whole, slots.starts(run_s, waits_s, gain_s)) if waits_s < inf else 0


def take(core: Context, sender: SiteId, room: int, processors: int, behind: bool) -> bool:
    """Use up room for work that has come; False: none is kept for it in this mode, or not so much."""
    return core.book(PromisedCapacity).rooms.use(_key(sender, room, behind), processors, core.now)


def landing(core: Context, part: SubgroupId, epoch: int, processors: int) -> None:
    """Keep the room of work that was taken and is not committed yet: others may ask before it stands in the queues."""
    core.book(PromisedCapacity).rooms.make(f"{part} {epoch}", processors, core.now)


def landed(core: Context, part: SubgroupId, epoch: int) -> None:
    """Free the room of work that stands in the queues now."""
    core.book(PromisedCapacity).rooms.over(f"{part} {epoch}")


def _key(sender: SiteId, room: int, behind: bool) -> str:
    """Return the name of a room. Room that was asked for without a raise is none for work that wants one."""
    return f"{sender} {room}{' behind' if behind else ''}"
