"""Places for the components of a gang, from quotes to a decision with its reasons (SPEC K1-K3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from msgspec import structs

from diana.engine.handover import gang_attempts
from diana.engine.journal.effects import Refusal
from diana.engine.matching import gang_choice, gangs, site_names
from diana.engine.matching.foreseeing import Foresight, foresight
from diana.engine.matching.match import with_model
from diana.engine.messages.messages import ComingRoom, Quote
from diana.engine.placement import candidates
from diana.engine.placement.draft import Draft
from diana.engine.placement.manifest import Manifest, is_url
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.job import gang, software
from diana.model.job.declared import MOST_AMOUNT
from diana.model.job.resources import GPUS, PROCESSORS, Amounts, amount, countable, counts_in, how_many, of_job
from diana.model.job.spec import ComponentSpec, GroupSpec
from diana.model.sketch import Quantiles
from diana.model.views.decision import ComponentPlace, Decision, GangDecision, GangSite
from diana.model.words import counted, with_rest
from diana.policy.gang import policies
from diana.policy.gang.policies import GRADS, request_for
from diana.policy.gang.reasons import reasons as reasons_of
from diana.policy.gang.requests import (
    FlexibleRequest,
    GangPlacement,
    GangQuota,
    GangRequest,
    NeededFile,
    Rooms,
    SiteRoom,
    TransferTime,
    Unplaced,
    with_files,
)
from diana.policy.gang.soonest import GrowingRoom, LaterRoom, Place, Soonest, growing, soonest, waits_s
from diana.policy.gang.turnaround import TURNAROUND, GangEnd, tried, turnaround
from diana.policy.grads.placing import GangChoice
from diana.policy.pricing.demand import Candidate
from diana.policy.pricing.sites import throughput_bytes_per_s

NONE = Counter[str]()
MOST_SITES = 64
"""Sites that a decision names."""
MOST_FILES = 32
"""Sets of holders that are looked at, those of most bytes; what the others hold counts for nothing."""


def decide(
    core: Context, draft: Draft, manifest: Manifest, failed: frozenset[SiteId] = frozenset()
) -> Decision | Refusal:
    """Place one gang of the draft by its policy: each component, where all can start soonest, or the reason why there
    is no place. `failed`: sites that are taken only where the others would not do."""
    spec = with_model(core, draft.spec, draft.owner)
    field = candidates.field(core, draft, manifest)
    claiming = gang_attempts.outstanding(core)
    sites = [_site(each, field.quotes.get(each.site), claiming.get(each.site, NONE)) for each in field.candidates]
    open_sites = [site for site in sites if not site.rejected]
    files, own_files = _files(draft, manifest)
    name = gang_choice.chosen(core, spec, bool(files or own_files))
    if why := gang_choice.unknown(core, name):
        return Refusal(code="usage", text=why)
    wanted = request_for(spec)
    names = _names(wanted)
    rooms = [
        _room(site, field.quotes[site.site], claiming.get(site.site, NONE), names, home=site.site == core.site)
        for site in open_sites
    ]
    request = gangs.for_components(spec, with_files(wanted, files, own_files), field.values, field.quotes)
    if isinstance(request, Unplaced):
        return _refusal(core, request, rooms, sites, spec, name)
    time, wants = _transfer_time(field.candidates), draft.match(core).requirements
    lacks = gangs.lacking(wants, field.values, field.quotes)
    seen = (
        foresight(core, spec, field.values, field.quotes, lacks, _past(core, draft, field.quotes))
        if spec.model
        else None
    )
    if isinstance(seen, Unplaced):
        return _refusal(core, seen, rooms, sites, spec, name)
    if name == GRADS and seen is None:
        return Refusal(code="usage", text=f"gang.placement: {GRADS} places by a model; write package.model")
    ranks = field.ranks if spec.rank else None
    choices: dict[GangPlacement, GangChoice] = {}
    untold: list[bool] = []

    def by(policy: str) -> Place:
        def alone(some: Rooms) -> GangPlacement | Unplaced:
            # No history of pairs: the quote round has chosen the sites that are worth a look.
            return core.gang_policies[policy](request, some, time, None)

        def matched(some: Rooms) -> GangPlacement | Unplaced:
            return gangs.matched(alone, some, wants, field.values, field.quotes)

        return lambda some: gangs.ranked(matched, some, ranks)

    def place(some: Rooms) -> GangPlacement | Unplaced:
        if name != GRADS or seen is None:
            return by(name)(some)
        choice = seen.place(request, some, time)
        untold.append(choice.untold)
        if isinstance(choice.placement, GangPlacement):
            choices[choice.placement] = choice
        return choice.placement

    def search(some: list[GrowingRoom]) -> tuple[Soonest, GangEnd | None]:
        if name != TURNAROUND:
            return soonest(place, some), None
        run_s = {str(each.site): each.run_s for each in field.candidates if each.run_s > 0}
        best = turnaround(request, [by(policy) for policy in tried(request)], some, run_s, spec.slowdown)
        return Soonest(best.answer, best.end.claimed_s if best.end else 0.0), best.end

    found, end = search([room for room in rooms if room.now.name not in failed])
    if failed and isinstance(found.answer, Unplaced):
        found, end = search(rooms)
    answer = found.answer
    if isinstance(answer, Unplaced):
        # What is not known yet is known soon.
        return _refusal(core, replace(answer, never=answer.never and not any(untold)), rooms, sites, spec, name)
    choice = choices.get(answer)
    if choice is None and seen is not None:
        choice = GangChoice(answer, seen.of(answer, Rooms([room.after(found.after_s) for room in rooms])))
    places = _places(answer, wanted, spec, {room.now.name: room for room in rooms})
    fixed = frozenset(at for at, each in enumerate(spec.by_rank()) if each.site)
    then = Rooms([room.after(found.after_s) for room in rooms])
    grounds = reasons_of(answer, fixed, then, by_files=name == "close-to-files")
    count, used = len(places), len(answer.sites)
    near = f"; its files are there after {answer.transfer_s:.0f} s" if answer.transfer_s >= 1 else ""
    what = "processors and what else they ask" if names else "processors"
    full = f"; their {what} are expected to be free in {found.after_s:.0f} s" if found.after_s >= 1 else ""
    reason = (
        f"{counted(count, 'component')} at {counted(used, 'site')} by {name}: "
        f"{', '.join(answer.sites[:8])}{' and more' * (used > 8)}{_divided(spec, answer)}{near}{full}"
        f"{_expected(end, used)}{_foretold(choice)}"
    )
    sites.sort(key=lambda site: (bool(site.rejected), -site.idle, site.site))
    speeds = {site: one.speed if 0 < one.speed < inf else 0.0 for site, one in field.quotes.items()}
    told = GangDecision(
        policy=name,
        components=tuple(
            structs.replace(
                place, speed=speeds[place.site], reason=f"{grounds[place.component]}{' by then' * (place.wait_s > 0)}"
            )
            for place in places
        ),
        sites=tuple(sites[:MOST_SITES]),
        transfer_s=float(answer.transfer_s),
        wait_s=found.after_s,
    )
    if choice is not None and seen is not None:
        told = _with_prediction(told, choice, seen, spec)
    return Decision(
        plan="whole" if used == 1 else "split",
        reason=reason,
        whole_s=0.0,
        split_s=0.0,
        candidates=(),
        parts=(),
        decided_at_s=core.now,
        rejected=len(sites) - len(open_sites),
        gang=told,
    )


def _divided(spec: GroupSpec, answer: GangPlacement) -> str:
    if spec.flexible is None:
        return ""
    some = [str(part.processors) for part in answer.parts]
    return f", {spec.flexible.processors} divided as {'+'.join(some[:8])}{' and more' * (len(some) > 8)}"


def _past(core: Context, draft: Draft, sites: Iterable[SiteId]) -> dict[SiteId, Quantiles]:
    """Return the ratios of past gangs like these, by site."""
    found = ((site, candidates.past_ratios(core, draft, site)) for site in sites)
    return {site: past for site, past in found if past is not None}


def _expected(end: GangEnd | None, sites: int) -> str:
    if end is None:
        return ""
    run = f"run {_told_s(end.run_s)} x {end.factor:g} over {counted(sites, 'site')}"
    return f"; expected to end in {_told_s(end.seconds)}: claimed by {_told_s(end.claimed_s)}, {run}"


def _told_s(value_s: float) -> str:
    """Whole seconds, so that they add up as they stand there; of less than ten, which they would hide, two digits."""
    return f"{value_s:.0f} s" if value_s >= 10 else f"{value_s:.2g} s"


def _foretold(choice: GangChoice | None) -> str:
    if choice is None:
        return ""
    if choice.prediction.seconds == inf:
        return f"; its model gives no time: {choice.prediction.why}"
    second = ", ".join(choice.runner_up.sites[:3])
    other = f", second best {second} in {choice.runner_up.seconds:.1f} s" if second else ""
    searched = f" ({counted(choice.models, 'placement')} tried, bound {choice.most_models:,}{other})"
    return f"; it is to run {choice.prediction.seconds:.1f} s{searched if choice.models else ''}"


def _with_prediction(told: GangDecision, choice: GangChoice, seen: Foresight, spec: GroupSpec) -> GangDecision:
    """Add what the group's model says of the placement, and how it was searched."""
    found = choice.prediction
    told = structs.replace(
        told,
        models=choice.models,
        most_models=choice.most_models,
        kinds=choice.kinds,
        searched_sites=choice.sites,
        runner_up=choice.runner_up.sites[:MOST_SITES],
        runner_up_s=choice.runner_up.seconds if choice.runner_up.sites else 0.0,
    )
    if found.seconds == inf:
        return told
    low_s, high_s, runs = seen.range_s(found, [str(one.site) for one in told.components])
    components = tuple(
        structs.replace(
            one,
            run_s=found.part_s[at],
            model_s=seen.model_s(one.site, found.part_s[at]),
            items=found.items[at] if found.items else 0,
        )
        for at, one in enumerate(told.components)
    )
    return structs.replace(
        told,
        components=components,
        run_s=found.seconds,
        run_low_s=low_s,
        run_high_s=high_s,
        runs_seen=runs,
        mapper=spec.mapper.kind if spec.mapper is not None else "",
    )


