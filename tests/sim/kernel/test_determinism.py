"""One seed is one run: in this process, in another, and whatever the order of Python's sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate

ROOT = Path(__file__).parents[3]
CHAOS = ROOT / "scenarios" / "chaos.toml"
PROGRAM = """
import sys
from pathlib import Path
from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate
scenario = sc.reporting(sc.load(Path(sys.argv[1])), ("faults", "outcome"))
reports = [simulate(scenario, seed) for seed in range(4)]
print(*(one.digest for one in reports), *(one.outcome.digest for one in reports))
"""


def digests(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(CHAOS)]
    return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.split()


@pytest.mark.wide
def test_one_seed_gives_one_digest_under_two_orders_of_sets() -> None:
    first, second = digests("1"), digests("4242")
    assert first == second
    # Of each seed the digest over all that was decided, and the one over what came of it.
    assert len(set(first)) == 8


def test_one_seed_gives_one_digest_twice_in_one_process_whatever_is_reported() -> None:
    scenario = sc.load(CHAOS)
    plain, asked = simulate(scenario, 11), simulate(sc.reporting(scenario, ("faults", "outcome")), 11)
    assert plain.digest == asked.digest
    assert plain.outcome is None and asked.outcome is not None
    assert asked.outcome.messages == asked.network.sent


@pytest.mark.wide
def test_following_a_story_does_not_change_the_run() -> None:
    from diana.model.ids import GroupId
    from diana.sim.kernel.trace import Trace

    scenario = sc.load(CHAOS)
    trace = Trace(GroupId("north-1"))
    assert simulate(scenario, 5, trace=trace).digest == simulate(scenario, 5).digest
    assert len(trace.lines) == trace.lines.maxlen and all(re.search(r"\bnorth-1\b", line) for line in trace.lines)
