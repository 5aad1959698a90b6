"""Requirements of gangs: of each component, of all sites of a gang together, and of the links between them (SPEC G1).
That the components of one program need different things is Redline's (papers/grads-scheduling.txt, section 4.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import inf

from msgspec import structs

from diana.engine.matching import facts
from diana.engine.messages.messages import MOST_COMPONENT_KINDS, Quote
from diana.model.ids import SiteId
from diana.model.job.spec import ComponentSpec, GroupSpec
from diana.model.views.decision import FailedRequirement
from diana.model.words import with_rest
from diana.policy.gang.requests import Component, GangPlacement, GangRequest, Rooms, Unplaced
from diana.policy.requirements.choice import NearestSet, named, sets
from diana.policy.requirements.group import GroupRequirements, component_requirements
from diana.policy.requirements.judge import Shortfall
from diana.policy.requirements.names import Value

Values = Mapping[SiteId, Mapping[str, Value]]
"""Values of each site that answered, by the names of requirements."""
PAIRS = 16
"""Sites of which every pair is tried: each costs a placement."""
MOST_TEXT = 200
"""Characters of a reason that a site told."""
Answer = GangPlacement | Unplaced


def for_components(
    spec: GroupSpec, request: GangRequest, values: Values, quotes: Mapping[SiteId, Quote]
) -> GangRequest | Unplaced:
    """Let each component go only where its own requirements hold and some machine could run it."""
    kinds = {kind: at for at, kind in enumerate(spec.component_kinds()[:MOST_COMPONENT_KINDS])}
    if not isinstance(request, Sequence) or not (kinds or any(each.requirements for each in spec.components)):
        return request

    @cache
    def unfit(alike: ComponentSpec) -> dict[SiteId, str]:
        """Return the sites where no machine could run it, and why; a site of an older release does not say."""
        at = kinds.get(spec.of_component(alike), MOST_COMPONENT_KINDS)
        return {site: quote.unfit[at] for site, quote in quotes.items() if at < len(quote.unfit) and quote.unfit[at]}

    @cache
    def meeting(alike: ComponentSpec) -> frozenset[str] | None:
        some = set(quotes)
        if alike.requirements:
            wants = component_requirements(spec, alike)
            some = {site for site, told in values.items() if not wants.failed(told, home=True)}
        elif not unfit(alike):
            return None
        return frozenset(site for site in some if site not in unfit(alike))

    out: list[Component] = []
    for index, (component, alike) in enumerate(zip(request, spec.by_rank(), strict=True)):
        # What it reads and runs does not matter here, and differs where uploads are divided.
        allowed = meeting(structs.replace(alike, inputs=(), argv=()))
        if allowed is not None and not allowed:
            why = _nowhere(spec, alike, values, unfit(alike)) if alike.requirements else _no_machine(unfit(alike))
            return Unplaced(f"component {alike.name or index + 1}: {why}", index, never=True)
        out.append(component._replace(sites=allowed))
    return out


def matched(place: Callable[[Rooms], Answer], rooms: Rooms, wishes: JointWishes) -> Answer:
    """Place a gang so that its sites together, and the links between them, are as its group wants: as the policy has
    it, else by the policy on fewer sites, the roomiest first."""
    if not wishes:
        return place(rooms)
    first = place(rooms.copy())
    if isinstance(first, Unplaced) or not (why := wishes.lacks(first)):
        return first
    roomless: tuple[SiteId, ...] = ()
    for some in sets([SiteId(name) for name in rooms.by_idle()], len(first.parts), PAIRS):
        answer = place(rooms.only(some))
        if isinstance(answer, Unplaced):
            roomless = roomless or (some if wishes.fit(some) else ())
        elif why := wishes.lacks(answer):
            continue
        else:
            return answer
    return Unplaced(why + (f"; {named(sorted(roomless))} would do, without the room for it" if roomless else ""))


class JointWishes:
    """The wishes of a group for all sites of a gang together, and for the links between them. It keeps the nearest of
    the sets that it was asked about."""

    def __init__(
        self, spec: GroupSpec, wants: GroupRequirements | None, values: Values, quotes: Mapping[SiteId, Quote]
    ) -> None:
        self._wants = wants if wants is not None and (wants.sets or wants.link) else None
        self._values, self._quotes, self._nearest = values, quotes, NearestSet()
        self._links: dict[tuple[SiteId, SiteId], tuple[Shortfall, tuple[FailedRequirement, ...]]] = {}

    def __bool__(self) -> bool:
        return self._wants is not None

    def fit(self, sites: Sequence[SiteId]) -> bool:
        """True if more is wanted than links, and these sites meet all of it, whether or not they have room."""
        return self._wants is not None and bool(self._wants.sets) and not self._shortfall(sites).conditions

    def lacks(self, answer: GangPlacement) -> str:
        """Return in a line what the nearest set lacks, of those asked about so far; empty: this placement meets all."""
        used = tuple(sorted({SiteId(site) for site in answer.sites}))
        shortfall = self._shortfall(used)
        if not shortfall.conditions:
            return ""
        self._nearest.look(used, shortfall, lambda: self._failed(used))
        near = self._nearest.near()
        return self._nearest.told("no set of sites with room") + (f" (takes it if {near})" if near else "")

    def _shortfall(self, used: Sequence[SiteId]) -> Shortfall:
        if self._wants is None:
            return Shortfall()
        every = [self._wants.shortfall(self._of(used)), *(self._link(*pair)[0] for pair in _pairs(used))]
        return Shortfall(sum(one.conditions for one in every), sum(one.relative for one in every))

    def _failed(self, used: Sequence[SiteId]) -> tuple[FailedRequirement, ...]:
        links = (failed for pair in _pairs(used) for failed in self._link(*pair)[1])
        return (*(self._wants.failed_by_set(self._of(used)) if self._wants else ()), *links)

    def _of(self, used: Sequence[SiteId]) -> dict[str, Mapping[str, Value]]:
        return {site: self._values.get(site, {}) for site in used}

    def _link(self, one: SiteId, other: SiteId) -> tuple[Shortfall, tuple[FailedRequirement, ...]]:
        """Return what does not hold of the link between two sites, by the values of the second."""
        if (one, other) not in self._links:
            assert self._wants is not None
            site = {name: value for name, value in self._values.get(other, {}).items() if name.startswith("site.")}
            given = {**site, **between(self._quotes, one, other)}
            failed = tuple(
                structs.replace(each, text=f"{one} to {other}: {each.text}")
                for each in self._wants.failed_between(given)
            )
            self._links[one, other] = (self._wants.shortfall_between(given), failed)
        return self._links[one, other]


def _pairs(used: Sequence[SiteId]) -> Iterator[tuple[SiteId, SiteId]]:
    return combinations(sorted(used), 2)


def ranked(place: Callable[[Rooms], Answer], rooms: Rooms, ranks: Mapping[SiteId, float] | None) -> Answer:
    """Place a gang on the fewest sites of highest rank that hold it, those of equal rank together; sites without a rank
    come last. `ranks` None: the group ranks none."""
    if ranks is None:
        return place(rooms)
    levels = sorted({ranks.get(SiteId(name), -inf) for name in rooms.names()}, reverse=True)
    for level in levels[:-1]:
        answer = place(rooms.only(name for name in rooms.names() if ranks.get(SiteId(name), -inf) >= level))
        if isinstance(answer, GangPlacement):
            return answer
    return place(rooms)


def between(quotes: Mapping[SiteId, Quote], one: SiteId, other: SiteId) -> dict[str, Value]:
    """Return the values of the link between two sites as one of them measured it; empty: neither told of it."""
    for here, there in ((other, one), (one, other)):
        for link in quotes[here].links if here in quotes else ():
            if link.site == there:
                return facts.of_estimate(link)
    return {}


def _no_machine(unfit: Mapping[SiteId, str]) -> str:
    rows = [f"{site}: {unfit[site][:MOST_TEXT]}" for site in sorted(unfit)[:3]]
    return f"no site has a machine for it ({with_rest(rows, len(unfit), 'site')})"


def _nowhere(spec: GroupSpec, alike: ComponentSpec, values: Values, unfit: Mapping[SiteId, str]) -> str:
    wants = component_requirements(spec, alike)
    if all(site in unfit and not wants.failed(told, home=True) for site, told in values.items()):
        return _no_machine(unfit)
    rows = []
    for site in sorted(values)[:3]:
        failed = wants.failed(values[site], home=True)
        rows.append(f"{site}: {failed[0].found or failed[0].text if failed else unfit.get(site, '')[:MOST_TEXT]}")
    told = with_rest(rows, len(values), "site")
    return f"no site meets {' && '.join(alike.requirements)[:200]} ({told})"
