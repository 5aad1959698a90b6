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

from diana.bounds import json_of
from diana.ports import Standing

SYNC_EVERY_S = 5.0
"""Greatest age in seconds of the mark that a machine finds after a power cut."""
_SIZE = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Mark:
    """`journal.mark` beside `journal.db`, and the same in a second place: whoever takes the files of the journal away
    does not take all that was known of them. A mark that cannot be kept is left out, the store does not fail for it."""

    def __init__(self, journal: Path, twin: Path | None = None) -> None:
        """`twin`: the second place."""
        self._boot = _boot_id()
        self._synced_s = float("-inf")
        self._places = [_Place(path) for path in (journal.with_suffix(".mark"), twin) if path is not None]
        self.doubt = False
        """True while the marks written say that nobody knows if this journal is the newest."""

    def standing(self, db_uuid: str, seq: int) -> Standing:
        """Return what the marks found at opening say of a journal of that name that ends at `seq`."""
        said = [place for place in self._places if place.seq >= 0]
        # A kill may fall between the two, when the store gets another name.
        named = [place for place in said if place.found.get("db_uuid") == db_uuid]
        if not said:
            return "newest" if seq == 0 else "unsure"
        if not named or seq < max(place.seq for place in named):
            return "older"
        last = max(named, key=lambda place: place.seq)
        if any(place.found.get("doubt") is True for place in named):
            return "unsure"
        if last.found.get("ino") != last.ino:
            # The mark itself is a copy, and says nothing of what came after it.
            return "unsure"
        same_boot = bool(self._boot) and last.found.get("boot") == self._boot
        return "newest" if same_boot or (last.found.get("closed") is True and seq == last.seq) else "unsure"

    def write(self, db_uuid: str, seq: int, closed: bool = False) -> None:
        """Write the marks. `closed`: the last ones, for the node stops in good order."""
        mark = {"db_uuid": db_uuid, "boot": self._boot, "ino": 0, "seq": seq, "closed": closed}
        if self.doubt:
            mark["doubt"] = True
        sync = time.monotonic() - self._synced_s > SYNC_EVERY_S
        if sync:
            self._synced_s = time.monotonic()
        for place in self._places:
            place.write(mark, sync)

    def close(self) -> None:
        for place in self._places:
            place.close()


class _Place:
    """One of the files; without a descriptor where it could not be opened."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        self.found: dict[str, object] = {}
        self.ino = 0
        with contextlib.suppress(OSError):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.found = _read(os.pread(self._fd, _SIZE, 0))
            self.ino = os.fstat(self._fd).st_ino

    @property
    def seq(self) -> int:
        """Records it told of when it was opened; -1: none."""
        said = self.found.get("seq")
        return said if isinstance(said, int) else -1

    def write(self, mark: dict[str, object], sync: bool) -> None:
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, json.dumps({**mark, "ino": self.ino}).encode().ljust(_SIZE - 1) + b"\n", 0)
            if sync:
                os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.fdatasync(self._fd)
            os.close(self._fd)
            self._fd = -1


def _read(content: bytes) -> dict[str, object]:
    try:
        found = json_of(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
