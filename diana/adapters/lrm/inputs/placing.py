"""Puts an input into a job's directory as plain files of the job's own.

A job may write to what it finds: neither the registered file, nor another job, nor the next attempt may notice. And
programs look for their neighbours where a link leads. So files are copied: without cost where the file system shares
the content of two files until one is written (reflinks), else up to a bound. What is larger stays a link (`links.py`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from diana.adapters.lrm.finding import MOST_DEEP
from diana.adapters.lrm.folders import parent
from diana.adapters.lrm.runas.accounts import Ways
from diana.model.job.output_names import parts_below
from diana.model.job.urls import link_name

COPY_BYTES = 64 << 20
"""Most bytes of one job's inputs that are copied."""
LEAST_BYTES = 64 << 10
"""Bytes for which each file counts at least, and one that costs no bytes: a folder of many small files has a bound,
too."""
_CLONE = 0x40049409
"""FICLONE of ioctl_ficlonerange(2), which Python gives a name only from 3.14 on."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK: opening a FIFO must not wait for a writer."""
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_HELD_BYTES = 16 << 20
"""Most bytes of small files that are kept in memory while an order is prepared."""
_RESERVE_SHARE = 0.05
"""Part of the file system that copies leave free; where there is less, inputs are links."""
_NO_CLONE = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM})


def staged_at(staged: Path, source: str) -> Path:
    """Return where an input lies among what was staged for a subgroup. ValueError."""
    scheme, _, rest = source.partition(":")
    parts = (link_name(rest),) if scheme == "url" else parts_below(rest)
    if scheme not in ("dataset", "blob", "url") or (scheme == "blob" and len(parts) != 1):
        raise ValueError(f"input {source!r} is none of dataset:NAME[/FILE], blob:SHA256 and url:URL")
    return staged.joinpath(scheme, *parts)


class InputChanged(Exception):
    """What was looked at is another now: the file was written, or a link stands where it was."""


class Item(NamedTuple):
    """One file of an input, or one link in a folder of a user's, which is made again and not followed."""

    parts: tuple[str, ...]
    """Its place below the input's; empty: the input is this file."""
    path: str
    size_bytes: int = 0
    mtime_ns: int = 0
    executable: bool = False
    link: str = ""
    device: int = 0


class InputContent(NamedTuple):
    """All of an input."""

    is_folder: bool
    folders: list[tuple[str, ...]]
    items: list[Item]
    copied_bytes: int
    """Bytes for which it counts where its files are copied."""
    cloned_bytes: int


