"""The demand of a scenario: its users, and groups drawn from a model instead of written one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from diana.sim.specs.names import known, unique

if TYPE_CHECKING:
    from diana.sim.scenario.scenario import Scenario, SiteSpec, WorkSpec


class UserSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """`NAME@VO`."""
    role: Literal["user", "operator"] = "user"
    """An operator may act on every group."""
    count: int = 1
    """This many such users: NAME@VO, NAME-2@VO, ..."""
    quota: float = 0.0
    """Weight of each at every site that has no `quotas` of its own; 0: the default quota."""


class GenerateSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The draw of an entry's `repeat` groups of `jobs` jobs, by the seed of the run and the entry's name.

    They come from `submit_s` on, `every_s` apart in the mean, and are reported as one entry."""

    arrivals: Literal["poisson", "bursts", "even", "lublin"] = "poisson"
    """lublin: with a daily cycle, as `lublin` says; `every_s` or `load` stretches it, 0: as published."""
    burst: int = 10
    """Groups of a burst; bursts come by a Poisson process."""
    burst_gap_s: float = 0.0
    """Seconds between the groups of a burst."""
    load: float = 0.0
    """Offered work over the capacity of the sites it may run at: all times between groups are scaled to give it. 0: not
    scaled."""
    sizes: Literal["given", "lublin"] = "given"
    """lublin: processors and run time of each group are drawn as `lublin` says, instead of `processors`, `work_s`."""
    lublin: Literal["all", "batch", "interactive"] = "all"
    """Kind of jobs in Lublin and Feitelson's model."""
    max_processors: int = 0
    """Largest size drawn; 0: the largest machine of the sites it may run at."""
    start_hour: float = 0.0
    """Hour of the day at `submit_s`, for the daily cycle."""
    users: tuple[str, ...] = ()
    """Users who submit, the busiest first; the name of an entry with `count` means all of them. Empty: the entry's
    `user`, or else all users."""
    zipf: float = 1.0
    """Exponent of the users' weights: the k-th has weight k ** -zipf; 0: all the same."""
    homes: dict[str, float] | Literal["", "slots", "equal"] = ""
    """Site -> weight of what is submitted there; slots: each as its slots; empty: all at `site`."""
    one_home: bool = False
    """True: a user always submits at one site, drawn by the weights."""


def expanded(scenario: Scenario) -> Scenario:
    """The scenario with each user of a `count` as so many users. ValueError for a count that cannot be."""
    if all(user.count == 1 for user in scenario.users):
        return scenario
    people: dict[str, tuple[UserSpec, ...]] = {}
    for user in scenario.users:
        if not 1 <= user.count <= 1_000_000:
            raise ValueError(f"users {user.name}: count = {user.count}: want 1 to 1e+06")
        name, at, vo = user.name.partition("@")
        names = [user.name, *(f"{name}-{k}{at}{vo}" for k in range(2, user.count + 1))]
        people[user.name] = tuple(msgspec.structs.replace(user, name=one, count=1) for one in names)
    work = tuple(_naming_all(one, people) for one in scenario.workload)
    users = tuple(user for some in scenario.users for user in people[some.name])
    return msgspec.structs.replace(scenario, users=users, workload=work)


def _naming_all(work: WorkSpec, people: dict[str, tuple[UserSpec, ...]]) -> WorkSpec:
    if work.generate is None or not work.generate.users:
        return work
    names = [one.name if isinstance(one, UserSpec) else one for n in work.generate.users for one in people.get(n, (n,))]
    return msgspec.structs.replace(work, generate=msgspec.structs.replace(work.generate, users=tuple(names)))


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


def allowed(work: WorkSpec, scenario: Scenario) -> tuple[SiteSpec, ...]:
    """The sites its jobs may run at."""
    return tuple(site for site in scenario.sites if not work.sites or site.name in work.sites)


def machines(scenario: Scenario, site: SiteSpec) -> tuple[tuple[int, float], ...]:
    """Slots and speed of each machine of a site, its own first."""
    its = scenario.site_settings(site)
    return ((its.slots, its.speed), *((m.slots, m.speed or its.speed) for m in site.machines))


def capacity(work: WorkSpec, scenario: Scenario) -> float:
    """Seconds of work at reference speed that the sites it may run at do in a second."""
    every = (machine for site in allowed(work, scenario) for machine in machines(scenario, site))
    return math.fsum(slots * speed for slots, speed in every)


def largest(work: WorkSpec, scenario: Scenario) -> int:
    """Processors of the largest machine its jobs may run on."""
    return max(slots for site in allowed(work, scenario) for slots, _ in machines(scenario, site))


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
