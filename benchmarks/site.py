"""A real site for a benchmark: a data directory of its own, a node process, and a client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from diana.client import Client
from diana.errors import Unreachable
from diana.model.layout import DataDir
from diana.node.config.setup import init_site
from diana.node.config.text import write_config

DIANA = [sys.executable, "-m", "diana.cli"]


class BenchSite:
    """`with BenchSite(folder, slots=2) as site: site.client.submit(...)`; the node is stopped at the end."""

    def __init__(self, data: Path, slots: int, claim_ahead: int = 0) -> None:
        self.data = data
        self._node: subprocess.Popen[bytes] | None = None
        self.client = Client(data=data)
        config = init_site(data, "bench", slots=slots, listen="127.0.0.1:0", root_jobs=os.getuid() == 0)
        settings = msgspec.structs.replace(config.settings, claim_ahead=claim_ahead)
        write_config(DataDir(data).config, msgspec.structs.replace(config, settings=settings))

    def __enter__(self) -> BenchSite:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._node is not None:
            self.stop()
        self._end_spawner()
        self.client.close()

    def _end_spawner(self) -> None:
        """It outlives its node by design; a benchmark leaves nothing behind. Its jobs were cancelled before."""
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(int((self.data / "spawner" / "lock").read_text()), signal.SIGTERM)

    def start(self, wait_s: float = 120.0) -> float:
        """Seconds from starting the process to its first answer."""
        began = time.perf_counter()
        with (self.data / "node.out").open("ab") as out:
            self._node = subprocess.Popen(
                [*DIANA, "node", "--data", str(self.data), "--no-zeroconf"], stdout=out, stderr=out
            )
        while True:
            try:
                self.client.info()
                return time.perf_counter() - began
            except Unreachable:
                if self._node.poll() is not None or time.perf_counter() - began > wait_s:
                    raise
                time.sleep(0.005)

    def stop(self) -> None:
        assert self._node is not None
        self._node.send_signal(signal.SIGTERM)
        self._node.wait(30)
        self._node = None

    def kill(self) -> None:
        assert self._node is not None
        self._node.kill()
        self._node.wait(30)
        self._node = None

    @property
    def pid(self) -> int:
        assert self._node is not None
        return self._node.pid

    def command(self, *words: str) -> tuple[str, float]:
        """Standard output of `diana WORDS` and how long it took, the interpreter's start included."""
        began = time.perf_counter()
        ended = subprocess.run(
            [*DIANA, words[0], "--data", str(self.data), *words[1:]], check=True, capture_output=True, text=True
        )
        return ended.stdout, time.perf_counter() - began


def descendants(pid: int) -> list[int]:
    """The process and all below it: a node and its spawner."""
    found = [pid]
    for child in found:
        tasks = Path(f"/proc/{child}/task")
        for task in tasks.iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def resident_bytes(pid: int) -> int:
    """Proportional set size of the process and all below it: shared pages are counted once."""
    total = 0
    for one in descendants(pid):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def cpu_s(pid: int) -> float:
    ticks = 0
    for one in descendants(pid):
        words = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")
