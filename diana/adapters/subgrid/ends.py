"""Ends a member machine has told and nobody said yet to forget, and the reading of what those jobs left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from diana.adapters.file_names import parts_of
from diana.adapters.staging.paths import open_file
from diana.engine.journal import columns
from diana.engine.journal.events import JobsEnded, Run
from diana.model.facts import Facts, JobError, Outcome, OutputFile
from diana.model.ids import SubgroupId, group_of, job_id
from diana.model.layout import DataDir

CHUNK_BYTES = 1 << 20
_BATCH_BYTES = 1 << 20


class EndBatch:
    """One batch of ends. Rows that are forgotten leave it."""

    __slots__ = ("delivered", "epoch", "facts", "left", "subgroup", "ticket")

    def __init__(self, ticket: int, subgroup: SubgroupId, epoch: int, facts: Facts) -> None:
        self.ticket = ticket
        self.subgroup = subgroup
        self.epoch = epoch
        self.facts = facts
        self.left = set(range(len(facts.indices)))
        self.delivered = False
        """True once somebody who led since this process began has it."""

    def now(self) -> Facts:
        """Return the facts of those rows nobody has forgotten."""
        if len(self.left) == len(self.facts.indices):
            return self.facts
        return columns.pick(self.facts, sorted(self.left))


class EndBook:
    """The book of ends. Volatile: the spawner tells its ends again after a restart."""

    def __init__(self) -> None:
        self._batches: dict[int, EndBatch] = {}
        self._of_run: dict[Run, tuple[int, int]] = {}
        self._tickets = 0

    def __contains__(self, run: Run) -> bool:
        return run in self._of_run

    def runs(self) -> set[Run]:
        return set(self._of_run)

    def batches(self) -> list[EndBatch]:
        """Return the batches in the order they came."""
        return list(self._batches.values())

    def get(self, ticket: int) -> EndBatch | None:
        return self._batches.get(ticket)

    def add(self, ended: JobsEnded) -> list[EndBatch]:
        """Add ends; return those that are new, in batches that fit a message."""
        facts = ended.facts
        runs = [
            Run(ended.subgroup, ended.epoch, index, attempt)
            for index, attempt in zip(facts.indices, facts.attempts, strict=True)
        ]
        new = [row for row, run in enumerate(runs) if run not in self._of_run]
        if not new:
            return []
        if len(new) < len(runs):
            facts = columns.pick(facts, new)
            runs = [runs[row] for row in new]
        out = []
        for at, part in _pieces(facts):
            self._tickets += 1
            kept = EndBatch(self._tickets, ended.subgroup, ended.epoch, part)
            self._batches[kept.ticket] = kept
            for row in range(len(part.indices)):
                self._of_run[runs[at + row]] = (kept.ticket, row)
            out.append(kept)
        return out

    def forget(self, runs: list[Run], *, delivered: bool = False) -> list[tuple[SubgroupId, int, OutputFile]]:
        """Forget runs; return their outputs collected here that are needed no more. `delivered`: only outputs that
        were delivered: a machine that told ends while it led itself may be the only one that has the others."""
        gone: dict[int, set[int]] = {}
        for run in runs:
            place = self._of_run.pop(run, None)
            if place is not None:
                kept = self._batches[place[0]]
                kept.left.discard(place[1])
                gone.setdefault(place[0], set()).add(kept.facts.indices[place[1]])
        leavings: list[tuple[SubgroupId, int, OutputFile]] = []
        for ticket, indices in gone.items():
            kept = self._batches[ticket]
            if kept.delivered or not delivered:
                leavings += [(kept.subgroup, kept.epoch, o) for o in kept.facts.outputs if o.index in indices]
            if not kept.left:
                del self._batches[ticket]
        return leavings


def _pieces(facts: Facts) -> Iterator[tuple[int, Facts]]:
    """Yield (first row, part), each of which fits a message."""
    parts = columns.pieces(facts, _BATCH_BYTES)
    for rows in parts:
        yield rows.start, facts if len(parts) == 1 else columns.pick(facts, rows)


def as_they_lie(data: DataDir, subgroup: SubgroupId, epoch: int, facts: Facts) -> Facts:
    """Return the facts with those logs and outputs that can be read: a file that vanished must not hold up the rest.
    Blocks."""
    outputs, errors, failed = [], list(facts.errors), set()
    for output in facts.outputs:
        try:
            path = data.collected(subgroup, epoch).joinpath(*parts_of(output.name))
            good = path.lstat().st_size == output.size_bytes
        except OSError:
            good = False
        if good:
            outputs.append(output)
        elif output.index not in failed:
            failed.add(output.index)
            name = job_id(group_of(subgroup), output.index)
            errors.append(JobError(output.index, f"{name}: output {output.name} vanished from its machine's disk"))
    lengths = list(facts.log_lengths)
    sizes: dict[str, int] = {}
    for row, segment in enumerate(facts.log_segments):
        if segment and segment not in sizes:
            sizes[segment] = 0
            with suppress(OSError):
                sizes[segment] = (data.logs_root / segment).stat().st_size
        if not segment or facts.log_offsets[row] + lengths[row] > sizes[segment]:
            lengths[row] = 0
    if not failed and lengths == facts.log_lengths:
        return facts
    outcomes = [
        int(Outcome.STAGING_FAILED) if index in failed and outcome == Outcome.DONE else outcome
        for index, outcome in zip(facts.indices, facts.outcomes, strict=True)
    ]
    return msgspec.structs.replace(facts, outputs=outputs, errors=errors, log_lengths=lengths, outcomes=outcomes)


def leavings(data: DataDir, subgroup: SubgroupId, epoch: int, facts: Facts) -> Iterator[bytes]:
    """Yield the logs, then the outputs, in chunks. Blocks; OSError, ValueError for a file shorter than it was."""
    buffer = bytearray()
    for fd, offset, length in _stretches(data, subgroup, epoch, facts):
        while length:
            data_read = os.pread(fd, min(length, CHUNK_BYTES - len(buffer)), offset)
            if not data_read:
                raise ValueError(f"{subgroup}: a file became shorter while it was read")
            buffer += data_read
            offset += len(data_read)
            length -= len(data_read)
            if len(buffer) >= CHUNK_BYTES:
                yield bytes(buffer)
                buffer.clear()
    if buffer:
        yield bytes(buffer)


def _stretches(data: DataDir, subgroup: SubgroupId, epoch: int, facts: Facts) -> Iterator[tuple[int, int, int]]:
    """Yield (descriptor, offset, length); the descriptor is good until the next is asked for."""
    name, fd = "", -1
    try:
        for row, length in enumerate(facts.log_lengths):
            if length and facts.log_segments[row] != name:
                if fd >= 0:
                    os.close(fd)
                name, fd = facts.log_segments[row], -1
                fd = open_file(data.logs_root, parts_of(name))
            if length:
                yield fd, facts.log_offsets[row], length
        for output in facts.outputs:
            if output.size_bytes:
                if fd >= 0:
                    os.close(fd)
                fd = -1
                fd = open_file(data.collected(subgroup, epoch), parts_of(output.name))
                yield fd, 0, output.size_bytes
    finally:
        if fd >= 0:
            os.close(fd)


def delete(data: DataDir, gone: list[tuple[SubgroupId, int, OutputFile]]) -> None:
    """Delete outputs that the RootGrid has. Blocks."""
    for subgroup, epoch, output in gone:
        with suppress(OSError):
            data.collected(subgroup, epoch).joinpath(*parts_of(output.name)).unlink()
