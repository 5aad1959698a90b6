"""Samples of a site's load over time, for pictures: fine for the last hour and coarse for two days.

They are in memory alone, some 100 kB, and begin with the node's start.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from diana.errors import DianaError
from diana.model.views.views import Info
from diana.wire.client.dashboard import ActivityResponse

EVERY_S = 10.0
FINE = 360
COARSE_EVERY = 30
"""One fine sample of so many goes into the coarse row."""
COARSE = 576

_Row = tuple[float, int, int, int, int, int, int, int]


class Activity:
    """`look` asks the engine; a sample it cannot give now is left out."""

    def __init__(self, look: Callable[[], Awaitable[Info]], wall_s: Callable[[], float] = time.time) -> None:
        self._look = look
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
        at, slots, used, queued, running, done, exported, imported = zip(*rows, strict=True)
        return ActivityResponse(
            at_wall_s=at,
            slots=slots,
            used_slots=used,
            queued=queued,
            running=running,
            done=done,
            exported=exported,
            imported=imported,
        )
