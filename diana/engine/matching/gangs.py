"""Requirements of gangs: of each component, of all sites of a gang together, and of the links between them (SPEC G1).
That the components of one program need different things is Redline's (papers/grads-scheduling.txt, section 4.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import inf

from msgspec import structs

from diana.engine.matching import facts
from diana.engine.messages.messages import MOST_COMPONENT_KINDS, Quote
from diana.model.ids import SiteId
from diana.model.job.spec import ComponentSpec, GroupSpec
from diana.model.words import with_rest
from diana.policy.gang.requests import Component, GangPlacement, GangRequest, Rooms, Unplaced
from diana.policy.requirements.choice import sets
from diana.policy.requirements.group import GroupRequirements, component_requirements
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


def matched(
    place: Callable[[Rooms], Answer],
    rooms: Rooms,
    wants: GroupRequirements | None,
    values: Values,
    quotes: Mapping[SiteId, Quote],
) -> Answer:
    """Place a gang so that its sites together, and the links between them, are as its group wants: as the policy has
    it, else by the policy on fewer sites, the roomiest first."""
    if wants is None or not (wants.sets or wants.link):
        return place(rooms)
    lacks = lacking(wants, values, quotes)
    first = place(rooms.copy())
    if isinstance(first, Unplaced) or not (why := lacks(first)):
        return first
    for some in sets([SiteId(name) for name in rooms.by_idle()], len(first.parts), PAIRS):
        answer = place(rooms.only(some))
        if isinstance(answer, GangPlacement) and not lacks(answer):
            return answer
    return Unplaced(f"no set of sites with room was found that meets: {why}")


def lacking(
    wants: GroupRequirements | None, values: Values, quotes: Mapping[SiteId, Quote]
) -> Callable[[GangPlacement], str]:
    """Return what says of a placement which wish for its sites together, or for a link between them, is not met; it
    says nothing if all are."""

    def lacks(answer: GangPlacement) -> str:
        if wants is None or not (wants.sets or wants.link):
            return ""
        used = sorted({SiteId(site) for site in answer.sites})
        for failed in wants.failed_by_set({site: values.get(site, {}) for site in used}):
            return f"{failed.text} ({failed.found})"
        for one, other in combinations(used, 2):
            site = {name: value for name, value in values.get(other, {}).items() if name.startswith("site.")}
            for failed in wants.failed_between({**site, **between(quotes, one, other)}):
                return f"{one} to {other}: {failed.text} ({failed.found})"
        return ""

    return lacks


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
