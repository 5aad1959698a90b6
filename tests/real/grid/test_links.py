"""SPEC D10, links, on real nodes: measured, told to the others, remembered over a restart, shown while out of reach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


def diana(site: Site, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "diana.cli", *words, "--data", str(site.data)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=site.environment())
    assert ended.returncode == code, ended
    return ended.stdout if code == 0 else ended.stderr


def rows(site: Site) -> dict[tuple[str, str], Any]:
    with site.client() as client:
        return {(row.source, row.target): row for row in client.links().links}


def test_links_are_measured_told_kept_and_shown(grid: Grid, tmp_path: Path) -> None:
    alpha, beta, gamma = grid.add("alpha", 1), grid.add("beta", 1), grid.add("gamma", 1)
    grid.settings(ping_every_s=0.3, link_history_every_s=1.0)
    grid.join()
    grid.start()
    names = ("alpha", "beta", "gamma")
    pairs = {(a, b) for a in names for b in names if a != b}

    def whole_map() -> bool:
        seen = rows(alpha)
        return set(seen) == pairs and all(row.bytes_per_s > 0 and row.rtt_s > 0 for row in seen.values())

    until(whole_map, lambda: str(rows(alpha)), 40)
    until(lambda: rows(alpha)["beta", "alpha"].rtt_error_s > 0, "round trips have errors", 20)
    own = rows(alpha)["beta", "alpha"]
    assert own.rtt_s < 1 and own.bytes_per_s > 1e5 and own.loss == 0 and own.rtt_predictor and not own.told

    found = json.loads(diana(alpha, "links", "--paths", "alpha", "--json"))
    assert {near["site"] for near in found["near"]} == {"beta", "gamma"}
    assert all(near["shortest"][0] == "alpha" and near["widest"][-1] == "alpha" for near in found["near"])
    assert {line.split()[0] for line in diana(alpha, "links", "--from", "beta").splitlines()[1:]} == {"beta"}
    assert "no site nowhere known" in diana(alpha, "links", "--from", "nowhere", code=2)

    for site in (alpha, beta, gamma):
        site.terminate()
    alpha.start()
    again = {(row["source"], row["target"]): row for row in json.loads(diana(alpha, "links", "--json"))["links"]}
    assert set(again) == {("beta", "alpha"), ("gamma", "alpha")}, "peers' maps are told anew, own links remembered"
    assert all(row["bytesPerS"] > 0 and row["ageS"] > 0 for row in again.values())
