"""Checkpoints at the origin: which jobs stopped at one, and what a later attempt reads of it (SPEC G6).

A checkpoint is a version of a job's state: its files travel home as outputs do, become blobs there, and count together
once all of them are durable. Jobs are placed from the latest whole one.
"""

from __future__ import annotations

from collections.abc import Iterator

from diana.engine.journal.state import Group
from diana.engine.site.context import Context
from diana.model.data import DataFile
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import GroupId, job_id
from diana.model.indexset import IndexSet
from diana.model.job import gang
from diana.model.job.checkpoint import SavedFile, SavedJob, folder_of, reference

FROM_CHECKPOINTS = frozenset({Outcome.CHECKPOINTED, Outcome.UNRESTORED})
"""Those that only jobs which make checkpoints come to."""
STOPPED = frozenset({Outcome.CHECKPOINTED, Outcome.MADE_WAY, Outcome.UNRESTORED})
"""Ends of attempts whose jobs have no result and are placed anew from a checkpoint, or without one."""


def stopped(group: Group, facts: Facts) -> tuple[SavedJob, ...]:
    """Return the jobs of a batch that stopped when they were asked to save, or made way, each with its files if all
    came: a part of a checkpoint is none. Those that could not begin from one are among them, and have no files."""
    if not any(outcome in STOPPED for outcome in facts.outcomes):
        return ()
    most = len(group.spec.checkpoint.paths) if group.spec.checkpoint is not None else 0
    files: dict[int, list[SavedFile]] = {}
    attempts = dict(zip(facts.indices, facts.attempts, strict=True))
    for output in facts.outputs:
        within = f"{folder_of(output.index, attempts.get(output.index, 0))}/"
        if output.name.startswith(within):
            saved = SavedFile(output.name.removeprefix(within), output.size_bytes, output.sha256)
            files.setdefault(output.index, []).append(saved)
    rows = zip(facts.indices, facts.attempts, facts.outcomes, strict=True)
    return tuple(
        SavedJob(i, attempt, tuple(some) if len(some := files.get(i, [])) == most else ())
        for i, attempt, outcome in rows
        if outcome in STOPPED
    )


def unrestored(facts: Facts) -> IndexSet:
    """Return the jobs of a batch that could not begin from their checkpoint."""
    rows = zip(facts.indices, facts.outcomes, strict=True)
    return IndexSet.of(index for index, outcome in rows if outcome == Outcome.UNRESTORED)


def not_used(group: Group, indices: IndexSet, why: str) -> str:
    """Return a line on the latest checkpoints of these jobs, one of which at least is not as it was saved: none of them
    is used again."""
    known = sorted(index for index in group.checkpoints if index in indices)
    if not known:
        return why
    first, others = known[0], "" if group.spec.is_gang or len(known) == 1 else f" (and {len(known) - 1} others)"
    before = group.earlier.get(first)
    name, rest = (
        job_id(group.group, first),
        f"it goes on from {job_id(group.group, first)}@{before.attempt}" if before else "it begins anew",
    )
    return f"checkpoint {name}@{group.checkpoints[first].attempt}{others} is not used: {why}; {rest}"


def wrong(group: Group, facts: Facts) -> str:
    """Return why no honest site tells such a batch; empty: it may. Jobs that stopped at a checkpoint, made way, or
    could not begin from a checkpoint, come in batches of their own; a component tells the latter before its gang is let
    go, by no result."""
    count = sum(outcome in STOPPED for outcome in facts.outcomes)
    if not count:
        return ""
    if group.spec.checkpoint is None and any(one in facts.outcomes for one in FROM_CHECKPOINTS):
        return "checkpoints of jobs that make none"
    if Outcome.MADE_WAY in facts.outcomes and (not group.spec.preemptible or group.spec.is_gang):
        return "jobs that made way, and are not to"
    if group.spec.is_gang and Outcome.UNRESTORED in facts.outcomes:
        return "a component that ran is said not to have begun"
    if count < len(facts.outcomes):
        return "checkpoints beside results"
    return ""


def made_way(group: Group, facts: Facts) -> IndexSet:
    """Return the jobs of a batch that their site ended for a gang, with a checkpoint or without."""
    if not group.spec.preemptible:
        return IndexSet()
    why = {error.index for error in facts.errors}
    rows = zip(facts.indices, facts.outcomes, strict=True)
    return IndexSet.of(sorted(i for i, o in rows if o == Outcome.MADE_WAY or (o == Outcome.CHECKPOINTED and i in why)))


def are_coming(group: Group, key: FactsKey) -> bool:
    """True if the files of that batch are checkpoints on their way home."""
    return any(one.key == key for one in group.saving)


def of(group: Group, indices: IndexSet) -> tuple[SavedJob, ...]:
    """Return the checkpoints that these jobs go on from. Each component of a gang has the parts of all: the next try
    may have more components than the one that wrote them, or fewer."""
    if not group.checkpoints:
        return ()
    if group.spec.is_gang:
        return tuple(_of_gang(group, indices))
    return tuple(job for index, job in sorted(group.checkpoints.items()) if index in indices)


def _of_gang(group: Group, indices: IndexSet) -> Iterator[SavedJob]:
    for number in sorted({index // group.spec.gang_size for index in indices}):
        parts = [job for i in gang.members(group.spec, number) if (job := group.checkpoints.get(i)) is not None]
        files = tuple(file for job in parts for file in job.files)
        for index in indices & gang.members(group.spec, number) if files else ():
            yield SavedJob(index, parts[0].attempt, files)


def units(core: Context, name: GroupId | None, indices: IndexSet) -> Iterator[tuple[DataFile, IndexSet]]:
    """Yield the files of these jobs' checkpoints, each with the jobs that read it; home has them all."""
    group = core.state.groups.get(name) if name else None
    read_by: dict[DataFile, list[int]] = {}
    for job in of(group, indices) if group is not None else ():
        for file in job.files:
            unit = DataFile(reference(file), file.size_bytes, file.sha256)
            read_by.setdefault(unit, []).append(job.index)
    for unit, some in read_by.items():
        yield unit, IndexSet.of(some)