def _site(candidate: Candidate, quote: Quote | None, claiming: Counter[str]) -> GangSite:
    """`claiming`: what gangs of this origin have yet to claim there."""
    if quote is None or candidate.rejected:
        return GangSite(site=candidate.site, rejected=candidate.rejected or "gave no quote in time")
    idle, widest = max(0, min(quote.free_slots, quote.slots) - claiming[PROCESSORS]), max(0, quote.widest)
    return GangSite(site=candidate.site, idle=idle, slots=quote.slots, widest=widest, age_s=float(candidate.age_s))


def _names(wanted: GangRequest) -> frozenset[str]:
    """Return the resources that any component takes from its site."""
    every = {wanted.amounts} if isinstance(wanted, FlexibleRequest) else {each.amounts for each in wanted}
    return frozenset(name for amounts in every for name, _ in countable(amounts))


def _room(site: GangSite, quote: Quote, claiming: Counter[str], names: frozenset[str], *, home: bool) -> GrowingRoom:
    """`names`: resources that are looked at beside processors; sizes are bounds that the site judges itself."""
    # A release that tells no figures says which of the asked amounts it has.
    had = counts_in(software.asked(quote.software)) if names - quote.free.keys() else {}
    left = {name: _bounded_count(quote.free.get(name, had.get(name, 0))) for name in names}
    whole = {name: max(left[name], _bounded_count(quote.whole.get(name, MOST_AMOUNT))) for name in names}
    if GPUS in names:
        left[GPUS] = _bounded_count(quote.free_gpus)
        whole[GPUS] = max(left[GPUS], _bounded_count(quote.gpus))
    # What this origin's other gangs wait for there comes to them first.
    quota = None
    if (most := min(quote.gang_most, site.slots)) > 0:
        free = most - max(0, quote.gang_held) - claiming[PROCESSORS]
        quota = GangQuota(max(0, free), most)
    now = SiteRoom(site.site, site.idle, site.slots, site.widest, _less(left, claiming), whole, home, quota)
    steps = (
        LaterRoom(one.after_s, one.processors - claiming[PROCESSORS], _less(_later(one, names), claiming))
        for one in quote.coming
    )
    return growing(now, steps)


