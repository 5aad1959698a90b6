"""Promise 7 as a check: under leases the old copy of a job is dead when the new may start, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator

from diana.engine.journal.records import PartDisowned
from diana.sim.checks.stories import GroupStory, TransferStory


def placed_anew(group: GroupStory, transfer: TransferStory, record: PartDisowned) -> Iterator[tuple[int, str]]:
    """Check a part that is placed anew: yields a job and what is wrong with it. The jobs' lives begin anew."""
    for index in record.indices:
        life = group.lives.pop(index, None)
        # The origin cannot know how many attempts that site has made: the epoch tells the copies apart.
        group.attempts.pop(index, None)
        if index in group.accepted:
            yield index, "placed anew though it has a result"
        if life is not None and group.gang_size:
            # It is ended now, and no component of the next attempt starts before that (`checkers.executed`).
            group.closing[index] = life
        elif life is not None and life.outcome is None:
            yield index, f"placed anew while attempt {life.run.attempt} runs at {life.site}"
    transfer.disowned = transfer.disowned | record.indices
    group.unplaced = group.unplaced | record.indices
    group.divided_anew(record.indices)
