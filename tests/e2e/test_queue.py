"""`diana queue`, `explain` and `status` on real nodes without a free slot."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from diana.client import AsyncClient, Client
from diana.model.views.group import GroupStatus
from diana.model.views.queue import QueueView
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


def diana(site: Site, verb: str, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "diana.cli", verb, "--data", str(site.data), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=site.environment())
    assert ended.returncode == code, ended
    assert code == 0 or ended.stderr.count("\n") == 1, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


def job(gate: Path, jobs: int, site: str) -> dict[str, object]:
    """Jobs that end when the gate stands, for one site only."""
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    return {
        "group": {"command": ["sh", "-c", script], "sites": [site]},
        "sweep": {"n": f"1-{jobs}"},
        "resources": {"work": 30},
    }


async def asked(at: Site, site: str) -> QueueView:
    async with AsyncClient(at.data) as client:
        return await client.queue(site)


def test_two_users_wait_at_two_full_sites_and_see_why(grid: Grid, tmp_path: Path) -> None:
    """Each site: one slot, one claimed ahead, both taken. The operator queues 2 jobs and ann 10: T = 12, Q = 2, N = 6,
    so Pr is 2/3 and -0.4 (SPEC D4)."""
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 1)
    grid.settings(priority_mode="paper", claim_ahead=1, time_threshold_s=1800.0)
    grid.join()
    grid.start()
    gate = tmp_path / "gate"
    init_user(alpha.data, "ann", tmp_path / "ann")
    with alpha.client() as operator, Client(address=alpha.address, credential=tmp_path / "ann") as ann:

        def status(group: str) -> GroupStatus:
            return operator.status([group])[0]

        for site in ("alpha", "beta"):
            full = operator.submit(job(gate, 2, site)).group
            until(lambda full=full: status(full).running == 1, lambda: str(operator.status()))
        groups = {}
        for site in ("alpha", "beta"):
            groups["own", site] = operator.submit(job(gate, 2, site)).group
            until(lambda site=site: status(groups["own", site]).level, "it stands in the queue")
            groups["ann", site] = ann.submit(job(gate, 10, site)).group
            until(lambda site=site: status(groups["ann", site]).level == "Q3", lambda: str(operator.status()))
        until(lambda: status(groups["own", "beta"]).level == "Q1", lambda: str(operator.status()))

        for site, words in (("alpha", []), ("beta", ["--site", "beta"])):
            view = json.loads(diana(alpha, "queue", "--json", *words))
            assert (view["site"], view["mode"], view["totalProcessors"], view["totalQuota"]) == (site, "paper", 12, 2.0)
            rows = {row["user"]: row for row in view["classes"]}
            assert {user: (row["level"], row["n"], row["allowance"]) for user, row in rows.items()} == {
                status(groups["own", site]).owner: ("Q1", 2, 6.0),
                "ann@alpha-vo": ("Q3", 10, 6.0),
            }
            assert rows["ann@alpha-vo"]["priority"] == pytest.approx(-0.4, abs=1e-6)
            assert rows["ann@alpha-vo"]["parts"] == [f"{groups['ann', site]}/0"], "the operator sees whose they are"
            assert view["littles"]["arrived"] == 14 and view["littles"]["left"] == 2
        hers = ann.queue("beta")
        assert {row.user: bool(row.parts) for row in hers.classes} == {
            "ann@alpha-vo": True, status(groups["own", "beta"]).owner: False,
        }  # fmt: skip

        again = asyncio.run(asked(alpha, "beta"))
        assert again.classes[1].priority == pytest.approx(-0.4) and again.classes[1].n == 10

        text = diana(alpha, "queue", "--verbose", "--site", "beta")
        assert "Q3 [-0.5, 0): 10 jobs" in text and "Little's law over" in text
        for site in ("alpha", "beta"):
            said = diana(alpha, "explain", groups["ann", site])
            assert f"10 jobs wait at {site} in Q3 (local), priority -0.400; starts in " in said
            assert "n = 10 queued by ann@alpha-vo is above N = 6 (quota 1 of 2): Pr -0.400" in said
            assert "rises to Q2 after " in said and " or when ann@alpha-vo's n falls to 6 (N = 6)" in said
        assert "Q3 -0.400" in diana(alpha, "status")

        # A site that is gone does not answer; one line says so.
        beta.kill()
        until(lambda: "beta" in diana(alpha, "queue", "--site", "beta", code=4), "one line")
        assert "no site gamma" in diana(alpha, "queue", "--site", "gamma", code=2)
        assert "beta does not answer just now" in diana(alpha, "explain", groups["ann", "beta"])

        beta.start()
        gate.touch()
        for group in groups.values():
            assert operator.wait(group, 60).state == "done"
        until(lambda: operator.queue().littles.left == 14, "all have left the queue")
