"""One parallel program over sites on hosts of their own (SPEC K6): the Poisson solver of `examples/koala`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.client import Client
from tests.e2e.grid import Grid, outcomes
from tests.real.hosts import site_on
from tests.real.machines.test_three_machines import Lan, Machine

SOLVER = Path(__file__).parents[3] / "examples" / "koala" / "poisson.py"
POINTS = 32


@pytest.fixture
def lan() -> Iterator[Lan]:
    """Two hosts whose links are narrow, and slow where the kernel can delay packets."""
    made = Lan(2)
    try:
        for number in (1, 2):
            tc = ["ip", "netns", "exec", made.host(number), "tc", "qdisc", "add", "dev", "eth0", "root"]
            delayed = [*tc, "netem", "delay", "5ms", "rate", "20mbit"]
            if subprocess.run(delayed, check=False, capture_output=True).returncode:
                subprocess.run([*tc, "tbf", "rate", "20mbit", "burst", "32k", "latency", "200ms"], check=True)
        yield made
    finally:
        made.close()


def two_sites(grid: Grid, lan: Lan) -> tuple[Machine, Machine]:
    alpha = site_on(grid, lan, 1, "alpha", slots=2)
    beta = site_on(grid, lan, 2, "beta", alpha, slots=2)
    for site in (alpha, beta):
        site.launch()
    for site in (alpha, beta):
        site.ready()
    grid.meet(45)
    return alpha, beta


def said(client: Client, group: str, count: int) -> list[str]:
    return [b"".join(part.data for part in client.logs(f"{group}.{index}")).decode() for index in range(count)]


def answer(text: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith("answer ")]
    return line


def test_processes_at_two_sites_find_each_other_and_their_answer_is_that_of_one(lan: Lan, grid: Grid) -> None:
    alpha, _ = two_sites(grid, lan)
    alone = subprocess.run([sys.executable, SOLVER, str(POINTS)], capture_output=True, text=True, check=True).stdout
    with alpha.client() as client:
        command = [sys.executable, str(SOLVER), str(POINTS)]
        sites = [{"site": "alpha", "count": 1}, {"site": "beta", "count": 1}]
        group = client.submit({"group": {"command": command}, "components": sites}).group
        assert client.wait(group, timeout_s=90).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
        first, second = said(client, group, 2)
    assert first.startswith("process 0 of 2 at alpha") and second.startswith("process 1 of 2 at beta")
    assert answer(first) == answer(alone)
