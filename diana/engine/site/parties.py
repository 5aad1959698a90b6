"""Index of transfers by the other site they concern: telling a peer that comes back costs by its own part of the work,
not by all groups here.

`Context.persist` names every record, as for the running totals. A transfer stands here from its first record until it
is over; the state alone says what is open of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from diana.engine.journal import records as r
from diana.engine.journal.records import PartDisowned, PartReported
from diana.engine.journal.state import CustodyKey, Group, SiteState, Subgroup
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, origin_of

_T = TypeVar("_T")


class Parties:
    """The index. Volatile: made from a state and kept in step with it."""

    def __init__(self, site: SiteId, state: SiteState) -> None:
        self._site = site
        self._state = state
        self._handed: dict[SiteId, set[SubgroupId]] = {}
        """Parts of this site's groups, by the site they were placed at."""
        self._where: dict[SubgroupId, tuple[SiteId, int]] = {}
        """Part -> its site, and how many of its jobs are open there."""
        self._open: dict[tuple[GroupId, SiteId], int] = {}
        """Open jobs of a group at another site."""
        self._taken: dict[SiteId, set[CustodyKey]] = {}
        """Custodies held here, by their origin."""
        self._awaiting: dict[SiteId, set[GroupId]] = {}
        """Groups of which jobs wait for their turn, by the other site: the one of the turn, or the origin."""
        for group in state.groups.values():
            for part in group.subgroups:
                self._look_at(part)
        for key in state.custodies:
            self._take(key)

    def saw(self, record: r.Record) -> None:
        """Follow `record`, which was folded into the state just now."""
        match record:
            case r.GroupPlaced():
                for placed in record.parts:
                    self._look_at(placed.subgroup)
            case r.TakenBack() | r.ResultAccepted() | PartDisowned():
                self._look_at(record.subgroup)
            case PartReported():
                # It may have taken jobs from any other part, or ended it.
                for part in self._state.groups[group_of(record.subgroup)].subgroups:
                    self._look_at(part)
                self._look_at(record.subgroup)
            case r.CustodyTaken():
                self._take((record.subgroup, record.epoch))
            case r.CustodyDropped() | r.CustodyClosed():
                origin = origin_of(group_of(record.subgroup))
                _discard(self._taken, origin, (record.subgroup, record.epoch))

    def handed_to(self, site: SiteId | None) -> list[tuple[Group, Subgroup]]:
        """Return the parts of this site's groups that are open at that site, by group and in the order they were
        offered; None: at any other site."""
        found = []
        for part in _of(self._handed, site):
            group = self._state.groups.get(group_of(part))
            subgroup = group.subgroups.get(part) if group is not None else None
            if group is None or subgroup is None:
                # Expired while its site was given up, or other parts have its jobs after a restore.
                self._over(part)
            else:
                found.append((group, subgroup))
        return sorted(found, key=lambda pair: (pair[0].group, pair[1].epoch))

    def open_at(self, group: GroupId, site: SiteId) -> int:
        """Return how many jobs of the group were handed to that other site and have no result yet."""
        return self._open.get((group, site), 0)

    def taken_from(self, site: SiteId | None) -> list[CustodyKey]:
        """Return the custodies held here for that site, in order; None: for any other site."""
        return sorted(_of(self._taken, site))

    def sites(self) -> set[SiteId]:
        """Return the sites that have open work of this site's, or that this site has work of."""
        return self._handed.keys() | self._taken.keys() | self._awaiting.keys()

    def awaits(self, site: SiteId, group: GroupId) -> None:
        """Note that jobs of the group wait for their turn, here or at that site."""
        if site != self._site:
            self._awaiting.setdefault(site, set()).add(group)

    def awaited(self, site: SiteId) -> list[GroupId]:
        """Return the groups of which jobs wait for their turn, here or at that site, in order."""
        return sorted(self._awaiting.get(site, ()))

    def awaits_no_more(self, site: SiteId, group: GroupId) -> None:
        _discard(self._awaiting, site, group)

    def _look_at(self, part: SubgroupId) -> None:
        group = self._state.groups.get(group_of(part))
        subgroup = group.subgroups.get(part) if group else None
        if subgroup is None or not subgroup.open_jobs():
            self._over(part)
        elif subgroup.site != self._site:
            self._count(part, subgroup.site, subgroup.open_jobs())
            self._handed.setdefault(subgroup.site, set()).add(part)

    def _over(self, part: SubgroupId) -> None:
        if part in self._where:
            _discard(self._handed, self._where[part][0], part)
            self._count(part, self._where[part][0], 0)

    def _count(self, part: SubgroupId, site: SiteId, jobs: int) -> None:
        key = (group_of(part), site)
        _, before = self._where.pop(part, (site, 0))
        self._open[key] = self._open.get(key, 0) + jobs - before
        if jobs:
            self._where[part] = (site, jobs)
        if not self._open[key]:
            del self._open[key]

    def _take(self, key: CustodyKey) -> None:
        origin = self._state.custodies[key].origin
        if origin != self._site:
            self._taken.setdefault(origin, set()).add(key)


def _of(sets: Mapping[SiteId, set[_T]], site: SiteId | None) -> list[_T]:
    if site is not None:
        return list(sets.get(site, ()))
    return [one for some in sets.values() for one in some]


def _discard(sets: dict[SiteId, set[_T]], site: SiteId, one: _T) -> None:
    some = sets.get(site)
    if some is not None:
        some.discard(one)
        if not some:
            del sets[site]
