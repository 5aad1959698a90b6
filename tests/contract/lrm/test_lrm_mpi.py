"""An MPI job is one run on a machine, however many processes its launcher made of it: a real spawner, and a launcher
that puts each process into a session of its own, as launchers do. `tests/clusters` has real MPI."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest_asyncio

from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.software import Software
from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Outputs, Resources
from tests.contract.lrm_builders import ALPHA, RealSite, shell

LAUNCHER = '#!/bin/sh\nn=$1; shift\nwhile [ $n -gt 0 ]; do n=$((n - 1)); RANK=$n setsid "$@" & done\nwait\n'


class Launching(RealSite):
    def _new(self) -> LocalLrm:
        launcher = self.data.root / "launch"
        launcher.write_text(LAUNCHER)
        launcher.chmod(0o755)
        software = Software(mpi=f"{launcher} {{n}}")
        return LocalLrm(self.data, ALPHA, self.slots, self.events.append, time.monotonic, software=software)


Site = Callable[[], Awaitable[Launching]]


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made: list[Launching] = []

    async def make() -> Launching:
        made.append(Launching(tmp_path, 4))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


def parallel(script: str, **more: object) -> GroupSpec:
    made = shell(script, resources=Resources(processors=3), **more)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, mpi=True)


async def test_all_its_processes_share_its_directory_and_its_result_is_one(site: Site) -> None:
    at = await site()
    # Whole or not there.
    done = "echo $RANK > new-$RANK; mv new-$RANK part-$RANK; [ $RANK = 0 ] || exit 0; "
    done += "until cat part-0 part-1 part-2 > out 2>/dev/null; do sleep 0.05; done; cat out"
    at.start(parallel(done, outputs=Outputs(collect=("out",))), 0)
    (end,) = await at.ended(1)
    assert (end.outcome, at.log(end)) == (Outcome.DONE, "0\n1\n2\n")


async def test_killing_it_ends_all_its_processes(site: Site, tmp_path: Path) -> None:
    at = await site()
    # Nobody else's on this machine.
    rank = f"sleep 16180.{os.getpid()}"
    at.start(parallel(f"trap '' TERM; : > {tmp_path}/rank-$RANK; {rank}; true"), 0)
    await at.until(lambda: len(list(tmp_path.glob("rank-*"))) == 3)
    at.kill(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CANCELLED
    found = subprocess.run(["pgrep", "-f", f"^{rank}"], capture_output=True, check=False)
    assert found.returncode == 1
