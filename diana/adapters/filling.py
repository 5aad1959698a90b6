"""Largest files of a data directory, and the jobs that wrote them: they fill its disk.

Whoever is told that there is no room asks who took it. A directory may hold a million files, and a refusal must not
wait for a walk over them: few are looked at, where it is likeliest first (the folders that running jobs stand in, then
each part of the directory in turn), and not again for a minute.
"""

from __future__ import annotations

import heapq
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from diana.model.ids import GroupId, is_group_id, job_id

MOST_ENTRIES = 20_000
"""Names looked at; a tenth of a second on a slow disk that has them in memory."""
MOST_JOBS = 1_000
"""Folders of running jobs that are looked at first."""
MOST_NAMED = 3
LEAST_BYTES = 2 << 20
"""Smaller files fill no disk."""
MOST_NAME = 80
"""Characters of a file's name, or of its owner's."""
MOST_DIGITS = 18
"""Digits of a job's index."""
AGAIN_S = 60.0
LEAST_TO_ORDER_BYTES = 4 << 20
_AT_ONCE = 100


class LargeFile(NamedTuple):
    size_bytes: int
    """Bytes taken on the disk."""
    name: str
    """Its path below the data directory, or below the folder of its owner; else all of it."""
    owner: str = ""
    """`job alpha-3.17`, `group alpha-3`; `a job`: of one that is not known; empty: of none."""


