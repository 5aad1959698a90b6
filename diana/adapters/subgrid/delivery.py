"""Taking in what a member machine's jobs left: logs go into segments of the site's own, outputs to where the site
keeps its own jobs' outputs. Durable, and verified, before anybody hears that the jobs ended.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from diana.adapters.file_names import parts_of
from diana.adapters.staging.paths import sync_folders
from diana.adapters.staging.transfer.parts import Mismatch, PartFile
from diana.adapters.subgrid.protocol import DeliveredRuns
from diana.errors import UsageError
from diana.model.facts import Facts, JobError, Outcome, OutputFile
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId, group_of, is_group_id, job_id
from diana.model.layout import DataDir

SEGMENT_BYTES = 64 << 20
_FILE_MODE = 0o600


class LogSegments:
    """Segments to which one machine's logs are appended: one growing file per group, apart from those of the site's
    own slots. Methods block; one caller at a time."""

    def __init__(
        self, logs_root: Path, machine: str, segment_bytes: int = SEGMENT_BYTES, *, leader: str = MAIN_MACHINE
    ) -> None:
        """`leader`: the name of this machine within its site. Facts outlive the machine that leads, and no two
        machines of a site may call different files the same."""
        self._root = logs_root
        self._kind = "m" if leader == MAIN_MACHINE else f"m.{leader}"
        self.machine = machine
        self._segment_bytes = segment_bytes
        self._numbers: dict[GroupId, int] = {}

    def open(self, group: GroupId) -> tuple[str, int]:
        """Return name, relative to the logs' root, and descriptor for appending, which the caller closes. OSError."""
        number = self._numbers.get(group, 1)
        while True:
            name = f"{group}/{self._kind}.{self.machine}.{number}.log"
            (self._root / group).mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._root / name, flags, 0o600)
            if os.fstat(fd).st_size < self._segment_bytes:
                self._numbers[group] = number
                if len(self._numbers) > 1000:
                    self._numbers = {group: number}
                return name, fd
            os.close(fd)
            number += 1


class Delivery:
    """One batch on its way in: `take` as its bytes come, then `finish`. Methods block.

    ValueError when the sender breaks the protocol, OSError when our disk refuses; after either, `close`.
    """

    def __init__(self, data: DataDir, site: SiteId, segments: LogSegments, batch: DeliveredRuns) -> None:
        if not is_group_id(batch.subgroup.partition("/")[0]) or batch.epoch < 0:
            raise ValueError(f"{batch.subgroup!r} names no subgroup")
        self._data = data
        self._site = site
        self._batch = batch
        self._subgroup = SubgroupId(batch.subgroup)
        self._logs_left = sum(batch.facts.log_lengths)
        self._log_name, self._log_fd, self._log_at = "", -1, 0
        if self._logs_left:
            self._log_name, self._log_fd = segments.open(group_of(self._subgroup))
            self._log_at = os.fstat(self._log_fd).st_size
        self._root = data.collected(self._subgroup, batch.epoch)
        self._machine = segments.machine
        self._outputs: Iterator[OutputFile] = iter(batch.facts.outputs)
        self._part: PartFile | None = None
        self._output: OutputFile | None = None
        self._kept: list[OutputFile] = []
        self._errors: dict[int, str] = {}
        self._begin_output()

    @property
    def left(self) -> bool:
        """True if more bytes are to come."""
        return bool(self._logs_left) or self._output is not None

    def take(self, data: bytes) -> None:
        view = memoryview(data)
        if self._logs_left:
            mine = view[: self._logs_left]
            self._logs_left -= len(mine)
            view = view[len(mine) :]
            while mine:
                mine = mine[os.write(self._log_fd, mine) :]
        while view:
            if self._output is None or self._part is None:
                raise ValueError("more bytes than the batch names")
            mine = view[: self._output.size_bytes - self._part.offset]
            self._part.write(mine.tobytes())
            view = view[len(mine) :]
            if self._part.offset == self._output.size_bytes:
                self._end_output()

    def _begin_output(self) -> None:
        """Begin the next output that has bytes to come; empty ones are made at once."""
        for output in self._outputs:
            try:
                parts = parts_of(output.name)
            except UsageError as fault:
                raise ValueError(str(fault)) from None
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._output = output
            # The same name at each try, and another than that of any file beside it.
            tag = f"{self._machine}-{hashlib.sha256(output.name.encode()).hexdigest()[:16]}"
            self._part = PartFile(
                self._root, parts, tag=tag, size_bytes=output.size_bytes, sha256=output.sha256, mode=_FILE_MODE
            )
            # Nothing of an earlier try is taken up: the sender begins anew.
            self._part.discard()
            if output.size_bytes:
                return
            self._part.write(b"")
            self._settle(self._part, output)
        self._output = self._part = None

    def _end_output(self) -> None:
        assert self._part is not None and self._output is not None
        self._settle(self._part, self._output)
        self._begin_output()

    def _settle(self, part: PartFile, output: OutputFile) -> None:
        """Finish an output. Another machine's job may have written a file of the same name: neither may overwrite
        the other."""
        if self._first_attempt(output.index) and self._is_other(output):
            part.discard()
            self._errors[output.index] = f"output {output.name} was already written by another job; put {{index}} in it"
            return
        try:
            part.finish()
        except Mismatch as fault:
            part.discard()
            self._errors[output.index] = f"output {output.name}: {fault}; its machine's disk or memory is at fault"
            return
        self._kept.append(output)

    def _first_attempt(self, index: int) -> bool:
        facts = self._batch.facts
        return facts.attempts[facts.indices.index(index)] == 1

    def _is_other(self, output: OutputFile) -> bool:
        """True if a file stands there already that is not this one, delivered before and told again."""
        path = self._root.joinpath(*parts_of(output.name))
        try:
            if path.lstat().st_size != output.size_bytes:
                return True
            return _hash_of(path) != output.sha256
        except FileNotFoundError:
            return False

    def finish(self) -> Facts:
        """Make all durable; return what the site is told of these runs."""
        if self.left:
            raise ValueError("fewer bytes than the batch names")
        if self._log_fd >= 0:
            os.fsync(self._log_fd)
            sync_folders(self._data.logs_root, {(group_of(self._subgroup),)})
        if self._kept:
            here = (self._root.parent.name, self._root.name)
            folders = {(*here, *parts_of(output.name)[:-1]) for output in self._kept}
            sync_folders(self._root.parent.parent, folders)
        self.close()
        return self._facts()

    def _facts(self) -> Facts:
        facts = self._batch.facts
        offsets, at = [], self._log_at
        for length in facts.log_lengths:
            offsets.append(at if length else 0)
            at += length
        outcomes, errors = list(facts.outcomes), list(facts.errors)
        for index, text in self._errors.items():
            row = facts.indices.index(index)
            name = job_id(group_of(self._subgroup), index)
            errors.append(JobError(index, f"{name} at site {self._site}: {text}"))
            if outcomes[row] == Outcome.DONE:
                outcomes[row] = Outcome.STAGING_FAILED
        return msgspec.structs.replace(
            facts,
            site=self._site,
            outcomes=outcomes,
            log_segments=[self._log_name if length else "" for length in facts.log_lengths],
            log_offsets=offsets,
            outputs=self._kept,
            errors=errors,
        )

    def close(self) -> None:
        fd, self._log_fd = self._log_fd, -1
        if fd >= 0:
            os.close(fd)
        if self._part is not None:
            with suppress(OSError):
                self._part.discard()
            self._part = None


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
