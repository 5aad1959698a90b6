"""Checks of the demand: quotas of users, and groups that are drawn from a model."""

from __future__ import annotations

from diana.sim.specs.capacity import capacity, largest
from diana.sim.specs.demand_spec import GenerateSpec
from diana.sim.specs.names import known, unique
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec


def check_quotas(scenario: Scenario) -> None:
    """ValueError: a weight out of range, or of nobody. Those of settings are in range, or their own check says so."""
    for user in scenario.users:
        if not (user.quota == 0 or 1e-6 <= user.quota <= 1e12):
            raise ValueError(f"users {user.name}: quota = {user.quota}: want 1e-06 to 1e+12, or 0: the default")
    if any(work.trace is not None for work in scenario.workload):
        # A log brings users of its own.
        return
    names = {user.name: None for user in scenario.users}
    said = [("settings", scenario.settings)]
    said += [(f"sites {site.name}", site.settings) for site in scenario.sites if site.settings]
    said += [(f"policies {policy.name}", policy.settings) for policy in scenario.policies]
    for at, settings in said:
        quotas = settings.get("quotas")
        for name in quotas if isinstance(quotas, dict) else ():
            if name not in names:
                known(name, tuple(names), f"{at}: quotas")


def check_generate(work: WorkSpec, scenario: Scenario, sites: tuple[str, ...], users: tuple[str, ...]) -> None:
    """ValueError names the key, the value and the mend. The work's own keys were checked before."""
    spec, at = work.generate, f"workload {work.name}: generate"
    if spec is None:
        return
    for key, low, high in (
        ("burst", 1, 10**6),
        ("burst_gap_s", 0, 1e9),
        ("load", 0, 1000),
        ("max_processors", 0, 10**6),
        ("start_hour", 0, 24),
        ("zipf", 0, 20),
    ):
        value = getattr(spec, key)
        if not low <= value <= high:
            raise ValueError(f"{at}: {key} = {value}: want {low:g} to {high:g}")
    for key in ("forced", "after", "produces"):
        if getattr(work, key):
            raise ValueError(f"{at}: groups that are drawn cannot have {key}; leave one of the two out")
    _check_times(work, spec, at)
    _check_sizes(work, spec, scenario, at)
    _check_people(work, spec, sites, users, at)
    if spec.load > 0 and capacity(work, scenario) <= 0:
        raise ValueError(f"{at}: load = {spec.load:g}: the sites it may run at have no slots; give them some")


def _check_times(work: WorkSpec, spec: GenerateSpec, at: str) -> None:
    if spec.load > 0 and work.every_s > 0:
        raise ValueError(
            f"{at}: load = {spec.load:g} sets the time between groups, every_s = {work.every_s:g} too; leave one out"
        )
    if spec.arrivals in ("poisson", "bursts") and not (spec.load > 0 or work.every_s > 0):
        raise ValueError(f"{at}: arrivals = {spec.arrivals!r} wants the mean time between groups; set every_s or load")


def _check_sizes(work: WorkSpec, spec: GenerateSpec, scenario: Scenario, at: str) -> None:
    if spec.sizes != "lublin":
        return
    for key, default in (("processors", 1), ("work_s", 1.0), ("true_work_s", 0.0)):
        if getattr(work, key) != default:
            raise ValueError(f"{at}: sizes = 'lublin' draws what {key} = {getattr(work, key):g} says; leave one out")
    most = largest(work, scenario)
    if most < max(1, spec.max_processors):
        said = f"max_processors = {spec.max_processors}" if spec.max_processors else "sizes = 'lublin'"
        raise ValueError(f"{at}: {said}: the largest machine it may run on has {most} slots; give it more")


def _check_people(work: WorkSpec, spec: GenerateSpec, sites: tuple[str, ...], users: tuple[str, ...], at: str) -> None:
    if spec.users and work.user:
        raise ValueError(f"{at}: users and the entry's user = {work.user!r} both say who submits; leave one out")
    among = frozenset(users)
    unique(spec.users, f"{at}: users")
    for name in spec.users:
        if name not in among:
            known(name, users, f"{at}: users")
    if isinstance(spec.homes, str):
        return
    for name, weight in spec.homes.items():
        known(name, sites, f"{at}: homes")
        if not 0 <= weight <= 1e12:
            raise ValueError(f"{at}: homes.{name} = {weight}: want 0 to 1e+12")
    if not sum(spec.homes.values()) > 0:
        raise ValueError(f"{at}: homes: no site has a weight above 0; give one")
