"""A scenario as one policy of a comparison meets it: other settings, work that comes faster or slower."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from diana.sim.scenario.central_checks import check_central
from diana.sim.specs.compare_spec import PolicySpec, SettingsTable
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec


def under(scenario: Scenario, policy: PolicySpec, load: float = 1.0) -> Scenario:
    """The scenario under a policy and load: the same sites, links, data and chance. ValueError where the work cannot
    come faster or slower."""
    return replace(
        scenario,
        settings=scenario.settings | policy.settings,
        sites=tuple(_without(site, policy.settings) for site in scenario.sites),
        workload=tuple(faster(work, load) for work in scenario.workload),
        swarm=replace(scenario.swarm, times_s=scenario.swarm.times_s / load),
        # Events come earlier, to meet the same work; their length has nothing to do with it.
        events=tuple(replace(event, at_s=event.at_s / load) for event in scenario.events),
        policies=(),
        compare=None,
    )


def faster(work: WorkSpec, load: float) -> WorkSpec:
    """An entry whose work, and later orders on it, come `load` times as fast; its jobs remain what they are."""
    if load == 1.0:
        return work
    generate = work.generate
    if generate is not None:
        if generate.arrivals == "lublin" and not (generate.load or work.every_s):
            raise ValueError(
                f"workload {work.name}: generate: lublin as published comes at its own times; set load or every_s "
                f"to compare it under loads"
            )
        generate = replace(generate, load=generate.load * load, burst_gap_s=generate.burst_gap_s / load)
    trace = work.trace
    if trace is not None:
        trace = (
            replace(trace, load=trace.load * load) if trace.load else replace(trace, time_scale=trace.time_scale / load)
        )
    history = work.history
    if history is not None:
        history = replace(history, time_scale=history.time_scale / load)
    return replace(
        work,
        generate=generate,
        history=history,
        trace=trace,
        submit_s=work.submit_s / load,
        every_s=work.every_s / load,
        cancel_s=_sooner(work.cancel_s, load),
        hold_s=_sooner(work.hold_s, load),
        release_s=_sooner(work.release_s, load),
        retry_s=_sooner(work.retry_s, load),
        moves=tuple(replace(move, at_s=move.at_s / load) for move in work.moves),
    )


def check_variants(scenario: Scenario) -> None:
    """ValueError names the policy and what is wrong with its settings, or why its load cannot be."""
    sites = _different(scenario.sites)
    for policy in scenario.policies:
        if policy.central:
            try:
                check_central(scenario)
            except ValueError as error:
                raise ValueError(f"policies {policy.name}: {error}") from None
        for site in sites:
            try:
                its = under(scenario, policy).site_settings(_without(site, policy.settings))
                if wrong := its.contradiction():
                    raise ValueError(wrong)
            except (msgspec.ValidationError, ValueError) as error:
                raise ValueError(f"policies {policy.name}: {error}") from None
    for load in scenario.compare.loads if scenario.compare else ():
        for work in scenario.workload:
            faster(work, load)


def _different(sites: tuple[SiteSpec, ...]) -> list[SiteSpec]:
    """One of the sites without settings of their own, and all others."""
    plain = [site for site in sites if not site.settings]
    return [*plain[:1], *(site for site in sites if site.settings)]


def _without(site: SiteSpec, over: SettingsTable) -> SiteSpec:
    kept = {key: value for key, value in site.settings.items() if key not in over}
    return site if len(kept) == len(site.settings) else replace(site, settings=kept)


def _sooner(at_s: float, load: float) -> float:
    """The time divided by `load`; a negative one means never, and stays."""
    return at_s / load if at_s >= 0 else at_s
