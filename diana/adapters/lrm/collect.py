"""Moves a finished job's outputs from its directory to where the site keeps them, checked, hashed and durable.

Told twice (the node crashed in between), it finds the file already moved and says the same again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from diana.adapters.file_names import PART_PREFIX, parts_of
from diana.adapters.lrm.finding import FoundFiles, TooMuch, find
from diana.adapters.lrm.folders import parent, sync_folder
from diana.adapters.lrm.inputs.given import GivenFiles
from diana.adapters.lrm.inputs.links import InputWatch
from diana.adapters.lrm.kept_folders import KeptFolders
from diana.adapters.lrm.spawner.processes import remove
from diana.adapters.lrm.spawner.protocol import Collected, EndedRuns
from diana.adapters.lrm.wanted import WantedOutput, wanted
from diana.errors import UsageError, one_line
from diana.model.facts import JobError, Outcome, OutputFile
from diana.model.ids import SiteId, SubgroupId, group_of, job_id
from diana.model.job.checkpoint import FOLDER
from diana.model.job.output_names import keeps_all, parts_below
from diana.model.job.patterns import MOST_FOUND, MOST_NAME_BYTES, escaped, is_pattern, pattern, whole_folder
from diana.model.layout import DataDir

_CHUNK_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_SAVED = f"{FOLDER}/"
_KEEP_DIRECTORY = frozenset({Outcome.UNKNOWN, Outcome.INTERRUPTED, Outcome.UNBEGUN})
"""Outcomes whose directory is kept. A person judges what became of UNKNOWN and INTERRUPTED jobs, and may want to
look. An UNBEGUN job may be told a second time, when a later attempt uses the directory; else that goes with the
subgroup."""

_RESULTS = frozenset({Outcome.DONE, Outcome.CHECKPOINTED})
_OF_THE_SITE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Faults that are none of the job's, and pass: its end waits until they are over, and its outputs with it. A file that
cannot be read (EIO) may never be."""


class CollectedBatch(NamedTuple):
    """The result of `collect` for a batch: outcomes in the batch's order, outputs, further errors."""

    outcomes: list[int]
    outputs: list[OutputFile]
    errors: list[JobError]


class _Bad(Exception):
    """A fault of an output, on one line."""


class _Folder(Exception):
    """A folder goes by an output's name."""


