"""A control group (version 2) for each running job of a spawner, where one may be made: who is in it is the job's,
whatever it forked, and nobody else's; where the memory controller can be had, the kernel holds the job's memory.

The kernel puts a child into the group of its parent. So the spawner steps into a job's group for the moment of the
start, as it steps into the job's folder, and the job is there from its first instruction on.

A group's name is the data directory's and the run's: the next spawner finds it by what it knows of the run, and what
bears another directory's name is never touched.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana.adapters.deep_trees import remove_groups
from diana.adapters.lrm.cgroups.found import ROOT, UNIFIED, GroupPlace, place

NOTE = "cgroups.json"
"""File in the spawner's folder: where its groups lie, and how it stands with them."""
_SYSTEMD = "run/systemd/system"
_DELEGATED = ("user.delegate", "trusted.delegate")
"""Attributes by which systemd marks a group that it leaves to others, also for those who may not read the second."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,160}")
_OF_JOB = re.compile(r"diana-[0-9]+-[0-9]+\.")
"""How the group of a job begins, whichever data directory it is of."""
_PROCS = "cgroup.procs"
_MOST_STEPS = 20_000
"""Into and out of groups that a job made, at once: others wait meanwhile."""
_LINKS_OF_ONE = 2
"""Links of a group without groups in it."""


class GroupStanding(NamedTuple):
    """How it stands with the groups of jobs."""

    base: str
    """The group in which they are made; empty: none is made."""
    held: bool
    """True if the kernel holds the memory of their jobs; else it is sampled."""
    why: str
    """Why it is not more."""


class Spent(NamedTuple):
    """A job's memory, as the kernel counted it."""

    peak_bytes: int
    """0: it does not tell."""
    over: bool
    """True if it ended the job for too much of it."""


class _Unfit(Exception):
    """Why a group is none for those of jobs."""


def noted(folder: Path) -> GroupStanding | None:
    """Return what the last spawner of this folder wrote down; None: nothing."""
    said = _note(folder)
    try:
        return GroupStanding(str(said["base"]), bool(said["held"]), str(said["why"]))
    except KeyError:
        return None


