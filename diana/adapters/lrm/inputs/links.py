"""Inputs that are links: shared with other jobs, so each is looked at before a job begins and when it has ended.

A job that changed such an input fails, and so does whoever read it meanwhile; the copy that it changed (`apart.py`; in
its stead, without room for one, what this site keeps) is thrown away, so that the next attempt has the original. What a
user registered where it lies is the user's and stays; the catalogue notices that it is another.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

import msgspec

from diana.adapters.lrm.inputs import mounts
from diana.adapters.lrm.spawner.processes import remove
from diana.model.ids import SubgroupId
from diana.model.layout import DataDir

MOST_FILES = 100_000
"""Most files of a folder that are looked at, twice for each batch of jobs; a larger one is not watched."""
_FOLDER = "links"
_STORES = ("cache", "blobs")
_OWN = (*_STORES, "staged", "jobs")
"""Folders of the data directory with copies that this site made for itself."""
_CLOCK_STEP_NS = 1_000_000_000
"""Most nanoseconds by which a file system's times may be coarse."""


class InputLink(msgspec.Struct, frozen=True, array_like=True):
    path: str
    """Where the job finds it, below its directory."""
    source: str
    target: str
    mark: str
    """`mark_of` the target before the job began."""
    mounted: bool = False
    """True if a read-only mount is to stand in its place where the machine allows one."""


_decoder = msgspec.msgpack.Decoder(list[InputLink])


def mark_of(target: str) -> str:
    """Return what `same` compares of a file or of a folder's files; empty: it is not there, or its files are too
    many."""
    try:
        is_folder = stat.S_ISDIR(os.stat(target).st_mode)
        paths = sorted(islice(_files(target), MOST_FILES + 1)) if is_folder else [target]
    except OSError:
        return ""
    if len(paths) > MOST_FILES:
        return ""
    content, times, names = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16), 0
    for path in paths:
        told, changed_ns = f"{path}\0-\n", 0
        with suppress(OSError):
            # The links in a folder that the site made lead to the files.
            status = os.stat(path)
            told, changed_ns = f"{path}\0{status.st_size} {status.st_mtime_ns}\n", status.st_ctime_ns
            names += status.st_nlink
        content.update(told.encode(errors="surrogateescape"))
        times.update(b"%d\n" % changed_ns)
    return f"{content.hexdigest()} {times.hexdigest()} {names}"


def same(before: str, now: str) -> bool:
    """True if nothing was changed between two marks: sizes and times of change are as they were. Another name for a
    file (a backup's, or another dataset's with the same content) changes its time, too, and nothing of it."""
    if before in ("", now):
        return True
    (content, _, names), (content_now, _, names_now) = before.split(), now.split() or ("", "", "")
    return content == content_now and names != names_now


def _files(top: str) -> Iterator[str]:
    """Yield the paths of what is no folder below one; OSError when it cannot be read."""
    left = [top]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    yield entry.path


def note(data: DataDir, subgroup: SubgroupId, epoch: int, index: int, links: Sequence[InputLink]) -> Path | None:
    """Remember what a job that is about to begin has as links, in place of what an earlier attempt had; return the list
    that the words before its command read, if mounts are to stand in their place. OSError."""
    path = _path(data, subgroup, epoch, index)
    told = path.with_suffix(".paths")
    if not links:
        path.unlink(missing_ok=True)
        told.unlink(missing_ok=True)
        return None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    spare = path.with_suffix(".new")
    spare.write_bytes(msgspec.msgpack.encode(links))
    os.replace(spare, path)
    text = mounts.listed((link.path, link.target) for link in links if link.mounted)
    told.write_text(text, errors="surrogateescape")
    return told if text else None


class InputWatch:
    """Looks at the links of jobs that ended together; each target once."""

    def __init__(self, data: DataDir, subgroup: SubgroupId, epoch: int) -> None:
        self._data = data
        self._name = subgroup, epoch
        self._any = _path(data, subgroup, epoch, 0).parent.is_dir()
        self._mounted: dict[int, list[str]] = {}
        self._marks: dict[str, str] = {}

    def changed(self, index: int) -> list[InputLink]:
        """Return those inputs of a job that are not as they were before it began, and throw away what this site keeps
        of them. The same again when it is asked again: the record goes with the subgroup."""
        if not self._any:
            return []
        try:
            with open(_path(self._data, *self._name, index), "rb") as file:
                noted_ns = os.fstat(file.fileno()).st_mtime_ns
                links = _decoder.decode(file.read())
        except FileNotFoundError:
            return []
        self._mounted[index] = [link.path for link in links if link.mounted]
        out = [link for link in links if not same(link.mark, self._mark(link.target))]
        for link in out:
            self._throw_away(link.target, noted_ns)
        return out

    def clear(self) -> None:
        """Remove what mounts stood on from the directories of the jobs that were asked about."""
        for index, paths in self._mounted.items():
            mounts.clear(self._data.job(*self._name, index), paths)

    def _mark(self, target: str) -> str:
        if target not in self._marks:
            self._marks[target] = mark_of(target)
        return self._marks[target]

    def _throw_away(self, target: str, noted_ns: int) -> None:
        root = self._data.root.resolve()
        real = Path(target).resolve()
        # Gathered outputs that were registered where they lie are a user's, too.
        if any(root / name in real.parents for name in _OWN):
            shared = _changed_of_several_names(str(real), noted_ns)
            with suppress(OSError):
                remove(str(real))
            if shared:
                # The same content stands in the site's store under other names: of datasets that have it, too.
                stores = [str(root / name) for name in _STORES if (root / name).is_dir()]
                for path in chain.from_iterable(map(_files, stores)):
                    with suppress(OSError):
                        status = os.lstat(path)
                        if (status.st_dev, status.st_ino) in shared:
                            os.unlink(path)
        # Other files may have been found unchanged lately and not be looked at for a while.
        with suppress(OSError):
            self._data.changed_inputs.touch()


def _changed_of_several_names(target: str, noted_ns: int) -> set[tuple[int, int]]:
    """Return the files (device, inode) in what is thrown away that other names lead to, of those that changed."""
    out = set()
    for path in _files(target) if os.path.isdir(target) else [target]:
        with suppress(OSError):
            status = os.lstat(path)
            if status.st_nlink > 1 and status.st_ctime_ns >= noted_ns - _CLOCK_STEP_NS:
                out.add((status.st_dev, status.st_ino))
    return out


def _path(data: DataDir, subgroup: SubgroupId, epoch: int, index: int) -> Path:
    return data.job(subgroup, epoch, index).parent / _FOLDER / str(index)
