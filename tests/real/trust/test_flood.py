"""One user floods a node with calls; others' answers do not get slow (PROMISES 5.12)."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from diana.client import Client
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, timely

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
                # In one piece: others write beside it.
                sys.stdout.write(f"{refused.retry_after_s}\\n")
                sys.stdout.flush()

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
    timely(flooded_s, max(5 * quiet_s, 0.25), "an answer in the flood")


def test_whoever_opens_connections_without_end_takes_no_descriptor_that_the_node_needs(grid: Grid) -> None:
    """Without a certificate too: the port is open to all who reach it."""
    alpha = grid.add("alpha", slots=2)
    grid.join()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        alpha.launch()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    alpha.ready()
    assert alpha.process is not None
    mine = f"/proc/{alpha.process.pid}/fd"

    def open_files() -> int:
        return len(os.listdir(mine))

    before = open_files()
    host, _, port = alpha.address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=10.0))
        with alpha.client() as client:
            group = client.submit({"group": {"command": ["echo", "x"]}, "sweep": {"array": "0-19"}}).group
            status = client.wait(group, timeout_s=30.0)
        assert (status.state, status.done) == ("done", 20), f"{status} {alpha.story()}"
        # Half of them is for connections; some are the local caller's.
        assert open_files() <= before + 128 + 8
