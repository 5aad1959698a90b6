"""Runners of gangs on real nodes: torchrun's variables serve a rendezvous, and operators install runners of their own
(SPEC K6)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from diana.adapters.lrm.runners.installed import GROUP
from diana.client import Client
from diana.errors import UsageError
from tests.e2e.grid import Grid, outcomes, until
from tests.entry_points import install

pytestmark = pytest.mark.e2e
STORE = Path(__file__).parents[1] / "tcp_store.py"
LAB = """
import os
from diana.adapters.lrm.runners.interface import Launch

def torchlike(gang):
    if "LAB_BROKEN" in os.environ:
        raise OSError("no licence server")
    nodes = 'echo "node $NODE_RANK of $NNODES at $DIANA_SITE, ranks of ' + str(gang.processors) + '"; exec "$@"'
    return Launch(("sh", "-c", nodes, "torchlike"), ("sh",))
"""


def said(client: Client, group: str, count: int) -> list[str]:
    return [b"".join(part.data for part in client.logs(f"{group}.{index}")).decode() for index in range(count)]


def job(components: list[dict[str, object]], runner: str, *command: str) -> dict[str, object]:
    return {"group": {"command": list(command)}, "components": components, "gang": {"runner": runner}}


def lab(grid: Grid, monkeypatch: pytest.MonkeyPatch, slots: int, broken: str = "") -> None:
    """Three sites whose operators installed a runner, which raises at `broken`."""
    folder = grid.root / "lab"
    folder.mkdir()
    install(folder, "lab_runners", LAB, GROUP, ["torchlike"])
    for name in ("alpha", "beta", "gamma"):
        site = grid.add(name, slots)
        given = site.environment()
        given["PYTHONPATH"] += f"{os.pathsep}{folder}"
        given |= {"LAB_BROKEN": "1"} if name == broken else {}
        monkeypatch.setattr(site, "environment", lambda given=given: given)
    grid.join()
    grid.start()


def test_processes_at_three_sites_meet_by_torchrun_s_variables_alone(grid: Grid) -> None:
    sites = [grid.add(name, 1) for name in ("alpha", "beta", "gamma")]
    grid.join()
    grid.start()
    with sites[0].client() as client:
        some: list[dict[str, object]] = [{"site": name} for name in ("gamma", "alpha", "beta")]
        group = client.submit(job(some, "env", sys.executable, str(STORE))).group
        assert client.wait(group, timeout_s=60).state == "done"
        assert set(said(client, group, 3)) == {"0/3@gamma 1/3@alpha 2/3@beta\n"}


def test_an_installed_runner_starts_the_components_and_its_name_is_known(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab(grid, monkeypatch, slots=2)
    with grid.sites["alpha"].client() as client:
        some: list[dict[str, object]] = [{"site": "beta", "cpus": 2}, {"site": "gamma", "cpus": 1}]
        group = client.submit(job(some, "torchlike", sys.executable, str(STORE))).group
        assert client.wait(group, timeout_s=60).state == "done"
        met = "0/2@beta 1/2@gamma\n"
        assert said(client, group, 2) == [
            f"node 0 of 2 at beta, ranks of 2\n{met}",
            f"node 1 of 2 at gamma, ranks of 1\n{met}",
        ]
        with pytest.raises(UsageError, match=r"gang\.runner: 'torchlik': no such runner; did you mean torchlike\?"):
            client.submit(job(some, "torchlik", "true"))


def test_a_runner_that_fails_at_one_site_sends_the_gang_to_the_others(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beta is the emptiest, so that it is asked first; nothing begins there."""
    lab(grid, monkeypatch, slots=1, broken="beta")
    with grid.sites["alpha"].client() as client:
        wanted = job([{"cpus": 1}, {"cpus": 1}], "torchlike", "true")
        busy = [client.submit(job([{"site": site}], "none", "sleep", "6")).group for site in ("alpha",)]
        until(lambda: client.status(busy[0])[0].running == 1, "alpha is busy", 30)
        group = client.submit(wanted).group
        until(lambda: "no licence server" in str(client.explain(group)), "the site's words are told", 60)
        assert client.wait(group, timeout_s=90).state == "done"
        assert set(outcomes(client, group).values()) == {"done"}
        assert sorted(line.split(" at ")[1].split(",")[0] for line in said(client, group, 2)) == ["alpha", "gamma"]


def test_a_runner_that_fails_where_a_component_has_to_run_fails_the_gang_with_its_words(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab(grid, monkeypatch, slots=1, broken="beta")
    with grid.sites["alpha"].client() as client:
        some: list[dict[str, object]] = [{"site": "alpha"}, {"site": "beta"}]
        group = client.submit(job(some, "torchlike", "true")).group
        assert client.wait(group, timeout_s=120).state != "done"
        errors = [each.error for each in client.results(group)]
        assert any("runner torchlike failed: OSError: no licence server" in text for text in errors), errors
        assert not any(said(client, group, 2))
