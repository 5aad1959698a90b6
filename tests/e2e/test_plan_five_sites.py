"""The papers' five clusters as real nodes: `diana plan` of co-allocated jobs gives the places of their tables, says how
old that is which it rests on, and what would fit where nothing does (SPEC K1-K3, K8)."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from diana.policy.gang.policies import POLICIES, request_in
from diana.policy.gang.requests import GangPlacement, Rooms, SiteRoom
from tests.docs.replay import pattern, steps
from tests.e2e.grid import REPO, Grid, Site, until

pytestmark = pytest.mark.e2e

DAS = {"vu": 67, "uva": 20, "delft": 26, "utrecht": 28, "leiden": 19}
"""Processors of the clusters (SPEC K2)."""
BUSY, JOBS = 20, 4
HEARD = "idle processors, as the sites told them "


def das(grid: Grid) -> Site:
    for name, slots in DAS.items():
        grid.add(name, slots)
    grid.join()
    grid.start()
    return grid.sites["vu"]


def plan(grid: Grid, at: Site, *words: str) -> tuple[int, str, str]:
    done = grid.run(at, "plan", "--data", str(at.data), *words)
    return done.returncode, done.stdout, done.stderr


def printed(grid: Grid, at: Site, *words: str) -> list[str]:
    """Return the places in the table of a plan, `16@vu`; it has to say when the sites told what it rests on."""
    code, out, err = plan(grid, at, *words)
    assert code == 0, err
    assert re.search(HEARD + r"(just|up to [\d.m]+ ?s) before the decision:\nSITE.* HEARD\n", out), out
    table = out.partition("its components:\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [line.split()[:3] for line in table]
    return [f"{cpus}@{site}" for _, site, cpus in rows]


def told(grid: Grid, at: Site, *words: str) -> tuple[list[str], dict[str, int]]:
    """Return the places of a plan and what was idle, by `--json`; each site has an age."""
    code, out, err = plan(grid, at, "--json", *words)
    assert code == 0, err
    gang = json.loads(out)["decision"]["gang"]
    assert all(site["ageS"] >= 0 for site in gang["sites"])
    places = [f"{each['processors']}@{each['site']}" for each in gang["components"]]
    return places, {site["site"]: site["idle"] for site in gang["sites"]}


def by_policy(policy: str, request: str, idle: dict[str, int]) -> list[str]:
    rooms = Rooms([SiteRoom(name, idle[name], total) for name, total in DAS.items()])
    answer = POLICIES[policy](request_in(request), rooms, lambda source, site, size: 0.0, None)
    assert isinstance(answer, GangPlacement), answer
    return [f"{part.processors}@{part.site}" for part in answer.parts]


def test_plans_on_five_sites_are_those_of_the_papers_and_others_once_processors_are_busy(grid: Grid) -> None:
    vu = das(grid)
    flexible = ("--flexible", "72", "--", "true")
    assert printed(grid, vu, *flexible) == ["67@vu", "5@utrecht"] == by_policy("flexible-min", "flexible 72", DAS)
    assert told(grid, vu, *flexible) == (["67@vu", "5@utrecht"], DAS)
    assert printed(grid, vu, "--components", "4x16", "--", "true") == ["16@vu", "16@vu", "16@vu", "16@utrecht"]
    packed = ("--components", "4x16", "--set", "gang.placement=cluster-min", "--", "true")
    assert printed(grid, vu, *packed) == ["16@vu"] * 4
    assert printed(grid, vu, "--components", "3x24", "--", "true") == ["24@vu", "24@vu", "24@utrecht"]

    with vu.client() as client:
        # Few wide jobs: of many, a machine that has run none yet begins with a few.
        held = {"group": {"command": "sleep 900", "sites": ["vu"]}, "sweep": {"array": f"1-{JOBS}"}}
        group = client.submit({**held, "resources": {"cpus": BUSY // JOBS}}).group
        until(lambda: client.status(group)[0].running == JOBS, "twenty processors of vu are busy")
        idle = {**DAS, "vu": DAS["vu"] - BUSY}
        expected = by_policy("flexible-min", "flexible 72", idle)
        assert printed(grid, vu, *flexible) == ["47@vu", "25@utrecht"] == expected
        assert told(grid, vu, *flexible) == (expected, idle)
        # As another site sees it.
        assert told(grid, grid.sites["delft"], *flexible) == (expected, idle)
        client.cancel(group)


def test_what_no_five_sites_give_is_told_in_one_line_with_what_would_fit(grid: Grid) -> None:
    vu = das(grid)
    code, _, err = plan(grid, vu, "--flexible", "161", "--", "true")
    assert (code, err.count("\n")) == (3, 1)
    assert "161 processors are wanted; all sites together have 160 idle" in err and "--flexible 160 is the most" in err
    code, _, err = plan(grid, vu, "--components", "9x16", "--", "true")
    assert (code, err.count("\n")) == (3, 1) and "--components 8x16 is the most that fits" in err, err
    code, _, err = plan(grid, vu, "--components", "1x8@utrech", "--", "true")
    assert (code, err) == (2, "diana: component at utrech: no site known here; did you mean utrecht?\n")

    folder = grid.root / "grid-6"
    folder.mkdir()
    (folder / "a.dat").write_bytes(bytes(2_000_000))
    delft = grid.sites["delft"]
    assert grid.run(delft, "datasets", "add", "--data", str(delft.data), "grid-6", str(folder)).returncode == 0
    job = near_its_file(grid.root)
    with vu.client() as client:
        until(lambda: {each.name for each in client.datasets()} == {"grid-6"}, "vu knows the dataset")
    code, out, err = plan(grid, vu, str(job))
    assert code == 0, err
    table = out.partition("its components:\n")[2].partition("\n\n")[0].splitlines()
    assert table[0].split() == ["COMPONENT", "SITE", "CPUS", "FILES", "FROM", "BYTES", "IN", "TRANSFER", "WHY"]
    held, far = table[1].split(), table[2].split()
    assert held[:3] == ["sim", "delft", "16"] and table[1].endswith("has its files, takes 16 of 26 idle"), table
    assert far[:6] == ["view", "utrecht", "8", "delft", "2.0", "MB"], table
    assert table[2].endswith("the job names it, takes 8 of 28 idle") and "its components" in out


def test_the_page_on_co_allocation_does_what_it_shows(grid: Grid) -> None:
    vu, folder, delft = das(grid), grid.root / "home", grid.sites["delft"]
    folder.mkdir()
    (folder / "a.dat").write_bytes(bytes(2_000_000))
    grid.run(delft, "datasets", "add", "--data", str(delft.data), "grid-6", str(folder / "a.dat"))
    with vu.client() as client:
        until(lambda: {each.name for each in client.datasets()} == {"grid-6"}, "vu knows the dataset")
    typed = 0
    for step in steps(REPO / "docs" / "co-allocation.md"):
        if step.file:
            (folder / step.file).write_text(step.content)
            continue
        program, verb, *words = shlex.split(step.command)
        assert program == "diana"
        done = grid.run(vu, verb, "--data", str(vu.data), *words, folder=folder)
        # How far it is while it waits is not of the page.
        said = done.stderr if done.returncode else done.stdout
        lines = "".join(f"{' '.join(line.split())}\n" for line in said.splitlines())
        assert pattern(step.shown).fullmatch(lines), f"line {step.line}: $ {step.command}\n{said}{done.stderr}"
        typed += 1
    assert typed > 6


def near_its_file(folder: Path) -> Path:
    job = folder / "near.toml"
    job.write_text(
        '[group]\ncommand = "true"\n[[components]]\nname = "sim"\ncpus = 16\n'
        '[[components]]\nname = "view"\ncpus = 8\nsite = "utrecht"\n'
        '[[inputs]]\nurl = "dataset:grid-6/a.dat"\npath = "a.dat"\n'
    )
    return job
