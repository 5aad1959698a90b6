"""Facts that the real readers find in the files that a power cut left, and those they must find there.

The journal is opened by its store and folded by the engine's fold, the claim log by its own reader, the ledger and
the catalogue by theirs: a file that one of them refuses is as bad as one that lacks something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diana.adapters.batch.ledger import Ledger
from diana.adapters.lrm.spawner.claims import claimlog, records
from diana.adapters.sqlite_store.store import SqliteStore
from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.engine.journal import codec, fold
from diana.engine.journal.records import RunsEnded, RunsStarted
from diana.engine.journal.state import SiteState, decode_state
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.pair.uploads import submitted_in
from tests.real.durable.journals import Row
from tests.real.durable.rules import Job, Run, SiteRules, Step, steps_of

FILES = ("journal.", "spawner", "catalogue.", "clusters", "blobs")
"""Beginnings of the paths that these readers read."""


@dataclass
class Kept:
    """Facts in one machine's files."""

    groups: set[str] = field(default_factory=set)
    folded_seq: int = 0
    """A snapshot took the place of the records up to this one: what jobs went through then is not asked for."""
    started: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Job -> how often the journal says it was given to be started."""
    ended: set[tuple[str, int, int]] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    claimed: set[Run] = field(default_factory=set)
    steps: set[Step] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    """Uploads that groups read."""
    uploads: set[str] = field(default_factory=set)
    datasets: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    told: set[tuple[str, int, int]] = field(default_factory=set)
    cautious: bool = False
    """The claim log has a hole among records that were not synced: it counts as one that lost its end."""
    false_alarms: list[str] = field(default_factory=list)
    """Whatever was said to be lost though nothing was."""


def read(folder: Path, site: str) -> Kept:
    """DianaError, LogDamaged: a reader refuses what a power cut left."""
    kept, paths = Kept(), DataDir(folder)
    if paths.journal.exists():
        _journal(kept, paths, SiteId(site))
    kept.uploads = {
        path.name
        for path in sorted(folder.glob("blobs/??/*"))
        if hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    }
    if paths.spawner.exists():
        _claims(kept, paths)
    if paths.catalogue.exists():
        catalogue = Catalogue(paths.catalogue)
        try:
            kept.datasets = {row.name for row in catalogue.newest()}
        finally:
            catalogue.close()
    for path in sorted(folder.glob("clusters/*/ledger.db")):
        ledger = Ledger(path)
        try:
            kept.arrays |= {array.token for array in ledger.arrays()}
            kept.told |= {(e.subgroup, e.epoch, index) for e in ledger.told() for index in e.facts.indices}
        finally:
            ledger.close()
    return kept


def _journal(kept: Kept, paths: DataDir, site: SiteId) -> None:
    twin = paths.mark_twin if paths.spawner.exists() else None
    store = SqliteStore(paths.journal, twin)
    try:
        if store.standing() == "older":
            kept.false_alarms.append("the marks say that the journal lost its end")
        journal = store.load()
    finally:
        store.close()
    state = decode_state(journal.snapshot, journal.release) if journal.snapshot is not None else SiteState()
    for stored in journal.records:
        record = codec.decode(stored, journal.release)
        fold.apply(state, record, site)
        kept.steps.update(steps_of(record))
        match record:
            case RunsStarted(subgroup=subgroup, epoch=epoch, indices=indices):
                for index in indices:
                    job = (subgroup, epoch, index)
                    kept.started[job] = kept.started.get(job, 0) + 1
            case RunsEnded(subgroup=subgroup, epoch=epoch, ended=ended):
                kept.ended |= {(subgroup, epoch, index) for index in ended}
            case _:
                pass
    kept.needed = {name for names in submitted_in(journal.records).values() for name in names}
    kept.folded_seq = journal.seq - len(journal.records)
    kept.groups = {*map(str, state.groups)}
    kept.done = {group: len(each.done) for group, each in state.groups.items()}


def _claims(kept: Kept, paths: DataDir) -> None:
    found = claimlog.find(paths.spawner / claimlog.NAME)
    if "as where power was cut" in found.lost:
        kept.cautious = True
    elif found.lost:
        kept.false_alarms.append(found.lost)
    for record in found.records:
        if isinstance(record, records.Claimed):
            for index, attempt in zip(record.indices, record.attempts, strict=True):
                kept.claimed.add((record.subgroup, record.epoch, index, attempt))


def lacking(kept: Kept, rules: SiteRules) -> Iterator[str]:
    """Whatever was acknowledged and is not among what was kept."""
    yield from missing_records(kept, rules, 0.0)

    def ended(job: Job) -> bool:
        return job in kept.ended or _is_folded(kept, rules.facts.ended.get(job))

    for run in rules.executed:
        if run not in kept.claimed and not ended(run[:3]):
            yield f"{run} began, and no claim says so"
    for name in rules.told_datasets:
        if name not in kept.datasets:
            yield f"dataset {name} was named in an answer"
    for token, jobs in rules.clusters.submitted.items():
        if token not in kept.arrays and not all(map(ended, jobs)):
            yield f"array {token} was submitted, and the ledger does not know it"
    for job in rules.clusters.told_ends:
        if job not in kept.told and not ended(job):
            yield f"the end of {job} was written down, and nobody knows it any more"
    if rules.ordered:
        # Before that nobody rests on the claim log.
        yield from kept.false_alarms


def missing_records(kept: Kept, leader: SiteRules, since_s: float) -> Iterator[str]:
    """Whatever a leader acknowledged after that moment and a journal, its own or its standby's, lacks."""
    for group, at in leader.told_groups.items():
        if at[0] >= since_s and group not in kept.groups:
            yield f"group {group} was named in an answer"
    for at, group, count in leader.told_done:
        if at[0] >= since_s and kept.done.get(group, 0) < count:
            yield f"an answer said that {count} jobs of {group} are done, {kept.done.get(group, 0)} are"
    for name in kept.needed - kept.uploads:
        yield f"upload {name} of a group that stands in the journal"
    for (subgroup, epoch, index, attempt), at in leader.ordered.items():
        job = (subgroup, epoch, index)
        rows = leader.facts.started.get(job, [])
        if at[0] >= since_s and kept.started.get(job, 0) < attempt and not any(_is_folded(kept, row) for row in rows):
            yield f"{subgroup}.{index} was given to the spawner, and no record says so"
    for step, at in leader.told_steps.items():
        if at[0] >= since_s and step not in kept.steps and not _is_folded(kept, leader.facts.steps.get(step)):
            yield f"another site acted upon {step}, and no record says so"


def _is_folded(kept: Kept, row: Row | None) -> bool:
    return row is not None and int(row.values[0]) <= kept.folded_seq  # type: ignore[call-overload, no-any-return]