class JobCgroups:
    """Nothing here raises OSError: where a group cannot be had, the job runs without one."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        """`folder`: the spawner's."""
        status = os.stat(folder)
        self._prefix = f"diana-{status.st_dev}-{status.st_ino}."
        self._root = root
        self._home = -1
        self._said: tuple[str, int | None] = ("", None)
        self.left: set[str] = set()
        """Groups that are to be removed and are not empty yet."""
        bases = _note(folder).get("bases")
        self._bases = (
            [each for each in bases if isinstance(each, str) and os.path.isdir(each)] if isinstance(bases, list) else []
        )
        self.standing = GroupStanding("", False, "")
        self.most_processes = 0
        """Processes and threads that a job may have where the kernel counts them; 0: as many as it likes."""
        try:
            self.standing = self._settle()
            self._bases = [*(base for base in self._bases if base != self.standing.base), self.standing.base]
        except _Unfit as fault:
            self.standing = GroupStanding("", False, str(fault))
            _say(f"jobs have no control groups: {fault}")
        try:
            (folder / f"{NOTE}.new").write_text(json.dumps({**self.standing._asdict(), "bases": self._bases}))
            os.replace(folder / f"{NOTE}.new", folder / NOTE)
        except OSError as fault:
            with suppress(OSError):
                os.unlink(folder / f"{NOTE}.new")
            # The next spawner would not find what was made there.
            self._do_without(f"{folder / NOTE}: {fault.strerror}")

    # --- the place -------------------------------------------------------------------------------------

    def _settle(self) -> GroupStanding:
        own = place(UNIFIED, self._root)
        if own is None:
            raise _Unfit("no cgroup v2 is mounted here")
        try:
            self._home = os.open(own.folder / _PROCS, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as fault:
            raise _Unfit(_told(fault)) from None
        why = f"{own.folder} is systemd's own: its unit lacks Delegate=yes"
        for base in self._candidates(own):
            try:
                return self._tried(base, inner=base != own.folder or _is_very_root(base))
            except OSError as fault:
                why = _told(fault)
        raise _Unfit(why)

    def _candidates(self, own: GroupPlace) -> Iterator[Path]:
        """The group above ours first: it has no processes of its own, so that it may hand out controllers. A node that
        runs within a job stays there with its jobs, which are that job's: they end with it and count for its memory."""
        managed = (self._root / _SYSTEMD).is_dir()
        above = () if own.folder == own.top or _OF_JOB.match(own.folder.name) else (own.folder.parent,)
        for folder in (*above, own.folder):
            if not managed or _is_delegated(folder):
                yield folder

    def _tried(self, base: Path, *, inner: bool) -> GroupStanding:
        """Go there and back; OSError where that fails. `inner`: it is no group of ours that a manager of services must
        be able to put processes into."""
        if inner:
            with suppress(OSError):
                # Refused where the controller is not there.
                _write(f"{base}/cgroup.subtree_control", b"+pids")
        why = "a group that holds processes hands out no memory" if not inner else self._enable_memory(base)
        trial = str(base / f"{self._prefix}trial")
        self._make(trial)
        try:
            _write(f"{trial}/{_PROCS}", b"0")
            os.write(self._home, b"0")
            held = not why and os.path.exists(f"{trial}/memory.max")
        finally:
            self.remove(trial)
        return GroupStanding(str(base), held, "" if held else why or "the kernel has no limit of memory for it")

    def _enable_memory(self, base: Path) -> str:
        """Return why the groups in it have no memory controller; empty: they have."""
        try:
            if b"memory" not in _read(f"{base}/cgroup.controllers").split():
                return f"the memory controller is not there in {base}"
            if b"memory" not in _read(f"{base}/cgroup.subtree_control").split():
                _write(f"{base}/cgroup.subtree_control", b"+memory")
        except OSError as fault:
            return _told(fault)
        return ""

    def _make(self, path: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(path)
        self.left.discard(path)

    def _do_without(self, why: str) -> None:
        self.standing = GroupStanding("", False, why)
        _say(f"jobs have no control groups from here on: {why}")

    def _falls_back(self, fault: OSError, what: str) -> None:
        """Say it once, however many jobs meet with it."""
        if (what, fault.errno) != self._said:
            self._said = what, fault.errno
            _say(f"{what}: {_told(fault)}")

    # --- a job -----------------------------------------------------------------------------------------

    def _path(self, base: str, run: str) -> str:
        name = run if _NAME.fullmatch(run) else hashlib.sha256(run.encode()).hexdigest()[:32]
        return f"{base}/{self._prefix}{name}"

    def enter(self, run: str) -> str:
        """Make a run's group and step into it, until `leave`; return it. Empty: the run has none."""
        return self.put(run, 0)

    def put(self, run: str, pid: int) -> str:
        """Make a run's group and put a process into it, 0 for this one; return it. Empty: the run has none."""
        if not self.standing.base:
            return ""
        path = self._path(self.standing.base, run)
        try:
            self._make(path)
            _write(f"{path}/{_PROCS}", b"%d" % pid)
        except OSError as fault:
            self._falls_back(fault, "a job runs without a control group")
            self.remove(path)
            return ""
        return path

    def leave(self) -> bool:
        """Step back; False: it cannot be done, and the group that was entered is nobody's from here on."""
        try:
            os.write(self._home, b"0")
        except OSError as fault:
            self._do_without(f"the way back from one: {fault.strerror}")
            return False
        return True

    def limit(self, path: str, memory_bytes: int) -> None:
        """Have the kernel hold the job to its processes and its memory, where it can. A limit of memory that swaps
        would be none; and of a job whose one process was ended for it nobody could tell what its others do."""
        if path and self.most_processes:
            with suppress(OSError):
                # The file is there where the controller is.
                _write(f"{path}/pids.max", b"%d" % self.most_processes)
        if not path or not memory_bytes or not self.standing.held:
            return
        try:
            _write(f"{path}/memory.oom.group", b"1")
            with suppress(FileNotFoundError):
                _write(f"{path}/memory.swap.max", b"0")
            _write(f"{path}/memory.max", b"%d" % memory_bytes)
        except OSError as fault:
            self._falls_back(fault, "a job's memory is sampled alone")

    def spent(self, path: str) -> Spent:
        """Return the memory of a job that is over. The kernel counts cached pages of files that the job read, too; the
        job did not want those that are left in the end, and they are taken off. All counts where the job was ended for
        its memory: then the cache went before."""
        if not path or not self.standing.held:
            return Spent(0, over=False)
        over = _field(f"{path}/memory.events.local", b"oom") > 0 and _field(f"{path}/memory.events", b"oom_kill") > 0
        try:
            peak = int(_read(f"{path}/memory.peak"))
        except (OSError, ValueError):
            return Spent(0, over)
        cached = 0 if over else _field(f"{path}/memory.stat", b"file") - _field(f"{path}/memory.stat", b"shmem")
        return Spent(max(0, peak - max(0, cached)), over)

    def pids(self, path: str) -> list[int]:
        """The processes in a job's group and in those it made in it, zombies left out."""
        found: list[int] = []
        folders = [path]
        while folders:
            at = folders.pop()
            with suppress(OSError):
                found += [int(pid) for pid in _read(f"{at}/{_PROCS}").split()]
                if os.stat(at).st_nlink > _LINKS_OF_ONE:
                    folders += [entry.path for entry in os.scandir(at) if entry.is_dir(follow_symlinks=False)]
        # 0 stands for a process of another namespace.
        return [pid for pid in found if pid]

    def kill(self, path: str) -> bool:
        """Kill what is in a job's group; True if anything was."""
        if not path or _field(f"{path}/cgroup.events", b"populated") == 0:
            return False
        pids = self.pids(path)
        if os.getpid() in pids:
            return False
        try:
            _write(f"{path}/cgroup.kill", b"1")
        except OSError:
            # A kernel before 5.14.
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return True

    def remove(self, path: str) -> None:
        """Remove a group, with those that the job made in it: at once if it is empty, else with a later `tidy`."""
        if not path:
            return
        self.left.discard(path)
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as fault:
            emptied = fault.errno == errno.EBUSY and remove_groups(path, _MOST_STEPS)
            # One from which there is no way back is left alone.
            if not emptied and os.getpid() not in self.pids(path):
                self.left.add(path)

    def tidy(self) -> None:
        """End and remove what could not be removed yet."""
        for path in sorted(self.left):
            if not self.kill(path):
                self.remove(path)

    # --- another spawner's -----------------------------------------------------------------------------

    def find(self, run: str) -> str:
        """Return the group in which an earlier spawner started a run; empty: there is none."""
        return next((path for base in self._bases if os.path.isdir(path := self._path(base, run))), "")

    def is_of(self, path: str, pid: int, leaders: Collection[int]) -> bool:
        """Return True unless processes of `leaders` other than `pid` are in the group too: a spawner that finds no way
        back from a job's group starts all later jobs there, and the group is none of theirs alone."""
        return not (set(self.pids(path)) & set(leaders)) - {pid}

    def sweep(self, kept: Collection[str], leaders: Collection[int]) -> None:
        """End and remove all groups of this data directory but those `kept` and those with a process of `leaders`, by
        whom jobs go on."""
        for base in self._bases:
            try:
                names = os.listdir(base)
            except OSError:
                continue
            found = {f"{base}/{name}" for name in names if name.startswith(self._prefix)} - set(kept)
            self.left |= {path for path in found if not leaders or self.is_of(path, 0, leaders)}
        self.tidy()


def _say(what: str) -> None:
    # A log on a disk without room costs no job.
    with suppress(OSError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _is_very_root(folder: Path) -> bool:
    """The root of all groups lacks this file; it alone may hold processes and hand out controllers."""
    return not (folder / "cgroup.events").exists()


def _is_delegated(folder: Path) -> bool:
    for name in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def _field(path: str, name: bytes) -> int:
    """The number after a name in a file of lines of both; 0: it is not there."""
    try:
        for line in _read(path).splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == name:
                return int(words[1])
    except (OSError, ValueError):
        pass
    return 0


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _write(path: str, value: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value)
    except OSError as fault:
        fault.filename = path
        raise
    finally:
        os.close(fd)


def _told(fault: OSError) -> str:
    return f"{fault.filename}: {fault.strerror}" if fault.filename else str(fault.strerror)


def _note(folder: Path) -> dict[str, object]:
    try:
        found = json.loads((folder / NOTE).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