class Placer:
    """Serves one order, so that an input that many jobs read is looked at once. Not safe for several threads."""

    def __init__(self, root: Path, staged: Path, copy_bytes: int, most_files: int = sys.maxsize) -> None:
        """`root`: the data directory, which exists. `staged`: the subgroup's links to its inputs. `copy_bytes`: the
        bound for one job. `most_files`: most files and folders of an input that are looked at. OSError."""
        self._root = root
        self._staged = staged
        self._copy_bytes = copy_bytes
        self._most_files = min(most_files, copy_bytes // LEAST_BYTES)
        disk = os.statvfs(root)
        self._room_bytes = int((disk.f_bavail - disk.f_blocks * _RESERVE_SHARE) * disk.f_frsize)
        self._contents: dict[str, InputContent | None] = {}
        self._clones: dict[tuple[int, int], bool] = {}
        self._held: dict[str, bytes] = {}
        """Path -> content of small files, which many jobs read."""
        self._held_bytes = 0
        self._left_bytes = 0

    def begin(self) -> None:
        """Begin the next job."""
        self._left_bytes = self._copy_bytes

    def copies(self, at: int, target: Path) -> InputContent | None:
        """Return all of an input if the job whose directory `at` is may have it as files of its own, and take the room;
        None: it is too large. OSError, InputChanged."""
        content = self.content(target)
        if content is None:
            return None
        cloned = self._can_clone(content, at)
        wanted = content.cloned_bytes if cloned else content.copied_bytes
        taken = 0 if cloned else content.copied_bytes
        if wanted > self._left_bytes or taken > max(self._room_bytes, 0):
            return None
        self._left_bytes -= wanted
        self._room_bytes -= taken
        return content

    def put(self, content: InputContent, at: int, name: str, executable: bool, ways: Ways | None) -> None:
        """Make it as `name` in the folder `at`, where nothing of that name is. `executable`: a file gets the right to
        be executed, whatever the file it is made from has. OSError, InputChanged."""
        if not content.is_folder:
            item = content.items[0]
            self._copy(item, at, name, executable or item.executable, ways)
            return
        os.mkdir(name, 0o700, dir_fd=at)
        top = os.open(name, _FOLDER, dir_fd=at)
        try:
            for parts in content.folders:
                with _below(top, parts[:-1]) as there:
                    os.mkdir(parts[-1], 0o700, dir_fd=there)
            for item in content.items:
                with _below(top, item.parts[:-1]) as there:
                    if item.link:
                        os.symlink(item.link, item.parts[-1], dir_fd=there)
                    else:
                        self._copy(item, there, item.parts[-1], item.executable, ways)
        finally:
            os.close(top)

    def lead(self, target: Path) -> Path:
        """Return where a staged input lies: the first link of ours on the way is followed, and none behind it."""
        at = self._staged
        parts = target.relative_to(self._staged).parts if target.is_relative_to(self._staged) else ()
        if not parts:
            return target
        for done, part in enumerate(parts, 1):
            at = at / part
            if at.is_symlink():
                return Path(os.readlink(at)).joinpath(*parts[done:])
        return at

    def content(self, target: Path) -> InputContent | None:
        """Return all of an input; None: its files are too many. OSError, InputChanged."""
        key = str(target)
        if key not in self._contents:
            real = self.lead(target)
            # Links in a folder that we made are ours; in one of a user's they are the user's.
            self._contents[key] = self._look(str(real), ours=real == target)
        return self._contents[key]

    def _look(self, path: str, *, ours: bool) -> InputContent | None:
        """Return what there is; None: more than may be copied. `ours`: the folder and its links were made by us."""
        fd = self._open(path)
        try:
            status = os.fstat(fd)
            if not stat.S_ISDIR(status.st_mode):
                return _summed(False, [], [_item((), path, status)])
            folders: list[tuple[str, ...]] = []
            items: list[Item] = []
            for each in self._walk(fd, path, (), ours):
                if isinstance(each, Item):
                    items.append(each)
                elif len(each) > MOST_DEEP:
                    return None
                else:
                    folders.append(each)
                if len(items) + len(folders) > self._most_files:
                    return None
            return _summed(True, folders, items)
        finally:
            os.close(fd)

    def _walk(self, fd: int, path: str, parts: tuple[str, ...], ours: bool) -> Iterator[Item | tuple[str, ...]]:
        with os.scandir(fd) as entries:
            for entry in entries:
                there, own = f"{path}/{entry.name}", (*parts, entry.name)
                if entry.is_symlink():
                    link = os.readlink(entry.name, dir_fd=fd)
                    if not ours:
                        yield Item(own, there, link=link)
                        continue
                    file = self._open(link)
                    try:
                        yield _item(own, link, os.fstat(file))
                    finally:
                        os.close(file)
                elif entry.is_dir(follow_symlinks=False):
                    yield own
                    below = os.open(entry.name, _FOLDER, dir_fd=fd)
                    try:
                        yield from self._walk(below, there, own, ours)
                    finally:
                        os.close(below)
                elif entry.is_file(follow_symlinks=False):
                    yield _item(own, there, entry.stat(follow_symlinks=False))

    def _can_clone(self, content: InputContent, at: int) -> bool:
        """True if the file system shares content between the place of the input's files and the folder `at`."""
        item = max(content.items, key=lambda each: each.size_bytes, default=None)
        if item is None or not item.size_bytes:
            return False
        pair = item.device, os.fstat(at).st_dev
        if pair not in self._clones:
            source = self._open(item.path)
            try:
                self._clones[pair] = _clones(source, at)
            finally:
                os.close(source)
        return self._clones[pair]

    def _open(self, path: str) -> int:
        """Open a file or folder for reading; no link is followed but those of the data directory's own path. OSError
        names the path, InputChanged."""
        target = Path(path)
        try:
            return _open_below(Path("/"), target.parts[1:])
        except OSError as fault:
            if fault.errno in (errno.ELOOP, errno.ENOTDIR):
                for folder in target.parents:
                    if folder.exists() and folder.samefile(self._root):
                        return _open_below(self._root, target.relative_to(folder).parts)
                raise InputChanged from None
            raise OSError(fault.errno, fault.strerror, path) from None

    def _copy(self, item: Item, at: int, name: str, executable: bool, ways: Ways | None) -> None:
        # The mode less our umask.
        made = os.open(name, _MAKE, 0o777 if executable else 0o666, dir_fd=at)
        try:
            if item.size_bytes <= LEAST_BYTES:
                _write(made, self._small(item))
            else:
                with self._source(item) as source:
                    self._fill(made, source, item.device)
            if ways is not None:
                ways.own(made, executable=executable)
            # make(1) and its like judge by it.
            os.utime(made, ns=(item.mtime_ns, item.mtime_ns))
        finally:
            os.close(made)

    def _small(self, item: Item) -> bytes:
        data = self._held.get(item.path)
        if data is None:
            with self._source(item) as source:
                data = os.read(source, LEAST_BYTES)
            if self._held_bytes + len(data) <= _HELD_BYTES:
                self._held[item.path] = data
                self._held_bytes += len(data)
        return data

    @contextmanager
    def _source(self, item: Item) -> Iterator[int]:
        """A descriptor of a file. InputChanged, when it is opened or was read, if it is not what was looked at."""
        source = self._open(item.path)
        try:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise InputChanged
            yield source
            after = os.fstat(source)
            if (after.st_size, after.st_mtime_ns) != (item.size_bytes, item.mtime_ns):
                raise InputChanged
        finally:
            os.close(source)

    def _fill(self, made: int, source: int, device: int) -> None:
        if self._clones.get((device, os.fstat(made).st_dev)):
            try:
                fcntl.ioctl(made, _CLONE, source)
            except OSError as fault:
                if fault.errno not in _NO_CLONE:
                    raise
            else:
                return
        while os.sendfile(made, source, None, _CHUNK_BYTES):
            pass


def _item(parts: tuple[str, ...], path: str, status: os.stat_result) -> Item:
    executable = bool(status.st_mode & stat.S_IXUSR)
    return Item(parts, path, status.st_size, status.st_mtime_ns, executable, device=status.st_dev)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _summed(is_folder: bool, folders: list[tuple[str, ...]], items: list[Item]) -> InputContent:
    copied = sum(max(item.size_bytes, LEAST_BYTES) for item in items) + len(folders) * LEAST_BYTES
    return InputContent(is_folder, folders, items, copied, (len(items) + len(folders)) * LEAST_BYTES)


def _open_below(root: Path, parts: Sequence[str]) -> int:
    with parent(root, parts, create=False) as at:
        return os.open(parts[-1], _READ, dir_fd=at)


@contextmanager
def _below(top: int, parts: Sequence[str]) -> Iterator[int]:
    """A descriptor of a folder below `top`; no link is followed."""
    at = os.dup(top)
    try:
        for part in parts:
            below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _clones(source: int, at: int) -> bool:
    """Try it with a file that has no name."""
    try:
        spare = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=at)
    except OSError:
        return False
    try:
        fcntl.ioctl(spare, _CLONE, source)
    except OSError:
        return False
    finally:
        os.close(spare)
    return True
