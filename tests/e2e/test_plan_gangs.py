"""Jobs of several components, planned over three real nodes by the command line (SPEC K1, K2)."""

from __future__ import annotations

import json

import pytest

from diana.model.ids import GroupId
from tests.e2e.grid import Grid, until

pytestmark = pytest.mark.e2e

SITES = ("alpha", "beta", "gamma")


def test_plan_shows_where_each_component_goes_and_a_gang_runs_from_submission_to_gathered_outputs(grid: Grid) -> None:
    for name, slots in (("alpha", 6), ("beta", 5), ("gamma", 4)):
        grid.add(name, slots)
    grid.join()
    grid.start()
    alpha = grid.sites["alpha"]

    def said(verb: str, *options: str) -> tuple[int, str, str]:
        done = grid.run(alpha, verb, "--data", str(alpha.data), *options, "--", "true")
        return done.returncode, done.stdout, done.stderr

    code, out, err = said("plan", "--components", "3x3")
    assert code == 0, err
    assert "3 components at 3 sites by worst-fit: alpha, beta, gamma" in out and "WIDEST JOB" in out
    code, out, err = said("plan", "--flexible", "9", "--json")
    pieces = json.loads(out)["decision"]["gang"]["components"]
    assert [(piece["site"], piece["processors"]) for piece in pieces] == [("alpha", 6), ("beta", 3)]
    code, out, err = said("plan", "--flexible", "16")
    assert code == 3 and err.count("\n") == 1 and "all sites together have 15 idle" in err
    script = 'echo "$DIANA_GANG_RANK of $DIANA_GANG_SIZE at $DIANA_SITE" > rank-$DIANA_GANG_RANK.txt'
    gang = ("--components", "1x3@alpha+1x3@beta+1x3@gamma", "--collect", "rank-{component}.txt", "--wait")
    done = grid.run(alpha, "submit", "--data", str(alpha.data), *gang, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    folder = alpha.paths.gathered(GroupId("alpha-1"))
    said_by = {path.name: path.read_text().strip() for path in folder.rglob("rank-*.txt")}
    assert said_by == {f"rank-{rank}.txt": f"{rank} of 3 at {site}" for rank, site in enumerate(SITES)}
    explained = grid.run(alpha, "explain", "--data", str(alpha.data), "alpha-1").stdout
    assert "3 components at 3 sites by worst-fit: alpha, beta, gamma" in explained, explained

    script = 'echo "$DIANA_GANG_RANK of $DIANA_GANG_SIZE at $DIANA_SITE: $(nproc)" > rank-$DIANA_GANG_RANK.txt'
    flexible = ("--flexible", "14", "--collect", "rank-{component}.txt", "--wait")
    done = grid.run(alpha, "submit", "--data", str(alpha.data), *flexible, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    folder = alpha.paths.gathered(GroupId("alpha-2"))
    said_by = {path.name: path.read_text().partition(":")[0] for path in folder.rglob("rank-*.txt")}
    assert said_by == {f"rank-{rank}.txt": f"{rank} of 3 at {site}" for rank, site in enumerate(SITES)}
    explained = grid.run(alpha, "explain", "--data", str(alpha.data), "alpha-2").stdout
    assert "3 components at 3 sites by flexible-min: alpha, beta, gamma, 14 divided as 6+5+3" in explained, explained
    shown = json.loads(grid.run(alpha, "status", "--data", str(alpha.data), "alpha-2", "--json").stdout)
    (shown,) = shown["groups"]
    assert (shown["state"], shown["jobs"], shown["done"]) == ("done", 3, 3), shown


def test_who_asks_about_one_component_is_told_of_its_gang_alone(grid: Grid) -> None:
    for name in ("alpha", "beta"):
        grid.add(name, 2)
    grid.join()
    grid.start()
    alpha = grid.sites["alpha"]

    def said(verb: str, *options: str) -> str:
        done = grid.run(alpha, verb, "--data", str(alpha.data), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with alpha.client() as client:
        said("submit", "--sites", "beta", "--cpus", "2", "--", "sleep", "1000")
        until(lambda: client.status(["alpha-1"])[0].running, "beta is busy")
        said("submit", "--components", "1x1@alpha+1x1@beta", "--", "sleep", "{x}", ":::", "1", "2")
        until(lambda: said("explain", "alpha-2").count("alpha has held 1 processor") == 2, "both hold alpha")
        told, whole, status = said("explain", "alpha-2.2"), said("explain", "alpha-2"), client.status(["alpha-2"])[0]
        client.cancel("alpha-1")
        client.cancel("alpha-2")
    assert "its gang has not begun:\ngang 1: alpha has held" in told and "gang 0" not in told, told
    assert "2 components at 2 sites by worst-fit: alpha, beta" in told, told
    assert "diana explain alpha-2.N: that of the gang of job N" in whole and "not taken yet" not in whole, whole
    assert (status.state, status.running, status.queued) == ("queued", 0, 4), status
