"""Short jobs are claimed ahead by time: as many as are expected to keep a machine's slots busy for `AHEAD_S`. When a
slot is held for longer than that, what waits behind it is asked back, but for the few jobs that are claimed ahead in
any case, so that it waits in the queue, in the order of the queue, and can move."""

from __future__ import annotations

from itertools import islice

from diana.engine.journal.effects import RecallRuns
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines.running import Lane
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.model.indexset import IndexSet

LOOK_S = 0.5
"""Seconds for which no job came onto a machine's slots, after which those waiting there are asked back; also the time
between two looks while any wait."""


def pace(core: Context, custody: Custody, *, waits: bool) -> None:
    """Say how fast the jobs go that are to be given next. `waits`: they may be given ahead of a slot. Only a time that
    was seen here counts, no declared one: a job's user must not come by more slots by a promise."""
    seen_s = core.run_book.learned_s(custody) if waits and not core.state.settings.claim_ahead else None
    core.workers.paced(seen_s)


def watch(core: Context) -> None:
    """Look again soon, if machines may hold more than they would without `pace`. Costs nothing per machine: it ends
    each dispatch."""
    if core.workers.ahead_by_time and SiteTimer("claims") not in core.timers:
        core.after(SiteTimer("claims"), LOOK_S)


def look(core: Context) -> None:
    """Ask back what waits on machines where no job has come onto a slot for `LOOK_S`."""
    for lane in _lanes(core):
        beyond = _beyond(core, lane)
        if beyond and not lane.stalled and core.now - lane.moved_s >= LOOK_S:
            core.workers.stalled(lane)
            _ask_back(core, lane, beyond)
    if any(_beyond(core, lane) and not lane.stalled for lane in _lanes(core)):
        core.after(SiteTimer("claims"), LOOK_S)
    else:
        core.workers.by_number_again()


def _lanes(core: Context) -> list[Lane]:
    return list(core.totals.runs.recalling.values())


def _beyond(core: Context, lane: Lane) -> int:
    """Return how many of the jobs waiting there were given by `pace` alone."""
    return max(0, len(lane.ahead) - core.state.settings.ahead_of(lane.slots)) if core.workers.is_paced(lane) else 0


def _ask_back(core: Context, lane: Lane, count: int) -> None:
    """Recall so many of those that waited least: they would start last."""
    back: dict[CustodyKey, list[int]] = {}
    for key, index in islice(reversed(lane.ahead), count):
        back.setdefault(key, []).append(index)
    for key, indices in sorted(back.items()):
        custody = core.state.custodies.get(key)
        if custody is not None and not journal_doubt.stays(core, custody):
            core.emit(RecallRuns(worker=lane.name, subgroup=key[0], epoch=key[1], indices=IndexSet.of(sorted(indices))))
