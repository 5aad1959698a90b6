"""Removes trees that are deeper than a stack, a path or the open files of a process reach: a job makes what it likes.

One goes down and up step by step, with one folder open. Links are not followed; on the way up each folder has to be the
one that was gone through on the way down, whatever was moved meanwhile.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import count

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ALL = 0o700
_SHOWN_LEVELS = 20


def remove_deep(path: str) -> None:
    """Delete a folder and all below it, folders closed to us included; what others delete meanwhile is fine. OSError:
    not all could be deleted."""
    _remove(path, with_files=True)


def remove_groups(path: str, most_steps: int) -> bool:
    """Remove a control group with those in it, whose files go with them; False: not all are empty, or there are more
    than so many steps remove."""
    try:
        _remove(path, with_files=False, most_steps=most_steps)
    except OSError:
        return False
    return True


def _remove(path: str, *, with_files: bool, most_steps: int = 0) -> None:
    at = _opened(path, None, opens_up=with_files)
    above: list[tuple[str, int, int]] = []
    try:
        for _ in range(most_steps) if most_steps else count():
            below, again = _first_folder(at, with_files=with_files)
            if again:
                continue
            if below:
                try:
                    further = _opened(below, at, opens_up=with_files)
                except FileNotFoundError:
                    continue
                above.append((below, *_identity(at)))
            elif above:
                further = os.open("..", _FOLDER, dir_fd=at)
            else:
                break
            os.close(at)
            at = further
            if not below:
                name, *identity = above.pop()
                if _identity(at) != tuple(identity):
                    raise OSError(errno.ESTALE, "a folder was moved while it was being deleted", name)
                with suppress(FileNotFoundError):
                    os.rmdir(name, dir_fd=at)
    except OSError as fault:
        # Relative to a folder that only we know.
        fault.filename = "/".join([path, *(name for name, *_ in above[:_SHOWN_LEVELS]), str(fault.filename or "")])
        raise
    finally:
        os.close(at)
    # Where the steps did not suffice this fails.
    with suppress(FileNotFoundError):
        os.rmdir(path)


def _first_folder(at: int, *, with_files: bool) -> tuple[str, bool]:
    """Return the first folder in this one, having deleted the files before it; and whether there may be more behind
    what was deleted."""
    deleted = False
    with os.scandir(at) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                return entry.name, False
            if with_files:
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=at)
                deleted = True
    return "", deleted


def _opened(name: str, at: int | None, *, opens_up: bool) -> int:
    try:
        fd = os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        if not opens_up:
            raise
        os.chmod(name, _ALL, dir_fd=at)
        fd = os.open(name, _FOLDER, dir_fd=at)
    if opens_up and os.fstat(fd).st_mode & _ALL != _ALL:
        os.fchmod(fd, _ALL)
    return fd


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
