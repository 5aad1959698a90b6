"""Samples of a site's load over time, for pictures: fine for the last hour and coarse for two days.

They are in memory alone, some 100 kB, and begin with the node's start.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana.errors import DianaError
from diana.model.views.views import Info
from diana.wire.client.dashboard import ActivityResponse

EVERY_S = 10.0
FINE = 360
COARSE_EVERY = 30
"""One fine sample of so many goes into the coarse row."""
COARSE = 576

_Row = tuple[float, int, int, int, int, int, int, int, float, float, float, float]


class MachineUse(NamedTuple):
    """Parts of a machine that are in use, 0 to 1."""

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0


class MachineWatch:
    """Tell how busy this machine's processors were since the last look, and how full its memory and a disk are.
    `proc`: the kernel's own account. A part that cannot be told is 0."""

    def __init__(self, folder: Path, proc: Path = Path("/proc")) -> None:
        self._folder, self._proc = folder, proc
        self._busy = self._all = 0

    def look(self) -> MachineUse:
        cpu = memory = disk = 0.0
        with suppress(OSError, ValueError, IndexError):
            ticks = [int(word) for word in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
            # The fourth and fifth stand for idle, and idle until a disk answers.
            total, busy = sum(ticks), sum(ticks) - ticks[3] - ticks[4]
            if self._all and total > self._all:
                cpu = (busy - self._busy) / (total - self._all)
            self._busy, self._all = busy, total
        with suppress(OSError, ValueError, IndexError, KeyError):
            rows = (line.split(":") for line in (self._proc / "meminfo").read_text().splitlines())
            kilobytes = {name: int(rest.split()[0]) for name, rest in rows}
            memory = 1 - kilobytes["MemAvailable"] / kilobytes["MemTotal"]
        with suppress(OSError, ZeroDivisionError):
            room = os.statvfs(self._folder)
            disk = 1 - room.f_bavail / room.f_blocks
        return MachineUse(*(min(1.0, max(0.0, part)) for part in (cpu, memory, disk)))


class Activity:
    """`look` asks the engine; a sample it cannot give now is left out. `machine` tells how the machine is used."""

    def __init__(
        self,
        look: Callable[[], Awaitable[Info]],
        machine: Callable[[], MachineUse] = MachineUse,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._look = look
        self._machine = machine
        self._wall_s = wall_s
        self._fine: deque[_Row] = deque(maxlen=FINE)
        self._coarse: deque[_Row] = deque(maxlen=COARSE)
        self._seen = 0

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            with suppress(DianaError):
                self.note(await self._look(), self._wall_s())
            await asyncio.sleep(EVERY_S)

    def note(self, info: Info, at_wall_s: float) -> None:
        row = (
            at_wall_s,
            info.slots,
            max(0, info.slots - info.free_slots),
            info.queued_jobs,
            info.running_jobs,
            info.jobs_done,
            info.jobs_exported,
            info.jobs_imported,
            info.queue_wait_s,
            *self._machine(),
        )
        if len(self._fine) == FINE and self._seen % COARSE_EVERY == 0:
            self._coarse.append(self._fine[0])
        if len(self._fine) == FINE:
            self._seen += 1
        self._fine.append(row)

    def since(self, after_wall_s: float) -> ActivityResponse:
        """Samples after the one of that time, also where the clock was set back since; else those of later times."""
        rows = [*self._coarse, *self._fine]
        known = next((at for at in range(len(rows) - 1, -1, -1) if rows[at][0] == after_wall_s), None)
        rows = rows[known + 1 :] if known is not None else [row for row in rows if row[0] > after_wall_s]
        if not rows:
            return ActivityResponse()
        at, slots, used, queued, running, done, exported, imported, wait_s, cpu, memory, disk = zip(*rows, strict=True)
        return ActivityResponse(
            at_wall_s=at,
            slots=slots,
            used_slots=used,
            queued=queued,
            running=running,
            done=done,
            exported=exported,
            imported=imported,
            queue_wait_s=wait_s,
            cpu_share=cpu,
            memory_share=memory,
            disk_share=disk,
        )