def _later(coming: ComingRoom, names: frozenset[str]) -> dict[str, int]:
    told = {**coming.free, GPUS: coming.gpus}
    return {name: _bounded_count(told.get(name, 0)) for name in names}


def _less(left: Mapping[str, int], claiming: Counter[str]) -> dict[str, int]:
    return {name: max(0, count - claiming[name]) for name, count in left.items()}


def _bounded_count(told: int) -> int:
    return max(0, min(told, MOST_AMOUNT))


_Found = dict[tuple[SiteId, ...], tuple[str, float]]
"""Holders -> first name and bytes of what they hold."""


def _files(draft: Draft, manifest: Manifest) -> tuple[tuple[NeededFile, ...], dict[int, tuple[NeededFile, ...]]]:
    """Return the files that each component of the first gang reads, and those that only some read, by their numbers;
    those that the same sites hold are as one. What everybody reads by URL is near to nobody."""
    first = draft.indices.bounds[0] // draft.spec.gang_size
    members = gang.members(draft.spec, first)
    every: _Found = {}
    some: dict[int, _Found] = {}
    for need in manifest.needs(members):
        holders = tuple(sorted(holder for holder in need.holders if not is_url(holder)))
        if not holders:
            continue
        whole = members.issubset(need.readers)
        for found in (every,) if whole else (some.setdefault(index, {}) for index in need.readers):
            name, size = found.get(holders, (need.files[0].ref, 0.0))
            found[holders] = (name, size + need.files[0].size_bytes)
    start = members.bounds[0]
    return _largest(every), {index - start: _largest(found) for index, found in some.items()}


