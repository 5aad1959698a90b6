"""Syncs the claim log beside the loop, so that jobs start and end while a disk takes its time.

The one thread of the spawner next to its loop, and it never spawns: it only waits in fdatasync.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue


class Syncer:
    """Touched by the loop only; `event_fd` becomes readable when a sync has ended."""

    def __init__(self) -> None:
        self.event_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.busy = False
        self._done = 0
        self._failed: Exception | None = None
        self._work: SimpleQueue[tuple[int, int]] = SimpleQueue()
        threading.Thread(target=self._run, name="claim-sync", daemon=True).start()

    def begin(self, fd: int, mark: int) -> None:
        """Sync what is written to `fd` by now; it must stay open until `end` was called."""
        self.busy = True
        self._work.put((fd, mark))

    def end(self) -> int:
        """Take the end of a sync, after `event_fd` woke the loop; return its mark. OSError when the disk refused."""
        os.eventfd_read(self.event_fd)
        self.busy = False
        if self._failed is not None:
            raise self._failed
        return self._done

    def _run(self) -> None:
        while True:
            fd, mark = self._work.get()
            try:
                os.fdatasync(fd)
            except Exception as fault:
                self._failed = fault
            self._done = mark
            os.eventfd_write(self.event_fd, 1)
