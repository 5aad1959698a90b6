"""The plan of a group that wants something of all its sites together: over sets of the best of them (SPEC G1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice, takewhile

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
from diana.policy.requirements.judge import Shortfall

Dividing = Callable[[Demand, list[Candidate]], splitting.Plan]
"""A division of a demand over candidates."""
MOST_PRICED = 128
"""Sets that meet the requirements and are priced: of so many none took the jobs, and smaller ones will not."""
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
    there = held(core, draft)
    search = _Search(wants, field, frozenset(there))
    if search.fits(_sites(plan)):
        return plan, field
    jobs = len(demand.indices)
    priced = [row.site for row in plan.decision.candidates if not row.rejected]
    order = sorted(priced, key=lambda site: -field.ranks.get(site, 0.0))
    roomless: tuple[SiteId, ...] = ()
    for some in islice(filter(search.fits, search.sets(order, jobs)), MOST_PRICED):
        left = field.without(set(priced) - set(some), OTHERS)
        for rows in (left.candidates, _shared_out(left.candidates, -(-jobs // len(some)))):
            tried = how(demand, rows)
            if tried.parts and search.fits(_sites(tried)):
                return tried, left
        roomless = roomless or tuple(sorted(there.union(some)))
    if roomless:
        why = f"{choice.named(roomless)} would meet together what it requires of its sites, and do not take its jobs"
        most = [row.max_jobs for row in field.candidates if row.site in roomless]
        near = {**field.near, **dict.fromkeys(priced, f"jobs <= {sum(most)}" if all(most) else "")}
        left = field.without(set(priced), why)
        return how(demand, left.candidates), left._replace(near=near, no_set=why, nearest=roomless)
    nearest = search.nearest()
    among = f" of up to {counted(jobs, 'site')}, one for each job," if jobs < len(priced) else ""
    why = nearest.told(among=among)
    left = field.without(set(priced), why)
    near = {**field.near, **dict.fromkeys(priced, nearest.near())}
    failed = {**field.failed, **dict.fromkeys(priced, nearest.failed[: candidates.MOST_FAILED])}
    return how(demand, left.candidates), left._replace(failed=failed, near=near, no_set=why, nearest=nearest.sites)


def held(core: Context, draft: Draft) -> set[SiteId]:
    """Return the sites that have jobs of the draft's group and are not through with them."""
    group = core.state.groups.get(draft.group) if draft.group else None
    return {part.site for part in group.subgroups.values() if part.open_jobs()} if group is not None else set()


class _Search:
    """The sets of sites that are tried, and the nearest of them."""

    def __init__(self, wants: GroupRequirements, field: candidates.Field, held: frozenset[SiteId]) -> None:
        self._wants, self._field, self._held = wants, field, held
        self._failing: list[frozenset[SiteId]] = []
        self._left = wants.most_sets()
        """Sets that may still be judged."""

    def sets(self, order: list[SiteId], jobs: int) -> Iterator[tuple[SiteId, ...]]:
        """Yield each set that is tried, with none of the sites that have jobs of the group already."""
        yield from takewhile(lambda _: self._left > 0, choice.sets(order, jobs))
        # Each step looks at every site that may be added.
        most = min(len(order), choice.EVERY_PAIR)
        if self._left >= most:
            yield from takewhile(lambda _: self._left >= most, choice.grown(order, jobs, self._shortfall))

    def _shortfall(self, some: tuple[SiteId, ...]) -> Shortfall:
        self._left -= 1
        return self._wants.shortfall(self._values(set(some)))

    def fits(self, sites: Iterable[SiteId]) -> bool:
        """True if these sites meet what is wanted, with those that have jobs of the group already."""
        self._left -= 1
        together = self._held.union(sites)
        fits = self._wants.fits_set(self._values(together))
        if not fits:
            self._failing.append(together)
        return fits

    def nearest(self) -> choice.NearestSet:
        """Return the nearest of the sets that did not fit. Judged only now: most searches find one that does."""
        found = choice.NearestSet()
        for sites in dict.fromkeys(self._failing):
            values = self._values(sites)
            found.look(tuple(sorted(sites)), self._wants.shortfall(values), partial(self._wants.failed_by_set, values))
        return found

    def _values(self, sites: AbstractSet[SiteId]) -> dict[str, candidates.SiteValues]:
        return {site: self._field.values.get(site, {}) for site in self._held | sites}


def _sites(plan: splitting.Plan) -> set[SiteId]:
    return {part.site for part in plan.parts}


def _shared_out(rows: list[Candidate], most: int) -> list[Candidate]:
    """Let no site take more jobs than this."""
    return [msgspec.structs.replace(c, max_jobs=min(c.max_jobs or most, most)) for c in rows]
