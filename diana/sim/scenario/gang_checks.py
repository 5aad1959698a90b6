"""Checks of what a scenario says of gangs that types cannot say: of questions about them, and of its own gangs."""

from __future__ import annotations

import math
from functools import partial

from diana import gang_plug_ins
from diana.gang_plug_ins import policies
from diana.model.job.components import check_slowdown
from diana.policy.gang.policies import GRADS, POLICIES, SHORT, request_in
from diana.policy.gang.requests import FlexibleRequest, GangPlacement, GangRequest, Rooms, SiteRoom, Unplaced
from diana.policy.gang.soonest import GrowingRoom, soonest
from diana.policy.gang.turnaround import tried
from diana.sim.specs.gang_spec import ClaimQuestion, CommunicationSpec, GangTables, ScanQuestion
from diana.sim.specs.names import known
from diana.sim.specs.resources_spec import RESOURCE_KEYS
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec

MOST_IDLE = 10_000_000
_OF_GANGS = ("gang_placement", "gang_level", "communication", "gang_slowdown")
_NOT_OF_GANGS = ("processors", *RESOURCE_KEYS, "max_parallel", "trace", "file_per_job", "forced", "preemptible")


def check_gangs(tables: GangTables) -> None:
    """ValueError names the key, the value and the range."""
    for number, question in enumerate(tables.placements):
        at = f"gangs.placements[{number}]"
        known(question.policy, (*SHORT, *policies()), f"{at}.policy")
        if not question.sites:
            raise ValueError(f"{at}.sites: none; name at least one, as {{ C1 = 18 }}")
        for name, idle in question.sites.items():
            if not 0 <= idle <= MOST_IDLE:
                raise ValueError(f"{at}.sites: {name} = {idle}: want 0 to {MOST_IDLE:,} idle processors")
        try:
            request_in(question.request)
        except ValueError as error:
            raise ValueError(f"{at}.request: {error}") from None
    if tables.claims is not None:
        _check_claims(tables.claims)
    if tables.scan is not None:
        _check_scan(tables.scan)


def _check_claims(claims: ClaimQuestion) -> None:
    for key in ("placed_s", "transfer_s"):
        value = getattr(claims, key)
        if not (math.isfinite(value) and 0 <= value <= 1e12):
            raise ValueError(f"gangs.claims: {key} = {value}: want seconds, 0 to 1e12")
    if not 0 <= claims.part <= 1:
        raise ValueError(f"gangs.claims: part = {claims.part}: want 0 to 1")
    if not 1 <= claims.tries <= 10_000:
        raise ValueError(f"gangs.claims: tries = {claims.tries}: want 1 to 10,000")


def _check_scan(scan: ScanQuestion) -> None:
    for key in ("higher", "lower", "n1", "n2", "n3", "n4"):
        if not 1 <= getattr(scan, key) <= 100:
            raise ValueError(f"gangs.scan: {key} = {getattr(scan, key)}: want 1 to 100")


def check_communication(costs: CommunicationSpec) -> None:
    """ValueError names the application and the factor that cannot be."""
    _check_factors(costs.slowdown, "communication: slowdown")
    for name, factors in costs.applications.items():
        _check_factors(factors, f"communication: applications.{name}")


def _check_factors(factors: tuple[float, ...], at: str) -> None:
    try:
        check_slowdown(factors)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from None


def check_components(work: WorkSpec, scenario: Scenario, at: str) -> None:
    """ValueError names the key that gangs, or ordinary jobs, do not have, or says why no place can hold a gang."""
    if not work.components:
        for name in _OF_GANGS:
            if getattr(work, name):
                raise ValueError(f"{at}: {name}: the jobs have no components; name them, or leave it out")
        return
    if work.gang_placement == GRADS:
        raise ValueError(f"{at}: gang_placement: grads places by a model, and these jobs have none; choose another")
    gang_plug_ins.check(work.gang_placement, f"{at}: gang_placement")
    for name in _NOT_OF_GANGS:
        if getattr(work, name) != getattr(WorkSpec(name=""), name):
            raise ValueError(f"{at}: {name}: gangs have none of their own; leave it out beside components")
    if work.communication:
        known(work.communication, tuple(scenario.communication.applications), f"{at}: communication")
    _check_factors(work.gang_slowdown, f"{at}: gang_slowdown")
    try:
        request = request_in(work.components)
    except ValueError as error:
        raise ValueError(f"{at}: components: {error}") from None
    for each in () if isinstance(request, FlexibleRequest) else request:
        if each.site:
            known(each.site, work.sites or tuple(site.name for site in scenario.sites), f"{at}: components")
    if why := _homeless(work, request, scenario):
        raise ValueError(f"{at}: components = {work.components}: these sites cannot hold it, idle or not: {why}")
    if any(move.to for move in work.moves) or (work.moves and not work.checkpoint):
        raise ValueError(f'{at}: moves: gangs go where they fit; write to = "" and checkpoint, or leave moves out')
    if work.generate is not None and (work.generate.sizes != "given" or work.generate.load):
        raise ValueError(
            f"{at}: generate: gangs have the size that is written; leave out sizes and load, and write every_s"
        )


def _homeless(work: WorkSpec, request: GangRequest, scenario: Scenario) -> str:
    """Return why no policy that may place the gang finds room for it at idle sites; empty: one does."""
    rooms = [_emptied(site, scenario) for site in scenario.sites if not work.sites or site.name in work.sites]
    names = (work.gang_placement,) if work.gang_placement in POLICIES else tried(request)
    answers = [soonest(partial(_placed, name, request), rooms).answer for name in names]
    if any(isinstance(answer, GangPlacement) for answer in answers):
        return ""
    (first, *_) = (answer.reason for answer in answers if isinstance(answer, Unplaced))
    return f"{first}; ask for less, or give a site more slots"


def _placed(policy: str, request: GangRequest, rooms: Rooms) -> GangPlacement | Unplaced:
    return POLICIES[policy](request, rooms, lambda *_: 0.0, None)


def _emptied(site: SiteSpec, scenario: Scenario) -> GrowingRoom:
    """Return the room of a site when nothing runs there, with the most slots that it ever has."""
    later = [event.slots for event in scenario.events if event.kind == "slots" and site.name in event.sites]
    slots = [max(site.slots, *later) if later else site.slots, *(machine.slots for machine in site.machines)]
    return GrowingRoom(SiteRoom(site.name, idle=sum(slots), total=sum(slots), widest=max(slots)))
