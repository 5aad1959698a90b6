"""The runners that diana has itself."""

from __future__ import annotations

from pathlib import Path

from diana.adapters.lrm.runners import over_sites
from diana.adapters.lrm.runners.interface import GangToRun, Launch


def env(_: GangToRun) -> Launch:
    """Run each component's command as it is; it finds the others by its environment."""
    return Launch()


def mpi(launcher: str, gang: GangToRun) -> Launch:
    """Start one MPI world over all components. `launcher`: MPICH's, `mpiexec.hydra`."""
    counts = ",".join(map(str, gang.every))
    words = ("python3", "-c", Path(over_sites.__file__).read_text(), launcher, counts)
    return Launch(words, (launcher, "python3"))
