"""Makes what must lie on the disk before a job starts: its directory with its inputs, the group's script.

Runs in a worker thread, before the run is claimed: a crash here leaves a directory that the next start makes anew.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from diana.adapters.lrm.folders import parent
from diana.adapters.lrm.inputs import links, mounts
from diana.adapters.lrm.inputs.apart import CopiesApart
from diana.adapters.lrm.inputs.placing import COPY_BYTES, InputChanged, Placer, staged_at
from diana.adapters.lrm.render import Input, Renderer
from diana.adapters.lrm.runas.accounts import Accounts, NoAccount, Ways, open_ways, uid_of
from diana.adapters.lrm.spawner.processes import remove
from diana.adapters.lrm.spawner.protocol import Order
from diana.adapters.places import is_noexec
from diana.engine.journal.effects import Start
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId, group_of, job_id
from diana.model.job.checkpoint import SavedFile, SavedJob
from diana.model.job.grace import LEAST_GRACE_S, SITE_GRACE_S
from diana.model.job.output_names import parts_below
from diana.model.job.spec import GroupSpec, build_path
from diana.model.layout import DataDir


@dataclass(frozen=True, slots=True)
class Unready:
    """A run that cannot start, and the reason; `text` is one line."""

    index: int
    attempt: int
    outcome: Outcome
    text: str


class PreparedOrder(NamedTuple):
    order: Order | None
    unready: list[Unready]


class _NoInput(Exception):
    pass


class _NotSaved(Exception):
    """A file of a checkpoint is not there as it was saved."""


class _Made(NamedTuple):
    """The directory that is being made for a job, and what serves all jobs of its order."""

    path: Path
    placer: Placer
    apart: CopiesApart
    mountable: bool
    """False: no input of these jobs will be a mount."""
    ways: Ways | None
    found: dict[str, Path]
    """Source -> where it is staged."""
    marks: dict[str, str]
    """Target of a link -> its mark."""
    mounted: list[int]
    """Jobs with links in whose place mounts are to stand."""


_OUTCOMES = {_NoInput: Outcome.STAGING_FAILED, _NotSaved: Outcome.UNRESTORED}


class Preparer:
    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        accounts: Accounts,
        copy_bytes: int = COPY_BYTES,
        most_grace_s: float = SITE_GRACE_S,
    ) -> None:
        """`copy_bytes`: most bytes of one job's inputs that are copied. `most_grace_s`: most grace that jobs get."""
        self._data = data
        self._site = site
        self._accounts = accounts
        self._copy_bytes = copy_bytes
        self._most_grace_s = most_grace_s
        self._ways_open = False
        self._mounts: dict[str, bool] = {}
        """Account -> whether its jobs can make mounts here."""

    def grace_s(self, spec: GroupSpec) -> float:
        """Return the grace that jobs have here. A peer's spec may say any number."""
        return min(max(spec.grace_s, LEAST_GRACE_S), self._most_grace_s)

    def prepare(self, start: Start, renderer: Renderer, indices: list[int]) -> PreparedOrder:
        """Make directories for those of `indices` that can have one, and the order for them."""
        spec = start.spec
        attempts = dict(start.attempts)
        ready: list[int] = []
        unready: list[Unready] = []
        program: list[str] = []
        try:
            account, ways = self._account(start)
            if spec.script:
                program = self._script(start.subgroup, spec.script)
            staged = self._data.staged(start.subgroup)
            placer = Placer(self._data.root, staged, self._copy_bytes)
        except NoAccount as refusal:
            return self.refuse(start, indices, str(refusal))
        except OSError as fault:
            return PreparedOrder(None, [self._no_disk(start, index, attempts, fault) for index in indices])
        own = spec.needs_directory() and not start.directory
        apart = CopiesApart(self._data, staged)
        mountable = own and bool(spec.inputs) and self._mountable(spec, account)
        found: dict[str, Path] = {}
        marks: dict[str, str] = {}
        mounted: list[int] = []
        saved = {job.index: job for job in start.saved}
        for index in indices:
            try:
                # A merge command is no job of the sweep: it has no values to render.
                if not start.directory:
                    renderer.text(index)
                if own:
                    inputs = self._here(start, renderer, index)
                    at = self._data.job(start.subgroup, start.epoch, index)
                    made = _Made(at, placer, apart, mountable, ways, found, marks, mounted)
                    self._make_directory(start.subgroup, start.epoch, index, inputs, made, saved.get(index))
            except (ValueError, LookupError, _NoInput, _NotSaved) as fault:
                outcome = _OUTCOMES.get(type(fault), Outcome.NOT_STARTED)
                name = job_id(group_of(start.subgroup), index)
                unready.append(Unready(index, attempts.get(index, 1), outcome, f"{name} at site {self._site}: {fault}"))
            except OSError as fault:
                unready.append(self._no_disk(start, index, attempts, fault))
            else:
                ready.append(index)
        if not ready:
            return PreparedOrder(None, unready)
        order = renderer.order(
            start.subgroup,
            start.epoch,
            ready,
            attempts,
            directory=start.directory,
            program=program,
            account=account,
            lease=start.lease,
            grace_s=self.grace_s(spec),
            saved=saved,
        )
        if mounted:
            order.before = [*mounts.before(spec), *order.before]
        return PreparedOrder(order, unready)

    def _account(self, start: Start) -> tuple[str, Ways | None]:
        """Return the account that the jobs run as, and the ways opened to it. NoAccount, OSError."""
        account = self._accounts.of(start.owner)
        if not account:
            return "", None
        if not self._ways_open:
            open_ways(self._data)
            self._ways_open = True
        ways = Ways(self._data, uid_of(account))
        jobs, staged = self._data.jobs(start.subgroup), self._data.staged(start.subgroup)
        jobs.mkdir(mode=0o700, exist_ok=True)
        for folder in (jobs, staged):
            if folder.is_dir():
                ways.private(folder)
        if start.directory:
            ways.lend(Path(start.directory))
        return account, ways

    def _mountable(self, spec: GroupSpec, account: str) -> bool:
        """Return whether inputs may be read-only mounts, as far as this machine knows."""
        # Programs of a PATH that somebody else wrote are not this process's to run.
        if not mounts.before(spec) or "PATH" in dict(spec.environment):
            return False
        if account not in self._mounts:
            self._mounts[account] = mounts.possible(uid_of(account) if account else None)
        return self._mounts[account]

    def _here(self, start: Start, renderer: Renderer, index: int) -> list[Input]:
        """Return the inputs of a job, without the builds that were not brought since no machine here can use them."""
        spec, inputs = start.spec, renderer.inputs(index)
        builds = {build_path(name, spec.program) for name in spec.builds}
        return [each for each in inputs if each.path not in builds or self._staged(start.subgroup, each).exists()]

    def refuse(self, start: Start, indices: list[int], why: str) -> PreparedOrder:
        """Refuse all of them, for the same reason."""
        attempts = dict(start.attempts)
        text = f"{group_of(start.subgroup)} at site {self._site}: {why}"
        return PreparedOrder(None, [Unready(i, attempts.get(i, 1), Outcome.NOT_STARTED, text) for i in indices])

    def _no_disk(self, start: Start, index: int, attempts: dict[int, int], fault: OSError) -> Unready:
        name = job_id(group_of(start.subgroup), index)
        text = f"{name} at site {self._site}: {fault.filename}: {fault.strerror}; see the site's disk"
        return Unready(index, attempts.get(index, 1), Outcome.STAGING_FAILED, text)

    def _script(self, subgroup: SubgroupId, text: str) -> list[str]:
        """The words that start it."""
        path = self._data.jobs(subgroup) / "script"
        if not path.exists():
            self._put_executable(path, text.encode())
        if not is_noexec(path):
            return [str(path)]
        # As the kernel would: all behind the interpreter is one argument.
        return [*text.partition("\n")[0].removeprefix("#!").strip().split(maxsplit=1), str(path)]

    def _make_directory(
        self, subgroup: SubgroupId, epoch: int, index: int, inputs: list[Input], made: _Made, saved: SavedJob | None
    ) -> None:
        path, ways = made.path, made.ways
        try:
            remove(str(path))
        except PermissionError:
            # The directory is of an attempt that another account made.
            self._accounts.release_all(path)
            remove(str(path))
        try:
            os.mkdir(path, 0o700)
        except FileNotFoundError:
            path.mkdir(mode=0o700, parents=True)
        try:
            if ways is not None:
                ways.through(path.parent, self._data.jobs(subgroup))
            _check_apart(inputs)
            made.placer.begin()
            placed = list(self._place_each(subgroup, inputs, made))
            told = links.note(self._data, subgroup, epoch, index, placed)
            if told is not None:
                made.mounted.append(index)
                if ways is not None:
                    ways.show(told)
            for file in saved.files if saved is not None else ():
                self._put_back(subgroup, path, file, ways)
            if ways is not None:
                ways.give(path)
        except BaseException:
            # Half a directory is none, and takes room on a disk that may be full.
            with suppress(OSError):
                remove(str(path))
            raise

    def _place_each(self, subgroup: SubgroupId, inputs: list[Input], made: _Made) -> Iterator[links.InputLink]:
        """Put each input into the job's directory; yield those that are links. _NoInput, ValueError, OSError."""
        for each in inputs:
            staged = made.found.get(each.source)
            if staged is None:
                staged = made.found[each.source] = self._found(subgroup, each)
            parts = parts_below(each.path)
            try:
                with parent(made.path, parts, create=True) as at:
                    content = None if each.link else made.placer.copies(at, staged)
                    if content is not None:
                        made.placer.put(content, at, parts[-1], each.executable, made.ways)
                        continue
                    real = self._target(staged, each, made)
                    os.symlink(real, parts[-1], dir_fd=at)
            except InputChanged:
                why = f"input {each.source} is another than was staged; see who changes it and submit again"
                raise _NoInput(why) from None
            except OSError as fault:
                if fault.errno in (errno.EEXIST, errno.ELOOP, errno.ENOTDIR):
                    raise _meets(each) from None
                if fault.errno == errno.EACCES:
                    why = f"input {each.source}: {fault.filename} may not be read; let the node's account read it"
                    raise _NoInput(why) from None
                known = isinstance(fault.filename, str) and fault.filename.startswith("/")
                where = fault.filename if known else f"{made.path}/{each.path}"
                raise OSError(fault.errno, fault.strerror, where) from None
            if real not in made.marks:
                made.marks[real] = links.mark_of(real)
            yield links.InputLink(each.path, each.source, real, made.marks[real], not each.link)

    def _target(self, staged: Path, each: Input, made: _Made) -> str:
        """Return where the link of an input leads: to what the site itself keeps if it will be a read-only mount, or
        if there is no room. OSError, InputChanged."""
        own = None
        if each.executable:
            own = made.apart.program(staged, made.ways)
        elif each.link or not made.mountable:
            own = made.apart.linked(staged, made.ways)
        if own is not None:
            made.marks[own.path] = own.mark
            return own.path
        if made.ways is not None:
            made.ways.content(staged)
        return str(made.placer.lead(staged))

    def _put_back(self, subgroup: SubgroupId, path: Path, file: SavedFile, ways: Ways | None) -> None:
        """Copy a file of a checkpoint to where it was saved: the job writes the next one over it. What home has is read
        here for the first time since it came there, if home runs the job itself."""
        source = self._data.staged(subgroup).joinpath("blob", *parts_below(file.sha256))
        if not source.is_file():
            raise _NotSaved(f"its checkpoint's {file.path} is not there")
        parts, saved = parts_below(file.path), hashlib.sha256()
        try:
            with parent(path, parts, create=True) as at:
                # It may be an input of the job's own that the job wrote to.
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(parts[-1], flags, 0o600, dir_fd=at)
                with open(source, "rb") as content, open(fd, "wb") as there:
                    while chunk := content.read(1 << 20):
                        saved.update(chunk)
                        there.write(chunk)
                    if ways is not None:
                        ways.own(there.fileno())
        except OSError as fault:
            if fault.errno not in (errno.EISDIR, errno.ELOOP, errno.ENOTDIR):
                raise
            raise ValueError(f"checkpoint.paths: {file.path!r} is an input of it, too; save another file") from None
        if saved.hexdigest() != file.sha256:
            raise _NotSaved(f"its checkpoint's {file.path} was changed since it was saved")

    def _staged(self, subgroup: SubgroupId, each: Input) -> Path:
        return staged_at(self._data.staged(subgroup), each.source)

    def _found(self, subgroup: SubgroupId, each: Input) -> Path:
        staged = self._staged(subgroup, each)
        if not staged.exists():
            if each.source.startswith("blob:"):
                # Uploads come with a submission alone: a retry brings none.
                raise _NoInput(
                    f"input {each.path} ({each.source}) is not there: the site lost its copy of what was uploaded; "
                    "submit the job file again, which uploads it"
                )
            raise _NoInput(f"input {each.source} is not there; see that the site still has it and submit again")
        return staged

    def _put_executable(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        spare = path.with_name(path.name + ".new")
        spare.write_bytes(content)
        spare.chmod(0o755)
        os.replace(spare, path)


def _check_apart(inputs: list[Input]) -> None:
    """ValueError when an input would lie within another."""
    if len(inputs) < 2:
        return
    paths = {parts_below(each.path): each for each in inputs}
    for parts, each in paths.items():
        if any(parts[:depth] in paths for depth in range(1, len(parts))):
            raise _meets(each)


def _meets(each: Input) -> ValueError:
    return ValueError(f"input path {each.path!r} meets another input; give each a path of its own")
