"""A member machine is looked at and stopped like any node (SPEC D8, U10), and a data directory that is moved under its
node is not made anew (PROMISES section 3)."""

from __future__ import annotations

import json

import pytest

from diana.model.layout import DataDir
from tests.e2e.grid import PATIENCE_S, Grid, Site, Starts, until
from tests.real.members import add_member

pytestmark = pytest.mark.e2e

MOVED = "the data directory was moved or deleted while its node ran"


def said(grid: Grid, site: Site, *words: str) -> str:
    done = grid.run(site, *words, "--data", str(site.data))
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return done.stdout


def rows(grid: Grid, site: Site) -> dict[str, dict[str, str]]:
    done = grid.run(site, "doctor", "--data", str(site.data), "--json", within_s=60.0)
    return {row["name"]: row for row in json.loads(done.stdout)["checks"]}


def test_a_member_says_how_it_is_on_its_own_socket_and_stops_at_an_operators_word(grid: Grid, starts: Starts) -> None:
    root = grid.add("alpha", slots=0)
    grid.join()
    root.start()
    member = add_member(grid, root, "m1", slots=2)
    member.start()
    with root.client() as client:
        gate = grid.root / "gate"
        there = ["sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.1; done"]
        group = client.submit(starts.job(2, then=there)).group
        starts.wait_for(2)
        line = said(grid, member, "status").strip()
        assert line.startswith(f"machine m1 of site alpha: attached to {root.address} for "), line
        assert line.endswith("; 2 slots, 2 jobs given, 0 fetching inputs"), line
        found = rows(grid, member)
        assert found["RootGrid"]["state"] == found["node"]["state"] == "ok", found
        assert found["RootGrid"]["found"].startswith(f"attached to {root.address} for "), found
        elsewhere = grid.run(member, "status", group, "--data", str(member.data))
        assert elsewhere.returncode != 0 and f"ask the machine at {root.address}" in elsewhere.stderr
        root.kill()
        until(lambda: "attached to nobody for " in said(grid, member, "status"), "the loss shows", 20.0, 0.3)
        assert rows(grid, member)["RootGrid"]["state"] == "fail"
        root.start()
        member.ready()
        until(lambda: "attached to 127" in said(grid, member, "status"), "it is back", 10.0, 0.3)
        assert "stopping; 2 running jobs run on" in said(grid, member, "stop")
    assert member.process is not None and member.process.wait(PATIENCE_S) == 0
    assert not member.paths.socket.exists()
    gate.touch()
    member.start()
    with root.client() as client:
        assert client.wait(group, timeout_s=40).state == "done"
    assert not starts.doubled()


@pytest.mark.parametrize("role", ["site", "member"])
def test_a_node_whose_data_directory_is_moved_ends_loudly_and_goes_on_at_the_new_place(
    grid: Grid, starts: Starts, role: str
) -> None:
    root = grid.add("alpha", slots=0 if role == "member" else 2)
    grid.join()
    root.start()
    site: Site = root
    if role == "member":
        site = add_member(grid, root, "m1", slots=2)
        site.start()
    with root.client() as client:
        group = client.submit(starts.job(3, then=["sleep", "14"])).group
    starts.wait_for(2)
    old, new = site.data, site.data.with_name("moved")
    old.rename(new)
    assert site.process is not None and site.process.wait(PATIENCE_S) != 0
    assert MOVED in site.output.read_text() and MOVED in (new / "node.log").read_text()
    assert not old.exists()
    # What an operator is to see here is not what a grid has to complain of.
    for path in (site.output, new / "node.log", new / "spawner" / "spawner.log"):
        path.unlink()
    site.data, site.paths = new, DataDir(new)
    site.start()
    with root.client() as client:
        status = client.wait(group, timeout_s=60)
    assert status.state in ("done", "failed", "held") and not starts.doubled(), f"{status}\n{grid.story()}"
    assert {start.index for start in starts.all()} == {0, 1, 2}
    assert not old.exists()
