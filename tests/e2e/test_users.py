"""`diana users` on two real nodes: a user's share over both (SPEC D11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diana.client import Client
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, until
from tests.e2e.test_queue import diana, job

pytestmark = pytest.mark.e2e


def test_a_users_share_over_two_sites_is_told_at_either_of_them(grid: Grid, tmp_path: Path) -> None:
    """The operator fills both sites; then ann queues 6 jobs at alpha and 3 at beta, the operator 3 at
    beta: ann has 9 of 12."""
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 1)
    grid.settings(claim_ahead=1, binding="early")
    grid.join()
    grid.start()
    gate = tmp_path / "gate"
    init_user(alpha.data, "ann", tmp_path / "ann")

    def shown(site: object) -> dict[str, object]:
        said: dict[str, object] = json.loads(diana(site, "users", "--json"))  # type: ignore[arg-type]
        return said

    with alpha.client() as operator, Client(address=alpha.address, credential=tmp_path / "ann") as ann:
        groups = [operator.submit(job(gate, 2, site)).group for site in ("alpha", "beta")]
        for site in ("alpha", "beta"):
            until(lambda site=site: not operator.queue(site).queued and operator.queue(site).running == 1, site)  # type: ignore[misc]
        groups += [ann.submit(job(gate, 6, "alpha")).group, ann.submit(job(gate, 3, "beta")).group]
        groups += [operator.submit(job(gate, 3, "beta")).group]
        until(lambda: operator.queue("beta").queued == 6 and operator.queue("alpha").queued == 6, "all queued")
        for site in (alpha, beta):
            until(lambda site=site: shown(site)["asked"] == ["alpha", "beta"], "both answer")  # type: ignore[misc]
            rows = {row["user"].partition("@")[0]: row for row in shown(site)["users"]}  # type: ignore[attr-defined]
            assert (rows["ann"]["queued"], rows["ann"]["queued_share"], rows["ann"]["sites"]) == (9, 0.75, 2)
            assert rows["ann"]["age_s"] < 30
            print(diana(site, "users"))
        gate.touch()
        for group in groups:
            operator.wait(group, timeout_s=60)
