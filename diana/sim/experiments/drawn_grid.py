"""Grids that a seed draws for the questions of a scenario about programs, and a program's model on their machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from diana.model.job.spec import FlexibleSpec, GroupSpec, MapperSpec
from diana.policy.grads.gang_model import BlockPart, GangModel, MachineBlock
from diana.policy.grads.search import SearchMachine
from diana.policy.requirements.names import Value
from diana.sim.specs.program_spec import ProgramSpec, ProgramTables


class DrawnGrid(NamedTuple):
    machines: tuple[SearchMachine, ...]
    rtt_s: Mapping[frozenset[str], float]


def grid_of(tables: ProgramTables, seed: int) -> DrawnGrid:
    rng = Random(f"grid {seed}")
    sites = [f"site{n + 1}" for n in range(tables.sites)]
    machines = tuple(
        SearchMachine(
            f"m{at:02}", sites[at % len(sites)], rng.uniform(*tables.speed), rng.uniform(*tables.memory_bytes)
        )
        for at in range(tables.machines)
    )
    pairs = [frozenset((a, b)) for at, a in enumerate(sites) for b in sites[at + 1 :]]
    return DrawnGrid(machines, {pair: rng.uniform(*tables.rtt_s) for pair in pairs})


def model_of(program: ProgramSpec, grid: DrawnGrid, kind: str) -> GangModel:
    """Return the program's own model and mapper, as a job file would have them."""
    spec = GroupSpec(
        flexible=FlexibleSpec(processors=len(grid.machines)),
        model=tuple(program.model.items()),
        mapper=MapperSpec(
            kind="time-balance" if kind == "time-balance" else "equal",
            items=str(program.items),
            item_bytes=str(program.item_bytes),
        ),
    )

    def link(one: str, other: str) -> Mapping[str, Value]:
        return {"link.rtt_s": grid.rtt_s[frozenset((one, other))], "link.bytes_per_s": 1e8, "link.loss": 0.0}

    return GangModel(spec, {}, link)


def parts_of(machines: Sequence[SearchMachine]) -> list[BlockPart]:
    return [
        BlockPart(at, 1, MachineBlock(one.name, one.site, one.speed, one.memory_bytes, 1, 1))
        for at, one in enumerate(machines)
    ]
