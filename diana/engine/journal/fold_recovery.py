"""Groups as the records of a restored origin (`site/journal_doubt.py`) leave them."""

from __future__ import annotations

from diana.engine.journal.past import remember
from diana.engine.journal.records import HoldLifted, PartReported, PeerReported, RecoveryRecord
from diana.engine.journal.state import Group, SiteState, Step, Subgroup
from diana.model.ids import SiteId, group_of
from diana.model.indexset import IndexSet

RESTORED = "this site's store was restored from a backup"
"""Why a group of it does not go on by itself."""


def recover(state: SiteState, record: RecoveryRecord, home: SiteId) -> None:
    match record:
        case PeerReported():
            state.reported[record.site] = not record.waived
            if record.waived:
                del state.reported[record.site]
        case HoldLifted():
            _lift(state, state.groups[record.group], home)
        case PartReported():
            _reported(state, state.groups[group_of(record.subgroup)], record, home)


def in_the_copy(state: SiteState, group: Group) -> bool:
    """True where this store had the group when it was put back last, or it came back; others were submitted since."""
    return bool(state.forgotten) and int(group.group.rpartition("-")[2]) < state.forgotten[-1][1]


def _lift(state: SiteState, group: Group, home: SiteId) -> None:
    group.on_hold = ""
    for subgroup in group.subgroups.values():
        if subgroup.site == home:
            subgroup.unreachable = ""
    for custody in state.custodies.values():
        if custody.origin == home and group_of(custody.subgroup) == group.group:
            custody.on_hold = False


def _reported(state: SiteState, group: Group, record: PartReported, home: SiteId) -> None:
    group.epoch = max(group.epoch, record.epoch)
    group.next_number = max(group.next_number, int(record.subgroup.rpartition("/")[2]) + 1)
    known = group.subgroups.get(record.subgroup)
    if record.dropped:
        if known is not None and not known.finished:
            group.unplaced = group.unplaced | known.indices
            remember(group, known)
        return
    # Who was given a job last has it; no two parts have one epoch, whatever a site says.
    others = (s for s in group.subgroups.values() if s.subgroup != record.subgroup)
    later = IndexSet.union(s.indices for s in others if s.epoch >= record.epoch)
    mine = (record.open | record.told | record.revoked) - later
    before = group.past.get(record.subgroup) if known is None else None
    if before is not None:
        # The last of it came back by a batch that overtook the report; or was taken from it, as this journal knows.
        mine = mine - record.revoked - before.disowned
    # A part only ever loses jobs: what is not in it has come back already, by a batch that overtook the report. Of one
    # that is not known here, what has its result counts where that came from.
    over = record.told - group.open_of(record.told & mine)
    mine = mine & known.indices if known is not None else mine - over
    if known is None and not mine:
        return
    held = group.open_of(record.told & mine)
    _take_from_others(state, group, mine, record.epoch, home)
    if known is None:
        known = group.subgroups[record.subgroup] = Subgroup(
            subgroup=record.subgroup,
            epoch=record.epoch,
            site=record.site,
            indices=mine,
            step=Step.COMMITTED,
            decision=max(0, len(group.decisions) - 1),
            disowned=before.disowned if before is not None else IndexSet(),
        )
    else:
        ended = known.indices - group.open_of(known.indices)
        gone = known.indices - mine - ended - later
        known.indices = ended | mine
        group.unplaced = group.unplaced | gone
        if not known.indices and not known.superseded:
            # All of it came back, and was placed anew by a record that is gone, or not at all.
            remember(group, known)
            return
    known.step, known.acked, known.db_uuid, known.unreachable = Step.COMMITTED, True, record.db_uuid, ""
    known.files = known.sources = known.readers = ()
    known.recalled = known.recalled | record.revoked
    if group.spec.on_site_lost == "rerun":
        known.disowned = known.disowned | (record.open - mine)
    _obeys(known, record)
    if group.open_of(mine) and in_the_copy(state, group):
        # It may have been over there.
        group.on_hold = group.on_hold or RESTORED
    known.finished += len(held)
    group.held.add_set(held)
    if held:
        group.note = (
            f"{len(held)} jobs of {record.subgroup} ended at {record.site}, their results went with this site's"
            f" database; diana retry --held {group.group} runs them again"
        )


def _obeys(known: Subgroup, record: PartReported) -> None:
    """An order given since the copy was made stands, and the next one must have a higher number than it."""
    if record.control_seq > known.control_seq:
        known.control_seq = known.control_acked = record.control_seq
        known.cancelling, known.holding = record.cancelled, record.holding
        known.recalled = known.recalled | record.recalled


def _take_from_others(state: SiteState, group: Group, mine: IndexSet, epoch: int, home: SiteId) -> None:
    """Nobody else has those jobs any more, whatever this site knew."""
    group.unplaced, group.holding = group.unplaced - mine, group.holding - mine
    for part, other in list(group.subgroups.items()):
        over = group.open_of(other.indices & mine) if other.epoch < epoch else IndexSet()
        if not over:
            continue
        other.indices = other.indices - over
        if other.site != home and group.spec.on_site_lost == "rerun":
            # Placed anew since the copy was made: its site may have them yet, and would start them.
            other.disowned = other.disowned | over
        custody = state.custodies.get((part, other.epoch)) if other.site == home else None
        if custody is not None:
            waiting = over & custody.pending
            custody.pending, custody.indices = custody.pending - waiting, custody.indices - waiting
        if not other.indices and not other.superseded and custody is None:
            remember(group, other)
