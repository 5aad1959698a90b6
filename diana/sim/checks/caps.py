"""I7 as a check: no group has more jobs with machines than its user allows, no user more than the site allows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.job import resources as res
from diana.model.job.spec import Resources, decode_spec
from diana.sim.checks.findings import Finding
from diana.sim.checks.stories import Transfer


class MachineCap(NamedTuple):
    """The most that one machine may hold at once."""

    processors: int
    """Processors of the jobs it holds, on slots and ahead of them."""
    has: res.Amounts = ()
    """Devices that it has, each one job's at a time."""


class Caps:
    """`user_max_running` of each site; 0: no limit. Counts what the records count: jobs given to machines whose end is
    not durable yet. `feeds`: what each machine may hold, counted by what it really holds."""

    __slots__ = (
        "_asked",
        "_claimed",
        "_feeds",
        "_group",
        "_held",
        "_most",
        "_owner",
        "_running",
        "_used",
        "_user",
        "_user_most",
    )

    def __init__(self, feeds: Mapping[tuple[SiteId, str], MachineCap], user_max_running: Mapping[SiteId, int]) -> None:
        self._feeds = feeds
        self._claimed: Counter[tuple[SiteId, str]] = Counter()
        self._held: defaultdict[tuple[SiteId, str], Counter[str]] = defaultdict(Counter)
        self._asked: dict[tuple[SiteId, Run], tuple[str, res.Amounts]] = {}
        """Runs with machines that asked for whole pieces of something: machine, and what they asked."""
        self._used: defaultdict[tuple[SiteId, str], dict[Run, res.Amounts]] = defaultdict(dict)
        """Those of them that have begun."""
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
        # A merge command runs even where all slots are other machines'.
        if self._claimed[at] >= max(1, feed.processors) + need.processors:
            text = f"{worker} holds {self._claimed[at]} processors' work, its cap is {feed.processors}"
            yield Finding("I7", name, run.index, text)
        if asked := _pieces(need):
            self._asked.setdefault((site, run), (worker, asked))
            self._held[at].update(dict(asked))
            yield from _above(self._held[at], asked, feed, run, f"{worker} holds")

    def began(self, site: SiteId, run: Run) -> Iterator[Finding]:
        """A machine that was given more than it has, as by a database of long ago, still runs no more at once."""
        worker, asked = self._asked.get((site, run), ("", ()))
        if asked:
            used = self._used[site, worker]
            used[run] = asked
            every = Counter[str]()
            for one in used.values():
                every.update(dict(one))
            yield from _above(every, asked, self._feeds[site, worker], run, f"{worker} runs")

    def freed(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        self._claimed[site, worker] -= need.processors
        if asked := _pieces(need):
            self._held[site, worker].subtract(dict(asked))
            self._used[site, worker].pop(run, None)
            if self._asked.get((site, run), ("",))[0] == worker:
                del self._asked[site, run]

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


def _pieces(need: Resources) -> res.Amounts:
    return res.devices(res.of_job(need))


def _above(there: Counter[str], asked: res.Amounts, feed: MachineCap, run: Run, who: str) -> Iterator[Finding]:
    for name, _ in asked:
        if there[name] > (has := res.amount(feed.has, name)):
            yield Finding("I7", group_of(run.subgroup), run.index, f"{who} jobs of {there[name]} {name} and has {has}")
