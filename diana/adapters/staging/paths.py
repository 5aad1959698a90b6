"""Walking to files without ever following a link: each component is opened below the descriptor of the one before.

A directory that is swapped for a link while we work is therefore either the old directory or an error, never a way out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from diana.adapters.file_names import PART_PREFIX

_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK: opening a FIFO must not wait for a writer."""


class NotPlain(OSError):
    """A link, device, FIFO or directory stands where a regular file was expected."""


@dataclass(frozen=True)
class Unlinked:
    """A directory named by a user, by the real path it had then. Jobs may own it and what lies above it, so no link is
    followed on the way to it either."""

    path: str
    never: frozenset[tuple[int, int]] = frozenset()
    """Folders (device, inode) that it must not lie in, whatever path leads there."""

    @staticmethod
    def outside(path: str, data: Path) -> Unlinked:
        """Outside the node's data directory: also where a mount shows that, or a folder of it, under another name."""
        return Unlinked(path, frozenset(_folders_of(data)))

    def __str__(self) -> str:
        return self.path


Root = Path | Unlinked
"""A directory to walk from; the path of one named by us or by the operator may hold links."""


def _folders_of(data: Path) -> Iterator[tuple[int, int]]:
    """The data directory and the folders in it."""
    with suppress(FileNotFoundError), os.scandir(data) as entries:
        for each in (
            os.stat(data),
            *(e.stat(follow_symlinks=False) for e in entries if e.is_dir(follow_symlinks=False)),
        ):
            yield _identity(each)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def open_root(root: Root) -> int:
    """The descriptor of an existing directory."""
    if isinstance(root, Unlinked):
        return _down(os.open("/", _WALK), absolute_parts(root.path), never=root.never)
    return os.open(root, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def folder(root: Root, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """The descriptor of the directory `parts` below `root`; with `create`, missing ones are made (0777 & umask)."""
    never = root.never if isinstance(root, Unlinked) else frozenset[tuple[int, int]]()
    at = _down(open_root(root), parts, create=create, never=never)
    try:
        yield at
    finally:
        os.close(at)


def _down(
    at: int,
    parts: Sequence[str],
    *,
    create: bool = False,
    durable: bool = False,
    never: frozenset[tuple[int, int]] = frozenset(),
) -> int:
    """The descriptor of the directory `parts` below `at`, which is closed. `durable`: so are the names made."""
    try:
        for part in parts:
            below = _step(at, part, create, durable)
            os.close(at)
            at = below
            if never and _identity(os.fstat(at)) in never:
                raise PermissionError(errno.EPERM, f"{part} lies in the node's data directory", part)
    except BaseException:
        os.close(at)
        raise
    return at


def _step(at: int, part: str, create: bool, durable: bool) -> int:
    try:
        return _open_folder(at, part)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=at)
    if durable:
        sync_folder(at)
    return _open_folder(at, part)


def _open_folder(at: int, part: str) -> int:
    try:
        return os.open(part, _WALK, dir_fd=at)
    except NotADirectoryError as fault:
        raise NotADirectoryError(fault.errno, f"{part} is a link or a file, not a folder", part) from None


def open_file(root: Root, parts: Sequence[str]) -> int:
    """A regular file for reading; NotPlain for anything else, OSError as usual."""
    with folder(root, parts[:-1]) as at:
        return open_plain(at, parts[-1])


def open_plain(at: int, name: str) -> int:
    """The regular file `name` in the directory `at`, for reading."""
    try:
        fd = os.open(name, _READ, dir_fd=at)
    except OSError as fault:
        if fault.errno in (errno.ELOOP, errno.ENXIO):
            raise NotPlain(fault.errno, "not a regular file", name) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotPlain(errno.EINVAL, "not a regular file", name)
    return fd


def absolute_parts(path: str) -> tuple[str, ...]:
    """Components of an absolute real path, to walk from `/`."""
    return tuple(part for part in path.split("/") if part)


def sync_folder(at: int) -> None:
    """Make the names in the directory `at` durable."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folders(root: Root, folders: Iterable[tuple[str, ...]]) -> None:
    """Make the names in the named folders below `root`, and in all between, durable; each folder once."""
    every = {parts[:depth] for parts in folders for depth in range(len(parts) + 1)}
    for parts in sorted(every, reverse=True):
        with folder(root, parts) as at:
            sync_folder(at)


def make_private(path: Path) -> None:
    """Make a folder as `make_folders` does, for ourselves alone."""
    make_folders(path, 0o700)


def make_folders(path: Root, mode: int = 0o777) -> None:
    """Make `path` and what is missing above it, names durable."""
    if isinstance(path, Unlinked):
        os.close(_down(os.open("/", _WALK), absolute_parts(path.path), create=True, durable=True, never=path.never))
        return
    missing = list(takewhile(lambda each: not each.is_dir(), (path, *path.parents)))
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode)
        with folder(each.parent, ()) as at:
            sync_folder(at)


def link(at: int, name: str, target: Path) -> None:
    """A symbolic link `name` to `target` in the directory `at`, replacing another link, never a directory."""
    try:
        os.symlink(target, name, dir_fd=at)
        return
    except FileExistsError:
        with suppress(OSError):
            if os.readlink(name, dir_fd=at) == str(target):
                return
    spare = f"{PART_PREFIX}link-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    with suppress(FileNotFoundError):
        os.unlink(spare, dir_fd=at)
    os.symlink(target, spare, dir_fd=at)
    os.rename(spare, name, src_dir_fd=at, dst_dir_fd=at)


def drop_file(root: Path, parts: Sequence[str]) -> None:
    """Delete a file below `root`; nothing there is fine. Its folder stays: others may be putting files there."""
    with suppress(FileNotFoundError), folder(root, parts[:-1]) as at:
        os.unlink(parts[-1], dir_fd=at)


def files_below(folder: Path) -> Iterator[str]:
    """Names of the regular files, relative; links are not followed and hidden files not shown."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(where, name)
            if not name.startswith(".") and stat.S_ISREG(os.lstat(path).st_mode):
                yield os.path.relpath(path, folder)
