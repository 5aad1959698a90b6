"""Two groups of one user on three equal sites: the first keeps its turn, and, in `make soak`, the moves that the sites
make by themselves cost neither any time. 240 jobs of 1 s, then 30 of 5 s; DIANA_FULL=1: 80 of 5 s, by hand (four
minutes)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from diana.client import Client
from tests.e2e.grid import Grid, Starts
from tests.runs import SOAK

FULL = bool(os.environ.get("DIANA_FULL"))
SLOTS = 2
FIRST, SECOND = (240, 80) if FULL else (240, 30)
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600 if FULL else 300)]


@contextmanager
def three_sites(migration: str) -> Iterator[tuple[Client, Starts]]:
    with closing(Grid()) as grid:
        for name in ("alpha", "beta", "gamma"):
            grid.add(name, SLOTS)
        grid.join()
        grid.settings(migration=migration)
        grid.start()
        with grid.sites["alpha"].client() as client:
            yield client, Starts(grid)


def submitted(client: Client, starts: Starts, jobs: int, run_s: float) -> str:
    made = starts.job(jobs, then=["sleep", str(run_s)])
    made["resources"] = {"work": run_s}
    return client.submit(made).group


def took_s(client: Client, *groups: str) -> list[float]:
    """Seconds from the submission of each to its last end."""
    out = []
    for group in groups:
        status = client.wait(group, timeout_s=280)
        assert status.state == "done", status
        out.append(status.last_end_s)
    return out


def test_two_groups_at_once_end_as_if_nothing_moved() -> None:
    with three_sites("default") as (client, starts):
        (alone_s,) = took_s(client, submitted(client, starts, FIRST, 1.0))
        both = submitted(client, starts, FIRST, 1.0), submitted(client, starts, SECOND, 5.0)
        first_s, second_s = took_s(client, *both)
        assert starts.count() == 2 * FIRST + SECOND
    with three_sites("off") as (client, starts):
        both = submitted(client, starts, FIRST, 1.0), submitted(client, starts, SECOND, 5.0)
        first_off_s, second_off_s = took_s(client, *both)
    print(
        f"{FIRST} jobs of 1 s: {alone_s:.1f} s alone, {first_s:.1f} s with {SECOND} of 5 s behind them "
        f"(migration off: {first_off_s:.1f} s); these: {second_s:.1f} s (migration off: {second_off_s:.1f} s)"
    )
    assert min(alone_s, first_s) >= FIRST * 1.0 / (3 * SLOTS), "no site ran more at once than it has room for"
    assert first_s < second_s, "what came first ends first"
    assert not SOAK or (first_s <= 1.2 * alone_s and second_s <= 1.1 * second_off_s)
