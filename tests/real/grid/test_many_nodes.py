"""A dozen real sites on hosts of their own: all know all, whoever goes is missed in time, whoever comes is known (SPEC
D9, PERFORMANCE P9). `benchmarks/bench_many_nodes.py` is the same with a hundred, measured."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, Starts, outcomes, until
from tests.real.crowd import Crowd, states, streams
from tests.real.machines.test_three_machines import Lan

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SITES = 13
ACTIVE = 6
"""Fewer than there are sites, so that most know of most by hearsay."""
AT_ONCE = 4
START_S = 120.0
KNOW_S = 30.0
JOINED_S = 10.0
LEFT_S = 8.0
LOST_S = 30.0


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(SITES + 1)
    try:
        yield made
    finally:
        made.close()


def test_a_dozen_sites_know_of_every_join_goodbye_and_loss_and_share_work(
    lan: Lan, grid: Grid, starts: Starts, chance: random.Random
) -> None:
    many = Crowd(grid, lan, chance)
    many.settings = {"active_peers": ACTIVE}
    sites = many.add(SITES)
    many.start(sites, AT_ONCE, START_S)
    print(f"all know all {many.all_see(sites, ['alive'], KNOW_S):.1f} s after the last started")

    # Work reaches sites to which no stream stood.
    origin = sites[-1]
    known = streams(origin)
    with origin.client() as client:
        group = client.submit(starts.job(10 * SITES, ("sleep", "1"))).group
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", 10 * SITES), (status, origin.story())
        assert outcomes(client, group) == dict.fromkeys(range(10 * SITES), "done")
    assert not starts.doubled() and len(starts.all()) == 10 * SITES
    print(f"{origin.name} had streams to {len(known)} of {SITES - 1}; ran at {len(starts.sites())} sites")
    unknown = starts.sites() - known - {origin.name}
    assert len(unknown) >= (SITES - 1 - len(known)) / 2, (unknown, known)

    (new,) = many.add()
    many.start([new], 1, START_S)
    print(f"a newcomer was known everywhere {many.all_see([new], ['alive'], JOINED_S):.1f} s after it answered")
    until(lambda: set(states(new).values()) == {"alive"} and len(states(new)) == SITES, "it knows all", JOINED_S, 0.2)

    leaver, victim = sites[3], sites[7]
    leaver.terminate()
    print(f"a goodbye was known everywhere {many.all_see([leaver], ['left'], LEFT_S):.1f} s after the node ended")
    victim.kill()
    began_s = time.monotonic()
    many.all_see([victim], ["unreachable", "suspect", "lost"], LOST_S)
    doubted_s = time.monotonic() - began_s
    many.all_see([victim], ["lost"], LOST_S)
    print(f"a kill: no work for it after {doubted_s:.1f} s, lost after {time.monotonic() - began_s:.1f} s, everywhere")
    # Nobody else was taken for gone meanwhile.
    many.all_see(many.up(), ["alive"], 5.0)

    victim.start()
    print(f"the killed one was known again {many.all_see([victim], ['alive'], JOINED_S):.1f} s after it answered")
