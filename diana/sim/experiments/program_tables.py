"""Answers to the questions of a scenario about programs, by the searches and mappers that place real ones: grids,
databases and disturbances are drawn from each seed, the same for all that is compared."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from random import Random
from typing import Any

from diana.policy.grads.mappers import HeldDatabase, Unmapped, WorkMachine, data_locality
from diana.policy.grads.search import Predict, SearchMachine, annealed, bound, exhaustive, resource_aware
from diana.sim.experiments import swap_runs
from diana.sim.experiments.drawn_grid import DrawnGrid, grid_of, model_of, parts_of
from diana.sim.specs.program_spec import MapperQuestion, ProgramSpec, ProgramTables, SearchQuestion


def answers(tables: ProgramTables) -> tuple[dict[str, Any], list[str]]:
    """Return the rows as they are printed by `--json`, and a line for each expectation that does not hold."""
    if any(program.databases is not None for program in tables.programs):
        _hush_solver()
    told: dict[str, Any] = {"searches": [], "mappers": []}
    wrong: list[str] = []
    for search in tables.searches:
        rows = [_searched(tables, search, seed) for seed in range(tables.seeds)]
        told["searches"].append({"program": search.program, "seeds": list(map(_told, rows))})
        wrong += _search_differences(search, rows)
    for mapper in tables.mappers:
        rows = [_mapped(tables, mapper, seed) for seed in range(tables.seeds)]
        told["mappers"].append({"program": mapper.program, "kind": mapper.kind, "seeds": list(map(_told, rows))})
        wrong += _mapper_differences(mapper, rows)
    for swap in tables.swaps:
        rows = [swap_runs.played(tables, swap, seed) for seed in range(tables.seeds)]
        told.setdefault("swaps", []).append({"program": swap.program, "seeds": rows})
        wrong += swap_runs.differences(swap, rows)
    return {key: rows for key, rows in told.items() if rows}, wrong


@cache
def _hush_solver() -> None:
    """Make the first linear programme of this process with its standard output closed: HiGHS prints its name then, and
    no option of it is heard before."""
    import highspy

    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        highspy.Highs()  # type: ignore[no-untyped-call]
        # The line lies in a buffer of the C library where the output is no terminal.
        ctypes.CDLL(None).fflush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def text(told: Mapping[str, Any]) -> str:
    """Return the rows for people: means over the seeds."""
    lines = []
    for each in told.get("searches", ()):
        rows = each["seeds"]
        aware = _mean(row["aware_s"] / row["oracle_s"] for row in rows)
        cooled = [row["annealed_s"] / row["oracle_s"] for row in rows if "annealed_s" in row]
        models = max(row["models"] for row in rows)
        lines.append(
            f"{each['program']}: over {len(rows)} seeds, to the best of all sets: resource-aware {aware:.3f} by at most"
            f" {models} models of {rows[0]['bound']} allowed{f', annealing {_mean(cooled):.3f}' if cooled else ''}"
        )
    for each in told.get("mappers", ()):
        rows = each["seeds"]
        both = [row for row in rows if row["mapped_s"] is not None and row["equal_s"] is not None]
        gain = _mean(1 - row["mapped_s"] / row["equal_s"] for row in both)
        better = sum(row["mapped_s"] < row["equal_s"] for row in both)
        fewer = sum(row["equal_s"] is None for row in rows)
        unfit = f"; on {fewer} equal shares do not fit" if fewer else ""
        who = f"{each['program']} by {each['kind']}"
        lines.append(f"{who}: sooner than equal shares on {better} seeds, by {gain:.1%}{unfit}")
    lines += [swap_runs.text(each) for each in told.get("swaps", ())]
    return "\n".join(lines) + "\n"


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as it is printed: a time that there is none of is null."""
    return {key: None if value == inf else value for key, value in row.items()}


# --- searches ------------------------------------------------------------------------------------------------


def _searched(tables: ProgramTables, question: SearchQuestion, seed: int) -> dict[str, Any]:
    grid, program = grid_of(tables, seed), tables.program(question.program)
    predict = _predict(program, grid, seed)
    aware = resource_aware(grid.machines, predict)
    best = exhaustive(grid.machines, predict)
    row = {
        "seed": seed,
        "aware_s": aware.seconds,
        "oracle_s": best.seconds,
        "models": aware.models,
        "bound": bound(tables.machines, tables.sites),
    }
    if question.anneals:
        cooled = annealed(grid.machines, predict, Random(f"anneal {program.name} {seed}"))
        row |= {"annealed_s": cooled.seconds, "annealed_models": cooled.models}
    return row


