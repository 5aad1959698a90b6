"""A data directory that is deleted under a running node is noticed within seconds: node and spawner end, the jobs that
nobody could ever ask for end with them, and nothing is made anew at its place (PROMISES section 3)."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from tests.e2e.grid import PATIENCE_S, Grid, Site, Starts, crowding, is_alive, timely, until
from tests.real.members import add_member

pytestmark = pytest.mark.e2e

SAID = "the data directory was moved or deleted while its node ran; its files are gone, and"
WITHIN_S = 15.0


@pytest.mark.parametrize("what", ["all of it", "all that is in it", "a member's"])
def test_a_node_whose_directory_is_deleted_ends_and_makes_none(grid: Grid, starts: Starts, what: str) -> None:
    alpha = grid.add("alpha", slots=0 if what == "a member's" else 2)
    alpha.start()
    site: Site = alpha
    if what == "a member's":
        site = add_member(grid, alpha, "m1", slots=2)
        site.start()
    with alpha.client() as client:
        client.submit(starts.job(4, then=["sleep", "60"]))
    starts.wait_for(2)
    spawner, jobs = site.spawner_pid(), [start.pid for start in starts.all()]
    begun_s = time.monotonic()
    # As an operator does it: rm goes over what the node makes meanwhile, or gives up on it.
    deleted = str(site.data) if what != "all that is in it" else f"{site.data}/*"
    subprocess.run(["sh", "-c", f"rm -rf {deleted}"], check=False, stderr=subprocess.DEVNULL)
    assert site.process is not None and site.process.wait(PATIENCE_S * crowding()) == 2
    timely(time.monotonic() - begun_s, WITHIN_S, "its end")
    last = site.output.read_text().splitlines()[-1]
    assert last.startswith(f"diana: {site.data}: {SAID}"), site.output.read_text()
    assert "Traceback" not in site.output.read_text()
    until(lambda: not is_alive(spawner) and not any(map(is_alive, jobs)), "spawner and jobs end", 10.0)
    left = [os.path.join(folder, name) for folder, _, names in os.walk(site.data) for name in names]
    assert not (site.data / "lock").exists() and not site.paths.journal.exists(), left
    assert site.data.exists() == (what == "all that is in it") and not left, left
    # What an operator is to see here is not what a grid has to complain of.
    site.output.unlink()
    if site is not alpha:
        alpha.complaints = list  # type: ignore[method-assign]
