"""Process groups, strays and scratch: all that must be gone before a slot takes its next job.

Every job leads a session of its own. A process that leaves that session by forking twice becomes a child of the
spawner, the nearest subreaper, and is told by its mark (`behind/marks.py`) or the DIANA_RUN entry of its environment.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from diana.adapters.deep_trees import remove_deep
from diana.adapters.lrm.spawner.behind.marks import mark_of, number_of
from diana.adapters.lrm.spawner.identity import environment, stat_fields

_PR_SET_CHILD_SUBREAPER = 36
_PARENT, _SESSION = 1, 3
"""Positions in /proc/PID/stat, counted from the state letter."""
MARKER = b"DIANA_RUN="


def become_subreaper() -> None:
    """Make orphans among our descendants our children. OSError where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def group_alive(pid: int) -> bool:
    """True if anything is left of the group that a reaped child of ours led. Its number is not reused while it
    lives."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_group(pid: int, number: int) -> None:
    """Signal the group of an unreaped child of ours, so that the number surely is its own."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def is_leader(pid: int) -> bool:
    fields = stat_fields(pid)
    return fields is not None and int(fields[_SESSION]) == pid


def ask(leader: int, number: int) -> bool:
    """Signal those processes of the session that an unreaped child of ours leads which heed that signal; True if any
    does. The others would die of it."""
    heeding = False
    for name in os.listdir("/proc"):
        fields = stat_fields(int(name)) if name.isdecimal() else None
        if fields is None or fields[0] in (b"Z", b"X") or int(fields[_SESSION]) != leader:
            continue
        if _catches(name, number):
            heeding = True
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), number)
    return heeding


def _catches(pid: str, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            line = next((line for line in status if line.startswith("SigCgt:")), "")
    except OSError:
        return False
    return bool(line) and bool(int(line.split()[1], 16) >> (number - 1) & 1)


def kill_family(leader: int, marker: bytes, number: int) -> bool:
    """Signal every process of a run that is not our child: those with its mark or marker and, while its leader is known
    to live (else 0), those of the leader's session. True if there was any.

    A dead leader's number may already lead another session, which must not be touched.
    """
    entry, mark = b"\0" + marker + b"\0", number_of(marker)
    any_left = False
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        fields = stat_fields(int(name))
        if fields is None or fields[0] in (b"Z", b"X"):
            continue
        own = entry in b"\0" + environment(int(name)) or (leader and int(fields[_SESSION]) == leader)
        if own or mark_of(int(name)) == mark:
            any_left = True
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), number)
    return any_left


class Children:
    """The spawner's children, the ones it did not start included."""

    def __init__(self) -> None:
        self._fd = -1
        # Kernels without CONFIG_PROC_CHILDREN lack the file; then all of /proc is read.
        with suppress(OSError):
            self._fd = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)

    def strays(self, known: Collection[int]) -> list[int]:
        """Return the living children not among `known` (a superset of none but running jobs). Zombies among them are
        reaped on the way."""
        reaped = True
        while reaped:
            out: list[int] = []
            reaped = False
            for pid in self._pids(len(known)):
                if pid in known:
                    continue
                try:
                    done, _ = os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue
                if done:
                    # Its own children became ours, perhaps since these were listed.
                    reaped = True
                else:
                    out.append(pid)
        return out

    def _pids(self, known: int) -> list[int]:
        if self._fd >= 0:
            data = os.pread(self._fd, 1 << 20, 0)
            # The usual case, every child a running job, costs no parsing.
            return [int(pid) for pid in data.split()] if data.count(b" ") > known else []
        me = str(os.getpid()).encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdecimal() and (fields := stat_fields(int(name))) is not None and fields[_PARENT] == me:
                found.append(int(name))
        return found


def marker_of(pid: int) -> bytes:
    for entry in environment(pid).split(b"\0"):
        if entry.startswith(MARKER):
            return entry
    return b""


def is_child_of_run(pid: int, marker: bytes) -> bool:
    """Whether it is a child of this process that leads a session of its own and bears the mark of that run."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            _, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return False
    return (int(parent), int(session)) == (os.getpid(), pid) and marker_of(pid) == marker


class Scratch:
    """The slots' scratch directories: there and empty for every job."""

    def __init__(self, slots_root: Path) -> None:
        self._root = slots_root
        self._made: set[int] = set()

    def path(self, slot: int) -> str:
        path = f"{self._root}/{slot}"
        if slot not in self._made:
            os.makedirs(path, mode=0o700, exist_ok=True)
            self._made.add(slot)
            self.empty(slot)
        return path

    def renew(self, slot: int) -> None:
        """Put another folder in its place, with nobody's rights but ours. OSError as `empty`."""
        remove(f"{self._root}/{slot}")
        self._made.discard(slot)

    def empty(self, slot: int) -> bool:
        """Empty a slot's directory; True if it had to be made anew. OSError when something cannot be deleted."""
        if slot not in self._made:
            return False
        path = f"{self._root}/{slot}"
        try:
            names = os.listdir(path)
        except OSError:
            # The job deleted or closed its own working directory: make it anew.
            self._made.discard(slot)
            with suppress(OSError):
                os.chmod(path, 0o700)
            self.path(slot)
            return True
        for name in names:
            remove(f"{path}/{name}")
        return False


def remove(path: str) -> None:
    """Delete a file or a tree without following links, directories closed to us included; a path that is not there
    is fine."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        # Closed to us, or too deep.
        remove_deep(path)
