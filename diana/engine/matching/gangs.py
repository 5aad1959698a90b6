"""Requirements of gangs: of each component, of all sites of a gang together, and of the links between them (SPEC G1).
That the components of one program need different things is Redline's (papers/grads-scheduling.txt, section 4.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
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
from diana.policy.requirements.group import MOST_JUDGED, GroupRequirements, component_requirements
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
    spec: GroupSpec, request: GangRequest, values: Values, quotes: Mapping[SiteId, Quote], home: SiteId
) -> GangRequest | Unplaced:
    """Let each component go only where its own requirements hold, those for the link to `home` too, and some machine
    could run it."""
    kinds = {kind: at for at, kind in enumerate(spec.component_kinds()[:MOST_COMPONENT_KINDS])}
    if not isinstance(request, Sequence) or not (kinds or any(each.requires for each in spec.components)):
        return request

    @cache
    def unfit(alike: ComponentSpec) -> dict[SiteId, str]:
        """Return the sites where no machine could run it, and why; a site of an older release does not say."""
        at = kinds.get(spec.of_component(alike), MOST_COMPONENT_KINDS)
        return {site: quote.unfit[at] for site, quote in quotes.items() if at < len(quote.unfit) and quote.unfit[at]}

    @cache
    def meeting(alike: ComponentSpec) -> frozenset[str] | None:
        some = set(quotes)
        if alike.requirements or alike.link_requirements:
            wants = component_requirements(spec, alike)
            some = {site for site, told in values.items() if not wants.failed(told, home=site == home)}
        elif not unfit(alike):
            return None
        return frozenset(site for site in some if site not in unfit(alike))

    out: list[Component] = []
    for index, (component, alike) in enumerate(zip(request, spec.by_rank(), strict=True)):
        # What it reads and runs does not matter here, and differs where uploads are divided.
        allowed = meeting(structs.replace(alike, inputs=(), argv=()))
        if allowed is not None and not allowed:
            wished = alike.requirements or alike.link_requirements
            why = _nowhere(spec, alike, values, unfit(alike), home) if wished else _no_machine(unfit(alike))
            return Unplaced(f"component {alike.name or index + 1}: {why}", index, never=True)
        out.append(component._replace(sites=allowed))
    return out


def matched(place: Callable[[Rooms], Answer], rooms: Rooms, wishes: JointWishes, request: GangRequest) -> Answer:
    """Place a gang so that its sites together, and the links between them, are as its group wants: as the policy has
    it, else by the policy on fewer sites, the roomiest first, and so that it needs them all."""
    if not wishes:
        return place(rooms)
    first = place(rooms.copy())
    if isinstance(first, Unplaced) or not (why := wishes.lacks(first)):
        return first
    roomless: tuple[SiteId, ...] = ()
    for some in sets([SiteId(name) for name in rooms.by_idle()], len(first.parts), PAIRS):
        if wishes.judged > MOST_JUDGED:
            break
        answer = place(rooms.only(some))
        if isinstance(answer, Unplaced):
            roomless = roomless or (some if wishes.fit(some) else ())
            continue
        if not (why := wishes.lacks(answer)):
            return answer
        if len(some) == len(set(answer.sites)):
            continue
        spread = place(rooms.only(some).shared_out(request))
        if isinstance(spread, GangPlacement) and not (why := wishes.lacks(spread)):
            return spread
    return Unplaced(why + (f"; {named(sorted(roomless))} would do, without the room for it" if roomless else ""))


Verdict = tuple[Shortfall, tuple[FailedRequirement, ...]]
"""How far something is from what is wanted of it, and what does not hold."""
MEETS: Verdict = (Shortfall(), ())


class JointWishes:
    """The wishes of a group, and of its components by themselves, for all sites of a gang together and for the links
    between them. It keeps the nearest of the sets that it was asked about."""

    def __init__(
        self, spec: GroupSpec, wants: GroupRequirements | None, values: Values, quotes: Mapping[SiteId, Quote]
    ) -> None:
        self._wants = wants if wants is not None and (wants.sets or wants.link) else None
        self._own = [each if each.link_requirements or each.set_requirements else None for each in spec.by_rank()]
        """Component of each rank that has such wishes of its own."""
        self._of = {each: component_requirements(spec, each) for each in self._own if each is not None}
        self._values, self._quotes, self._nearest = values, quotes, NearestSet()
        self._links: dict[tuple[ComponentSpec | None, SiteId, SiteId], Verdict] = {}
        self.judged = 0
        """Characters of conditions that were judged so far."""

    def __bool__(self) -> bool:
        return self._wants is not None or bool(self._of)

    def fit(self, sites: Sequence[SiteId]) -> bool:
        """True if more is wanted than links, and these sites meet all that the group itself wants, whether or not they
        have room."""
        if self._wants is None or not self._wants.sets:
            return False
        return not any(shortfall.conditions for shortfall, _ in self._of_group(self._wants, sorted(sites)))

    def lacks(self, answer: GangPlacement) -> str:
        """Return in a line what the nearest set lacks, of those asked about so far; empty: this placement meets all."""
        used = tuple(sorted({SiteId(site) for site in answer.sites}))
        verdicts = [*(self._of_group(self._wants, used) if self._wants else ()), *self._of_components(answer, used)]
        shortfall = Shortfall(sum(one.conditions for one, _ in verdicts), sum(one.relative for one, _ in verdicts))
        if not shortfall.conditions:
            return ""
        self._nearest.look(used, shortfall, lambda: tuple(each for _, failed in verdicts for each in failed))
        near = self._nearest.near()
        return self._nearest.told("no set of sites with room") + (f" (takes it if {near})" if near else "")

    def _of_group(self, wants: GroupRequirements, used: Sequence[SiteId]) -> Iterator[Verdict]:
        yield self._together(wants, used)
        for one, other in combinations(used, 2):
            # By the values of the second.
            yield self._link(wants, None, other, one, f"{one} to {other}")

    def _of_components(self, answer: GangPlacement, used: Sequence[SiteId]) -> Iterator[Verdict]:
        at: dict[ComponentSpec, set[SiteId]] = {}
        for part in answer.parts:
            alike = self._own[part.component] if part.component < len(self._own) else None
            if alike is not None:
                at.setdefault(alike, set()).add(SiteId(part.site))
        for alike, sites in at.items():
            yield self._together(self._of[alike], sorted(sites), alike.name)
            for site, other in product(sorted(sites), used):
                if site != other:
                    yield self._link(self._of[alike], alike, site, other, f"{site} to {other}")

    def _together(self, wants: GroupRequirements, sites: Sequence[SiteId], name: str = "") -> Verdict:
        values: dict[str, Mapping[str, Value]] = {site: self._values.get(site, {}) for site in sites}
        self.judged += wants.sets.characters
        if not wants.sets or not (shortfall := wants.shortfall(values)).conditions:
            return MEETS
        failed = wants.failed_by_set(values)
        return shortfall, tuple(
            structs.replace(each, text=f"{name}: {each.text}") for each in failed
        ) if name else failed

    def _link(
        self, wants: GroupRequirements, alike: ComponentSpec | None, site: SiteId, other: SiteId, way: str
    ) -> Verdict:
        """Return what does not hold of the link between two sites, by the values of the first."""
        key = (alike, site, other)
        if key not in self._links:
            self.judged += wants.link.characters
            own = {name: value for name, value in self._values.get(site, {}).items() if name.startswith("site.")}
            given = {**own, **between(self._quotes, other, site)}
            failed = tuple(structs.replace(one, text=f"{way}: {one.text}") for one in wants.failed_between(given))
            self._links[key] = (wants.shortfall_between(given), failed) if failed else MEETS
        return self._links[key]


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


def _nowhere(spec: GroupSpec, alike: ComponentSpec, values: Values, unfit: Mapping[SiteId, str], home: SiteId) -> str:
    wants = component_requirements(spec, alike)
    if all(site in unfit and not wants.failed(told, home=site == home) for site, told in values.items()):
        return _no_machine(unfit)
    rows = []
    for site in sorted(values)[:3]:
        failed = wants.failed(values[site], home=site == home)
        rows.append(f"{site}: {failed[0].found or failed[0].text if failed else unfit.get(site, '')[:MOST_TEXT]}")
    told = with_rest(rows, len(values), "site")
    return f"no site meets {' && '.join((*alike.requirements, *alike.link_requirements))[:200]} ({told})"
