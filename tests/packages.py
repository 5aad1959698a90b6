"""Programs that tests of real things need, and the packages of Debian that bring them.

`python -m tests.packages slurm browser` installs what is missing, as root; if nothing is, apt is not called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable

NEEDED: dict[str, dict[str, str]] = {
    # Namespaces, firewalls between them, a recorder of system calls, completion in zsh, a clock that tests move.
    "processes": {
        "ip": "iproute2",
        "tc": "iproute2",
        "iptables": "iptables",
        "strace": "strace",
        "zsh": "zsh",
        "gcc": "gcc libc6-dev",
    },
    "netns": {"ip": "iproute2", "tc": "iproute2", "iptables": "iptables"},
    "slurm": {name: "slurm-wlm slurm-client" for name in ("slurmctld", "slurmd", "sbatch")} | {"munged": "munge"},
    "gridengine": {
        "sge_qmaster": "gridengine-master",
        "sge_execd": "gridengine-exec",
        "qsub": "gridengine-client",
    },
    "containers": {
        "podman": "podman",
        "runc": "runc",
        "conmon": "conmon",
        "busybox": "busybox-static",
        "envml": "environment-modules",
    },
    "mpi": {"mpirun.mpich": "mpich", "mpicc.mpich": "libmpich-dev"},
    "browser": {"chromium": "chromium"},
    "docker": {
        "dockerd": "docker.io",
        "docker": "docker.io",
        "docker-compose": "docker-compose",
        "debootstrap": "debootstrap",
    },
}


def install(kinds: Iterable[str]) -> None:
    """Install what is missing of these kinds. CalledProcessError where apt cannot."""
    wanted = {name: package for kind in kinds for name, package in NEEDED[kind].items()}
    lacking = sorted({part for name, package in wanted.items() if not _there(name) for part in package.split()})
    if not lacking:
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=quiet)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *lacking]
    subprocess.run(command, check=True, env=quiet, stdout=subprocess.DEVNULL)


def _there(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is not None


if __name__ == "__main__":
    install(sys.argv[1:])
