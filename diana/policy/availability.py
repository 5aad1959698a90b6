"""Which machine of a site is the most available, and which ought to lead and to stand by (SPEC D8).

    availability = (here + 0.99 P) / (here + away + G goings + P)

Seconds here and away and the goings fade with a half-life of three days. `P` is five days for which a machine that
nobody knows is taken to have been there 99 %: a new machine is neither the best nor the worst. `G` is an hour, which
one going costs beside the absence itself: a takeover or a restart, and jobs that are not heard of meanwhile.

A living leader keeps its role unless its standby is better by `MARGIN`, and for a day after each planned change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log
from typing import NamedTuple

import msgspec

from diana.model.presence import Presence, Whereabouts

HALF_LIFE_S = 3 * 86400.0
PRIOR_S = 5 * 86400.0
PRIOR_SHARE = 0.99
GOING_S = 3600.0
MARGIN = 0.02
"""Share of time by which another must be more available to take a role: three goings of a new machine, five of one
that was known for long, or some hours away."""
REST_S = 86400.0
"""Seconds after a planned change of the leader, an operator's included, in which no machine is elected."""
SETTLED_S = 10.0
"""Seconds for which the leader has led, and its standby has been in sync, before one is elected."""


def counted(presence: Presence, now: float) -> Presence:
    """Return the figures as of `now`, at which the machine stands as it did. An earlier `now` changes nothing."""
    gone_s = now - presence.at_s
    if gone_s <= 0:
        return presence
    left = 0.5 ** (gone_s / HALF_LIFE_S)
    more_s = (1.0 - left) * HALF_LIFE_S / log(2)
    return msgspec.structs.replace(
        presence,
        at_s=now,
        here_s=presence.here_s * left + (more_s if presence.standing == "here" else 0.0),
        away_s=presence.away_s * left + (more_s if presence.standing == "away" else 0.0),
        goings=presence.goings * left,
    )


def turned(presence: Presence, now: float, standing: Whereabouts, going: float = 0.0) -> Presence:
    """Return the figures as of `now`, from which on the machine stands so. `going`: how many goings that is."""
    then = counted(presence, now)
    return msgspec.structs.replace(then, standing=standing, goings=max(0.0, then.goings + going))


def availability(presence: Presence) -> float:
    """Return the share of time for which the machine may be counted on, in (0, 1)."""
    lost_s = presence.away_s + GOING_S * presence.goings
    return (presence.here_s + PRIOR_SHARE * PRIOR_S) / (presence.here_s + lost_s + PRIOR_S)


def ranked(presences: Iterable[Presence]) -> list[str]:
    """Return the machines, most available first; ties by name."""
    return [one.machine for one in sorted(presences, key=lambda one: (-availability(one), one.machine))]


def percent(presence: Presence) -> str:
    return f"{100 * availability(presence):.1f} %"


def _better(one: Presence | None, other: Presence | None) -> bool:
    return one is not None and other is not None and availability(one) >= availability(other) + MARGIN


class Succession(NamedTuple):
    to: str
    """Machine that ought to lead in the leader's place; empty: the leader goes on."""
    why: str


def successor(presences: Mapping[str, Presence], leader: str, standby: str, in_sync: bool) -> Succession:
    """Decide whether the leader ought to hand over. Only its standby can lead, and only one that has all that was
    acknowledged. The leader hands over only where more than half of the site's machines are with it, and what they are
    is known: one that is cut off with a few cannot tell who is the most available."""
    if not standby:
        return Succession("", "the site has no standby")
    if not in_sync:
        return Succession("", f"{standby} is not in sync")
    here = sum(one.standing == "here" for one in presences.values())
    if 2 * here <= len(presences):
        return Succession("", f"{here} of {len(presences)} machines are here, which is no majority")
    mine, other = presences.get(leader), presences.get(standby)
    if mine is None or other is None or other.standing != "here":
        return Succession("", f"nothing is known of {standby} or {leader}")
    shares = f"{percent(other)} against {percent(mine)}"
    if not _better(other, mine):
        return Succession("", f"{standby} is not more available than {leader} by {100 * MARGIN:g} points: {shares}")
    return Succession(standby, f"{standby} is more available than {leader}: {shares}")


def stand_in(presences: Mapping[str, Presence], leader: str, standby: str) -> str:
    """Return the machine that ought to stand by: the most available beside the leader; the present standby unless
    another is better by the margin. Empty: there is none."""
    order = ranked(one for one in presences.values() if one.machine != leader and one.standing == "here")
    if not order:
        return standby
    best = order[0]
    if standby and not _better(presences[best], presences.get(standby)):
        return standby
    return best
