"""Two sites and a standby under one judge: a word acts at another site, an answer at its user, only once what it rests
on is on the disk of whoever said it and of its standby; no power cut takes it from either (PROMISES 1.1, section 2)."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from diana.client import Client
from diana.errors import Unplaceable
from tests.e2e.grid import REPO, Grid, Starts
from tests.real.durable.calls import Call, in_order
from tests.real.durable.cutting import Node, cut
from tests.real.durable.faulty import FAULTY_PAIR
from tests.real.durable.peers import RULE, Neighbours
from tests.real.durable.recording import recorded, recorded_too, tree_with
from tests.real.durable.rules import SiteRules
from tests.real.pairs import add_standby, in_sync

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

FULL = bool(os.environ.get("DIANA_FULL"))
CUTS = 0 if FULL else 50
FAULTY_CUTS = 300 if FULL else 10
JOBS = 6
END_S = 90.0


def _once_heard(client: Client, job: dict[str, object]) -> str:
    """The group of `job`; under strace its only site may not answer for some seconds, and then it is refused."""
    deadline_s = time.monotonic() + END_S
    while True:
        try:
            return client.submit(job).group
        except Unplaceable:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.3)


class Trio:
    """alpha leads with `spare` as its standby; beta is a site of its own, and the witness."""

    def __init__(self, grid: Grid, starts: Starts, tree: Path = REPO) -> None:
        assert shutil.which("strace"), "strace is not here; install the package strace"
        self.alpha, self.beta = (recorded(grid, name, 2, tree) for name in ("alpha", "beta"))
        grid.join()
        for site in (self.alpha, self.beta):
            site.begin()
        grid.start()
        self.spare = recorded_too(add_standby(grid, self.alpha, "beta"), tree)
        self.spare.launch()
        in_sync(self.alpha, other=self.spare)
        self.spare.ready()
        self.in_sync_s = time.time()
        self._work(grid, starts)
        self.until_s = time.time()
        for machine in (self.spare, self.alpha, self.beta):
            machine.kill_recorded()

    def _work(self, grid: Grid, starts: Starts) -> None:
        (grid.root / "upload").write_text("content\n")
        with self.alpha.client() as client, self.beta.client() as other:
            here = starts.job(JOBS, sites=["alpha"])
            here["inputs"] = [{"url": str(grid.root / "upload"), "path": "in"}]
            groups = [client.submit(here).group, _once_heard(client, starts.job(JOBS, sites=["beta"]))]
            theirs = _once_heard(other, starts.job(JOBS, sites=["alpha"]))
            for asked, group in ((client, groups[0]), (client, groups[1]), (other, theirs)):
                assert asked.wait(group, timeout_s=END_S).done == JOBS, grid.story()
            client.status(groups)

    def judged(self, cuts: int, chance: random.Random) -> tuple[SiteRules, SiteRules, str, list[str]]:
        """(rules of alpha, of beta, figures of the cuts, what they lost)."""
        alpha, beta, spare = (site.rules() for site in (self.alpha, self.beta, self.spare))
        alpha.beside, alpha.in_sync_s = spare, self.in_sync_s
        Neighbours({"alpha": alpha, "beta": beta}, self.until_s)
        nodes = {
            0: Node("alpha", "alpha", alpha),
            1: Node("beta", "beta", beta),
            2: Node("spare", "alpha", spare, leader=alpha),
        }
        recordings: list[list[Call]] = [
            site.calls(source) for source, site in enumerate((self.alpha, self.beta, self.spare))
        ]
        moments = [(call, end) for call, end in in_order(*recordings) if call.began[0] <= self.until_s]
        verdict = cut(moments, nodes, cuts, chance)
        return alpha, beta, verdict.figures(), [verdict.story()] if verdict.lost else []


def test_what_acts_elsewhere_is_on_every_disk_it_rests_on_and_no_power_cut_takes_it(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, beta, figures, lost = Trio(grid, starts).judged(CUTS, chance)
    print(figures, alpha.figures(), beta.figures(), sep="\n")
    for rules in (alpha, beta):
        assert not rules.breaches, "\n".join(map(str, rules.breaches))
        assert rules.checked[RULE] >= 3, "words went both ways"
    assert alpha.checked["the same at the standby"] >= JOBS
    assert not lost, lost[0]


@pytest.mark.parametrize("fault", FAULTY_PAIR if FULL else [*FAULTY_PAIR][:1])
def test_a_pair_or_a_peer_that_speaks_too_early_is_found(
    grid: Grid, starts: Starts, chance: random.Random, tmp_path: Path, fault: str
) -> None:
    trio = Trio(grid, starts, tree_with(tmp_path / "tree", FAULTY_PAIR[fault]))
    alpha, beta, figures, lost = trio.judged(FAULTY_CUTS, chance)
    breaches = alpha.breaches + beta.breaches
    print(figures, *breaches[:3], *lost, sep="\n")
    assert breaches or lost, f"nobody noticed that {fault}"
