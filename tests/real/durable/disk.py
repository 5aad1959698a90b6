"""A disk as POSIX promises it: written bytes are there after a power cut once an fsync that began after them has
ended, names once their folder was synced. Fed with calls in their order.

Only what stands below one folder is kept. Files are written at an offset or at their end, as all durable files of a
node are.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.real.durable.calls import Call

WRITES = {"write", "pwrite64", "ftruncate"}
SYNCS = {"fsync", "fdatasync"}
NAMES = {"rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat"}
OPENS = {"open", "openat", "creat"}


Write = tuple[int, bytes | None]


def _apply(out: bytearray, write: Write) -> None:
    at, data = write
    out.extend(bytes(max(0, at - len(out))))
    if data is None:
        del out[at:]
    else:
        out[at : at + len(data)] = data


class Inode:
    """A file: all that was written, and how much of it surely is on the disk."""

    def __init__(self, content: bytes = b"", folder: bool = False) -> None:
        self.is_folder = folder
        self.before = content
        self.size = len(content)
        self.writes: list[Write] = []
        """(offset, bytes), or (size, None) for a truncation; in order."""
        self.synced = 0
        """So many of them are on the disk."""
        self._sure = bytearray(content)
        self._folded = 0
        self._known = (0, content)
        """(writes that are synced, the content that these make)."""

    def content(self) -> bytes:
        """As whoever reads it now finds it."""
        return self.left(self.writes[self.synced :])

    def left(self, kept: Iterable[Write]) -> bytes:
        """As it is found if, of the writes that are not synced, these came to the disk."""
        for write in self.writes[self._folded : self.synced]:
            _apply(self._sure, write)
        if self._known[0] != self.synced:
            self._known = self.synced, bytes(self._sure)
        self._folded = self.synced
        out = None
        for write in kept:
            out = bytearray(self._sure) if out is None else out
            _apply(out, write)
        return self._known[1] if out is None else bytes(out)

    @property
    def unsure(self) -> list[Write]:
        return self.writes[self.synced :]

    @property
    def dirty(self) -> bool:
        return self.synced < len(self.writes)


class Disk:
    """`root`: the folder whose files are kept; `found`: what it held when the recording began."""

    def __init__(self, root: Path, found: dict[str, bytes | None]) -> None:
        self.root = str(root)
        self.now: dict[str, Inode] = {self.root: Inode(folder=True)}
        for path, content in found.items():
            self.now[path] = Inode(content or b"", folder=content is None)
        self.named = dict(self.now)
        """Names as they are on the disk."""
        self.pending: dict[str, list[tuple[str, Inode | None]]] = {}
        """Folder -> changes of names that are not on the disk yet."""
        self._syncing: dict[int, tuple[Inode, int, str, int]] = {}
        self.syncs = 0
        self.changes = 0
        """Whatever was written, named or synced."""

    def at(self, path: str) -> Inode | None:
        return self.now.get(path)

    def has_name(self, path: str) -> bool:
        """True if what stands at `path` now is found there after a cut."""
        while path != self.root:
            if self.named.get(path) is not self.now.get(path):
                return False
            path = path.rpartition("/")[0]
        return True

    def holds(self, path: str) -> bool:
        return path.startswith(self.root + "/") or path == self.root

    def feed(self, call: Call, end: bool) -> None:
        """One beginning or end of a call."""
        name = call.name
        if name in SYNCS:
            self._sync(call, end)
        elif not end or call.result < 0:
            return
        elif name in OPENS:
            self._open(call)
        elif name in WRITES and self.holds(call.on):
            self._write(call)
        elif name in NAMES:
            self._name(call)

    def _sync(self, call: Call, end: bool) -> None:
        if not end:
            inode = self.now.get(call.on)
            if inode is not None:
                self._syncing[call.pid] = inode, len(inode.writes), call.on, len(self.pending.get(call.on, ()))
        elif (begun := self._syncing.pop(call.pid, None)) and call.result == 0:
            inode, count, path, names = begun
            inode.synced = max(inode.synced, count)
            self.syncs += 1
            self.changes += 1
            for changed, new in self.pending.get(path, [])[:names]:
                if new is None:
                    self.named.pop(changed, None)
                else:
                    self.named[changed] = new
            self.pending[path] = self.pending.get(path, [])[names:]

    def _open(self, call: Call) -> None:
        path = call.paths[0]
        if not self.holds(path):
            return
        if path not in self.now and "O_CREAT" in call.flags:
            self._rename(path, Inode())
        elif "O_TRUNC" in call.flags and path in self.now:
            self.now[path].writes.append((0, None))
            self.now[path].size = 0

    def _write(self, call: Call) -> None:
        inode = self.now.get(call.on)
        if inode is None:
            return
        self.changes += 1
        if call.name == "ftruncate":
            inode.writes.append((call.offset, None))
            inode.size = call.offset
            return
        data = call.strings[0][: call.result]
        at = call.offset if call.name == "pwrite64" else inode.size
        inode.writes.append((at, data))
        inode.size = max(inode.size, at + len(data))

    def _name(self, call: Call) -> None:
        paths = call.paths
        if not self.holds(paths[0]):
            return
        if call.name.startswith("mkdir"):
            self._rename(paths[0], Inode(folder=True))
        elif call.name.startswith("unlink"):
            self._rename(paths[0], None)
        elif self.holds(paths[1]) and (moved := self.now.get(paths[0])) is not None:
            self._rename(paths[1], moved)
            self._rename(paths[0], None)

    def _rename(self, path: str, new: Inode | None) -> None:
        self.changes += 1
        if new is None:
            self.now.pop(path, None)
        else:
            self.now[path] = new
        self.pending.setdefault(path.rpartition("/")[0], []).append((path, new))


def look(root: Path) -> dict[str, bytes | None]:
    """Content below a folder: path -> content, None for a folder; sockets are left out."""
    found: dict[str, bytes | None] = {}
    for path in sorted(root.rglob("*")):
        if path.is_dir():
            found[str(path)] = None
        elif path.is_file():
            found[str(path)] = path.read_bytes()
    return found
