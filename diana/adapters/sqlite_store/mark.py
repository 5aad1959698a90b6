"""The mark of how far a journal went, written beside it: a file that no copy of the journal takes along.

Whoever puts an older `journal.db` back has a store that looks whole. The mark says what was committed last, so that
a node knows before its first start that it lacks something (PROMISES section 2, "Database lost or restored"); and
that an ordinary restart, whose journal goes as far as the mark, may begin at once. It is written after each commit
and before anything that rests on it leaves, without waiting for the disk: a page that the kernel has outlives any
kill of the node. Only a machine that lost power may have lost the newest marks. So a mark of an earlier boot of the
machine still shows that a journal is too old, but shows that it is the newest only if the node was stopped in good
order.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from diana.ports import Standing

SYNC_EVERY_S = 5.0
"""Greatest age in seconds of the mark that a machine finds after a power cut."""
_SIZE = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Mark:
    """`journal.mark` beside `journal.db`; a mark that cannot be kept is left out, the store does not fail for it."""

    def __init__(self, journal: Path) -> None:
        self._boot = _boot_id()
        self._synced_s = float("-inf")
        self._fd = -1
        self._found: dict[str, object] = {}
        self.doubt = False
        """True while the marks written say that nobody knows if this journal is the newest."""
        self._ino = 0
        with contextlib.suppress(OSError):
            self._fd = os.open(journal.with_suffix(".mark"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._found = _read(os.pread(self._fd, _SIZE, 0))
            self._ino = os.fstat(self._fd).st_ino

    def standing(self, db_uuid: str, seq: int) -> Standing:
        """Return what the mark found at opening says of a journal of that name that ends at `seq`."""
        said = self._found.get("seq")
        if not isinstance(said, int):
            return "newest" if seq == 0 else "unsure"
        if self._found.get("db_uuid") != db_uuid or seq < said:
            return "older"
        if self._found.get("doubt") is True:
            return "unsure"
        if self._found.get("ino") != self._ino:
            # The mark itself is a copy, and says nothing of what came after it.
            return "unsure"
        same_boot = bool(self._boot) and self._found.get("boot") == self._boot
        return "newest" if same_boot or (self._found.get("closed") is True and seq == said) else "unsure"

    def write(self, db_uuid: str, seq: int, closed: bool = False) -> None:
        """Write the mark. `closed`: the last one, for the node stops in good order."""
        if self._fd < 0:
            return
        mark = {"db_uuid": db_uuid, "boot": self._boot, "ino": self._ino, "seq": seq, "closed": closed}
        if self.doubt:
            mark["doubt"] = True
        said = json.dumps(mark).encode().ljust(_SIZE - 1) + b"\n"
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, said, 0)
            if time.monotonic() - self._synced_s > SYNC_EVERY_S:
                self._synced_s = time.monotonic()
                os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.fdatasync(self._fd)
            os.close(self._fd)
            self._fd = -1


def _read(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