def _largest(found: _Found) -> tuple[NeededFile, ...]:
    some = sorted(found.items(), key=lambda each: -each[1][1])[:MOST_FILES]
    return tuple(NeededFile(name, size, holders) for holders, (name, size) in some)


def _transfer_time(field: list[Candidate]) -> TransferTime:
    to = {str(each.site): each for each in field}

    def seconds(source: str, site: str, size: float) -> float:
        if source == site:
            return 0.0
        there = to[site]
        link = there.links.get(SiteId(source), there.link)
        rate = there.fetch_bytes_per_s.get(SiteId(source), 0.0) if SiteId(source) not in there.links else 0.0
        rate = rate or throughput_bytes_per_s(link)
        return link.rtt_s + size / rate if rate > 0 else inf

    return seconds


def _places(
    answer: GangPlacement, wanted: GangRequest, spec: GroupSpec, rooms: dict[str, GrowingRoom]
) -> tuple[ComponentPlace, ...]:
    each = spec.by_rank()
    asked = {
        part.component: wanted.amounts if isinstance(wanted, FlexibleRequest) else wanted[part.component].amounts
        for part in answer.parts
    }
    wait_s = waits_s(answer, wanted, rooms)
    return tuple(
        ComponentPlace(
            component=part.component,
            name=each[part.component].name if each else "",
            processors=part.processors,
            gpus=amount(asked[part.component], GPUS),
            site=SiteId(part.site),
            sources=tuple(dict.fromkeys(file.source for file in part.files if file.source != part.site)),
            bytes_in=int(sum(file.bytes for file in part.files if file.source != part.site)),
            transfer_s=float(part.transfer_s),
            wait_s=wait_s[part.site],
            resources={name: count for name, count in asked[part.component] if name != GPUS},
        )
        for part in answer.parts
    )


def _refusal(
    core: Context,
    answer: Unplaced,
    rooms: list[GrowingRoom],
    sites: list[GangSite],
    spec: GroupSpec,
    name: str,
) -> Refusal:
    rejected = {site.site: site.rejected for site in sites if site.rejected}
    for each in spec.components:
        if each.site and (why := rejected.get(SiteId(each.site))):
            return Refusal(code="unplaceable", text=f"component at {each.site}: {why}")
        if each.site and not site_names.is_known(core, each.site):
            return Refusal(code="usage", text=f"component at {site_names.unknown_site(core, each.site)}")
    by_rank = spec.by_rank()
    # Of a component whose site the job names it says nothing why the others were left out.
    elsewhere = not (0 <= answer.component < len(by_rank) and by_rank[answer.component].site)
    told = [f"{site}: {why}" for site, why in rejected.items()] if elsewhere else []
    others = f" ({with_rest(told[:3], len(told), 'site')})" if told else ""
    when = "these sites cannot take this gang, idle or not" if answer.never else "no place for this gang now"
    more = (_not_divided(spec, name) or _would_fit(spec, rooms)) if answer.never else ""
    return Refusal(code="unplaceable" if answer.never else "retry", text=f"{when}: {answer.reason}{others}{more}")


def _not_divided(spec: GroupSpec, name: str) -> str:
    """Return that the policy takes the total for one component, as the end of a line; empty: it does not."""
    if spec.flexible is None or spec.flexible.splits or name not in policies.UNDIVIDING:
        return ""
    return f"; {name} divides no total: leave gang.placement out, or list flexible.splits"


def _would_fit(spec: GroupSpec, rooms: list[GrowingRoom]) -> str:
    """Return how much of such a gang these sites hold when they are idle, as the end of a line; empty: it is not known,
    or not what it lacks."""
    # The word on the command line gives a component nothing of its own but processors.
    amounts = _taken(spec, ComponentSpec())
    sites = [site.now for site in rooms]
    if spec.flexible is not None:
        each = countable(of_job(spec.resources))
        whole = sum(site.most for site in sites if how_many(site.whole, each))
        return f"; --flexible {whole} is the most that fits" if 0 < whole < spec.flexible.processors else ""
    widths = {each.processors for each in spec.components}
    if len(widths) != 1 or any(
        each.site or each.requirements or _taken(spec, each) != amounts for each in spec.components
    ):
        return ""
    (width,) = widths
    count = sum(
        how_many({**site.whole, PROCESSORS: site.most}, ((PROCESSORS, width), *amounts))
        for site in sites
        if site.widest >= width
    )
    return f"; --components {count}x{width} is the most that fits" if 0 < count < spec.gang_size else ""


def _taken(spec: GroupSpec, each: ComponentSpec) -> Amounts:
    """Return what such a component takes from its site beside processors."""
    return countable(of_job(spec.of_component(each)))
