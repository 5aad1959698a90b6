"""Synthetic datasets over a workload: how often each is read, by which groups, how large it is, where it lies.

The groups' reads are dealt out as a whole, so that the shape asked for is the one that comes, not one in the mean.
Everything depends on the seed, the entry and the homes of its groups alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from diana.sim.kernel import chance
from diana.sim.load import generated, traced
from diana.sim.load import generators as gen
from diana.sim.specs.capacity import machines
from diana.sim.specs.data_spec import DatasetSpec, DataSpec
from diana.sim.specs.names import as_site_name
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec


class Reading(NamedTuple):
    datasets: tuple[DatasetSpec, ...]
    """The most read first."""
    of_group: gen.Ints
    """Place in `datasets`, for each group; -1: it reads none."""

    def added(self, work: WorkSpec, group: int) -> WorkSpec:
        """The entry, or one group of it, with what it reads among its inputs; `group` counts from 0."""
        at = int(self.of_group[group])
        return work if at < 0 else replace(work, inputs=(*work.inputs, self.datasets[at].name))


def laid(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with the datasets that this seed draws; the same one where nothing is to be drawn, or stands there
    already."""
    there, more = {dataset.name for dataset in scenario.datasets}, list[DatasetSpec]()
    for work in scenario.workload:
        if work.data is not None:
            found = reading(work, work.data, scenario, seed)
            more += [one for one in found.datasets if one.name not in there]
    return replace(scenario, datasets=(*scenario.datasets, *more)) if more else scenario


def reading(work: WorkSpec, spec: DataSpec, scenario: Scenario, seed: int) -> Reading:
    """The reading of all groups of the entry, in their order."""
    home = _homes(work, scenario, seed)

    def stream(column: str) -> np.random.Generator:
        return chance.columns(seed, f"{work.name}/data/{column}")

    readers = np.flatnonzero(stream("share").random(len(home)) < spec.share)
    reads = shape(len(readers), spec.read_once, spec.mean_reads)
    whose = stream("reads").permutation(np.repeat(np.arange(len(reads)), reads))
    of_group = np.full(len(home), -1)
    of_group[readers] = whose
    # The first reader in the order of the groups is any of them: the order was drawn.
    first = np.full(len(reads), -1)
    first[whose[::-1]] = home[readers[::-1]]
    places = _places(spec, scenario, first, stream("places"))
    sizes = stream("sizes")
    files = 1 + sizes.poisson(spec.mean_files - 1, len(reads))
    file_bytes = spec.file_bytes * np.exp(spec.sigma * sizes.standard_normal(len(reads)) - spec.sigma**2 / 2)
    name = as_site_name(work.name) or "entry"
    datasets = tuple(
        DatasetSpec(f"{name}-synthetic-{k}", at[0], count, max(1, round(size)), at[1:])
        for k, (at, count, size) in enumerate(zip(places, files.tolist(), file_bytes.tolist(), strict=True), 1)
    )
    return Reading(datasets, of_group)


def shape(total: int, read_once: float, mean_reads: float) -> gen.Ints:
    """Reads of each dataset, falling, `total` of all: `read_once` of them 1, the others 2 and more by Zipf's law, its
    exponent such that the mean is `mean_reads` - as near as whole numbers allow."""
    if total <= 0:
        return np.zeros(0, dtype=np.int64)
    count = max(1, min(total, round(total / mean_reads)))
    tail = min(count - round(read_once * count), total - count)
    if tail <= 0:
        # Too few for a tail: one is read by whoever is left.
        return np.array([total - count + 1] + [1] * (count - 1))
    wanted = total - (count - tail)
    rank = (np.arange(1, tail + 1) - 0.5) / tail
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _zipf(rank, middle, wanted).sum() <= wanted else (low, middle)
    reads = _zipf(rank, low, wanted)
    reads[0] += wanted - int(reads.sum())
    return np.concatenate([reads, np.ones(count - tail, dtype=np.int64)])


def _zipf(rank: gen.Floats, exponent: float, most: int) -> gen.Ints:
    """2 for the last, by a power of the rank more for the others, no more than there are reads."""
    log = np.minimum(math.log(2.0) - exponent * np.log(rank), math.log(most) + 1.0)
    return np.minimum(np.maximum(np.floor(np.exp(log)), 2), most).astype(np.int64)


def _places(spec: DataSpec, scenario: Scenario, reader: gen.Ints, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """The sites that hold each dataset; `reader`: the home of one of its readers."""
    slots = np.array([sum(n for n, _ in machines(scenario, site)) for site in scenario.sites], dtype=np.float64)
    # A site without a slot may hold data all the same where all are so.
    weights = slots if slots.any() else np.ones(len(slots))
    near = rng.random(len(reader)) < spec.locality
    first = np.where(near, reader, gen.chosen(rng, len(reader), weights))
    names = [site.name for site in scenario.sites]
    out = []
    for at in first.tolist():
        held = [at]
        while len(held) < spec.replicas:
            left = weights.copy()
            left[held] = 0.0
            left = left if left.any() else np.isin(np.arange(len(left)), held, invert=True).astype(np.float64)
            held.append(int(gen.chosen(rng, 1, left)[0]))
        out.append(tuple(names[one] for one in held))
    return out


def _homes(work: WorkSpec, scenario: Scenario, seed: int) -> gen.Ints:
    """Home of each of its groups, as a place in the scenario's sites."""
    places = {site.name: at for at, site in enumerate(scenario.sites)}
    if work.trace is not None:
        return traced.taken(work, work.trace, scenario, seed).home
    if work.generate is not None:
        columns = generated.drawn(work, work.generate, scenario, seed)
        return np.array([places[name] for name in columns.homes])[columns.home]
    return np.full(work.repeat, places[work.site])
