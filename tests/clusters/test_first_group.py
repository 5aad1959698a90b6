"""What docs/clusters.md tells somebody who has Slurm and nothing else to type."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from diana.model.layout import DataDir
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import REPO, until

ARRAY = 20


def test_four_commands_after_the_installation_bring_an_array_through_slurm(slurm: SlurmSite, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPO),
        "SLURM_CONF": str(slurm.config),
        "DIANA_DATA": str(tmp_path / "diana"),
    }

    def diana(*words: str) -> str:
        argv = [sys.executable, "-m", "diana.cli", *words]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    began_s = time.monotonic()
    assert "slurm starts its jobs" in diana("init", "alpha", "--cluster", "slurm", "--listen", "127.0.0.1:0")
    assert "ok    slurm" in diana("doctor")
    node = subprocess.Popen([sys.executable, "-m", "diana.cli", "node"], env=environment, stderr=subprocess.DEVNULL)
    try:
        until(lambda: DataDir(tmp_path / "diana").socket.exists(), "the node answers", 20.0)
        diana("submit", "--array", f"0-{ARRAY - 1}", "--wait", "--", "hostname")
        told = diana("status")
    finally:
        node.terminate()
        node.wait(20)
    print(f"{time.monotonic() - began_s:.1f} s\n{told}")
    assert f" {ARRAY} " in told
