"""Checkpoints at their origin: jobs that stopped at one are unplaced again, and one counts when all of it is home. That
of a gang is whole when the parts of all components of one attempt are."""

from __future__ import annotations

from diana.engine.journal import records as r
from diana.engine.journal.state import GangSaved, Group, Moving, Saving, Subgroup
from diana.model.facts import FactsKey
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job import gang


def divided_anew(group: Group, indices: IndexSet) -> None:
    """Give the flexible gangs of these components all their indices back: the next attempt may divide them otherwise.
    One that is not placed whole again has them cancelled with the rest."""
    if group.unused:
        again = group.unused & gang.whole_gangs(group.spec, indices)
        group.unused, group.unplaced = group.unused - again, group.unplaced | again


def saved_home(group: Group, key: FactsKey, record: r.OutputsGathered) -> bool:
    """Take checkpoints that came home, all files of each, for the latest of their jobs; False: the batch has none.
    Those that never will come leave the ones before them."""
    coming = next((one for one in group.saving if one.key == key), None)
    if coming is None:
        return False
    group.saving = [one for one in group.saving if one.key != key]
    group.bytes_moved += record.bytes_moved
    if not record.error and group.spec.is_gang:
        _part_home(group, coming)
    elif not record.error:
        for job in coming.jobs:
            _replaced(group, IndexSet.span(job.index, job.index + 1))
            group.checkpoints[job.index] = job
    return True


def _replaced(group: Group, indices: IndexSet) -> None:
    """Keep the checkpoint that these jobs, or components of one gang, have so far as the one before, in place of any
    that was kept so."""
    for index in indices:
        group.earlier.pop(index, None)
        if index in group.checkpoints:
            group.earlier[index] = group.checkpoints.pop(index)


def unrestored(group: Group, indices: IndexSet, why: str) -> None:
    """Never use the latest checkpoint of these jobs again: they go on from the one before, or begin anew. Of a gang all
    components do so."""
    group.moving = (*group.moving, Moving(indices, SiteId(""), why))
    for index in gang.whole_gangs(group.spec, indices) if group.spec.is_gang else indices:
        group.checkpoints.pop(index, None)
        if index in group.earlier:
            group.checkpoints[index] = group.earlier.pop(index)


def _part_home(group: Group, coming: Saving) -> None:
    """Take a part of a gang's checkpoint; with the last one the whole of it replaces the one before."""
    number = coming.jobs[0].index // group.spec.gang_size
    known = group.gangs_saved.pop(number, None)
    earlier = known.jobs if known is not None and known.token == coming.token else ()
    parts = {job.index: job for job in (*earlier, *coming.jobs)}
    if not coming.token or len(parts) < coming.size:
        group.gangs_saved[number] = GangSaved(coming.token, tuple(parts.values()))
        return
    _replaced(group, gang.members(group.spec, number))
    group.checkpoints.update(parts)


def stopped(group: Group, subgroup: Subgroup, record: r.ResultAccepted) -> None:
    """Make jobs unplaced again that stopped with a checkpoint, or meant to, or could not begin from one. That attempt
    is closed: what it left counts as that of a job that is tried again."""
    indices = IndexSet.of(job.index for job in record.saved)
    group.unplaced, group.retried = group.unplaced | indices, group.retried | indices
    divided_anew(group, indices)
    group.holding = group.holding | (subgroup.holding & indices)
    subgroup.indices, subgroup.superseded = subgroup.indices - indices, subgroup.superseded | indices
    subgroup.holding, subgroup.recalled = subgroup.holding - indices, subgroup.recalled - indices
    subgroup.saving = subgroup.saving - indices
    if record.unrestored:
        unrestored(group, record.unrestored, record.note)
    whole = tuple(job for job in record.saved if job.files)
    if whole:
        key = r.facts_key(record.subgroup, record.epoch, record.batch)
        token = dict(subgroup.environment).get("DIANA_GANG_TOKEN", "")
        size = gang.size_told(group.spec, subgroup.environment) if token else 1
        group.saving.append(Saving(key, whole, token, size))


def done(group: Group, indices: IndexSet) -> None:
    """Drop the checkpoints of jobs that need none any more. Those of a gang stay until all components are done: a part
    of a checkpoint is none."""
    if not group.spec.is_gang:
        for known in (group.checkpoints, group.earlier):
            for index in [index for index in known if index in indices]:
                del known[index]
        return
    saved = {*group.gangs_saved, *(index // group.spec.gang_size for index in group.checkpoints)}
    for number in saved.intersection(gang.gangs_in(group.spec, gang.whole_gangs(group.spec, indices))):
        members = gang.members(group.spec, number)
        if not group.open_of(members):
            group.gangs_saved.pop(number, None)
            for one in members:
                group.checkpoints.pop(one, None)
                group.earlier.pop(one, None)
