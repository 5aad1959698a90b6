"""Questions put to the searches and mappers of GrADS, over grids and programs that each seed draws (SPEC G3, G4). No
grid is run for them, but a program's iterations on the machines that it was given."""

from __future__ import annotations

from typing import Literal

import msgspec

from diana.model.job.spec import FlexibleSpec, GroupSpec, MapperKind
from diana.policy.grads.models import EquationModel

MOST_MACHINES = 12
MOST_SEEDS = 1_000


class DatabasesSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Databases that lie at some machines and are searched there alone."""

    count: int = 4
    """Databases of the program."""
    items: tuple[int, int] = (500, 4_000)
    """Least and most items of one; the seed draws."""
    holders: int = 2
    """Machines that hold each."""

    def __post_init__(self) -> None:
        _within("databases.count", self.count, 1, 50)
        _within("databases.holders", self.holders, 1, MOST_MACHINES)
        _ordered("databases.items", self.items, 1, 10**9)


class ProgramSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parallel program, as its job file has it."""

    name: str
    """Name by which questions ask for it."""
    model: dict[str, str] = {}
    """Equations of one component, of which the last is `time_s`; left out for a program that searches databases."""
    items: int = 10_000
    """Items of its data."""
    item_bytes: int = 0
    """Memory that one takes; 0: none that counts."""
    iterations: int = 50
    """Iterations over which its time is spread when it is run."""
    databases: DatabasesSpec | None = None
    item_s: float = 1.0
    """Seconds that a machine of speed 1 needs for an item of a database."""
    machine_s: float = 0.0
    """Seconds that each machine which is used costs such a program."""

    def __post_init__(self) -> None:
        if bool(self.model) == (self.databases is not None):
            raise ValueError(f"grads.programs: {self.name}: want either a model or databases")
        if self.model:
            EquationModel(GroupSpec(flexible=FlexibleSpec(processors=1), model=tuple(self.model.items())))
        _within("items", self.items, 1, 10**9)
        _within("item_bytes", self.item_bytes, 0, 10**12)
        _within("iterations", self.iterations, 1, 10_000)
        _within("item_s", self.item_s, 0, 1e6)
        _within("machine_s", self.machine_s, 0, 1e6)


class SearchQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Searches for the machines of a program, against all sets of them."""

    program: str
    """Name of the program."""
    within: float = 0.0
    """The resource-aware search's time over the best of all sets, at most, on each seed; 0: not asked."""
    annealed_within: float = 0.0
    """The same of annealing."""
    annealing_better: bool = False
    """True: annealing is nowhere worse than the resource-aware search, and better on most seeds."""

    @property
    def anneals(self) -> bool:
        return self.annealing_better or self.annealed_within > 0


class MapperQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs of a program divided by its mapper, against equal shares on the same machines with the same disturbances."""

    program: str
    """Name of the program."""
    better_on: int = 0
    """Seeds on which it ends sooner, at least."""
    noise: float = 0.05
    """Part by which a machine's speed differs from iteration to iteration."""
    kind: MapperKind | Literal["data-locality"] = "time-balance"
    """Mapper that divides its data; of databases always `data-locality`."""

    def __post_init__(self) -> None:
        _within("noise", self.noise, 0, 0.9)


class SwapQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs of a program of which one machine becomes slow: it stays; its data are divided anew; it is stopped, and
    restarted on the others and a spare; or the spare takes the place of the slow machine."""

    program: str
    """Name of the program."""
    spares: int = 1
    """Machines that stand by: the slowest ones."""
    slow: float = 4.0
    """Times that the machine becomes slower."""
    at: float = 0.25
    """Part of the run from which on it is slow."""
    noise: float = 0.05
    """Part by which a machine's speed differs from iteration to iteration."""
    restart_s: float = 10.0
    """Seconds that a stop and a restart take beside the data's."""
    swap_s: float = 0.5
    """Seconds that an exchange takes beside the data's."""
    bytes_per_s: float = 1e8
    """Throughput by which data travel."""
    ordered: bool = True
    """True: an exchange is to end sooner than a restart, and that sooner than to stay, as is a division anew, on each
    seed."""

    def __post_init__(self) -> None:
        _within("spares", self.spares, 1, MOST_MACHINES - 1)
        _within("slow", self.slow, 1, 1e6)
        _within("at", self.at, 0, 1)
        _within("noise", self.noise, 0, 0.9)
        _within("bytes_per_s", self.bytes_per_s, 1, 1e15)


class ProgramTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    programs: tuple[ProgramSpec, ...]
    """Programs, by name."""
    seeds: int = 10
    """Grids that are drawn; the same for all programs and methods."""
    machines: int = 8
    """Machines of a grid."""
    sites: int = 3
    """Sites that they are at, in turn."""
    speed: tuple[float, float] = (0.1, 1.0)
    """Slowest and fastest machine."""
    memory_bytes: tuple[float, float] = (1e9, 2e10)
    """Least and most memory of one."""
    rtt_s: tuple[float, float] = (0.005, 0.05)
    """Nearest and farthest pair of sites."""
    searches: tuple[SearchQuestion, ...] = ()
    """Searches, each for a program."""
    mappers: tuple[MapperQuestion, ...] = ()
    """Runs of mapped programs."""
    swaps: tuple[SwapQuestion, ...] = ()
    """Runs on a machine that becomes slow."""

    def __post_init__(self) -> None:
        _within("grads.seeds", self.seeds, 1, MOST_SEEDS)
        _within("grads.machines", self.machines, 1, MOST_MACHINES)
        _within("grads.sites", self.sites, 1, self.machines)
        _ordered("grads.speed", self.speed, 1e-3, 1e3)
        _ordered("grads.memory_bytes", self.memory_bytes, 1, 1e15)
        _ordered("grads.rtt_s", self.rtt_s, 0, 1e3)
        known = [one.name for one in self.programs]
        if twice := next((name for name in known if known.count(name) > 1), ""):
            raise ValueError(f"grads.programs: {twice!r} is the name of two; give each its own")
        asked = [*(one.program for one in self.searches), *(one.program for one in self.mappers)]
        asked += [one.program for one in self.swaps]
        for at, name in enumerate(asked):
            if name not in known:
                raise ValueError(f"grads: question {at + 1}: program {name!r}: want one of {known}")
        for one in self.programs:
            if one.databases is not None and one.databases.holders > self.machines:
                raise ValueError(f"grads.programs: {one.name}: {one.databases.holders} holders of {self.machines}")

        for question in self.swaps:
            if question.spares >= self.machines or not self.program(question.program).model:
                raise ValueError(f"grads.swaps: {question.program}: want a model, and a machine beside its spares")

    def program(self, name: str) -> ProgramSpec:
        return next(one for one in self.programs if one.name == name)


def _within(key: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key} = {value}: want {least:g} to {most:g}")


def _ordered(key: str, pair: tuple[float, float], least: float, most: float) -> None:
    for value in pair:
        _within(key, value, least, most)
    if pair[0] > pair[1]:
        raise ValueError(f"{key} = {list(pair)}: want the least first")
