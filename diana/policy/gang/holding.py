"""Patience of a gang with its claims: when each is asked for, how long one waits and holds, and when the next try comes
(SPEC K5; Mohamed & Epema, section 6).

On sites that are always full the components get their processors at different times, and those that have theirs hold
them idle. So each try may hold twice as long as the one before: a try that may hold for as long as the longest job runs
gets all of its processors, whatever else the sites do. Between two tries a gang leaves the processors alone for as long
as it held them, so that it keeps them idle for half of the time at most. Where all of its processors are idle meanwhile
it is tried early; such a try holds for seconds, and seldom.
"""

from __future__ import annotations

from diana.policy.gang import claim_times
from diana.policy.gang.claim_times import ClaimSchedule

MOST_S = 86_400.0
"""Longest that a claim is waited for or holds processors."""
AGAIN_FIRST_S, AGAIN_MOST_S = 5.0, 60.0
"""Seconds until a gang that was given up is placed again, twice as long after each try, where it held nothing."""
EARLY_EVERY_S, EARLY_HOLD_S = 20.0, 10.0
"""Seconds between two looks whether a gang that pauses has room at once, and for how long such a try waits and holds:
half of the time at most, too."""
_MOST_DOUBLED = 30


def hold_s(first_s: float, tries: int) -> float:
    """Return the seconds for which a try holds what it has while it waits for the rest. `first_s`: those of the first
    try; `tries`: number of tries that came to nothing."""
    return min(MOST_S, first_s * 2.0 ** min(tries, _MOST_DOUBLED))


def patience_s(first_s: float, tries: int, expected_s: float) -> float:
    """Return the seconds for which a try waits for its first processors. `expected_s`: seconds after which all were
    expected; of that, forecasts are off by the double."""
    return min(MOST_S, 2.0 * expected_s + hold_s(first_s, tries))


def pause_s(tries: int, held_s: float) -> float:
    """Return the seconds until the next try, after one that held processors for `held_s`."""
    return max(held_s, min(AGAIN_MOST_S, AGAIN_FIRST_S * 2.0 ** min(tries, _MOST_DOUBLED)))


def part_of(tries: int) -> float:
    """Return L of this try: it starts at `FIRST_L`, and each try that came to nothing lowers it."""
    part = claim_times.FIRST_L
    for _ in range(min(tries, _MOST_DOUBLED)):
        part = claim_times.lowered(part)
    return part


def asked_at_s(placed_s: float, slack_s: float, tries: int) -> float:
    """Return JCT_0 of one component, by K5's formula: JPT + L (JST - JPT), where the time to the start is what is left
    of it beyond this component's own wait. `slack_s`: seconds by which its processors are expected before those of
    the last. With L = 1 it would be asked for as late as the forecasts allow, with L = 0 at once."""
    return ClaimSchedule(placed_s, max(0.0, slack_s), part_of(tries)).first_s
