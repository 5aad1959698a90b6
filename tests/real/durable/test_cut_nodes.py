"""A real node starts on what a power cut left of another: it knows each group that was answered, starts nothing again
that began, and brings all to an end or holds it (PROMISES 1.1, 1.3, 1.4)."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from diana.adapters.lrm.spawner.claims.logmark import boot_id
from tests.e2e.grid import Grid, Site, is_alive, until
from tests.real.durable.calls import in_order
from tests.real.durable.images import Image, booted, image, write
from tests.real.durable.recording import Recorded, recorded, stop
from tests.real.durable.rules import SiteRules

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

FULL = bool(os.environ.get("DIANA_FULL"))
CUTS = 40 if FULL else 2
GROUPS, JOBS, SLOTS = 4, 8, 2
BY_CHANCE = ("what was synced", "some of it", "torn", "names without content")
END_S = 90.0
SCRIPT = 'echo "$DIANA_JOB" >> "$STARTS"; sleep 0.05'


def worked(grid: Grid) -> Recorded:
    assert shutil.which("strace"), "strace is not here; install the package strace"
    alpha = recorded(grid, "alpha", SLOTS)
    alpha.start()
    job = {
        "group": {"command": ["sh", "-c", SCRIPT], "environment": {"STARTS": str(grid.root / "starts")}},
        "sweep": {"array": f"0-{JOBS - 1}"},
        "resources": {"work": 0.05},
    }
    with alpha.client() as client:
        groups = [client.submit(job).group for _ in range(GROUPS)]
        for group in groups:
            client.wait(group, timeout_s=END_S)
    stop(alpha)
    until(lambda: not is_alive(alpha.spawner_pid()), "its spawner is gone", END_S)
    return alpha


def at(alpha: Recorded, moment: int, kind: str, chance: random.Random) -> tuple[SiteRules, Image]:
    """The judge's knowledge and the disk when so many jobs had begun: what is started twice was begun just before."""
    rules = alpha.rules()
    for call, end in in_order(alpha.calls()):
        rules.feed(call, end)
        if len(rules.executed) >= moment:
            break
    return rules, image(rules.disk, kind, chance)


def started_on(grid: Grid, alpha: Recorded, made: Image, number: int) -> Site:
    """A node in a folder of its own that has what the cut left; its name and place are alpha's."""
    folder = grid.root / f"cut-{number}"
    folder.mkdir(0o700)
    write(booted(made, boot_id()), folder)
    site = Site(f"cut-{number}", folder, int(alpha.address.rpartition(":")[2]), grid.mark)
    grid.sites[site.name] = site
    site.start()
    return site


def test_a_node_goes_on_after_a_power_cut_and_starts_nothing_twice(grid: Grid, chance: random.Random) -> None:
    alpha = worked(grid)
    starts: Path = grid.root / "starts"
    held = 0
    for number in range(CUTS):
        kind = chance.choice(BY_CHANCE)
        rules, made = at(alpha, chance.randint(1, GROUPS * JOBS), kind, chance)
        starts.write_bytes(b"")
        site = started_on(grid, alpha, made, number)
        with site.client() as client:
            known = {status.group: status for status in client.status([])}
            assert rules.told_groups.keys() <= known.keys(), (kind, site.story())
            for group in known:
                over = client.wait(group, timeout_s=END_S)
                assert over.done + over.held == JOBS, (kind, over, site.story())
                held += over.held
            for _, group, done in rules.told_done:
                assert client.status([group])[0].done >= done
        again = {f"{run[0].partition('/')[0]}.{run[2]}" for run in rules.executed} & {*starts.read_text().split()}
        assert not again, (kind, site.story())
        assert site.terminate() == 0
        del grid.sites[site.name]
    print(f"{CUTS} starts, {held} jobs held")
