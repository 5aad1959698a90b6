"""The plan of a group that wants something of all its sites together: over sets of the best of them (SPEC G1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from diana.engine.placement import candidates
from diana.engine.placement.draft import Draft
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.words import counted
from diana.policy.allocation import splitting
from diana.policy.pricing.demand import Candidate, Demand
from diana.policy.requirements import choice
from diana.policy.requirements.group import GroupRequirements

Dividing = Callable[[Demand, list[Candidate]], splitting.Plan]
"""A division of a demand over candidates."""
OTHERS = "not of the set of sites that meets its requirements together"


def as_set(
    core: Context, draft: Draft, field: candidates.Field, how: Dividing, demand: Demand
) -> tuple[splitting.Plan, candidates.Field]:
    """Plan so that all sites with jobs of the group together meet what it wants of them: as the first end has it, else
    with sets of the best sites, fewer and fewer, over which it is divided evenly, and with one that grows. No plan: no
    such set was found, and the field says what the nearest lacks."""
    plan = how(demand, field.candidates)
    wants = draft.match(core).requirements
    if wants is None or not wants.sets or not plan.parts:
        return plan, field
    group = core.state.groups.get(draft.group) if draft.group else None
    held = {part.site for part in group.subgroups.values() if part.open_jobs()} if group is not None else set()
    search = _Search(wants, field, frozenset(held))
    if search.fits(_sites(plan)):
        return plan, field
    jobs = len(demand.indices)
    priced = [row.site for row in plan.decision.candidates if not row.rejected]
    order = sorted(priced, key=lambda site: -field.ranks.get(site, 0.0))
    roomless: tuple[SiteId, ...] = ()
    for some in search.sets(order, jobs):
        if not search.fits(set(some)):
            continue
        left = field.without(set(priced) - set(some), OTHERS)
        for rows in (left.candidates, _shared_out(left.candidates, -(-jobs // len(some)))):
            tried = how(demand, rows)
            if tried.parts and search.fits(_sites(tried)):
                return tried, left
        roomless = roomless or tuple(sorted(held.union(some)))
    if roomless:
        why = f"{choice.named(roomless)} would meet together what it requires of its sites, and do not take its jobs"
        most = [row.max_jobs for row in field.candidates if row.site in roomless]
        near = {**field.near, **dict.fromkeys(priced, f"jobs <= {sum(most)}" if all(most) else "")}
        left = field.without(set(priced), why)
        return how(demand, left.candidates), left._replace(near=near, no_set=why)
    nearest = search.nearest
    among = f" of up to {counted(jobs, 'site')}, one for each job," if jobs < len(priced) else ""
    why = nearest.told(among=among)
    left = field.without(set(priced), why)
    near = {**field.near, **dict.fromkeys(priced, nearest.near())}
    failed = {**field.failed, **dict.fromkeys(priced, nearest.failed[: candidates.MOST_FAILED])}
    return how(demand, left.candidates), left._replace(failed=failed, near=near, no_set=why)


class _Search:
    """The sets of sites that are tried, and the nearest of them."""

    def __init__(self, wants: GroupRequirements, field: candidates.Field, held: frozenset[SiteId]) -> None:
        self.nearest = choice.NearestSet()
        self._wants, self._field, self._held = wants, field, held

    def sets(self, order: list[SiteId], jobs: int) -> Iterator[tuple[SiteId, ...]]:
        """Yield each set that is tried, with none of the sites that have jobs of the group already."""
        grown = choice.grown(order, jobs, lambda some: self._wants.shortfall(self._values(set(some))))
        return chain(choice.sets(order, jobs), grown)

    def fits(self, sites: set[SiteId]) -> bool:
        """True if these sites meet what is wanted, with those that have jobs of the group already."""
        values = self._values(sites)
        if self._wants.fits_set(values):
            return True
        self.nearest.look(
            tuple(sorted(self._held | sites)), self._wants.shortfall(values), lambda: self._wants.failed_by_set(values)
        )
        return False

    def _values(self, sites: set[SiteId]) -> dict[str, candidates.SiteValues]:
        return {site: self._field.values.get(site, {}) for site in self._held | sites}


def _sites(plan: splitting.Plan) -> set[SiteId]:
    return {part.site for part in plan.parts}


def _shared_out(rows: list[Candidate], most: int) -> list[Candidate]:
    """Let no site take more jobs than this."""
    return [msgspec.structs.replace(c, max_jobs=min(c.max_jobs or most, most)) for c in rows]
