"""Sees in the effects that left which groups and parts are over, and tells of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.journal.state import Group
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.node.traces.spans import Ran, Span, of_group, of_run

MOST_OPEN = 10_000
"""Parts followed here; of more, the oldest are told of by their origin alone."""
MOST_TOLD = 20_000

_Key = tuple[SubgroupId, int]


class _Open:
    __slots__ = ("bytes_staged", "failed", "first_s", "jobs", "last_s", "taken_s")

    def __init__(self, taken_s: float) -> None:
        self.taken_s = taken_s
        self.first_s = self.last_s = -1.0
        self.jobs = self.failed = self.bytes_staged = 0


class Watching:
    """Volatile: of what began before a restart of the node, the site that ran it tells what it saw since."""

    def __init__(
        self,
        vo: str,
        site: SiteId,
        now_s: Callable[[], float],
        group: Callable[[GroupId], Group | None],
        tell: Callable[[list[Span]], None],
    ) -> None:
        """`group`: one of this site's as it stands now."""
        self._vo = vo
        self._site = site
        self._now_s = now_s
        self._group = group
        self._tell = tell
        self._open: OrderedDict[_Key, _Open] = OrderedDict()
        self._told: OrderedDict[int, None] = OrderedDict()
        """Spans that were: a group that is final again has its old parts still."""

    def saw(self, effects: Iterable[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.Persist):
                self._record(effect.record)
            elif isinstance(effect, fx.KeepFacts) and effect.facts.site == self._site:
                self._ends(effect.key, effect.facts)

    def _record(self, record: r.Record) -> None:
        match record:
            case r.CustodyTaken() | r.RunsStarted():
                self._part((record.subgroup, record.epoch))
            case r.GroupPlaced():
                for part in record.parts:
                    if part.site == self._site:
                        self._part((part.subgroup, part.epoch))
            case r.RunsEnded() if record.bytes_staged:
                self._part((record.subgroup, record.epoch)).bytes_staged += record.bytes_staged
            case r.CustodyDropped():
                self._open.pop((record.subgroup, record.epoch), None)
            case r.CustodyClosed():
                self._over((record.subgroup, record.epoch))
            case r.GroupClosed():
                group = self._group(record.group)
                # Tried again meanwhile, it is told of when it is final again.
                if group is not None and group.state:
                    self._say(of_group(self._vo, group))

    def _part(self, key: _Key) -> _Open:
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = _Open(self._now_s())
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return found

    def _ends(self, key: FactsKey, facts: Facts) -> None:
        part = self._part((key.subgroup, key.epoch))
        part.jobs += len(facts.indices)
        part.failed += len(facts.outcomes) - facts.outcomes.count(Outcome.DONE)
        started = [at_s for at_s, attempt in zip(facts.started_s, facts.attempts, strict=True) if attempt]
        if started:
            part.first_s = min(started) if part.first_s < 0 else min(part.first_s, *started)
            part.last_s = max(part.last_s, *facts.ended_s)

    def _over(self, key: _Key) -> None:
        found = self._open.pop(key, None)
        if found is not None:
            self._say(
                of_run(
                    self._vo,
                    self._site,
                    Ran(
                        *key,
                        found.taken_s,
                        found.first_s,
                        found.last_s,
                        self._now_s(),
                        found.jobs,
                        found.failed,
                        found.bytes_staged,
                    ),
                )
            )

    def _say(self, spans: Iterable[Span]) -> None:
        fresh = {span.span_id: span for span in spans if span.span_id not in self._told}
        self._told.update(dict.fromkeys(fresh))
        if fresh:
            self._tell([*fresh.values()])
        while len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)
