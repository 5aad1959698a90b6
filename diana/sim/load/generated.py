"""The groups of a workload entry with `generate`, as columns that a seed draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from diana.sim.kernel import chance
from diana.sim.load import generators as gen
from diana.sim.specs.capacity import capacity, largest, machines
from diana.sim.specs.demand_spec import GenerateSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec


class GeneratedGroups(NamedTuple):
    """A row per group, in order of submission."""

    submit_s: gen.Floats
    processors: gen.Ints
    work_s: gen.Floats
    user: gen.Ints
    """Place in `users`."""
    home: gen.Ints
    """Place in `homes`."""
    users: tuple[str, ...]
    homes: tuple[str, ...]


def drawn(work: WorkSpec, spec: GenerateSpec, scenario: Scenario, seed: int) -> GeneratedGroups:
    """The columns that a seed draws; they depend on the seed and the entry alone. Each column has a stream of its own:
    other sizes, the same users."""
    groups = work.repeat
    processors, work_s = _sizes(work, spec, scenario, seed)
    user, users = _users(work, spec, scenario, seed)
    home, homes = _homes(work, spec, scenario, seed, user, len(users))
    times_s, span_s = _times(work, spec, seed)
    if spec.load > 0:
        true_s = np.full(groups, work.true_work_s) if work.true_work_s else work_s
        offered_s = work.jobs * float(np.dot(processors, true_s))
        times_s = gen.scaled_to_load(times_s, span_s, offered_s, capacity(work, scenario), spec.load)
    elif spec.arrivals == "lublin" and work.every_s > 0:
        times_s = times_s * (work.every_s * groups / span_s)
    return GeneratedGroups(work.submit_s + times_s, processors, work_s, user, home, users, homes)


def groups(work: WorkSpec, spec: GenerateSpec, scenario: Scenario, seed: int) -> Iterator[WorkSpec]:
    """Groups, each as an entry of its own, named NAME, NAME-2, ..., in order of submission."""
    columns = drawn(work, spec, scenario, seed)
    rows = zip(*(column.tolist() for column in columns[:5]), strict=True)
    plain = replace(work, generate=None, repeat=1, every_s=0.0)
    for number, (submit_s, processors, work_s, user, home) in enumerate(rows, 1):
        yield replace(
            plain,
            name=work.name if number == 1 else f"{work.name}-{number}",
            submit_s=submit_s,
            processors=processors,
            work_s=work_s,
            user=columns.users[user],
            site=columns.homes[home],
        )


def _stream(seed: int, work: WorkSpec, column: str) -> np.random.Generator:
    return chance.columns(seed, f"{work.name}/{column}")


def _times(work: WorkSpec, spec: GenerateSpec, seed: int) -> tuple[gen.Floats, float]:
    """Times in seconds after the entry's beginning, and how long they last, a gap for each group included."""
    rng, every_s = _stream(seed, work, "arrivals"), work.every_s
    if spec.load > 0:
        every_s = 1.0
    match spec.arrivals:
        case "even":
            return every_s * np.arange(work.repeat, dtype=np.float64), every_s * work.repeat
        case "poisson":
            times_s = gen.poisson_s(rng, work.repeat, every_s)
        case "bursts":
            times_s = gen.bursts_s(rng, work.repeat, every_s, spec.burst, spec.burst_gap_s)
        case "lublin":
            times_s = gen.lublin_arrivals_s(rng, work.repeat, gen.LUBLIN[spec.lublin], spec.start_hour)
    return times_s, float(times_s[-1])


def _sizes(work: WorkSpec, spec: GenerateSpec, scenario: Scenario, seed: int) -> tuple[gen.Ints, gen.Floats]:
    if spec.sizes == "given":
        return np.full(work.repeat, work.processors), np.full(work.repeat, work.work_s)
    model = gen.LUBLIN[spec.lublin]
    most = spec.max_processors or largest(work, scenario)
    processors = gen.lublin_processors(_stream(seed, work, "processors"), work.repeat, model, most)
    return processors, gen.lublin_run_s(_stream(seed, work, "run"), processors, model)


def _users(work: WorkSpec, spec: GenerateSpec, scenario: Scenario, seed: int) -> tuple[gen.Ints, tuple[str, ...]]:
    some = spec.users or ((work.user,) if work.user else tuple(user.name for user in scenario.users))
    rng = _stream(seed, work, "users")
    return gen.chosen(rng, work.repeat, gen.zipf_weights(len(some), spec.zipf)), some


def _homes(
    work: WorkSpec, spec: GenerateSpec, scenario: Scenario, seed: int, user: gen.Ints, users: int
) -> tuple[gen.Ints, tuple[str, ...]]:
    if isinstance(spec.homes, dict) and spec.homes:
        weights = dict(spec.homes)
    elif spec.homes == "slots":
        weights = {site.name: float(sum(n for n, _ in machines(scenario, site))) for site in scenario.sites}
    elif spec.homes == "equal":
        weights = dict.fromkeys((site.name for site in scenario.sites), 1.0)
    else:
        return np.zeros(work.repeat, dtype=np.int64), (work.site,)
    rng, shares = _stream(seed, work, "homes"), np.fromiter(weights.values(), dtype=np.float64)
    home = gen.chosen(rng, users, shares)[user] if spec.one_home else gen.chosen(rng, work.repeat, shares)
    return home, tuple(weights)
