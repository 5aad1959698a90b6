"""I7 as a check: no group has more jobs with machines than its user allows, no user more than the site allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.job.spec import Resources, decode_spec
from diana.sim.checks.findings import Finding
from diana.sim.checks.stories import Transfer


class MachineCap(NamedTuple):
    """The most that one machine may hold at once."""

    processors: int
    """Processors of the jobs it holds, on slots and ahead of them."""
    gpus: int = 0


class Caps:
    """`user_max_running` of each site; 0: no limit. Counts what the records count: jobs given to machines whose end is
    not durable yet. `feeds`: what each machine may hold, counted by what it really holds."""

    __slots__ = ("_claimed", "_feeds", "_gpus", "_group", "_most", "_owner", "_running", "_user", "_user_most")

    def __init__(self, feeds: Mapping[tuple[SiteId, str], MachineCap], user_max_running: Mapping[SiteId, int]) -> None:
        self._feeds = feeds
        self._claimed: Counter[tuple[SiteId, str]] = Counter()
        self._gpus: Counter[tuple[SiteId, str]] = Counter()
        self._user_most = user_max_running
        self._most: dict[GroupId, int] = {}
        self._owner: dict[GroupId, str] = {}
        self._running: dict[Transfer, FinishedSet] = {}
        self._group: Counter[GroupId] = Counter()
        self._user: Counter[tuple[SiteId, str]] = Counter()

    def look(self, site: SiteId, record: r.Record) -> Iterator[Finding]:
        match record:
            case r.GroupSubmitted():
                self._owner[record.group] = record.owner
                self._most[record.group] = decode_spec(record.spec).max_parallel
            case r.RunsStarted():
                yield from self._more(site, record)
            case r.RunsVoided() | r.RunsReturned() | r.RunsRepeated():
                self._less(site, (record.subgroup, record.epoch), record.indices)
            case r.RunsEnded():
                self._less(site, (record.subgroup, record.epoch), record.ended)

    def claimed(self, site: SiteId, worker: str, run: Run, need: Resources) -> Iterator[Finding]:
        at, name = (site, worker), group_of(run.subgroup)
        feed = self._feeds[at]
        self._claimed[at] += need.processors
        self._gpus[at] += need.gpus
        # A merge command runs even where all slots are other machines'.
        if self._claimed[at] >= max(1, feed.processors) + need.processors:
            text = f"{worker} holds {self._claimed[at]} processors' work, its cap is {feed.processors}"
            yield Finding("I7", name, run.index, text)
        if need.gpus and self._gpus[at] > feed.gpus:
            yield Finding("I7", name, run.index, f"{worker} holds jobs of {self._gpus[at]} GPUs and has {feed.gpus}")

    def freed(self, site: SiteId, worker: str, need: Resources) -> None:
        self._claimed[site, worker] -= need.processors
        self._gpus[site, worker] -= need.gpus

    def forgot(self, site: SiteId, transfer: Transfer) -> None:
        """Forget the jobs of a transfer: nobody knows any more which of them run."""
        self._less(site, transfer, IndexSet.of(self._running.get(transfer, ())))
        self._running.pop(transfer, None)

    def _more(self, site: SiteId, record: r.RunsStarted) -> Iterator[Finding]:
        name = group_of(record.subgroup)
        user = (site, self._owner.get(name, ""))
        self._running.setdefault((record.subgroup, record.epoch), FinishedSet()).add_set(record.indices)
        self._group[name] += len(record.indices)
        self._user[user] += len(record.indices)
        most, user_most = self._most.get(name, 0), self._user_most.get(site, 0)
        if 0 < most < self._group[name]:
            yield Finding("I7", name, -1, f"{self._group[name]} jobs run at once, its max_parallel is {most}")
        if 0 < user_most < self._user[user]:
            text = f"{user[1]} runs {self._user[user]} jobs at once, user_max_running is {user_most}"
            yield Finding("I7", name, -1, text)

    def _less(self, site: SiteId, transfer: Transfer, indices: IndexSet) -> None:
        """Count these jobs as running no more; those that never started were not counted."""
        running = self._running.get(transfer)
        if running is None:
            return
        name, count = group_of(transfer[0]), len(running.within(indices))
        running.discard_set(indices)
        self._group[name] -= count
        self._user[site, self._owner.get(name, "")] -= count
