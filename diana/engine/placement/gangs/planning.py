"""Places for the components of a gang, from quotes to a decision with its reasons (SPEC K1-K3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from msgspec import structs

from diana.engine.handover.gangs import attempts
from diana.engine.journal.effects import Refusal
from diana.engine.matching import gang_choice, gangs, table
from diana.engine.matching.foreseeing import foresight
from diana.engine.matching.match import with_model
from diana.engine.placement import candidates
from diana.engine.placement.candidates import Field
from diana.engine.placement.draft import Draft
from diana.engine.placement.gangs.decision import GangFound, GangQuestion, decision, refusal, refused
from diana.engine.placement.gangs.rooms import NONE, files_of, names_of, room_of, site_of, transfer_time
from diana.engine.placement.manifest import Manifest
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.job import software
from diana.model.sketch import Quantiles
from diana.model.views.decision import Decision
from diana.policy.gang.policies import GRADS, request_for
from diana.policy.gang.requests import GangPlacement, Rooms, Unplaced, with_files
from diana.policy.gang.soonest import GrowingRoom, Place, soonest
from diana.policy.gang.turnaround import TURNAROUND, tried, turnaround
from diana.policy.grads.placing import GangChoice


def decide(
    core: Context, draft: Draft, manifest: Manifest, avoided: Sequence[frozenset[SiteId]] = ()
) -> Decision | Refusal:
    """Place one gang of the draft by its policy: each component, where all can start soonest, or the reason why there
    is no place. `avoided`: sets of sites to leave out, each tried only where the one before it leaves no place."""
    field = candidates.field(core, draft, manifest)
    answer = _decided(core, draft, manifest, field, avoided)
    match = draft.match(core)
    told = table.table(match, draft.spec, field.values, [each.site for each in field.candidates])
    if told is None:
        return answer
    if isinstance(answer, Decision):
        used = {one.site for one in answer.gang.components} if answer.gang else set()
        return structs.replace(answer, requirements=table.together(told, match, field.values, used))
    return structs.replace(answer, decision=refused(core, answer, told))


def _decided(
    core: Context, draft: Draft, manifest: Manifest, field: Field, avoided: Sequence[frozenset[SiteId]]
) -> Decision | Refusal:
    spec = with_model(core, draft.spec, draft.owner)
    files, own_files = files_of(draft, manifest)
    policy = gang_choice.chosen(core, spec, bool(files or own_files))
    if why := gang_choice.unknown(core, policy):
        return Refusal(code="usage", text=why)
    request, claiming = request_for(spec), attempts.outstanding(core)
    names = names_of(request)
    sites = [site_of(each, field.quotes.get(each.site), claiming.get(each.site, NONE)) for each in field.candidates]
    rooms = [
        room_of(site, field.quotes[site.site], claiming.get(site.site, NONE), names, home=site.site == core.site)
        for site in sites
        if not site.rejected
    ]
    has_runner = any(software.runner(spec.runner) in quote.software for quote in field.quotes.values())
    asked = GangQuestion(spec, policy, request, sites, rooms, has_runner=has_runner)
    own = gangs.for_components(spec, with_files(request, files, own_files), field.values, field.quotes, core.site)
    if isinstance(own, Unplaced):
        return refusal(core, asked, own)
    wishes = gangs.JointWishes(spec, draft.match(core).requirements, field.values, field.quotes)
    past = _past(core, draft, field.quotes) if spec.model else {}
    seen = foresight(core, spec, field.values, field.quotes, wishes.lacks, past) if spec.model else None
    if isinstance(seen, Unplaced):
        return refusal(core, asked, seen)
    if policy == GRADS and seen is None:
        return Refusal(code="usage", text=f"gang.placement: {GRADS} places by a model; write package.model")
    asked = asked._replace(request=own, foresight=seen)
    search = _Search(core, asked, field, wishes)
    # Each set once: a search is dear.
    for out in dict.fromkeys((*avoided, frozenset[SiteId]())):
        found = search.soonest([room for room in rooms if room.now.name not in out])
        if not isinstance(found, Unplaced):
            break
    if isinstance(found, Unplaced):
        return refusal(core, asked, found)
    speeds = {site: one.speed if 0 < one.speed < inf else 0.0 for site, one in field.quotes.items()}
    return decision(core, asked, found, speeds)


class _Search:
    """The search for the place of one gang by its policy, over rooms of now and of later."""

    def __init__(self, core: Context, asked: GangQuestion, field: Field, wishes: gangs.JointWishes) -> None:
        self._core, self._asked, self._field, self._wishes = core, asked, field, wishes
        self._time = transfer_time(field.candidates)
        self._choices: dict[GangPlacement, GangChoice] = {}
        self._is_told = True
        """False if a model lacks what a site does not tell yet."""

    def soonest(self, rooms: list[GrowingRoom]) -> GangFound | Unplaced:
        if self._asked.policy == TURNAROUND:
            return self._first_to_end(rooms)
        found = soonest(self._by_model if self._asked.policy == GRADS else self._by(self._asked.policy), rooms)
        if isinstance(found.answer, Unplaced):
            # What is not known yet is known soon.
            return replace(found.answer, never=found.answer.never and self._is_told)
        return GangFound(found.answer, found.after_s, choice=self._choice(found.answer, found.after_s))

    def _first_to_end(self, rooms: list[GrowingRoom]) -> GangFound | Unplaced:
        request = self._asked.request
        run_s = {str(each.site): each.run_s for each in self._field.candidates if each.run_s > 0}
        places = [self._by(policy) for policy in tried(request)]
        best = turnaround(request, places, rooms, run_s, self._asked.spec.slowdown)
        if isinstance(best.answer, Unplaced):
            return best.answer
        after_s = best.end.claimed_s if best.end else 0.0
        return GangFound(best.answer, after_s, best.end, self._choice(best.answer, after_s))

    def _by(self, policy: str) -> Place:
        def alone(some: Rooms) -> GangPlacement | Unplaced:
            # No history of pairs: the quote round has chosen the sites that are worth a look.
            return self._core.gang_policies[policy](self._asked.request, some, self._time, None)

        def matched(some: Rooms) -> GangPlacement | Unplaced:
            return gangs.matched(alone, some, self._wishes, self._asked.request)

        ranks = self._field.ranks if self._asked.spec.rank else None
        return lambda some: gangs.ranked(matched, some, ranks)

    def _by_model(self, some: Rooms) -> GangPlacement | Unplaced:
        assert self._asked.foresight is not None
        choice = self._asked.foresight.place(self._asked.request, some, self._time)
        self._is_told = self._is_told and not choice.untold
        if isinstance(choice.placement, GangPlacement):
            self._choices[choice.placement] = choice
        return choice.placement

    def _choice(self, answer: GangPlacement, after_s: float) -> GangChoice | None:
        """Return what the group's model says of a placement, also of one that another policy chose."""
        seen = self._asked.foresight
        if answer in self._choices or seen is None:
            return self._choices.get(answer)
        return GangChoice(answer, seen.of(answer, Rooms([room.after(after_s) for room in self._asked.rooms])))


def _past(core: Context, draft: Draft, sites: Iterable[SiteId]) -> dict[SiteId, Quantiles]:
    """Return the ratios of past gangs like these, by site."""
    found = ((site, candidates.past_ratios(core, draft, site)) for site in sites)
    return {site: past for site, past in found if past is not None}
