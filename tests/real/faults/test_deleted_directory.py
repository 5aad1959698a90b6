"""A data directory that is deleted under a running node is noticed within seconds: node and spawner end, the jobs that
nobody could ever ask for end with them, and nothing is made anew at its place (PROMISES section 3). So is a journal
that is deleted, moved or replaced alone: nothing is acknowledged that the next start would not find. A claim log is
written anew out of what its spawner knows."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from diana.errors import DianaError
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


@pytest.mark.parametrize(
    ("how", "fate"),
    [
        ("rm journal.db*", "deleted"),
        ("rm journal.db-wal", "deleted"),
        ("mv journal.db elsewhere.db", "moved away"),
        ("mv journal.db* elsewhere", "moved away"),
        ("cp journal.db other && mv -f other journal.db", "deleted, and another file lies in its place"),
        ("mv journal.db elsewhere.db && cp elsewhere.db journal.db", "moved away, and another file lies in its place"),
    ],
)
def test_a_node_whose_journal_goes_acknowledges_nothing_more_and_ends(
    grid: Grid, starts: Starts, how: str, fate: str
) -> None:
    alpha = grid.add("alpha", slots=1)
    (alpha.data / "elsewhere").mkdir()
    alpha.start()
    with alpha.client() as client:
        client.wait(client.submit(starts.job(1)).group, timeout_s=30)
        subprocess.run(["sh", "-c", how], check=True, cwd=alpha.data)
        # At once, before the disk was looked at again.
        with pytest.raises(DianaError):
            client.submit(starts.job(1))
    assert alpha.process is not None and alpha.process.wait(PATIENCE_S * crowding()) == 2
    last = alpha.output.read_text().splitlines()[-1]
    gone = "journal.db-wal" if how == "rm journal.db-wal" else "journal.db"
    assert last.startswith(f"diana: {alpha.data / gone}: the journal was {fate} while its node ran; "), last
    assert ("`diana restore`" if fate.startswith("deleted") else "put it back") in last
    assert "Traceback" not in alpha.output.read_text() and starts.count() == 1
    alpha.output.unlink()
    alpha.owned_up = "the journal was"


def test_a_node_that_is_asked_nothing_ends_as_well_and_goes_on_with_the_journal_that_was_put_back(
    grid: Grid, starts: Starts
) -> None:
    alpha = grid.add("alpha", slots=1)
    alpha.start()
    with alpha.client() as client:
        group = client.submit(starts.job(1)).group
        client.wait(group, timeout_s=30)
    away = alpha.data / "elsewhere.db"
    alpha.paths.journal.rename(away)
    assert alpha.process is not None and alpha.process.wait(PATIENCE_S * crowding()) == 2
    assert not alpha.paths.journal.exists()
    away.rename(alpha.paths.journal)
    alpha.output.unlink()
    alpha.owned_up = "the journal was moved away"
    alpha.start()
    with alpha.client() as client:
        assert client.status([group])[0].state == "done"
        client.wait(client.submit(starts.job(1)).group, timeout_s=30)
    assert starts.count() == 2