def _search_differences(question: SearchQuestion, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    wrong = []
    for row in rows:
        at = f"{question.program}, seed {row['seed']}"
        if row["models"] > row["bound"]:
            wrong.append(f"{at}: {row['models']} models were evaluated, and {row['bound']} are the bound")
        for key, most in (("aware_s", question.within), ("annealed_s", question.annealed_within)):
            if most and not row[key] <= most * row["oracle_s"]:
                said = f"{row[key]:.3f} s, and {most:g} x {row['oracle_s']:.3f} s is expected at most"
                wrong.append(f"{at}: {key.removesuffix('_s')}: {said}")
        if question.annealing_better and row["annealed_s"] > row["aware_s"] * (1 + 1e-9):
            wrong.append(f"{at}: annealing found {row['annealed_s']:.3f} s, worse than {row['aware_s']:.3f} s")
    better = sum(question.anneals and row["annealed_s"] < row["aware_s"] * (1 - 1e-9) for row in rows)
    if question.annealing_better and 2 * better <= len(rows):
        wrong.append(f"{question.program}: annealing is better on {better} of {len(rows)} seeds, no majority")
    return wrong


# --- mappers -------------------------------------------------------------------------------------------------


def _mapped(tables: ProgramTables, question: MapperQuestion, seed: int) -> dict[str, Any]:
    grid, program = grid_of(tables, seed), tables.program(question.program)
    if program.databases is not None:
        return _searched_databases(program, grid, question, seed)
    runs = {}
    for kind in ("equal", question.kind):
        found = model_of(program, grid, "time-balance" if kind == "time-balance" else "equal").predict(
            parts_of(grid.machines)
        )
        items = found.items or (0,) * tables.machines
        runs[kind] = (_run_s(program, grid, items, question.noise, seed) if found.items else inf, items)
    mapped_s, items = runs[question.kind]
    used = [got * program.item_bytes for got in items]
    return {
        "seed": seed,
        "mapped_s": mapped_s,
        "equal_s": runs["equal"][0],
        "whole": sum(items) == program.items,
        "in_memory": all(size <= machine.memory_bytes for size, machine in zip(used, grid.machines, strict=True)),
    }


def _run_s(program: ProgramSpec, grid: DrawnGrid, items: Sequence[int], noise: float, seed: int) -> float:
    """Play the program's iterations: each ends when its slowest machine has its part, whose speed differs by chance
    from one to the next. The disturbances of a seed are the same for all divisions."""
    rng = Random(f"run {program.name} {seed}")
    model, parts = model_of(program, grid, "equal"), parts_of(grid.machines)
    none, whole = ([model.alone_s(part, share, parts) for part in parts] for share in (0.0, 1.0))
    total = 0.0
    for _ in range(program.iterations):
        slow = [1.0 + noise * rng.uniform(-1.0, 1.0) for _ in parts]
        step_s = [
            (begin + (end - begin) * got / program.items * factor) / program.iterations
            for begin, end, got, factor in zip(none, whole, items, slow, strict=True)
        ]
        total += max(step_s)
    return total


def _searched_databases(program: ProgramSpec, grid: DrawnGrid, question: MapperQuestion, seed: int) -> dict[str, Any]:
    databases = _databases(program, grid, seed)
    machines = _workers(program, grid.machines)
    found = data_locality(databases, machines)
    rng = Random(f"run {program.name} {seed}")
    slow = [1.0 + question.noise * rng.uniform(-1.0, 1.0) for _ in machines]

    def run_s(rows: Sequence[Sequence[int]]) -> float:
        return max(sum(row[at] for row in rows) * machine.item_s * slow[at] for at, machine in enumerate(machines))

    equal = []
    for one in databases:
        at = [k for k, machine in enumerate(machines) if machine.name in one.holders]
        equal.append([one.items // len(at) if k in at else 0 for k in range(len(machines))])
    if isinstance(found, Unmapped):
        return {"seed": seed, "mapped_s": inf, "equal_s": run_s(equal), "whole": False, "in_memory": False}
    held = all(
        not got or machine.name in one.holders
        for one, row in zip(databases, found.items, strict=True)
        for got, machine in zip(row, machines, strict=True)
    )
    whole = [sum(row) for row in found.items] == [one.items for one in databases]
    loads = [sum(row[at] for row in found.items) for at in range(len(machines))]
    return {
        "seed": seed,
        "mapped_s": run_s(found.items),
        "equal_s": run_s(equal),
        "whole": whole and held,
        "in_memory": all(load <= machine.room for load, machine in zip(loads, machines, strict=True)),
    }


def _mapper_differences(question: MapperQuestion, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    wrong = []
    for row in rows:
        at = f"{question.program} by {question.kind}, seed {row['seed']}"
        if not row["whole"]:
            wrong.append(f"{at}: not all of its data are divided, or not among those that have them")
        if not row["in_memory"]:
            wrong.append(f"{at}: a machine has more than its memory holds")
    better = sum(row["mapped_s"] < row["equal_s"] for row in rows)
    if better < question.better_on:
        wrong.append(
            f"{question.program} by {question.kind}: sooner than equal shares on {better} of {len(rows)} seeds, and "
            f"{question.better_on} are expected"
        )
    return wrong


# --- grids and programs --------------------------------------------------------------------------------------


def _predict(program: ProgramSpec, grid: DrawnGrid, seed: int) -> Predict:
    if program.databases is None:
        model = model_of(program, grid, "time-balance")
        return lambda some: model.predict(parts_of(some)).seconds
    databases = _databases(program, grid, seed)

    @cache
    def of_set(some: frozenset[SearchMachine]) -> float:
        found = data_locality(databases, _workers(program, sorted(some)))
        return inf if isinstance(found, Unmapped) else found.seconds + program.machine_s * len(some)

    return lambda some: of_set(frozenset(some))


def _databases(program: ProgramSpec, grid: DrawnGrid, seed: int) -> list[HeldDatabase]:
    assert program.databases is not None
    rng = Random(f"databases {program.name} {seed}")
    names = [machine.name for machine in grid.machines]
    return [
        HeldDatabase(
            f"d{n}", rng.randint(*program.databases.items), frozenset(rng.sample(names, program.databases.holders))
        )
        for n in range(program.databases.count)
    ]


def _workers(program: ProgramSpec, machines: Sequence[SearchMachine]) -> list[WorkMachine]:
    return [
        WorkMachine(
            one.name,
            one.site,
            program.item_s / one.speed,
            0.0,
            one.memory_bytes / program.item_bytes if program.item_bytes else inf,
        )
        for one in machines
    ]


def _mean(values: Any) -> float:
    some = list(values)
    return sum(some) / len(some) if some else 0.0
