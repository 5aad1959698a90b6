"""Moves a finished job's outputs from its directory to where the site keeps them, checked, hashed and durable.

Told twice (the node crashed in between), it finds the file already moved and says the same again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from diana.adapters.lrm.folders import parent, sync_folder
from diana.adapters.lrm.inputs.links import Watch
from diana.adapters.lrm.spawner.processes import remove
from diana.adapters.lrm.spawner.protocol import Collected, EndedRuns
from diana.model.facts import JobError, Outcome, OutputFile
from diana.model.ids import SiteId, SubgroupId, group_of, job_id
from diana.model.job.checkpoint import FOLDER
from diana.model.job.output_names import parts_below
from diana.model.layout import DataDir

_CHUNK_BYTES = 1 << 20
_SAVED = f"{FOLDER}/"
_KEEP_DIRECTORY = frozenset({Outcome.UNKNOWN, Outcome.INTERRUPTED, Outcome.UNBEGUN})
"""Outcomes whose directory is kept. A person judges what became of UNKNOWN and INTERRUPTED jobs, and may want to
look. An UNBEGUN job may be told a second time, when a later attempt uses the directory; else that goes with the
subgroup."""

_RESULTS = frozenset({Outcome.DONE, Outcome.CHECKPOINTED})


class CollectedBatch(NamedTuple):
    """The result of `collect` for a batch: outcomes in the batch's order, outputs, further errors."""

    outcomes: list[int]
    outputs: list[OutputFile]
    errors: list[JobError]


class _Bad(Exception):
    """A fault of an output, on one line."""


