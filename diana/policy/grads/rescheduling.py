"""Whether a running job is better stopped at a checkpoint and restarted elsewhere (SPEC G6): only where the predicted
gain beats what the move costs and what the predictions may be wrong by."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from diana.model.ids import SiteId

SAVE_S = 5.0
"""Seconds allowed for a job to write its state and for its attempt to be closed."""
RESTART_S = 5.0
"""Seconds allowed for a hand-over and a start."""


class Here(NamedTuple):
    """A job where it runs."""

    remaining_s: float
    error_s: float
    """Seconds by which that may be wrong."""
    left: float
    """Part of its steps that are left, 0 to 1."""


class There(NamedTuple):
    """The same job at another site, by its quote."""

    site: SiteId
    before_s: float
    """Seconds until it starts there, its data and checkpoint brought."""
    run_s: float
    """Seconds that the whole job runs there."""
    after_s: float
    """Seconds that its outputs take home."""
    error_s: float


class MoveVerdict(NamedTuple):
    to: SiteId | None
    """None: it stays."""
    gain_s: float
    """Seconds that it ends sooner at the best other site; negative: later. Minus infinity: there is none."""
    reason: str


def decide(here: Here, others: Sequence[There], least_gain_s: float) -> MoveVerdict:
    """Decide for the site where the job would end first, by name among equals."""
    ranked = sorted((_ends_s(here, there), there.site, there) for there in others)
    if not ranked or ranked[0][0] == inf:
        return MoveVerdict(None, -inf, "no other site takes it")
    ends_s, site, there = ranked[0]
    gain_s = here.remaining_s - ends_s
    wanted_s = max(least_gain_s, here.error_s + there.error_s)
    told = f"{here.remaining_s:.0f} s left here, {ends_s:.0f} s at {site} with stop and restart"
    if gain_s > wanted_s:
        return MoveVerdict(site, gain_s, f"{told}: {gain_s:.0f} s sooner, more than the {wanted_s:.0f} s it must gain")
    return MoveVerdict(None, gain_s, f"{told}: a move must gain more than {wanted_s:.0f} s")


def _ends_s(here: Here, there: There) -> float:
    return SAVE_S + RESTART_S + there.before_s + here.left * there.run_s + there.after_s
