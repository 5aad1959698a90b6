"""One name, one site (SPEC U1, "two sites of one name"; PROMISES 5.2): a name given out is remembered by the other
signers through restart and loss; and where two nodes show one name all the same, both are named, with the mend."""

from __future__ import annotations

import json
import shutil

import msgspec
import pytest

from diana.node.config.setup import init_site
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, free_port, until
from tests.real.joining import first, invited, joined, refused

pytestmark = pytest.mark.e2e


def checks(grid: Grid, site: Site, name: str) -> list[dict[str, str]]:
    """The doctor's complaint under this name."""
    done = grid.run(site, "doctor", "--data", str(site.data), "--json")
    found: list[dict[str, str]] = json.loads(done.stdout)["checks"]
    return [row for row in found if row["name"] == name and row["state"] == "fail"]


def note(site: Site, of: str) -> str:
    with site.client() as client:
        return next((row.note for row in client.sites() if row.site == of), "")


def test_a_name_outlives_the_restart_of_one_signer_and_the_loss_of_the_other(grid: Grid) -> None:
    """The site that has it was never started, so that nobody but its inviter ever met it."""
    alpha = first(grid)
    beta = joined(grid, alpha, "beta")
    beta.start()
    grid.meet()
    joined(grid, alpha, "gamma")
    del grid.sites["gamma"]
    until(lambda: grid.run(beta, "invite", "--data", str(beta.data), "--site", "gamma").returncode, "beta hears", 10)
    beta.kill()
    beta.start()
    assert alpha.terminate() == 0
    shutil.rmtree(alpha.data)
    del grid.sites["alpha"]
    beta.terminate()
    beta.start()
    for taken in ("alpha", "gamma"):
        said = grid.run(beta, "invite", "--data", str(beta.data), "--site", taken)
        assert said.returncode == 2 and f"site {taken}: that name is taken" in said.stderr
    token = invited(grid, beta)
    assert "site gamma: that name is taken" in refused(grid, beta, "join", token, "gamma")
    assert invited(grid, beta, "--site", "gamma", "--again")
    done = grid.run(beta, "join", token, "delta", "--data", str(grid.root / "delta"))
    assert done.returncode == 0, done.stderr


def test_two_nodes_of_one_name_are_both_named_with_the_mend(grid: Grid) -> None:
    alpha, beta, gamma = (grid.add(name, 1) for name in ("alpha", "beta", "gamma"))
    grid.join()
    grid.start()
    twin = Site("gamma", grid.root / "gamma-again", free_port(), grid.mark)
    init_site(twin.data, "gamma", None, alpha.data, 1, twin.address)
    config = load_config(twin.paths.config)
    peers = (alpha.address, beta.address)
    write_config(twin.paths.config, msgspec.structs.replace(config, peers=peers, zeroconf=False))
    grid.sites["gamma-again"] = twin
    twin.start()
    for site in (alpha, beta):
        until(lambda site=site: note(site, "gamma").startswith("two nodes: "), f"{site.name} tells of it", 40, 0.3)
        (row,) = checks(grid, site, "name gamma")
        assert gamma.address in row["found"] and twin.address in row["found"], row
        assert "stop one of them" in row["mend"]
        told = grid.run(site, "peers", "--data", str(site.data)).stdout
        assert f"the other is refused at {twin.address}" in told, told
    # The one that is refused hears it too, and not that its name is banned.
    (row,) = checks(grid, twin, "trust")
    assert row["found"].startswith("alpha, beta refuse this site: two nodes are called gamma"), row
    assert "stop this node or the other" in row["mend"]
    assert not checks(grid, gamma, "trust") and note(alpha, "beta") == ""
