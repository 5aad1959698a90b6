"""Times at which a placed gang claims its processors: late, so that others use them meanwhile, and not too late
(Mohamed & Epema, section 6.1; SPEC K5).

The start time is JST = JPT + FTT. The first claim is due at JCT_0 = JPT + L FTT, and after a try that failed the next
at JCT_{n+1} = JCT_n + L (JST - JCT_n), that is JST - (1 - L)^{n+1} FTT. All times are in seconds of one clock.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_L = 0.75
LOWERED_BY = 0.25
LEAST_L = 0.0

LEAST_STEP_S = 1.0
"""A try is at least so much later than the one before, and none comes nearer to the start than that."""


@dataclass(frozen=True, slots=True)
class ClaimSchedule:
    """Claiming tries of a gang placed at `placed_s` whose files need `transfer_s`."""

    placed_s: float
    transfer_s: float
    part: float = FIRST_L
    """L, in [0, 1]: the part of the time to the start that passes before the next try."""

    @property
    def start_s(self) -> float:
        """JST."""
        return self.placed_s + self.transfer_s

    @property
    def first_s(self) -> float:
        """JCT_0."""
        return self.placed_s + self.part * self.transfer_s

    def after(self, claim_s: float) -> float | None:
        """Return the time of the try after one at `claim_s` that failed; None if the start is reached: back to the
        placement queue, with L `lowered`."""
        if self.start_s - claim_s < LEAST_STEP_S:
            return None
        due_s = claim_s + max(LEAST_STEP_S, self.part * (self.start_s - claim_s))
        return min(due_s, self.start_s)

    def times(self, tries: int) -> list[float]:
        """Return the times of the first tries, fewer if the start is reached."""
        found: list[float] = []
        due: float | None = self.first_s
        while due is not None and len(found) < tries:
            found.append(due)
            due = self.after(due)
        return found


def lowered(part: float, least: float = LEAST_L, by: float = LOWERED_BY) -> float:
    """Return the L of the next placement, after one whose start was reached without all claims."""
    return max(least, part - by)
