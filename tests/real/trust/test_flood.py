"""One user floods a node with calls; others' answers do not get slow (PROMISES 5.12)."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from diana.client import Client
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid

CALLS = 150


def _p99_s(client: Client) -> float:
    took = []
    for _ in range(CALLS):
        began_s = time.perf_counter()
        client.status(mine=True)
        took.append(time.perf_counter() - began_s)
    return sorted(took)[int(CALLS * 0.99)]


# A process of its own: threads beside the caller's would take its interpreter from it, which is no fault of the node.
FLOOD = """
import sys, threading
from diana.client import Client
from diana.errors import Overloaded

def flood():
    with Client(credential=sys.argv[1]) as ann:
        while True:
            try:
                ann.status()
            except Overloaded as refused:
                print(refused.retry_after_s, flush=True)

threads = [threading.Thread(target=flood, daemon=True) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
sys.stdin.read()
"""


@pytest.mark.parametrize("connections", [3, 32])
def test_one_users_flood_hardly_slows_another_and_is_told_to_come_again(grid: Grid, connections: int) -> None:
    alpha = grid.add("alpha", slots=1)
    grid.join()
    for user in ("ann", "bob"):
        init_user(alpha.data, user, grid.root / user)
    grid.start()
    with Client(credential=grid.root / "bob") as bob:
        _p99_s(bob)
        quiet_s = _p99_s(bob)
        with subprocess.Popen(
            [sys.executable, "-c", FLOOD, str(grid.root / "ann"), str(connections)],
            env=alpha.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as flood:
            assert flood.stdin is not None and flood.stdout is not None
            # Past the burst, when the rate holds.
            first = float(flood.stdout.readline())
            flooded_s = _p99_s(bob)
            flood.stdin.close()
            refusals = [first, *map(float, flood.stdout)]
    print(f"p99 {quiet_s * 1000:.1f} ms, flooded {flooded_s * 1000:.1f} ms, {len(refusals)} refused")
    assert min(refusals) > 0
    # Node, flood and caller share the processors here, so the bound is generous; a queue without turns took seconds.
    assert flooded_s < max(5 * quiet_s, 0.25)