class OutputCollector:
    """`release(account, folder, names)` opens to us the files that jobs under another account left there;
    PermissionError."""

    def __init__(self, data: DataDir, site: SiteId, release: Callable[[str, Path, Sequence[str]], None]) -> None:
        self._data = data
        self._site = site
        self._release = release

    def collect(self, batch: EndedRuns, given_from: Sequence[DataDir] = ()) -> CollectedBatch:
        """Collect a batch, in a worker thread. All its files are durable on return; only then do their directories
        go. `given_from`: where the jobs are another machine's, first the data directory their own ones lie in; any
        of them may have collected some of their outputs before."""
        home = given_from[0] if given_from else self._data
        subgroup = SubgroupId(batch.subgroup)
        watch = Watch(home, subgroup, batch.epoch)
        batch, wrote = self._looked_at(batch, watch)
        kept = CollectedBatch(list(batch.outcomes), [], wrote)
        to = self._data.collected(subgroup, batch.epoch)
        earlier = [data.collected(subgroup, batch.epoch) for data in given_from]
        folders: set[Path] = set()
        if batch.account and batch.indices:
            rows = zip(batch.indices, batch.outcomes, strict=True)
            jobs = [home.job(subgroup, batch.epoch, i) for i, outcome in rows if outcome != Outcome.UNBEGUN]
            names = [job.name for job in jobs if job.is_dir()]
            self._release(batch.account, home.job(subgroup, batch.epoch, batch.indices[0]).parent, names)
        watch.clear()
        for at, index in enumerate(batch.indices):
            wanted = batch.collects[at] if batch.collects else []
            saved = batch.outcomes[at] == Outcome.CHECKPOINTED
            wanted = [each for each in wanted if each[1].startswith(_SAVED) == saved]
            if batch.outcomes[at] in _KEEP_DIRECTORY:
                wanted = []
            elif saved:
                pass
            elif batch.outcomes[at] != Outcome.DONE:
                wanted = [each for each in wanted if each[2]]
            had = len(kept.outputs)
            try:
                if wanted and not home.root.is_dir():
                    raise _Bad(f"its outputs lie in {home.root}, which this machine does not see; submit it again")
                places = [home.job(subgroup, batch.epoch, index), *earlier]
                for each in wanted:
                    self._keep(places, index, batch.attempts[at], each, to, kept.outputs, folders)
            except (_Bad, ValueError, OSError) as fault:
                what = f"{fault.filename}: {fault.strerror}" if isinstance(fault, OSError) else str(fault)
                name = job_id(group_of(subgroup), index)
                kept.errors.append(JobError(index, f"{name} at site {self._site}: {what}"))
                if saved:
                    # A part of a checkpoint is none.
                    del kept.outputs[had:]
                if kept.outcomes[at] == Outcome.DONE:
                    kept.outcomes[at] = Outcome.STAGING_FAILED
        for folder in sorted(folders, reverse=True):
            sync_folder(folder)
        for at, index in enumerate(batch.indices):
            if kept.outcomes[at] not in _KEEP_DIRECTORY:
                remove(str(home.job(subgroup, batch.epoch, index)))
        return kept

    def _looked_at(self, batch: EndedRuns, watch: Watch) -> tuple[EndedRuns, list[JobError]]:
        """Return the batch with those runs failed that changed an input they share with others, and which it was."""
        outcomes, errors = list(batch.outcomes), list[JobError]()
        for at, index in enumerate(batch.indices):
            changed = watch.changed(index) if outcomes[at] != Outcome.UNBEGUN else []
            if not changed:
                continue
            named = ", ".join(f"{link.path} ({link.source})" for link in changed)
            name = job_id(group_of(SubgroupId(batch.subgroup)), index)
            why = f"input {named} is shared by all jobs and was changed while this one ran; let jobs write to a copy"
            errors.append(JobError(index, f"{name} at site {self._site}: {why}"))
            if outcomes[at] in _RESULTS:
                outcomes[at] = Outcome.FAILED
        return (replace(batch, outcomes=outcomes), errors) if errors else (batch, errors)

    def _keep(
        self,
        places: list[Path],
        index: int,
        attempt: int,
        wanted: Collected,
        to: Path,
        outputs: list[OutputFile],
        folders: set[Path],
    ) -> None:
        """Keep one output. `places`: the job's own directory; then places where the file may have been moved to
        already."""
        path, name, always = wanted
        target = parts_below(name)
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        moved = self._move(places[0], parts_below(path), to, target, attempt, name)
        if not moved and not to.joinpath(*target).exists():
            moved = any(self._move(place, target, to, target, attempt, name) for place in places[1:])
        try:
            size_bytes, sha256 = _hashed(to, target)
        except FileNotFoundError:
            if moved or not always:
                raise _Bad(f"output {path} is missing; see that the command writes it in its directory") from None
            return
        outputs.append(OutputFile(index, name, size_bytes, sha256))
        folders.update(to.joinpath(*target[:depth]) for depth in range(len(target)))
        folders.add(to.parent)

    def _move(
        self, source: Path, parts: tuple[str, ...], to: Path, target: tuple[str, ...], attempt: int, name: str
    ) -> bool:
        """Move a file; True if there was one."""
        path = "/".join(parts)
        try:
            with parent(source, parts, create=False) as at, parent(to, target, create=True) as there:
                status = os.stat(parts[-1], dir_fd=at, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise _Bad(f"output {path} is no regular file; collect regular files only")
                if attempt == 1 and _exists(target[-1], there):
                    raise _Bad(f"output {name} was already written by another job; put {{index}} in its name")
                apart = os.fstat(at).st_dev != os.fstat(there).st_dev
                if apart or status.st_nlink > 1 or status.st_uid != os.geteuid():
                    # Another name of the file lies elsewhere, or another account could change it later.
                    _copy(at, parts[-1], there, target[-1])
                else:
                    os.rename(parts[-1], target[-1], src_dir_fd=at, dst_dir_fd=there)
                return True
        except FileNotFoundError:
            return False
        except OSError as fault:
            if fault.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _Bad(f"output {path} lies behind a link; collect files of the job's own directory") from None
            raise


def _exists(name: str, at: int) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _copy(at: int, name: str, there: int, new_name: str) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(new_name + ".part", flags, 0o600, dir_fd=there)
        try:
            while os.sendfile(target, source, None, _CHUNK_BYTES):
                pass
        finally:
            os.close(target)
    finally:
        os.close(source)
    os.rename(new_name + ".part", new_name, src_dir_fd=there, dst_dir_fd=there)
    os.unlink(name, dir_fd=at)


def _hashed(root: Path, parts: tuple[str, ...]) -> tuple[int, str]:
    """Return size and SHA-256 of a file, made durable. FileNotFoundError."""
    with parent(root, parts, create=False) as at:
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        digest = hashlib.sha256()
        size_bytes = 0
        while chunk := os.read(fd, _CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
        os.fsync(fd)
    finally:
        os.close(fd)
    return size_bytes, digest.hexdigest()
