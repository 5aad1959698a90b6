"""Sharing a group's `max_parallel` over the sites that run it."""

from __future__ import annotations

from collections.abc import Sequence


def allot(max_parallel: int, sizes: Sequence[int]) -> list[int]:
    """Share `max_parallel` over parts of these sizes, at least 1 each, in proportion; all 0 when there is no limit.

    With more parts than `max_parallel` the sum exceeds it: callers pass no more parts than that.
    """
    if not max_parallel:
        return [0] * len(sizes)
    total = sum(sizes)
    shares = [max(1, max_parallel * size // total) for size in sizes]
    while sum(shares) > max_parallel and max(shares) > 1:
        shares[shares.index(max(shares))] -= 1
    return shares
