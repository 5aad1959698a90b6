"""Pages of the jobs of a group that have ended, and how: a page costs what it looks through, not the group."""

from __future__ import annotations

from diana.engine.journal.state import Group
from diana.engine.views import gangs
from diana.model.indexset import CHUNK, FinishedSet, IndexSet
from diana.model.views.views import ENDINGS, EndedJobs

MOST_JOBS = 20_000
"""Jobs of one page."""
_FIRST_LOOK = 1 << 12
"""Jobs looked through first; then twice as many each time, as few of them may be wanted."""


def page(group: Group, outcome: str, first: int, most: int) -> EndedJobs:
    """Return the jobs from `first` on that ended with `outcome`, in order of index, at most `most` (0: a full page)."""
    sets: dict[str, FinishedSet] = {
        name: getattr(group, name) for name in ENDINGS if outcome in (name, "ended") and getattr(group, name)
    }
    found: dict[str, list[IndexSet]] = {name: [] for name in sets}
    left = min(most, MOST_JOBS) or MOST_JOBS
    at, look = max(0, first), _FIRST_LOOK
    while sets and left > 0 and at < group.jobs:
        stop = min(at + look, group.jobs)
        here = {name: some.within(IndexSet.span(at, stop)) for name, some in sets.items()}
        every = IndexSet.union(here.values())
        if len(every) > left:
            every = every.take(left)[0]
            here = {name: some & every for name, some in here.items()}
            stop = every.bounds[-1]
        for name, some in here.items():
            found[name].append(some)
        left -= len(every)
        at, look = stop, min(2 * look, CHUNK)
    over = not sets or at >= group.jobs
    by_ending = {name: IndexSet.union(some) for name, some in found.items()}
    cancelled = by_ending.get("cancelled", ()) if group.spec.is_gang else ()
    return EndedJobs(
        jobs=group.jobs,
        by_ending=tuple(by_ending.items()),
        with_gangs=tuple((index, why) for index in cancelled if (why := gangs.ended_with(group, index))),
        superseded=tuple((part, s.superseded) for part, s in sorted(group.subgroups.items()) if s.superseded),
        next=-1 if over else at,
    )
