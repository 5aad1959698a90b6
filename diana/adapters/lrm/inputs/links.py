"""Inputs that are links: shared with other jobs, so each is looked at before a job begins and when it has ended.

A job that changed such an input fails, and so does whoever read it meanwhile; what this site keeps of it is thrown
away, so that the next attempt is brought the original. What a user registered where it lies is the user's and stays;
the catalogue notices that it is another.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from diana.adapters.lrm.spawner.processes import remove
from diana.model.ids import SubgroupId
from diana.model.layout import DataDir

MOST_FILES = 100_000
"""Most files of a folder that are looked at, twice for each batch of jobs; a larger one is not watched."""
_FOLDER = "links"


class Link(msgspec.Struct, frozen=True, array_like=True):
    path: str
    """Where the job finds it, below its directory."""
    source: str
    target: str
    mark: str
    """`mark_of` the target before the job began."""


_decoder = msgspec.msgpack.Decoder(list[Link])


def mark_of(target: str) -> str:
    """Return size and change time of a file, or a hash of those of a folder's files; empty: it is not there, or its
    files are too many."""
    try:
        status = os.stat(target)
        if not stat.S_ISDIR(status.st_mode):
            return f"{status.st_size} {status.st_ctime_ns}"
        paths = sorted(islice(_files(target), MOST_FILES + 1))
    except OSError:
        return ""
    if len(paths) > MOST_FILES:
        return ""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            # The links in a folder that the site made lead to the files.
            status = os.stat(path)
            told = f"{path}\0{status.st_size} {status.st_ctime_ns}\n"
        except OSError:
            told = f"{path}\0-\n"
        digest.update(told.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(top: str) -> Iterator[str]:
    left = [top]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    yield entry.path


def note(data: DataDir, subgroup: SubgroupId, epoch: int, index: int, links: Sequence[Link]) -> None:
    """Remember what a job that is about to begin has as links, in place of what an earlier attempt had. OSError."""
    path = _path(data, subgroup, epoch, index)
    if not links:
        path.unlink(missing_ok=True)
        return
    spare = path.with_suffix(".new")
    try:
        spare.write_bytes(msgspec.msgpack.encode(links))
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        spare.write_bytes(msgspec.msgpack.encode(links))
    os.replace(spare, path)


class Watch:
    """Looks at the links of jobs that ended together; each target once."""

    def __init__(self, data: DataDir, subgroup: SubgroupId, epoch: int) -> None:
        self._data = data
        self._name = subgroup, epoch
        self._any = _path(data, subgroup, epoch, 0).parent.is_dir()
        self._marks: dict[str, str] = {}

    def changed(self, index: int) -> list[Link]:
        """Return those inputs of a job that are not as they were before it began, and throw away what this site keeps
        of them. The same again when it is asked again: the record goes with the subgroup."""
        if not self._any:
            return []
        try:
            links = _decoder.decode(_path(self._data, *self._name, index).read_bytes())
        except FileNotFoundError:
            return []
        out = [link for link in links if self._mark(link.target) != link.mark]
        for link in out:
            self._throw_away(link.target)
        return out

    def _mark(self, target: str) -> str:
        if target not in self._marks:
            self._marks[target] = mark_of(target)
        return self._marks[target]

    def _throw_away(self, target: str) -> None:
        root = self._data.root.resolve()
        real = Path(target).resolve()
        if root in real.parents:
            with suppress(OSError):
                remove(str(real))
        # Other files may have been found unchanged lately and not be looked at for a while.
        with suppress(OSError):
            self._data.changed_inputs.touch()


def _path(data: DataDir, subgroup: SubgroupId, epoch: int, index: int) -> Path:
    return data.job(subgroup, epoch, index).parent / _FOLDER / str(index)
