"""A site whose machine went down under release 0.1.0 goes on under this one: its data directory as it was left,
with a finished, a running, a queued and a held group."""

from __future__ import annotations

import pytest

from diana.client import Client
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.release.kept import told
from tests.release.make_site import FINISHED
from tests.release.site_of_old import put_up

pytestmark = pytest.mark.e2e

GROUPS = {name: status["group"] for name, status in told("site.json").items()}


def starts(site: Site, name: str) -> int:
    return sum(line.startswith(name) for line in (site.data / "starts").read_text().splitlines())


def queued_is_done(client: Client) -> bool:
    return client.status([GROUPS["queued"]])[0].state == "done"


def test_a_site_left_by_it_goes_on_where_it_was(grid: Grid) -> None:
    site = grid.add("alpha", slots=2)
    put_up(site.data, site.address)
    site.start()
    with site.client() as client:
        until(lambda: queued_is_done(client), lambda: f"what waited is done\n{site.story()}", 20)
        before = {name: status for name, status in told("site.json").items()}
        now = {name: client.status([group])[0] for name, group in GROUPS.items()}
        for name, status in now.items():
            assert (status.owner, status.jobs) == (before[name]["owner"], before[name]["jobs"])
            assert status.submitted_wall_s == pytest.approx(before[name]["submittedWallS"])
        finished, running, queued, held = (now[name] for name in ("finished", "running", "queued", "held"))
        assert (finished.state, finished.done, finished.dataset) == ("done", 3, "made")
        # Nobody knows how far they came, and they may not be run twice without being asked.
        assert (running.done, running.running, running.held, starts(site, "running")) == (0, 0, 2, 2)
        assert (queued.done, starts(site, "queued")) == (3, 3)
        assert (held.held, starts(site, "held")) == (2, 0)
        fetches_what_was_there(client, site, grid)
        keeps_its_word(client, site)
    assert starts(site, "finished") == 3


def fetches_what_was_there(client: Client, site: Site, grid: Grid) -> None:
    group = GROUPS["finished"]
    assert outcomes(client, group) == dict.fromkeys(range(3), "done")
    assert {path.read_text() for path in client.fetch(group, grid.root / "got")} == {f"out of {n}\n" for n in range(3)}
    assert b"".join(chunk.data for chunk in client.logs(f"{group}.1")) == b"says 1\n"
    (made,) = client.datasets()
    assert (made.name, made.files) == ("made", 3)
    assert client.explain(group).group == group


def keeps_its_word(client: Client, site: Site) -> None:
    """Its keys, numbers and holds count."""
    again = client.submit(FINISHED, key="finished")
    assert again.group == GROUPS["finished"]
    new = client.submit({"group": {"command": ["true"], "name": "new"}}).group
    assert new not in GROUPS.values()
    client.release(GROUPS["held"])
    for group in (new, GROUPS["held"]):
        assert client.wait(group, 20).state == "done"
    assert starts(site, "held") == 2
    client.retry(GROUPS["running"], held=True)
    until(lambda: starts(site, "running") == 4, lambda: f"it runs again, for it was asked to\n{site.story()}", 20)
    client.cancel(GROUPS["running"])
    until(lambda: client.status([GROUPS["running"]])[0].state == "cancelled", lambda: f"it ends\n{site.story()}", 20)
