"""Nodes that are killed, or stand still, at the very records that let a gang go (SPEC K5)."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.gangs import SITES, begins, by_gang, job_file, whole

pytestmark = pytest.mark.e2e

CLAIM_WAIT_S = 5.0
BEYOND_S = 28.0
"""More than any claim stands for here: a claim outlasts the time that its origin waits by 20 s."""


class AtRecord(Site):
    """A node that is given a signal at a record: the words of `tests/real/at_record.py`."""

    at: tuple[str, str, str]

    def command(self, *more: str) -> list[str]:
        words = super().command(*more)
        return [sys.executable, "-m", "tests.real.at_record", *self.at, str(self._said), *words[3:]]

    @property
    def _said(self) -> Path:
        return self.data.parent / f"{self.name}.at"

    def wait_for(self) -> None:
        until(self._said.exists, lambda: f"{self.name} is at {self.at}\n{self.story()}")
        assert self.process is not None
        if self.at[2] == "SIGKILL":
            self.process.wait()

    def goes_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        if self.at[2] == "SIGKILL":
            self.start()


def three(grid: Grid) -> None:
    for name in SITES:
        grid.add(name, 1)
    grid.join()
    grid.settings(claim_wait_s=CLAIM_WAIT_S)


@pytest.mark.parametrize(
    ("word", "away_s"),
    [("SIGKILL", 2.0), ("SIGSTOP", BEYOND_S)],
    ids=["killed", "stands still beyond its claims"],
)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "record"), [("alpha", "GangGo"), ("beta", "CustodyRunnable")])
def test_a_node_that_ends_or_stands_still_at_the_record_that_lets_go_tears_no_gang(
    grid: Grid, name: str, record: str, when: str, word: str, away_s: float
) -> None:
    three(grid)
    victim = grid.sites[name]
    victim.__class__ = AtRecord
    assert isinstance(victim, AtRecord)
    victim.at = (record, when, word)
    grid.start()
    # Where the others begin they are still there when their gang turns out to be torn.
    run_s = BEYOND_S + 10.0 if name == "beta" and away_s == BEYOND_S else 1.0
    path = grid.root / "begins"
    with grid.sites["alpha"].client() as client:
        group = client.submit(job_file(path, run_s=run_s)).group
    victim.wait_for()
    time.sleep(away_s)
    # An origin tells nobody, itself included, before its record is durable; a site starts nothing before its own is.
    assert sorted(begin.site for begin in begins(path)) == ([] if name == "alpha" else ["alpha", "gamma"])
    victim.goes_on()
    with grid.sites["alpha"].client() as client:
        assert client.wait(group, timeout_s=120).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    ((*torn, last),) = by_gang(path).values()
    assert sorted(begin.rank for begin in last) == [0, 1, 2], last
    if away_s == BEYOND_S:
        assert whole(last) and len(torn) == (name == "beta"), torn
    else:
        assert not torn


def test_a_site_whose_node_stands_still_beyond_its_claim_before_the_gang_is_let_go_begins_nothing(grid: Grid) -> None:
    three(grid)
    grid.start()
    path, spawner, beta = grid.root / "begins", grid.sites["gamma"].spawner_pid(), grid.sites["beta"].process
    assert beta is not None
    os.kill(spawner, signal.SIGSTOP)
    with grid.sites["alpha"].client() as client:
        group = client.submit(job_file(path)).group
        note = "its components hold processors and wait for gamma"
        until(lambda: client.status(group)[0].note == note, "the others are at the barrier", 20)
        beta.send_signal(signal.SIGSTOP)
        until(lambda: client.status(group)[0].note != note, "the attempt is given up", 20)
        os.kill(spawner, signal.SIGCONT)
        time.sleep(BEYOND_S)
        assert not begins(path)
        beta.send_signal(signal.SIGCONT)
        assert client.wait(group, timeout_s=120).state == "done", grid.story()
    ((found,),) = by_gang(path).values()
    assert whole(found), found