class OutputCollector:
    """`release(account, folder, names)` opens to us the files that jobs under another account left there;
    PermissionError."""

    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        release: Callable[[str, Path, Sequence[str]], None],
        folders: KeptFolders | None = None,
    ) -> None:
        self._folders = folders or KeptFolders(data)
        self._data = data
        self._site = site
        self._release = release

    def collect(self, batch: EndedRuns, given_from: Sequence[DataDir] = ()) -> CollectedBatch:
        """Collect a batch, in a worker thread. All its files are durable on return; only then do their directories go,
        but for some whose outputs have faults. `given_from`: where the jobs are another machine's, first the data
        directory their own ones lie in; any of them may have collected some of their outputs before."""
        home = given_from[0] if given_from else self._data
        subgroup = SubgroupId(batch.subgroup)
        watch = InputWatch(home, subgroup, batch.epoch)
        batch, changed = self._looked_at(batch, watch)
        kept = CollectedBatch(list(batch.outcomes), [], [])
        to = self._data.collected(subgroup, batch.epoch)
        earlier = [data.collected(subgroup, batch.epoch) for data in given_from]
        folders: set[Path] = set()
        said: list[tuple[int, _JobOutputs]] = []
        if batch.account and batch.indices:
            rows = zip(batch.indices, batch.outcomes, strict=True)
            jobs = [home.job(subgroup, batch.epoch, i) for i, outcome in rows if outcome != Outcome.UNBEGUN]
            names = [job.name for job in jobs if job.is_dir()]
            self._release(batch.account, home.job(subgroup, batch.epoch, batch.indices[0]).parent, names)
        watch.clear()
        for at, index in enumerate(batch.indices):
            outcome = batch.outcomes[at]
            listed = _wanted(batch.collects[at] if batch.collects else [], outcome)
            folder = home.job(subgroup, batch.epoch, index)
            if home.root == self._data.root and not folder.is_dir():
                # Told before: what stayed of it is as it was.
                folder = self._folders.path(f"{job_id(group_of(subgroup), index)}.{batch.attempts[at]}")
            given = GivenFiles({each.place: each.source for each in listed if each.given}, home.staged(subgroup))
            job = _JobOutputs(
                index, batch.attempts[at], [folder, *earlier], to, listed, given, may_lack=keeps_all(outcome)
            )
            if listed and not home.root.is_dir():
                job.faults.append(f"its outputs lie in {home.root}, which this machine does not see; submit it again")
            else:
                job.keep_all()
            saved = outcome == Outcome.CHECKPOINTED
            # A part of a checkpoint is none.
            kept.outputs.extend([] if saved and job.faults else job.kept)
            folders |= job.folders
            if job.faults or job.notes:
                said.append((at, job))
            if job.faults and outcome == Outcome.DONE:
                kept.outcomes[at] = Outcome.STAGING_FAILED
        for folder in sorted(folders, reverse=True):
            sync_folder(folder)
        for at, job in said:
            index = batch.indices[at]
            name, folder = job_id(group_of(subgroup), index), home.job(subgroup, batch.epoch, index)
            # Another machine's directory is not this one's to keep.
            stays = job.faults and batch.outcomes[at] != Outcome.CHECKPOINTED and home.root == self._data.root
            where = self._folders.keep(folder, f"{name}.{batch.attempts[at]}", job.given) if stays else ""
            what = _told(job.faults or job.notes)
            what = f"{what}; {where}" if where else what
            line = f"{changed.pop(index)}; {what}" if index in changed else f"{name} at site {self._site}: {what}"
            kept.errors.append(JobError(index, line))
        kept.errors.extend(JobError(index, line) for index, line in changed.items())
        for at, index in enumerate(batch.indices):
            if kept.outcomes[at] not in _KEEP_DIRECTORY:
                remove(str(home.job(subgroup, batch.epoch, index)))
        return kept

    def _looked_at(self, batch: EndedRuns, watch: InputWatch) -> tuple[EndedRuns, dict[int, str]]:
        """Return the batch with those runs failed that changed an input they share with others, and a line for each of
        them that names it."""
        outcomes, lines = list(batch.outcomes), dict[int, str]()
        for at, index in enumerate(batch.indices):
            changed = watch.changed(index) if outcomes[at] != Outcome.UNBEGUN else []
            if not changed:
                continue
            named = ", ".join(f"{link.path} ({link.source})" for link in changed)
            name = job_id(group_of(SubgroupId(batch.subgroup)), index)
            why = f"input {named} is shared by all jobs and was changed while this one ran; let jobs write to a copy"
            lines[index] = f"{name} at site {self._site}: {why}"
            if outcomes[at] in _RESULTS:
                outcomes[at] = Outcome.FAILED
        return (replace(batch, outcomes=outcomes), lines) if lines else (batch, lines)


def _wanted(told: Sequence[Collected], outcome: int) -> list[WantedOutput]:
    """Return what is to be kept of a job that ended so, with the inputs among it."""
    if outcome in _KEEP_DIRECTORY:
        return []
    saved = outcome == Outcome.CHECKPOINTED
    listed = [each for each in map(wanted, told) if each.name.startswith(_SAVED) == saved]
    if saved or outcome == Outcome.DONE:
        return listed
    return [each for each in listed if each.always or (each.kept and keeps_all(outcome))]


