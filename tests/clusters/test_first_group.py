"""The commands of docs/clusters.md, typed by somebody who has an account, Slurm, and nothing else."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

from diana.model.layout import DataDir
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import REPO, until

ARRAY = 20
NOBODY = "nobody"


def plain_account(environment: dict[str, str]) -> tuple[str, list[str]]:
    """(name, what stands before its commands); our own where a plain one cannot read this clone."""
    become = ["setpriv", f"--reuid={NOBODY}", "--regid=nogroup", "--clear-groups"]
    try_it = "import subprocess, sys, diana.cli; subprocess.run([sys.executable, '-V'], check=True)"
    reads = subprocess.run([*become, sys.executable, "-c", try_it], env=environment, capture_output=True, check=False)
    return (NOBODY, become) if reads.returncode == 0 else (pwd.getpwuid(os.getuid()).pw_name, [])


def test_four_commands_of_a_plain_account_bring_an_array_through_slurm(slurm: SlurmSite, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o011)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPO),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "SLURM_CONF": str(slurm.config),
        "DIANA_DATA": str(home / "diana"),
        "DIANA_ROOT_JOBS": "true",
    }
    account, become = plain_account(environment)
    shutil.chown(home, account)
    program = [*become, sys.executable, "-m", "diana.cli"]

    def diana(*words: str) -> str:
        done = subprocess.run(
            [*program, *words], env=environment, cwd=home, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    began_s = time.monotonic()
    assert "slurm starts its jobs" in diana("init", "alpha", "--cluster", "slurm", "--listen", "127.0.0.1:0")
    assert "ok    slurm" in diana("doctor")
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen([*program, "node"], env=environment, cwd=home, stderr=log)
    try:
        until(lambda: DataDir(home / "diana").socket.exists(), (tmp_path / "log").read_text, 20.0)
        diana("submit", "--array", f"0-{ARRAY - 1}", "--wait", "--", "id", "-un")
        told, logs = diana("status"), diana("logs", "alpha-1.3")
    finally:
        node.terminate()
        node.wait(20)
    print(f"{time.monotonic() - began_s:.1f} s\n{told}{logs}")
    assert f" {ARRAY} " in told
    assert account in logs
