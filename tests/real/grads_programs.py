"""The programs of `examples/grads`, run by themselves: one process, or several that are told of each other as diana
tells the components of a gang."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parents[2] / "examples" / "grads"
RANKS = "ranks.py"


class Ran(NamedTuple):
    codes: list[int]
    lines: list[str]
    """Printed steps and hashes, without the site."""
    answer: str
    """Empty: it left none."""


def steps_of(printed: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in printed.splitlines() if line[:1].isdigit()]


def run(
    folder: Path,
    words: list[str],
    size: int = 1,
    *,
    stop_after: int = 0,
    items: str = "",
    goes_on: bool = False,
    slowed: int = 0,
    spares: int = 0,
    rosters: Sequence[tuple[int, int, str]] = (),
) -> Ran:
    """Run a program as so many processes. `stop_after`: the last of them is asked to save after so many steps.
    `slowed`: the process of this rank, 0: none, is stopped for nine of ten moments. `spares`: of `size`, those that
    stand by. `rosters`: (after so many steps, rank that is told, word on who computes)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {name: value for name, value in os.environ.items() if not name.startswith("DIANA_")}
    own |= {"OPENBLAS_NUM_THREADS": "1"}
    gang = {"DIANA_GANG_SIZE": str(size), "DIANA_GANG_HOSTS": ",".join(["127.0.0.1"] * size)}
    gang |= {"DIANA_GANG_PORT": port, "DIANA_GANG_TOKEN": "a secret"}
    gang |= {"DIANA_GANG_ITEMS": items} if items else {}
    gang |= {"DIANA_GANG_SPARES": str(spares)} if spares else {}
    processes = []
    for rank in range(size):
        mine = folder / str(rank)
        mine.mkdir(parents=True, exist_ok=True)
        environment = {**own, **gang, "DIANA_GANG_RANK": str(rank), "DIANA_REPORT": str(mine / "told")}
        environment |= {"DIANA_CHECKPOINT": "it"} if goes_on else {}
        environment |= {"DIANA_GANG_ROSTER": str(mine / "roster")} if spares else {}
        command = [sys.executable, str(PROGRAMS / words[0]), *words[1:]]
        with open(mine / "out", "w", encoding="ascii") as out:
            processes.append(subprocess.Popen(command, cwd=mine, stdout=out, env=environment))
    by_s = time.monotonic() + 60
    while stop_after and len(steps_of((folder / "0" / "out").read_text())) < stop_after:
        assert time.monotonic() < by_s and processes[0].poll() is None, "it takes its steps"
        time.sleep(0.02)
    for after, rank, text in rosters:
        while len(steps_of((folder / "0" / "out").read_text())) < after:
            assert time.monotonic() < by_s and processes[0].poll() is None, "it takes its steps"
            time.sleep(0.02)
        (folder / str(rank) / "new").write_text(text)
        (folder / str(rank) / "new").replace(folder / str(rank) / "roster")
    if stop_after:
        processes[-1].send_signal(signal.SIGUSR1)
    while slowed and processes[slowed].poll() is None:
        for kind, moment_s in ((signal.SIGSTOP, 0.09), (signal.SIGCONT, 0.01)):
            processes[slowed].send_signal(kind)
            time.sleep(moment_s)
    codes = [process.wait(60) for process in processes]
    answer = folder / "0" / "answer.txt"
    return Ran(codes, steps_of((folder / "0" / "out").read_text()), answer.read_text() if answer.exists() else "")
