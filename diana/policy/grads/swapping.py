"""Processes of a running program on machines of which some became slow (papers/grads-scheduling.txt, section 5.4): a
slow one is exchanged for a spare that stands by, or the data are divided anew by the speeds that were measured. Both
are cheaper than to stop and to restart elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from diana.policy.grads.mappers import Unmapped, WorkMachine, time_balance


class Probed(NamedTuple):
    """A machine as it was measured just now: those that are used and those that are not, by the same probe."""

    name: str
    item_s: float
    """Seconds of one item in one step."""
    items: int = 0
    """Items that it has; 0 of a spare."""


class Swap(NamedTuple):
    slow: str
    spare: str
    gain_s: float
    """Seconds that the program ends sooner, the exchange counted."""


def swap(
    active: Sequence[Probed], spares: Sequence[Probed], steps: float, cost_s: float, least_s: float
) -> Swap | None:
    """Return the exchange of the slowest machine for the best spare, which takes over its items; None: it would not
    gain more than `least_s` over the steps that are left. A step lasts as long as that of the slowest."""
    ranked = sorted(active, key=lambda one: (-one.item_s * one.items, one.name))
    if not ranked or not spares:
        return None
    slow, spare = ranked[0], min(spares, key=lambda one: (one.item_s, one.name))
    others_s = ranked[1].item_s * ranked[1].items if len(ranked) > 1 else 0.0
    step_s = slow.item_s * slow.items
    gain_s = steps * (step_s - max(others_s, spare.item_s * slow.items)) - cost_s
    return Swap(slow.name, spare.name, gain_s) if gain_s > least_s else None


def rebalanced(active: Sequence[Probed]) -> tuple[int, ...]:
    """Return the items of each machine so that all end a step at one time, by the speeds that were measured; as they
    are where a measure is none."""
    items = tuple(one.items for one in active)
    if not all(0 < one.item_s < 1e9 for one in active):
        return items
    found = time_balance(sum(items), [WorkMachine(one.name, "", one.item_s) for one in active])
    return items if isinstance(found, Unmapped) else found.items


EXCHANGE_S = 2.0
"""Seconds allowed for an exchange: a step at whose end the data of a process become those of a spare."""


class Timed(NamedTuple):
    """A process of a running program, by its own reports."""

    rank: int
    where: str
    last_s: float
    """Seconds of its part of the latest step, without waiting for others; of a spare, those that it would take."""
    mean_s: float
    """Their mean over the latest reports."""


class Exchange(NamedTuple):
    slow: int
    """Rank of the process that stands by from then on."""
    spare: int
    """Rank of the one that takes its place."""


def exchange(active: Sequence[Timed], spares: Sequence[Timed], steps: float) -> tuple[Exchange | None, str]:
    """Return the exchange that pays over the steps that are left, and why; None: none does. It has to pay by the latest
    step and by the mean alike, so that a short load is none, and gain more than the means may be wrong by."""
    by_mean, by_last = (_found(active, spares, steps, at) for at in ("mean_s", "last_s"))
    slow = max(active, key=lambda one: (one.mean_s, -one.rank), default=None)
    best = min(spares, key=lambda one: (one.mean_s, one.rank), default=None)
    if slow is None or best is None:
        return None, "there is none to exchange"
    error_s = steps * (abs(slow.last_s - slow.mean_s) + abs(best.last_s - best.mean_s)) / 2
    told = (
        f"rank {slow.rank} at {slow.where} takes {slow.mean_s:.3g} s for its part of a step, the spare rank {best.rank}"
        f" at {best.where} {best.mean_s:.3g} s, over {steps:g} steps"
    )
    if by_mean is None or by_last is None:
        return None, f"{told}: no exchange would pay"
    if by_mean[:2] != by_last[:2]:
        return None, f"{told}: the latest steps do not say so"
    gain_s = by_mean.gain_s
    if gain_s <= error_s:
        return None, f"{told}: {gain_s:.0f} s sooner, and that may be wrong by {error_s:.0f} s"
    return Exchange(slow.rank, best.rank), f"{told}: {gain_s:.0f} s sooner, more than the error of {error_s:.0f} s"


def _found(active: Sequence[Timed], spares: Sequence[Timed], steps: float, by: str) -> Swap | None:
    # Names are in the order of the ranks.
    running = [Probed(f"{one.rank:09d}", getattr(one, by), 1) for one in active]
    idle = [Probed(f"{one.rank:09d}", getattr(one, by)) for one in spares]
    return swap(running, idle, steps, EXCHANGE_S, 0.0)
