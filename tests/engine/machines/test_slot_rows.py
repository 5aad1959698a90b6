"""The columns of runs on slots say the same as the runs one by one, whatever happened to them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from diana.engine.journal.state import CustodyKey
from diana.engine.machines.running import GivenRuns
from diana.engine.machines.slot_rows import LEAST_GONE, MOST_KINDS, SlotRows
from diana.model.ids import SubgroupId

AMOUNTS = ((), (), (("gpus", 2),), (("fpga", 1), ("memory_bytes", 9)))
KINDS = [("sort", "ada", 0.0), ("sort", "ada", 30.0), ("sort", "bob", 0.0), ("sum", "ada", 5.0)]


class Past:
    """Knowledge of how long runs take."""

    def __init__(self) -> None:
        self.kinds = {kind: 60.0 for kind in KINDS}
        self.own: dict[CustodyKey, float] = {}
        self.custodies: dict[CustodyKey, Any] = {}

    def kind_s(self, template: str, owner: str, work_s: float) -> float:
        return self.kinds[template, owner, work_s]

    def expected_s(self, key: CustodyKey) -> float:
        one = self.custodies[key]
        return self.own.get(key, self.kinds[one.template, one.owner, one.spec.resources.work_s])


def custody(kind: tuple[str, str, float]) -> Any:
    template, owner, work_s = kind
    return SimpleNamespace(
        template=template, owner=owner, spec=SimpleNamespace(resources=SimpleNamespace(work_s=work_s))
    )


@pytest.mark.parametrize("seed", range(6))
def test_columns_are_the_runs_on_slots(seed: int) -> None:
    rng, past, runs = random.Random(seed), Past(), GivenRuns(40)
    runs.configure(20, "m1")
    given: list[tuple[CustodyKey, int]] = []
    for step in range(900):
        chance = rng.random()
        if chance < 0.45:
            key = (
                (SubgroupId(f"g{step}.0"), 1)
                if rng.random() < 0.7 or not past.custodies
                else rng.choice(list(past.custodies))
            )
            past.custodies.setdefault(key, custody(rng.choice(KINDS)))
            count, first = rng.randint(1, 3), 10 * step
            worker = rng.choice(("main", "m1"))
            runs.give(
                key,
                range(first, first + count),
                rng.randint(1, 3),
                float(step),
                worker,
                rng.choice(((), (), (("gpus", 2),), (("fpga", 1), ("memory_bytes", 9)))),
            )
            given += [(key, index) for index in range(first, first + count)]
        elif chance < 0.85 and given:
            key, index = given.pop(rng.randrange(len(given)))
            runs.told(key, [index], float(step))
            runs.forget(key, [index], float(step))
        elif chance < 0.9:
            kind = rng.choice(KINDS)
            for one in KINDS:
                if one[:2] == kind[:2]:
                    past.kinds[one] = rng.uniform(1.0, 100.0)
            runs.learned(*kind[:2])
        elif chance < 0.94 and past.custodies:
            key = rng.choice(list(past.custodies))
            past.own[key] = rng.uniform(1.0, 100.0)
            runs.rows.moved(key)
        elif chance < 0.96:
            runs.configure(rng.choice((10, 40, 60)))
        elif chance < 0.97:
            past.kinds = {kind: rng.uniform(1.0, 100.0) for kind in KINDS}
            runs.expects_anew()
        lanes = [lane for lane in runs.lanes.values() if step % 5 or lane.name != "m1"]
        some = [(lane, run) for lane in lanes for run in lane.on.values()]
        away = [lane.number for lane in runs.lanes.values() if lane not in lanes]
        if not len(runs.rows):
            continue
        found, every = runs.rows.columns(512, cast(Any, past.custodies), past.own, past.kind_s, away)
        assert every == 1
        assert found.expected_s.tolist() == [past.expected_s(run.key) for _, run in some]
        assert found.on_s.tolist() == [run.on_s for _, run in some]
        assert found.processors.tolist() == [run.processors for _, run in some]
        told = [runs.rows.devices[number] for number in found.devices.tolist()]
        assert told == [tuple(one for one in run.held if one[0] in ("gpus", "fpga")) for _, run in some]
        assert found.lane.tolist() == [lane.number for lane, _ in some]


def test_of_many_an_even_sample_is_taken() -> None:
    past, runs, key = Past(), GivenRuns(5000), (SubgroupId("g.0"), 1)
    past.custodies[key] = custody(KINDS[0])
    runs.give(key, range(5000), 1, 0.0)
    found, every = runs.rows.columns(512, cast(Any, past.custodies), past.own, past.kind_s, [])
    assert every == 10
    assert len(found.on_s) == 500


def test_columns_do_not_grow_with_the_runs_that_left() -> None:
    runs, key = GivenRuns(4), (SubgroupId("g.0"), 1)
    for index in range(5000):
        runs.give(key, [index], 1, float(index))
        runs.forget(key, [index], float(index))
    assert len(runs.rows._on_s) < 200
    assert len(runs.rows._counts) == 1


def test_what_runs_held_that_left_is_not_remembered_for_ever() -> None:
    rows, key = SlotRows(), (SubgroupId("alpha-1/0"), 1)
    rows.put(key, 0, 0, 0.0, 1, (("fpga", 7),))
    for number in range(1, 3 * MOST_KINDS):
        rows.put(key, number, 0, 0.0, 1, (("fpga", number),))
        rows.drop(key, number)
    assert len(rows.devices) <= MOST_KINDS + 2 * LEAST_GONE
    found, _ = rows.columns(10, {}, {key: 1.0}, lambda *_: 1.0, [])
    assert [rows.devices[number] for number in found.devices.tolist()] == [(("fpga", 7),)]
