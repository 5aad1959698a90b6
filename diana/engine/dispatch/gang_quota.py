"""The share of this site's processors that components of gangs hold at one time, all gangs together, so that its own
users are not starved (SPEC K2; Sonmez et al., section 4.1)."""

from __future__ import annotations

from diana.engine.dispatch.claim_book import ClaimBook, waits
from diana.engine.journal.state import Custody
from diana.engine.site.context import Context
from diana.policy.queueing import residual
from diana.policy.queueing.forecast import Slots


def most(core: Context) -> int | None:
    """Return the processors that gangs may hold here; None: there is no quota."""
    quota = core.state.settings.gang_quota
    return None if quota >= 1.0 else int(quota * core.workers.slots() + 1e-9)


def beyond(core: Context, processors: int) -> str:
    """Return why gangs never get so many processors here; empty: they may."""
    allowed = most(core)
    if allowed is None or processors <= allowed:
        return ""
    slots = core.workers.slots()
    return f"gives gangs {allowed} of its {slots} processors at most (its gang_quota), and {processors} are wanted"


def waits_for(core: Context, best: Custody) -> str:
    """Return why a claim may not begin yet: those that gangs hold here and all of its own would be more than the quota.
    Empty: it may."""
    allowed = most(core)
    if allowed is None:
        return ""
    processors = best.spec.resources.processors
    others = core.totals.gang_processors() - len(best.running) * processors
    if others + len(best.indices) * processors <= allowed:
        return ""
    return f"gangs hold {others} of the {allowed} processors that they may here (gang_quota)"


def steps(core: Context) -> list[tuple[float, int]] | None:
    """(seconds from now, processors) as the quota leaves them to gangs behind the claims that wait here; None: there is
    no quota."""
    allowed = most(core)
    if allowed is None:
        return None
    book, now = core.run_book, core.now
    left_s, widths, ahead_s = list[float](), list[int](), 0.0
    for one in core.totals.gangs():
        expected_s, processors = book.expected_s(one), one.spec.resources.processors
        started_s = book.started_s.get(one.key, {})
        left_s += [residual.left_s(expected_s, now - started_s.get(index, now)) for index in one.running]
        widths += [processors] * len(one.running)
        if one.key in core.book(ClaimBook).until_s and waits(one):
            ahead_s += len(one.pending) * processors * expected_s
    return Slots.of_columns(allowed - sum(widths), left_s, widths).steps(ahead_s)
