"""A program of which one machine becomes slow, played iteration by iteration (SPEC G6): its contract is judged by its
steps as a real one's, and what is done about it is decided by `diana.policy.grads`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any, Literal

from diana.model.job.spec import ContractSpec
from diana.policy.grads.contract import Steps, judge
from diana.policy.grads.search import SearchMachine
from diana.policy.grads.swapping import Probed, rebalanced, swap
from diana.sim.experiments.drawn_grid import grid_of, model_of, parts_of
from diana.sim.specs.program_spec import ProgramSpec, ProgramTables, SwapQuestion

RunWay = Literal["stay", "rebalance", "restart", "swap"]
WAYS: tuple[RunWay, ...] = ("stay", "rebalance", "restart", "swap")


def played(tables: ProgramTables, question: SwapQuestion, seed: int) -> dict[str, Any]:
    """Return the seconds of the run by each way; the disturbances of a seed are the same for all."""
    program = tables.program(question.program)
    return {"seed": seed} | {f"{way}_s": _Run(tables, question, program, seed).seconds(way) for way in WAYS}


def differences(question: SwapQuestion, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    wrong = []
    for row in rows:
        in_order = row["swap_s"] < row["restart_s"] < row["stay_s"] > row["rebalance_s"]
        if question.ordered and not in_order:
            told = ", ".join(f"{way} {row[f'{way}_s']:.1f} s" for way in WAYS)
            wrong.append(f"{question.program}, seed {row['seed']}: {told}; want swap before restart before stay")
    return wrong


def text(each: Mapping[str, Any]) -> str:
    means = {way: fmean(row[f"{way}_s"] for row in each["seeds"]) for way in WAYS}
    took = ", ".join(f"{way} {means[way]:.0f} s" for way in WAYS)
    return f"{each['program']} on a machine that becomes slow, over {len(each['seeds'])} seeds: {took}"


class _Run:
    def __init__(self, tables: ProgramTables, question: SwapQuestion, program: ProgramSpec, seed: int) -> None:
        self._question, self._program, self._seed = question, program, seed
        ranked = sorted(grid_of(tables, seed).machines, key=lambda one: (-one.speed, one.name))
        self._active, self._spares = ranked[: -question.spares], ranked[-question.spares :]
        self._model = model_of(program, grid_of(tables, seed), "time-balance")
        self._slow = self._active[0]

    def seconds(self, way: RunWay) -> float:
        question, program = self._question, self._program
        active, parts = list(self._active), parts_of(self._active)
        predicted = self._model.predict(parts)
        items, contract = list(predicted.items), ContractSpec()
        now_s, steps, done_about_it = 0.0, Steps(contract.window), way == "stay"
        steps.take(0.0, 0.0, program.iterations)
        for at in range(program.iterations):
            now_s += max(self._step_s(one, at, got, active) for one, got in zip(active, items, strict=True))
            steps.take(now_s, at + 1.0, program.iterations)
            pace = steps.pace(now_s)
            if done_about_it or pace is None:
                continue
            kept = judge(pace, at + 1.0, program.iterations, predicted.seconds, contract.tolerance)
            if kept.state != "slow":
                continue
            probed = [self._probed(one, at, got, active) for one, got in zip(active, items, strict=True)]
            spares = [self._probed(one, at, 0, active) for one in self._spares]
            moved = max(items) * program.item_bytes / question.bytes_per_s
            done_about_it = True
            if way == "rebalance":
                now_s += question.swap_s + moved
            else:
                found = swap(probed, spares, program.iterations - at - 1, question.swap_s + moved, 0.0)
                if found is None:
                    continue
                place = [one.name for one in active].index(found.slow)
                active[place] = next(one for one in self._spares if one.name == found.spare)
                # A restart writes and reads all data.
                whole = 2 * program.items * program.item_bytes / question.bytes_per_s
                now_s += question.swap_s + moved if way == "swap" else question.restart_s + whole
            fresh = [self._probed(one, at, got, active) for one, got in zip(active, items, strict=True)]
            items = list(rebalanced(fresh))
        return now_s

    def _step_s(self, one: SearchMachine, at: int, items: int, active: Sequence[SearchMachine]) -> float:
        """Return the seconds of one iteration of a machine with so many items."""
        rng = Random(f"swap {self._program.name} {self._seed} {at} {one.name}")
        noise = 1.0 + self._question.noise * rng.uniform(-1.0, 1.0)
        return self._alone_s(one, at, items, active) * noise

    def _alone_s(self, one: SearchMachine, at: int, items: int, active: Sequence[SearchMachine]) -> float:
        parts = parts_of(active)
        part = next((part for part in parts if part.block.name == one.name), None) or parts_of([one])[0]
        ends = [self._model.alone_s(part, share, parts) for share in (0.0, 1.0)]
        slow = self._question.slow if one == self._slow and at >= self._question.at * self._program.iterations else 1.0
        whole_s = ends[0] + (ends[1] - ends[0]) * items / self._program.items * slow
        return whole_s / self._program.iterations

    def _probed(self, one: SearchMachine, at: int, items: int, active: Sequence[SearchMachine]) -> Probed:
        """Return the machine as a probe of one item measures it."""
        item_s = self._alone_s(one, at, 1, active) - self._alone_s(one, at, 0, active)
        return Probed(one.name, item_s, items)
