"""The decision on one gang with its reasons, or the refusal, as its user reads them (SPEC K1-K3)."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from msgspec import structs

from diana.engine.journal.effects import Refusal
from diana.engine.matching import site_names
from diana.engine.matching.foreseeing import Foresight
from diana.engine.placement.gangs.rooms import names_of
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.job import software
from diana.model.job.resources import GPUS, PROCESSORS, Amounts, amount, countable, how_many, of_job
from diana.model.job.spec import ComponentSpec, GroupSpec
from diana.model.views.conditions import ConditionTable
from diana.model.views.decision import ComponentPlace, Decision, GangDecision, GangSite
from diana.model.words import counted, with_rest
from diana.policy.gang import policies
from diana.policy.gang.reasons import reasons
from diana.policy.gang.requests import FlexibleRequest, GangPlacement, GangRequest, Rooms, Unplaced
from diana.policy.gang.soonest import GrowingRoom, waits_s
from diana.policy.gang.turnaround import GangEnd
from diana.policy.grads.placing import GangChoice

MOST_SITES = 64
"""Sites that a decision names."""


class GangQuestion(NamedTuple):
    """The request of one gang, and what the sites have."""

    spec: GroupSpec
    policy: str
    """Its name."""
    request: GangRequest
    sites: list[GangSite]
    rooms: list[GrowingRoom]
    """Rooms of the sites that are not rejected."""
    foresight: Foresight | None = None
    """Knowledge of its model; None: its group has none."""
    has_runner: bool = False
    """True if a site has the installed runner that it names, though it may not take the gang now."""


class GangFound(NamedTuple):
    """A place for a gang."""

    placement: GangPlacement
    after_s: float
    """Seconds from now until all of it is expected to be free."""
    end: GangEnd | None = None
    """None: its policy looks at no end."""
    choice: GangChoice | None = None
    """Word of the model on it; None: its group has none."""


def decision(core: Context, asked: GangQuestion, found: GangFound, speeds: dict[SiteId, float]) -> Decision:
    """Return the decision for the place. `speeds`: of each site that gave a quote; 0: not known."""
    spec, answer, choice = asked.spec, found.placement, found.choice
    places = _places(answer, asked.request, spec, {room.now.name: room for room in asked.rooms})
    fixed = frozenset(at for at, each in enumerate(spec.by_rank()) if each.site)
    then = Rooms([room.after(found.after_s) for room in asked.rooms])
    grounds = reasons(answer, fixed, then, by_files=asked.policy == "close-to-files")
    sites = sorted(asked.sites, key=lambda site: (bool(site.rejected), -site.idle, site.site))
    told = GangDecision(
        policy=asked.policy,
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
    return Decision(
        plan="whole" if len(answer.sites) == 1 else "split",
        reason=_reason(asked, found),
        whole_s=0.0,
        split_s=0.0,
        candidates=(),
        parts=(),
        decided_at_s=core.now,
        rejected=len(asked.sites) - len(asked.rooms),
        gang=_with_prediction(told, choice, asked) if choice is not None else told,
    )


def _reason(asked: GangQuestion, found: GangFound) -> str:
    answer, used = found.placement, len(found.placement.sites)
    near = f"; its files are there after {answer.transfer_s:.0f} s" if answer.transfer_s >= 1 else ""
    what = "processors and what else they ask" if names_of(asked.request) else "processors"
    full = f"; their {what} are expected to be free in {found.after_s:.0f} s" if found.after_s >= 1 else ""
    return (
        f"{counted(len(answer.parts), 'component')} at {counted(used, 'site')} by {asked.policy}: "
        f"{', '.join(answer.sites[:8])}{' and more' * (used > 8)}{_divided(asked.spec, answer)}{near}{full}"
        f"{_expected(found.end, used)}{_foretold(found.choice)}"
    )


def _divided(spec: GroupSpec, answer: GangPlacement) -> str:
    if spec.flexible is None:
        return ""
    some = [str(part.processors) for part in answer.parts]
    return f", {spec.flexible.processors} divided as {'+'.join(some[:8])}{' and more' * (len(some) > 8)}"


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


def _with_prediction(told: GangDecision, choice: GangChoice, asked: GangQuestion) -> GangDecision:
    """Add what the group's model says of the placement, and how it was searched."""
    assert asked.foresight is not None
    found, seen, spec = choice.prediction, asked.foresight, asked.spec
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


def refusal(core: Context, asked: GangQuestion, answer: Unplaced) -> Refusal:
    """Return why the gang has no place: `retry` where it has one once sites are idle, with what would fit where it
    never has."""
    spec = asked.spec
    unknown = site_names.unknown_sites(core, spec.sites)
    if unknown and len(unknown) == len(spec.sites):
        return Refusal(code="usage", text="; ".join(unknown))
    rejected = {site.site: site.rejected for site in asked.sites if site.rejected}
    strange = software.unknown_runner(spec.runner, core.workers.offer().capabilities)
    if strange and not asked.has_runner and all(site.rejected for site in asked.sites):
        return Refusal(code="usage", text=f"gang.runner: {strange}")
    for each in spec.components:
        which = f"component {each.name} at" if each.name else "component at"
        if each.site and (why := rejected.get(SiteId(each.site))):
            return Refusal(code="unplaceable", text=f"{which} {each.site}: {why}")
        if each.site and not site_names.is_known(core, each.site):
            return Refusal(code="usage", text=f"{which} {site_names.unknown_site(core, each.site)}")
    by_rank = spec.by_rank()
    lacks = by_rank[answer.component] if 0 <= answer.component < len(by_rank) else ComponentSpec()
    # Of a component whose site the job names it says nothing why the others were left out.
    elsewhere = not lacks.site
    told = [*unknown, *(f"{site}: {why}" for site, why in rejected.items())] if elsewhere else []
    others = f" ({with_rest(told[:3], len(told), 'site')})" if told else ""
    when = "these sites cannot take this gang, idle or not" if answer.never else "no place for this gang now"
    more = (_not_divided(spec, asked.policy) or _would_fit(spec, asked.rooms)) if answer.never else ""
    return Refusal(
        code="unplaceable" if answer.never else "retry", text=f"{when}: {answer.told(lacks.name)}{others}{more}"
    )


def refused(core: Context, answer: Refusal, told: ConditionTable) -> Decision:
    """Return the look for a place that found none, with what each site lacks."""
    return Decision(
        plan="whole",
        reason=answer.text,
        whole_s=0.0,
        split_s=0.0,
        candidates=(),
        parts=(),
        decided_at_s=core.now,
        requirements=told,
    )


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
    if len(widths) != 1 or any(each.site or each.requires or _taken(spec, each) != amounts for each in spec.components):
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
