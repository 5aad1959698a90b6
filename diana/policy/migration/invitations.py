"""Invitations: the sites that an idle one asks for work (SPEC D7; papers/diana-bulk-scheduling section X)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from diana.model.ids import SiteId
from diana.policy.membership import drawn

MOST_INVITED = 2
"""Peers invited in one round."""


class LoadedPeer(NamedTuple):
    """Another site by its last summary."""

    site: SiteId
    waiting_jobs: int
    work_ahead_s: float
    """Processor time at reference speed of all that runs or waits there."""
    slots: int
    speed: float


def invited(peers: Iterable[LoadedPeer], least_wait_s: float, seed: int) -> list[SiteId]:
    """Return at most `MOST_INVITED` of the peers whose waiting work keeps their slots for more than `least_wait_s`, by
    name. They are drawn by `seed`: the most loaded one would be invited by every idle site at once."""
    fit = [peer.site for peer in sorted(peers) if peer.waiting_jobs > 0 and _wait_s(peer) > least_wait_s]
    return sorted(drawn(fit, MOST_INVITED, seed))


def _wait_s(peer: LoadedPeer) -> float:
    return peer.work_ahead_s / (peer.slots * peer.speed) if peer.slots > 0 and peer.speed > 0 else 0.0
