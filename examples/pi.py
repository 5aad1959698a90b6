"""Pi by throwing darts: a thousand calls as a bulk group of fifty jobs.

python examples/pi.py            # the node of ~/.diana, or of DIANA_DATA
"""

import random

from diana.client import GridExecutor

CALLS, DARTS = 1000, 10_000


def hits(seed: int) -> int:
    """How many of DARTS darts at the unit square met the quarter of a circle in it."""
    rng = random.Random(seed)
    return sum(rng.random() ** 2 + rng.random() ** 2 < 1.0 for _ in range(DARTS))


if __name__ == "__main__":
    with GridExecutor(options={"name": "pi", "cpus": 1}) as executor:
        met = sum(executor.map(hits, range(CALLS), chunksize=20))
    print(f"pi is about {4 * met / (CALLS * DARTS):.4f}, after {CALLS * DARTS:,} darts")
