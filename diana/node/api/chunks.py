"""Results as chunks of the store: which chunks hold the newest rows of some jobs, and which rows still count.

A job that was retried has left its old results behind, and they stay in the store.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from diana.engine.journal import columns
from diana.model.facts import Facts, FactsKey, JobError, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import EndedJobs, GroupView
from diana.ports import Store

Chunk = tuple[FactsKey, Facts]

MOST_KEPT_JOBS = 4_000_000
"""Jobs whose chunks are known at once, eight bytes each, in the groups looked at last. For a larger group only the span
of jobs in each chunk is kept."""
_WITHOUT_RESULT = {"done": Outcome.DONE, "failed": Outcome.FAILED, "held": Outcome.UNKNOWN}


def current(source: Iterable[Chunk], view: GroupView) -> Iterator[Chunk]:
    """The same chunks without rows of jobs that were retried since; some may be empty."""
    return without(source, view.superseded)


def without(source: Iterable[Chunk], superseded_jobs: Iterable[tuple[SubgroupId, IndexSet]]) -> Iterator[Chunk]:
    """The same chunks without rows of these jobs of each part; some may be empty."""
    superseded = dict(superseded_jobs)
    for key, facts in source:
        old = superseded.get(key.subgroup)
        if old:
            facts = columns.pick(facts, [at for at, index in enumerate(facts.indices) if index not in old])
        yield key, facts


def only(source: Iterable[Chunk], some_jobs: Iterable[tuple[SubgroupId, IndexSet]]) -> Iterator[Chunk]:
    """The chunks of these parts, with rows of these jobs of each alone."""
    wanted = dict(some_jobs)
    for key, facts in source:
        some = wanted.get(key.subgroup)
        if some:
            yield key, columns.pick(facts, [at for at, index in enumerate(facts.indices) if index in some])


class Places:
    """Finds the chunk of the store that holds the newest row of each ended job. Safe from any thread; blocks on the
    disk."""

    def __init__(self) -> None:
        self._groups: OrderedDict[GroupId, _Known | _Spans] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, store: Store, group: GroupId, jobs: int, wanted: IndexSet) -> list[int]:
        """Numbers of the chunks that hold rows of `wanted`, rising; for a group too large to be kept in mind also some
        others between them."""
        with self._lock:
            known = self._groups.get(group)
            if known is None:
                known = self._groups[group] = _Known(jobs) if jobs <= MOST_KEPT_JOBS else _Spans()
            self._groups.move_to_end(group)
            try:
                for number, indices in store.jobs_of_chunks(group, known.newest):
                    known.learn(number, indices)
                return known.of(wanted)
            finally:
                while sum(some.size() for some in self._groups.values()) > MOST_KEPT_JOBS:
                    self._groups.popitem(last=False)


class _Known:
    def __init__(self, jobs: int) -> None:
        self.newest = 0
        # The merge command has an index behind the jobs'.
        self.chunk = array("q", bytes(8 * (jobs + 1)))

    def learn(self, number: int, indices: list[int]) -> None:
        self.newest = number
        for index in indices:
            if index < len(self.chunk):
                self.chunk[index] = number

    def of(self, wanted: IndexSet) -> list[int]:
        return sorted({number for index in wanted if (number := self.chunk[index])})

    def size(self) -> int:
        return len(self.chunk)


class _Spans:
    """Jobs end about in their order, so that the chunks of neighbours are few."""

    def __init__(self) -> None:
        self.newest = 0
        self._spans = array("q")
        """Number, first and last index of each."""

    def learn(self, number: int, indices: list[int]) -> None:
        self.newest = number
        if indices:
            self._spans.extend((number, min(indices), max(indices)))

    def of(self, wanted: IndexSet) -> list[int]:
        spans, some = self._spans, list(wanted)
        numbers, firsts, lasts = spans[::3], spans[1::3], spans[2::3]
        return [
            number
            for number, first, last in zip(numbers, firsts, lasts, strict=True)
            if (at := bisect_left(some, first)) < len(some) and some[at] <= last
        ]

    def size(self) -> int:
        return len(self._spans)


def read(store: Store, places: Places, group: GroupId, page: EndedJobs) -> list[Facts]:
    """The rows of a page's jobs, those of one site together and in order of their indices. Blocks on the disk."""
    wanted = IndexSet.union(some for _, some in page.by_ending)
    if not wanted:
        return []
    superseded = dict(page.superseded)
    left = set(wanted)
    by_site: dict[SiteId, list[Facts]] = defaultdict(list)
    # The newest result of a job is the one that counts, but for what was tried again since.
    for number in reversed(places.of(store, group, page.jobs, wanted)):
        if (found := store.numbered_chunk(group, number)) is None:
            continue
        key, facts = found
        old = superseded.get(key.subgroup, IndexSet())
        rows = [at for at, index in enumerate(facts.indices) if index in left and index not in old]
        if rows:
            left.difference_update(facts.indices[at] for at in rows)
            by_site[facts.site].append(columns.pick(facts, rows))
    out = [columns.in_order(columns.join(by_site[site])) for site in sorted(by_site)]
    for name, some in page.by_ending:
        without = sorted(left.intersection(some))
        if without:
            outcome = _WITHOUT_RESULT.get(name, Outcome.CANCELLED)
            out.append(
                columns.never_ran(SiteId(""), without, [0] * len(without), [int(outcome)] * len(without), 0, [], 0.0)
            )
    why = dict(page.with_gangs)
    return [_with_gangs(facts, why) for facts in out] if why else out


def _with_gangs(facts: Facts, why: dict[int, str]) -> Facts:
    """Return the rows with the reason of those that ended with their gangs, where they have none of their own."""
    told = {error.index for error in facts.errors}
    more = [JobError(index, why[index]) for index in facts.indices if index in why and index not in told]
    return msgspec.structs.replace(facts, errors=[*facts.errors, *more]) if more else facts
