"""What the workers hold, as it is asked for by custody."""

from __future__ import annotations

import random

from diana.engine.given import GivenRuns
from diana.engine.state import CustodyKey
from diana.model.ids import SubgroupId
from tests.e2e.conftest import SEED

KEYS: list[CustodyKey] = [(SubgroupId(f"alpha-{number}/0"), 1) for number in range(4)]
WORKERS = ["c1", "c2", "m1"]


def walked(runs: GivenRuns, key: CustodyKey) -> list[int]:
    return [index for lane in runs.recalling.values() for held, index in lane.ahead if held == key]


def test_what_waits_behind_slots_is_what_a_walk_over_all_of_it_finds_whatever_happened_since() -> None:
    rng = random.Random(SEED)
    runs, held, waited = GivenRuns(0), dict[tuple[CustodyKey, int], str](), 0
    for index in range(2000):
        key, worker = rng.choice(KEYS), rng.choice(WORKERS)
        mine = sorted(some for whose, some in held if whose == key)
        match rng.choice(("give", "give", "told", "forget", "configure", "gives back")):
            case "give":
                runs.give(key, [index], rng.randint(1, 2), 0.0, worker)
                held[key, index] = worker
            case "told" if mine:
                runs.told(key, mine[:2])
            case "forget" if mine:
                runs.forget(key, mine[:3])
                for some in mine[:3]:
                    del held[key, some]
            case "configure":
                runs.configure(rng.randint(0, 6), worker)
            case "gives back":
                runs.gives_back(worker, rng.random() < 0.7)
        for each in KEYS:
            assert list(runs.waiting_of(each)) == walked(runs, each)
            waited += bool(runs.waiting_of(each))
    assert waited > 500


def test_many_custodies_are_asked_for_at_one_walk() -> None:
    walks = 0

    class Counted(dict):  # type: ignore[type-arg]
        def values(self):  # type: ignore[no-untyped-def]
            nonlocal walks
            walks += 1
            return super().values()

    runs = GivenRuns(0)
    runs.recalling = Counted()
    runs.gives_back("c1", True)
    for key in KEYS:
        runs.give(key, range(3), 1, 0.0, "c1")
    assert [list(runs.waiting_of(key)) for key in KEYS] == [[0, 1, 2]] * len(KEYS)
    assert walks == 1