class _JobOutputs:
    """Keeps the outputs of one job in `to`. `places`: the job's own directory; then places where a file may have been
    moved to already. `may_lack`: no output has to be there."""

    def __init__(
        self,
        index: int,
        attempt: int,
        places: list[Path],
        to: Path,
        listed: list[WantedOutput],
        given: GivenFiles,
        *,
        may_lack: bool,
    ) -> None:
        self._index = index
        self._attempt = attempt
        self._places = places
        self._to = to
        self._listed = listed
        self._may_lack = may_lack
        self._given = given
        self.given = {each.place for each in listed if each.given}
        self._plain = [each.path for each in listed if not (each.found or each.given)]
        self._named = frozenset(self._plain)
        self._told: set[str] = set()
        self._files_left, self._bytes_left = MOST_FOUND, MOST_NAME_BYTES
        self.kept: list[OutputFile] = []
        self.faults: list[str] = []
        """A line each."""
        self.notes: list[str] = []
        """What was passed over, a line each."""
        self.folders: set[Path] = set()
        """Those whose entries are not durable yet."""

    def keep_all(self) -> None:
        for each in self._listed:
            if each.given:
                continue
            # The fault of one output is no reason to lose the others.
            with self._faults_told(each.path):
                (self._keep_found if each.found else self._keep)(each)

    @contextmanager
    def _faults_told(self, path: str) -> Iterator[None]:
        """OSError for a fault of the site's."""
        try:
            yield
        except OSError as fault:
            if fault.errno in _OF_THE_SITE:
                raise
            self.faults.append(one_line(f"output {path}: {fault.strerror}"))
        except (_Bad, TooMuch, ValueError, UsageError) as fault:
            self.faults.append(one_line(str(fault)))

    def _keep(self, each: WantedOutput) -> None:
        target = parts_of(each.name)
        if each.name in self._told:
            return
        self._to.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            moved = self._move(self._places[0], parts_below(each.path), target, each.name)
            if not moved and not self._to.joinpath(*target).exists():
                moved = any(self._move(place, target, target, each.name) for place in self._places[1:])
            is_folder = not moved and self._to.joinpath(*target).is_dir()
        except _Folder:
            is_folder = True
        if is_folder and each.kept:
            self._keep_folder(each)
        elif is_folder:
            raise _Bad(f"output {each.path} is no regular file; collect regular files only")
        elif not self._add(each.name, target) and (moved or not (each.always or self._may_lack)):
            raise _Bad(f"output {each.path} is missing; see that the command writes it in its directory")

    def _keep_folder(self, each: WantedOutput) -> None:
        """Keep all that lies in a folder which goes by the name of an output."""
        found = self._find(escaped(each.path), each)
        cut = len(each.path) + 1
        self._keep_files(each, f"{each.name}/", {path[cut:]: path for path in found.paths}, found.others)

    def _keep_found(self, each: WantedOutput) -> None:
        found = self._find(each.path, each)
        self._keep_files(each, each.name, {path: path for path in found.paths}, found.others)

    def _find(self, path: str, each: WantedOutput) -> FoundFiles:
        named = self._named - {each.path}
        # An input that goes by an output's own name is kept as it is.
        looks = each.found or each.path not in self.given

        def passed_over(there: str, entry: os.DirEntry[str]) -> bool:
            return there in named or (looks and self._given.passed_over(there, entry))

        try:
            found = find(self._places[0], pattern(path), self._files_left, passed_over)
        except FileNotFoundError:
            return FoundFiles([], [], [])
        except TooMuch as much:
            raise _Bad(
                f"output {path}: more than {much} lie there; pack them into one, for instance with tar"
            ) from None
        if found.others:
            more = f" and {len(found.others) - 1} others are" if len(found.others) > 1 else " is"
            self.notes.append(f"{found.others[0]!a}{more} passed over, as no regular file")
        self.faults.extend(f"output {path}: {folder!a} may not be read, and stays" for folder in found.shut)
        return found

    def _keep_files(self, each: WantedOutput, prefix: str, files: Mapping[str, str], others: Sequence[str]) -> None:
        """Keep `files` (path below `prefix` -> path below the job's directory), and those that were moved already.
        `others`: what was found beside them and is no regular file."""
        within = pattern(each.path if each.found else escaped(each.path))
        moved, without = (within, self._named) if each.found else (whole_folder(), frozenset[str]())
        sources = {f"{prefix}{rest}": (self._places[0], path) for rest, path in files.items()}
        below = parts_below(prefix)
        for place in (*self._places[1:], self._to):
            with suppress(FileNotFoundError, NotADirectoryError):
                for rest in find(place.joinpath(*below), moved, MOST_FOUND, lambda path, _: path in without).paths:
                    sources.setdefault(f"{prefix}{rest}", (place, f"{prefix}{rest}"))
        named = any(within.matches(path.split("/")) for path in self._plain if path != each.path)
        if not (sources or named or self._may_lack):
            what = self._nothing_of(each)
            only = f" but what is no regular file: {self.notes[-1]}" if others else ""
            raise _Bad(f"output {what}{only}; see that the command writes it in its directory")
        for name in self._told & sources.keys():
            del sources[name]
        self._files_left -= len(sources)
        self._bytes_left -= sum(len(os.fsencode(name)) for name in sources)
        if min(self._files_left, self._bytes_left) < 0:
            most = f"{MOST_FOUND} files or {MOST_NAME_BYTES} bytes of names"
            raise _Bad(f"output {each.path}: more than {most} lie there; pack them into one, for instance with tar")
        for name, (place, path) in sorted(sources.items()):
            with self._faults_told(path):
                target = parts_of(name)
                if place != self._to:
                    self._to.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._move(place, tuple(path.split("/")), target, name)
                self._add(name, target)

    def _nothing_of(self, each: WantedOutput) -> str:
        if each.found and is_pattern(each.path):
            return f"{each.path} finds nothing"
        there = os.path.lexists(self._places[0] / each.path)
        return f"{each.path}/: {'nothing is in it' if there else 'nothing is there by that name'}"

    def _add(self, name: str, target: tuple[str, ...]) -> bool:
        """Tell of a file that was moved; False: there is none."""
        try:
            size_bytes, sha256 = _hashed(self._to, target)
        except FileNotFoundError:
            return False
        self.kept.append(OutputFile(self._index, name, size_bytes, sha256))
        self._told.add(name)
        self.folders.update(self._to.joinpath(*target[:depth]) for depth in range(len(target)))
        self.folders.add(self._to.parent)
        return True

    def _move(self, source: Path, parts: tuple[str, ...], target: tuple[str, ...], name: str) -> bool:
        """Move a file; True if there was one. _Folder: there is a folder."""
        path = "/".join(parts)
        try:
            with parent(source, parts, create=False) as at, parent(self._to, target, create=True) as there:
                status = os.stat(parts[-1], dir_fd=at, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    raise _Folder
                if not stat.S_ISREG(status.st_mode):
                    raise _Bad(f"output {path} is no regular file; collect regular files only")
                if self._attempt == 1 and _exists(target[-1], there):
                    raise _Bad(f"output {name} was already written by another job; put {{index}} in its name")
                apart = os.fstat(at).st_dev != os.fstat(there).st_dev
                if apart or status.st_nlink > 1 or status.st_uid != os.geteuid():
                    # Another name of the file lies elsewhere, or another account could change it later.
                    self._copy(at, parts[-1], there, target[-1])
                else:
                    os.rename(parts[-1], target[-1], src_dir_fd=at, dst_dir_fd=there)
                return True
        except FileNotFoundError:
            return False
        except OSError as fault:
            if fault.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _Bad(f"output {path} lies behind a link; collect files of the job's own directory") from None
            raise

    def _copy(self, at: int, name: str, there: int, new_name: str) -> None:
        """Copy a file and remove it. What is not whole lies under a name that no output has, and goes if it fails."""
        part = str(self._to / f"{PART_PREFIX}{self._index}")
        try:
            with _reading(name, at) as source:
                target = os.open(part, _MAKE, 0o600)
                try:
                    while os.sendfile(target, source, None, _CHUNK_BYTES):
                        pass
                finally:
                    os.close(target)
            os.rename(part, new_name, dst_dir_fd=there)
        except OSError:
            with suppress(OSError):
                os.unlink(part)
            raise
        os.unlink(name, dir_fd=at)


def _told(said: Sequence[str]) -> str:
    """Return what is said of a job's outputs in one line, the first two in full."""
    more = f"; and {len(said) - 2} more" if len(said) > 2 else ""
    return "; ".join(said[:2]) + more


def _exists(name: str, at: int) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _reading(name: str, at: int) -> Iterator[int]:
    """A descriptor of a regular file. OSError, also for what is none by now: whoever outlives the job may have put it
    there, and a pipe would wait for ever."""
    fd = os.open(name, _READ, dir_fd=at)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no regular file; collect regular files only", name)
        yield fd
    finally:
        os.close(fd)


def _hashed(root: Path, parts: tuple[str, ...]) -> tuple[int, str]:
    """Return size and SHA-256 of a file, made durable. FileNotFoundError."""
    digest = hashlib.sha256()
    size_bytes = 0
    with parent(root, parts, create=False) as at, _reading(parts[-1], at) as fd:
        while chunk := os.read(fd, _CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
        os.fsync(fd)
    return size_bytes, digest.hexdigest()
