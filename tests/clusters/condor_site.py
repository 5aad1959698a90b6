"""One real HTCondor on this machine: a pool of one host, its daemons an ordinary user's. Needs root, and apt.

Its programs stand in a tree of a later Debian (`condor_tree`), which is the root of the daemons' mount namespace.
HTCondor runs no jobs of root's, so they live in a user namespace as well, where this account is an ordinary one: what
jobs write is ours. Its commands are reached through scripts in `bin`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.clusters import condor_tree
from tests.clusters.programs import search_path
from tests.e2e.grid import free_port

PROGRAMS = ("apt-get", "dpkg-deb", "unshare", "nsenter", "mount")
_COMMANDS = (
    *("condor_submit", "condor_q", "condor_history", "condor_rm", "condor_status", "condor_version"),
    *("condor_config_val", "condor_hold", "condor_release", "condor_vacate_job"),
)
_UP_S = 60.0
_CONFIG = """\
LOCAL_DIR = {root}/local
RELEASE_DIR = /usr
BIN = /usr/bin
SBIN = /usr/sbin
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
SHARE = /usr/share/condor
LOG = $(LOCAL_DIR)/log
RUN = $(LOCAL_DIR)/run
LOCK = $(LOCAL_DIR)/lock
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
LOCAL_CONFIG_DIR =
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
SHARED_PORT_PORT = {port}
DEFAULT_DOMAIN_NAME = lab
UID_DOMAIN = lab
FILESYSTEM_DOMAIN = lab
use role:personal
use security:recommended_v9_0
use feature:PartitionableSlot
NUM_CPUS = {cpus}
MEMORY = 8192
MACHINE_RESOURCE_GPUS = CUDA0 CUDA1
START = true
SUSPEND = false
PREEMPT = false
KILL = false
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 2
PERIODIC_EXPR_INTERVAL = 2
MAX_JOBS_PER_OWNER = 3000
"""
_ENTER = """\
set -e
mount --make-rprivate /
mount --bind {tree} {tree}
for folder in /tmp {temp} /proc /dev /sys; do mkdir -p {tree}$folder; mount --rbind $folder {tree}$folder; done
mkdir -p {tree}/.old
cd {tree}
pivot_root . .old
cd /
umount -l /.old
exec unshare -U --map-user=1000 --map-group=1000 /usr/sbin/condor_master -f
"""


class HTCondorSite:
    """`bin` belongs at the front of the PATH of who asks."""

    kind = name = "htcondor"

    def __init__(self, root: Path, cpus: int = 8) -> None:
        self.root, self.cpus = root, cpus
        self.bin, self.tree = root / "bin", root / "tree"
        self.config = root / "condor_config"
        for folder in (
            self.bin,
            self.tree,
            *(root / "local" / name for name in ("log", "run", "lock", "spool", "execute")),
        ):
            folder.mkdir(parents=True)
        self.config.write_text(_CONFIG.format(root=root, port=free_port(), cpus=cpus))
        self._environment = {**os.environ, "PATH": search_path(), "CONDOR_CONFIG": str(self.config)}
        self._master: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        condor_tree.make(self.tree, self.root / "apt")
        shutil.rmtree(self.root / "apt")
        (self.root / "enter").write_text(_ENTER.format(tree=self.tree, temp=tempfile.gettempdir()))
        self._master = subprocess.Popen(
            ["unshare", "--mount", "/bin/sh", str(self.root / "enter")], env=self._environment, start_new_session=True
        )
        for name in _COMMANDS:
            program = self.bin / name
            program.write_text(
                f'#!/bin/sh\nexec nsenter -t {self._master.pid} -U -m -r --preserve-credentials /usr/bin/{name} "$@"\n'
            )
            program.chmod(0o755)
        until_s = time.monotonic() + _UP_S
        while "slot1@" not in self.run("condor_status", check=False) or self.run("condor_q", check=False) == "":
            assert time.monotonic() < until_s, (self.root / "local" / "log" / "MasterLog").read_text()[-3000:]
            time.sleep(0.2)

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            [str(self.bin / argv[0]), *argv[1:]], env=self._environment, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def pids(self, name: str) -> list[int]:
        """Process ids of this pool's daemons of that name."""
        found = subprocess.run(["pgrep", "-x", name], capture_output=True, text=True, check=False).stdout.split()
        assert self._master is not None
        ours = os.readlink(f"/proc/{self._master.pid}/ns/mnt")
        return [int(pid) for pid in found if os.readlink(f"/proc/{pid}/ns/mnt") == ours]

    def kill_schedd(self) -> None:
        """Its master starts it again, some seconds later."""
        for pid in self.pids("condor_schedd"):
            os.kill(pid, signal.SIGKILL)

    def down(self) -> None:
        if self._master is None:
            return
        self.run("condor_rm", "-all", check=False)
        self._master.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._master.wait(20)
        with suppress(ProcessLookupError):
            self._master.kill()
        self._master.wait()
