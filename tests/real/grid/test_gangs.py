"""Gangs over real nodes: components at several sites begin together or not at all, whatever is killed (SPEC K5, K7)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence

import pytest

from tests.e2e.grid import Grid, outcomes, until
from tests.real.gangs import SITES, begins, by_gang, job_file, whole

pytestmark = pytest.mark.e2e


@pytest.fixture
def three(grid: Grid) -> Grid:
    for name in SITES:
        grid.add(name, 1)
    grid.join()
    grid.settings(claim_wait_s=10.0)
    grid.start()
    return grid


def test_components_begin_together_though_one_site_is_busy(three: Grid) -> None:
    path, free = three.root / "begins", three.root / "free"
    with three.sites["gamma"].client() as client:
        command = ["sh", "-c", 'sleep 20; date +%s.%N > "$0"', str(free)]
        busy = client.submit({"group": {"command": command, "sites": ["gamma"]}}).group
        until(lambda: client.status(busy)[0].running == 1, "gamma is busy", 20)
    with three.sites["alpha"].client() as client:
        group = client.submit(job_file(path)).group
        assert client.wait(group, timeout_s=90).state == "done", three.story()
        assert set(outcomes(client, group).values()) == {"done"}
    ((found,),) = by_gang(path).values()
    assert whole(found), found
    assert min(begin.at_s for begin in found) >= float(free.read_text()), "none began before the last had a processor"
    hosts = "127.0.0.1,127.0.0.1,127.0.0.1"
    placed = [(begin.site, begin.hosts) for begin in sorted(found, key=lambda begin: begin.rank)]
    assert placed == [(site, hosts) for site in SITES]


def test_a_gang_begins_at_sites_that_are_never_idle_and_others_wait_behind_it(three: Grid) -> None:
    path = three.root / "begins"
    runs_s = dict(zip(SITES, (2.0, 3.0, 4.0), strict=True))
    behind = {}
    for name, site in three.sites.items():
        with site.client() as client:
            first = client.submit({"group": {"command": ["sleep", str(runs_s[name])], "sites": [name]}}).group
            until(lambda: client.status(first)[0].running == 1, f"{name} is busy", 20)  # noqa: B023
    with three.sites["alpha"].client() as client:
        group = client.submit(job_file(path)).group
    for name, site in three.sites.items():
        with site.client() as client:
            more = {"group": {"command": ["sleep", "1"], "sites": [name]}, "sweep": {"job": "1-30"}}
            behind[name] = client.submit(more).group
    with three.sites["alpha"].client() as client:
        assert client.wait(group, timeout_s=60).state == "done", three.story()
    ((found,),) = by_gang(path).values()
    assert whole(found), found
    for name, site in three.sites.items():
        with site.client() as client:
            assert client.status(behind[name])[0].done < 29, "its site always had ordinary jobs that waited"
            client.cancel(behind[name])


ANY = ("", "")


@pytest.mark.parametrize(
    ("places", "groups"),
    [((SITES,) * 3, 10), ((ANY,) * 3, 3), ((SITES[:2], SITES[1:], ("gamma", "alpha")), 3)],
    ids=["twenty at the same three", "each at any two of three", "each at two others"],
)
def test_gangs_of_three_origins_at_the_same_processors_all_end(
    three: Grid, places: Sequence[Sequence[str]], groups: int
) -> None:
    path, named, begun_s = three.root / "begins", [], time.monotonic()
    for at in range(groups):
        with three.sites[SITES[at % 3]].client() as client:
            asked = job_file(path.with_name(f"begins{at}"), 2, 0.2, places[at % 3])
            named.append((SITES[at % 3], client.submit(asked).group))
    for name, group in named:
        with three.sites[name].client() as client:
            assert client.wait(group, timeout_s=240).state == "done", three.story()
    print(f"{2 * groups} gangs took {time.monotonic() - begun_s:.1f} s")
    for at in range(groups):
        gangs = by_gang(path.with_name(f"begins{at}"))
        assert len(gangs) == 2 and all(whole(found, len(places[0])) for (found,) in gangs.values()), gangs


@pytest.mark.parametrize("victim", ["alpha", "beta"])
def test_a_site_killed_while_others_wait_at_the_barrier_starts_nothing_twice(three: Grid, victim: str) -> None:
    path, spawner = three.root / "begins", three.sites["gamma"].spawner_pid()
    os.kill(spawner, signal.SIGSTOP)
    with three.sites["alpha"].client() as client:
        group = client.submit(job_file(path, run_s=1.0)).group
        until(lambda: client.status(group)[0].note.startswith("its components hold"), "they are at the barrier", 20)
    three.sites[victim].kill()
    three.sites[victim].start()
    assert not begins(path)
    os.kill(spawner, signal.SIGCONT)
    with three.sites["alpha"].client() as client:
        assert client.wait(group, timeout_s=90).state == "done", three.story()
    ((found,),) = by_gang(path).values()
    assert whole(found), found


@pytest.mark.parametrize("victim", ["alpha", "beta"])
def test_a_site_killed_while_a_gang_runs_starts_nothing_twice(three: Grid, victim: str) -> None:
    path = three.root / "begins"
    with three.sites["alpha"].client() as client:
        group = client.submit(job_file(path, run_s=4.0)).group
        until(lambda: len(begins(path)) == 3, "all components run", 30)
    three.sites[victim].kill()
    time.sleep(1.0)
    three.sites[victim].start()
    with three.sites["alpha"].client() as client:
        assert client.wait(group, timeout_s=60).state == "done", three.story()
    ((found,),) = by_gang(path).values()
    assert whole(found), found


def test_kills_at_random_moments_tear_no_gang(three: Grid, chance: random.Random) -> None:
    path = three.root / "begins"
    with three.sites["alpha"].client() as client:
        group = client.submit(job_file(path, 6, 0.3)).group
    for _ in range(6):
        time.sleep(chance.uniform(0.1, 2.0))
        site = three.sites[chance.choice(SITES)]
        if chance.random() < 0.3:
            site.process and site.process.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 3.0))
            site.process and site.process.send_signal(signal.SIGCONT)
        else:
            site.kill()
            site.start()
    with three.sites["alpha"].client() as client:
        ended = client.wait(group, timeout_s=240)
        assert ended.state == "done", three.story()
    # What came too late at one site was ended and tried again.
    assert all(whole(attempts[-1]) for attempts in by_gang(path).values()) and len(by_gang(path)) == 6


def test_a_site_that_is_stopped_beyond_the_claim_makes_the_gang_start_later_and_whole(three: Grid) -> None:
    path = three.root / "begins"
    spawner = three.sites["beta"].spawner_pid()
    os.kill(spawner, signal.SIGSTOP)
    with three.sites["alpha"].client() as client:
        group = client.submit(job_file(path)).group
        time.sleep(12.0)
        assert not begins(path)
        os.kill(spawner, signal.SIGCONT)
        assert client.wait(group, timeout_s=90).state == "done", three.story()
    ((found,),) = by_gang(path).values()
    assert whole(found), found
