"""A node's data directory as a thing on a disk: its modes, its one holder, and room for results.

Two nodes on one directory would start every job twice, so a lock that dies with its holder keeps the second out; the
file systems that only pretend to lock are refused. A disk that fills up must not cost a result: new work is refused
early, and a ballast file can be given up so that what already runs still lands (PROMISES section 3).
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from diana import errors
from diana.adapters.filling import Filling, way_out
from diana.model.layout import DataDir

LEAST_FREE_FRACTION = 0.05
LEAST_FREE_BYTES = 512 << 20
BALLAST_BYTES = 16 << 20
LEAST_TO_BEGIN_BYTES = 4 << 20
"""Room that a node without a ballast begins with: for its claim log anew, the room behind it, and the journal's log."""
_LOOKS = 5
_LOOK_EVERY_S = 0.5

_REMOTE = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smbfs", "smb2", "smb3", "afs", "ncpfs", "9p", "virtiofs"),
        *("ceph", "lustre", "gpfs", "beegfs", "glusterfs", "orangefs", "gfs2", "ocfs2"),
        *("fuse.sshfs", "fuse.ceph", "fuse.glusterfs"),
    }
)
"""File systems that several machines may see at once; their locks and fsyncs differ from a local disk's."""


def file_system_of(path: Path, mountinfo: str) -> str:
    """Type of the file system `path` (absolute, without links) lies on, from the text of /proc/self/mountinfo;
    empty when it does not say."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if len(fields) < 5 or not kind:
            continue
        mount = Path(fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        # The later line of two mounts on one point is the one that is seen.
        if (path == mount or mount in path.parents) and len(mount.parts) >= best:
            best, found = len(mount.parts), kind[0]
    return found


def remote_kind(path: Path) -> str:
    """Type of the file system where it is one whose locks and fsync cannot be trusted; else empty."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    kind = file_system_of(path.resolve(), mountinfo)
    return kind if kind in _REMOTE else ""


def least_free_bytes(path: Path) -> int:
    """Return the bytes that must be free there for new work to be taken."""
    room = os.statvfs(path)
    return max(LEAST_FREE_BYTES, int(LEAST_FREE_FRACTION * room.f_blocks * room.f_frsize))


