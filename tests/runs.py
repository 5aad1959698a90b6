"""Which run this is: the gate with its written seeds, or `make soak` with fresh ones.

`make test` and `make smoke` are the same tests, seeds and examples each time. `make soak` sets `DIANA_SEED` to a number
that it prints: tests that search begin there, hypothesis draws by it, and what is timed is held to its upper bound too.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import count, islice

SOAK = "DIANA_SEED" in os.environ
SEED = int(os.environ.get("DIANA_SEED", "1"))


def first_seed(written: int) -> int:
    """Return where a range of seeds begins: at `written`, in `make soak` at a fresh place. A failure prints it."""
    if not SOAK:
        return written
    print(f"again: DIANA_SEED={SEED}")
    return SEED


def with_fresh(written: Collection[int], fresh: int, seed: int = SEED) -> tuple[int, ...]:
    """Return the written seeds and so many others, in `make soak` fresh ones; none twice."""
    return (*written, *islice((one for one in count(seed) if one not in written), fresh))
