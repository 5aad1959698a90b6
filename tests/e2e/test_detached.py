"""`diana node --detach`: a node that answers when the command returns and outlives the shell; or the reason why not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from diana.node.node_log import MOST_BYTES
from tests.e2e.grid import Grid, free_port, until

pytestmark = pytest.mark.e2e
DIANA = [sys.executable, "-m", "diana.cli"]


def test_a_detached_node_answers_at_once_and_a_fault_is_told(grid: Grid) -> None:
    data = grid.root / "delta"

    def diana(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*DIANA, verb, "--data", str(data), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert diana("init", "delta", "--root-jobs", "--listen", f"127.0.0.1:{free_port()}").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = diana("node", "--detach", "--no-zeroconf", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert done.returncode == 2, done
        assert done.stderr.endswith(f"; stop that, or set listen in {data / 'site.toml'}\n"), done
        assert done.stderr.startswith(f"diana: port {taken.getsockname()[1]} on 127.0.0.1 is taken by process "), done
    done = diana("node", "--detach", "--no-zeroconf", "--slots", "3")
    try:
        assert done.returncode == 0 and "the node runs, process " in done.stdout, done
        assert "3" in diana("sites").stdout.splitlines()[1].split()
        assert diana("submit", "--wait", "--", "true").returncode == 0
        again = diana("node", "--detach")
        assert again.returncode == 2 and "its node runs already" in again.stderr
        pid = int(done.stdout.partition("process ")[2].partition(";")[0])
        out = data / "node.out"
        with out.open("ab") as flood:
            flood.truncate(MOST_BYTES + 1)
        until(lambda: out.stat().st_size == 0, "what it prints goes into a new file")
        assert out.with_name("node.out.1").stat().st_size == MOST_BYTES + 1
        until(lambda: {os.readlink(f"/proc/{pid}/fd/{number}") for number in (1, 2)} == {str(out)}, "and it does")
    finally:
        assert diana("stop").returncode == 0
    until(lambda: diana("status").returncode == 4, "it has ended")