class OpenDataDir:
    """Makes the tree, takes the lock, answers for the room. Held until `close` or the death of the process.

    Errors: `errors.StoreBusy` naming the process that holds it, `errors.UsageError` for a directory that cannot
    serve. The lock survives a fork without exec; children must be spawned (posix_spawn closes it).
    """

    def __init__(
        self,
        root: Path,
        *,
        least_free_fraction: float = LEAST_FREE_FRACTION,
        least_free_bytes: int = LEAST_FREE_BYTES,
        ballast_bytes: int = BALLAST_BYTES,
    ) -> None:
        self.paths = DataDir(root)
        self.ballast = root / "ballast"
        self.filling = Filling(root)
        self._least_free_fraction = least_free_fraction
        self._least_free_bytes = least_free_bytes
        self._ballast_bytes = ballast_bytes
        self._lock_fd = -1
        try:
            if self.paths.lock.exists():
                # Whoever runs here already keeps its ballast.
                self._take_lock()
            self._make_room()
            self._make_tree()
            self._refuse_remote()
            if self._lock_fd < 0:
                self._take_lock()
            self._sign_lock()
        except OSError as error:
            raise errors.UsageError(
                f"{error.filename or root}: {error.strerror}; name a data directory this account can write"
            ) from error
        there = os.stat(root)
        self._identity = there.st_dev, there.st_ino
        self._journal: dict[Path, int] = {}
        """Descriptors that read nothing and hold no lock of SQLite's: of what these paths named."""
        self._gone = ""
        self.restore_ballast()

    def close(self) -> None:
        """Idempotent."""
        self.watch_journal(False)
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)

    def watch_journal(self, open_now: bool = True) -> None:
        """From now on the journal and its log must stay the files that they are, because a store has them open; with
        False they may be replaced."""
        journal = self.paths.journal
        fds = {}
        for path in (journal, journal.with_name(journal.name + "-wal")) if open_now else ():
            # Gone this early is gone as well: the store made both.
            with suppress(FileNotFoundError):
                fds[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
        before, self._journal = self._journal, fds
        for fd in before.values():
            os.close(fd)

    def free_bytes(self) -> int:
        room = os.statvfs(self.paths.root)
        return room.f_bavail * room.f_frsize

    def low_space(self) -> str:
        """Empty while there is room for new work; else one line that says how much is left, how much new work takes
        and what took it. Blocks."""
        if (lacks := self._lacks()) is None:
            return ""
        free, least = lacks
        short = f"{self.paths.root}: {free >> 20} MiB free, new work takes {least >> 20} MiB"
        return f"{short}{self.filling.said()}; {way_out(free)}"

    def _lacks(self) -> tuple[int, int] | None:
        """Bytes that are free and those that new work takes; None: there is room for it."""
        room = os.statvfs(self.paths.root)
        free = room.f_bavail * room.f_frsize
        least = max(self._least_free_bytes, int(self._least_free_fraction * room.f_blocks * room.f_frsize))
        return None if free >= least else (free, least)

    def keep_room(self) -> str:
        """As `low_space`; also give up the ballast when less than its own size is left, and restore it when there is
        room for new work. UsageError when the directory is not in its place any more; blocks for seconds to be sure
        of that."""
        try:
            self.check_place()
            low = self.low_space()
            if not low:
                self.restore_ballast()
            elif self.free_bytes() < self._ballast_bytes:
                self.release_ballast()
        except OSError as fault:
            # A disk may say so for a while: no reason to end what runs.
            return f"{fault.filename or self.paths.root}: {fault.strerror}; new work is taken when that is mended"
        return low

    def check_place(self) -> None:
        """Raise UsageError if the directory, or the journal in it that is watched, was moved, deleted or replaced; an
        OSError says nothing of that. What is missing only for a moment (a parent is mounted anew) was not moved: blocks
        for seconds to be sure. Who deletes the directory deletes what is in it first, and the folder may stay because
        this node wrote into it. From any thread."""
        why = self._gone
        for look in range(0 if why else _LOOKS):
            if look:
                time.sleep(_LOOK_EVERY_S)
            if not (why := self._missing()):
                return
        self._gone = why
        raise errors.UsageError(why)

    def _missing(self) -> str:
        """Say on one line what is not in its place, with the mend; empty: nothing."""
        root, moved = self.paths.root, "the data directory was moved or deleted while its node ran"
        linked = os.fstat(self._lock_fd).st_nlink > 0
        mend = (
            "start the node where it lies now"
            if linked
            else "its files are gone, and `diana restore` puts a backup there"
        )
        try:
            there = os.stat(root)
        except (FileNotFoundError, NotADirectoryError):
            return f"{root}: {moved}; {mend}"
        if (there.st_dev, there.st_ino) != self._identity or not (linked or self.paths.journal.exists()):
            return f"{root}: {moved}; {mend}"
        for path, fd in self._journal.items():
            known = os.fstat(fd)
            try:
                there = os.stat(path)
            except FileNotFoundError:
                besides = ""
            else:
                if (there.st_dev, there.st_ino) == (known.st_dev, known.st_ino):
                    continue
                besides = ", and another file lies in its place"
            if not linked:
                return f"{root}: {moved}; {mend}"
            fate, mend = (
                ("moved away", "put it back with what belongs to it, and start the node")
                if known.st_nlink
                else ("deleted", "move the directory aside, and `diana restore` puts a backup in its place")
            )
            return f"{path}: the journal was {fate}{besides} while its node ran; {mend}"
        return ""

    def _make_room(self) -> None:
        """Have a node begin on a disk that filled up while it was away: to answer, and to note what ended."""
        if self.ballast.exists() and self.free_bytes() < self._ballast_bytes:
            self.release_ballast()

    def lacks_room_to_begin(self) -> str:
        """Empty where a node can begin; else one line that says how much is left and what took the rest. Blocks."""
        free = self.free_bytes()
        if free >= LEAST_TO_BEGIN_BYTES:
            return ""
        return (
            f"{self.paths.root}: the disk is full ({free >> 10} KiB free there, a node begins with "
            f"{LEAST_TO_BEGIN_BYTES >> 20} MiB){self.filling.said(names=True)}; free space there"
        )

    def release_ballast(self) -> int:
        """Give up the ballast so that results still land; return the bytes won."""
        try:
            won = self.ballast.stat().st_size
            self.ballast.unlink()
        except FileNotFoundError:
            return 0
        return won

    def restore_ballast(self) -> bool:
        """Lay the ballast in again if there is room for new work; True if it is there."""
        if self.ballast.exists():
            return True
        if self._lacks():
            return False
        fd = os.open(self.ballast, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Real blocks: a sparse file would hold no room.
            os.posix_fallocate(fd, 0, self._ballast_bytes)
        except OSError:
            self.ballast.unlink(missing_ok=True)
            return False
        finally:
            os.close(fd)
        return True

    def _make_tree(self) -> None:
        paths = self.paths
        for folder in (
            paths.root,
            paths.keys,
            paths.spawner,
            paths.logs_root,
            *(paths.root / name for name in ("slots", "jobs", "staged", "cache", "blobs", "collected", "groups")),
        ):
            _make(folder, 0o700)
        # The group of the directory decides who may talk to the node (PROMISES 5.10).
        _make(paths.control, 0o750)

    def _refuse_remote(self) -> None:
        if kind := remote_kind(self.paths.root):
            raise errors.UsageError(
                f"{self.paths.root}: lies on {kind}, where locks and fsync cannot be trusted; name a local directory"
            )

    def _take_lock(self) -> None:
        fd = os.open(self.paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise errors.StoreBusy(
                f"{self.paths.root}: in use by node process {holder}; stop it (kill {holder}) "
                "or name another data directory"
            ) from None
        self._lock_fd = fd

    def _sign_lock(self) -> None:
        """Name this process in it: over the last one's name, for there may be no room for another block."""
        name = f"{os.getpid()}\n".encode()
        os.pwrite(self._lock_fd, name, 0)
        os.ftruncate(self._lock_fd, len(name))


def _make(folder: Path, mode: int) -> None:
    """Make the folder, or mend the mode of one that is too open; the node's own account must own it."""
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    if (folder.stat().st_mode & 0o777) & ~mode:
        folder.chmod(mode)