class Filling:
    """Remembers for a minute what it saw. From any thread."""

    def __init__(self, root: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._seen: list[LargeFile] = []
        self._until_s = 0.0

    def said(self, names: bool = False) -> str:
        """As `told`, of the newest look. Blocks."""
        with self._lock:
            now_s = self._clock_s()
            if now_s >= self._until_s:
                self._seen = largest(self._root)
                self._until_s = now_s + AGAIN_S
            return told(self._seen, names)


def way_out(free_bytes: int) -> str:
    """Return the mend to tell where so much is free. An order to a node is a record, and takes room itself."""
    return f"free space there{', or end what fills it: diana cancel' if free_bytes >= LEAST_TO_ORDER_BYTES else ''}"


def told(files: list[LargeFile], names: bool = False) -> str:
    """`; the largest: 12.0 GiB of job alpha-3.17, ...`; empty where no file is large. How a job names its files is for
    the site's operator alone (`names`): the line goes to everybody who is refused, also at peers."""
    return f"; the largest: {', '.join(_shown(one, names) for one in files)}" if files else ""


def _shown(file: LargeFile, names: bool) -> str:
    name = f" {file.name}" if names or not file.owner else ""
    return f"{_size(file.size_bytes)}{name}{' of ' if file.owner else ''}{file.owner}"


def largest(root: Path, most_entries: int = MOST_ENTRIES) -> list[LargeFile]:
    """Return the largest files of a data directory, the largest first, as far as so many names tell. Files that cannot
    be read are left out."""
    # As the kernel names the folders of processes.
    root = Path(os.path.realpath(root))
    working = _working_folders(os.fspath(root))
    found: dict[tuple[int, int], tuple[int, str]] = {}
    device = _device(root)
    walks = deque([_jobs_files(list(working)), *_parts(root)])
    while walks and most_entries > 0:
        walk = walks.popleft()
        # A part with many names leaves the others their share.
        entries = list(islice(walk, min(_AT_ONCE, most_entries)))
        most_entries -= len(entries)
        for entry in entries:
            with suppress(OSError):
                there = entry.stat(follow_symlinks=False)
                if there.st_dev == device and there.st_blocks * 512 >= LEAST_BYTES and entry.name != "ballast":
                    found[there.st_dev, there.st_ino] = there.st_blocks * 512, entry.path
        if entries:
            walks.append(walk)
    top = heapq.nsmallest(MOST_NAMED, found.values(), key=lambda one: (-one[0], one[1]))
    files = [LargeFile(size_bytes, *_named(Path(path).relative_to(root), path, working)) for size_bytes, path in top]
    return heapq.nsmallest(MOST_NAMED, [*files, *_held_open(root, device)], key=lambda one: (-one.size_bytes, one.name))


def _held_open(root: Path, device: int) -> list[LargeFile]:
    """Return the large files of that disk that processes of this directory's jobs have open where no walk finds them:
    deleted ones, and those that lie elsewhere."""
    found: dict[int, LargeFile] = {}
    with suppress(OSError):
        spawner = os.stat(root / "spawner")
        mark = f"DIANA_RUN={spawner.st_dev}-{spawner.st_ino}:".encode()
        jobs = [name for name in os.listdir("/proc") if name.isdecimal() and _is_marked(name, mark)]
        for pid in jobs[:MOST_JOBS]:
            with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
                for entry in islice(entries, _AT_ONCE):
                    with suppress(OSError):
                        there, path = entry.stat(), os.readlink(entry.path)
                        within = there.st_nlink and path.startswith(f"{root}/")
                        if there.st_dev != device or not stat.S_ISREG(there.st_mode) or within:
                            continue
                        if (size_bytes := there.st_blocks * 512) >= LEAST_BYTES:
                            owner = f"job {job}" if (job := _job_of(pid)) else "a job"
                            found[there.st_ino] = LargeFile(size_bytes, _on_one_line(path), owner)
    return list(found.values())


def _is_marked(pid: str, mark: bytes) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return b"\0" + mark in b"\0" + file.read(1 << 20)
    return False


def _device(root: Path) -> int:
    try:
        return os.stat(root).st_dev
    except OSError:
        return -1


def _parts(root: Path) -> list[Iterator[os.DirEntry[str]]]:
    """A walk over each folder of the directory, and one over the files beside them."""
    try:
        with os.scandir(root) as entries:
            top = sorted(islice(entries, _AT_ONCE), key=lambda one: one.name)
    except OSError:
        return []
    return [iter([e for e in top if not _is_folder(e)]), *(_walk([e.path]) for e in top if _is_folder(e))]


def _jobs_files(folders: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield the files that lie in folders where jobs run, none below them."""
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            yield from islice((entry for entry in entries if not _is_folder(entry)), _AT_ONCE)


def _walk(folders: list[str]) -> Iterator[os.DirEntry[str]]:
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if _is_folder(entry):
                    folders.append(entry.path)
                # Folders count as names: a tree of nothing else is no shorter.
                yield entry


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _working_folders(root: str) -> dict[str, str]:
    """Folders below `root` that jobs' processes stand in, each with the job's id where it can be read."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal() and len(found) < MOST_JOBS:
                with suppress(OSError):
                    folder = os.readlink(f"/proc/{name}/cwd")
                    if folder.startswith(f"{root}/") and folder not in found:
                        found[folder] = _job_of(name)
    return found


def _job_of(pid: str) -> str:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read(1 << 20).split(b"\0"):
            if entry.startswith(b"DIANA_JOB="):
                return _a_job(entry.partition(b"=")[2].decode(errors="replace"))
    return ""


def _a_job(told: str) -> str:
    """The text if it is a job's id, else nothing: a process says of itself what it likes, and this goes to peers."""
    group, _, index = told.rpartition(".")
    return told if is_group_id(group) and index.isascii() and index.isdecimal() and len(index) <= MOST_DIGITS else ""


def _named(path: Path, whole: str, working: dict[str, str]) -> tuple[str, str]:
    """Name and owner as in `LargeFile`; the paths are those of `diana/model/layout.py`."""
    name, owner = path.as_posix(), ""
    match path.parts:
        case ("jobs", part, epoch, index, *rest) if rest and index.isdecimal() and epoch.startswith("e"):
            name, owner = "/".join(rest), f"job {job_id(_group(part), int(index))}"
        case ("slots", _, *rest) if rest:
            owner = _owner(whole, working)
            name, owner = ("/".join(rest), f"job {owner}") if owner else (name, "a job")
        case ("logs", group, *_):
            name, owner = "log", f"group {group}"
        case ("collected", part, _, *rest) if rest:
            name, owner = "/".join(rest), f"group {_group(part)}"
        case ("groups", group, _, *rest) if rest:
            name, owner = "/".join(rest), f"group {group}"
    return _on_one_line(name), _on_one_line(owner)


def _on_one_line(name: str) -> str:
    """A job names its files and folders as it likes."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    return shown if len(shown) <= MOST_NAME else f"{shown[: MOST_NAME - 3]}..."


def _group(part: str) -> GroupId:
    return GroupId(part.rpartition("_")[0])


def _owner(path: str, working: dict[str, str]) -> str:
    for folder, job in working.items():
        if job and path.startswith(f"{folder}/"):
            return job
    return ""


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.1f} GiB" if size_bytes >= 2**30 else f"{size_bytes >> 20} MiB"
