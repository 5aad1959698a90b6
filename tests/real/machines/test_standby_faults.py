"""Faults of a pair beside the loss of a machine: its witness forgets, or comes late; a file is deleted; a third
machine wants to stand by (SPEC D8; PROMISES section 2, Standby)."""

from __future__ import annotations

import time

import msgspec
import pytest

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, until
from tests.real.pairs import IN_SYNC_S, add_standby, durability, in_sync, takes_over

pytestmark = pytest.mark.e2e


def witness_of(site: Site) -> str:
    with site.client() as client:
        return client.peers().witness


@pytest.mark.parametrize("named", ["", "beta"])
def test_a_pair_whose_witness_is_not_there_yet_takes_it_once_it_comes_and_survives_its_leader(
    grid: Grid, named: str
) -> None:
    alpha = grid.add("alpha", 1)
    spare = add_standby(grid, alpha, named)
    alpha.start()
    spare.launch()
    told = lambda: f"alpha has a standby in sync\n{alpha.story()}\n{spare.story()}"  # noqa: E731
    until(lambda: durability(alpha) == 2, told, IN_SYNC_S, 0.1)
    assert witness_of(alpha) == ""
    beta = grid.add("beta", 1)
    config = load_config(beta.paths.config)
    write_config(beta.paths.config, msgspec.structs.replace(config, peers=(alpha.address, spare.address)))
    beta.start()
    until(
        lambda: durability(alpha) == 2 and witness_of(alpha) == "beta",
        lambda: f"beta is the witness\n{alpha.story()}\n{spare.story()}",
        2 * IN_SYNC_S,
        0.2,
    )
    # With no question to the witness under way: gRPC complains of a caller that dies while it is answered.
    time.sleep(1.5)
    alpha.kill()
    takes_over(spare)
    alpha.launch()
    in_sync(spare)


def test_a_machine_of_a_pair_without_its_promises_does_not_serve_and_follows_when_told_to(grid: Grid) -> None:
    alpha = grid.add("alpha", own_vo=True)
    alpha.start()
    spare = add_standby(grid, alpha, "")
    spare.launch()
    in_sync(alpha)
    done = grid.run(alpha, "site", "promote", "--data", str(alpha.data))
    assert done.returncode == 0, done
    takes_over(spare)
    in_sync(spare)
    assert alpha.terminate() == 0
    (alpha.data / "replica.json").unlink()
    refused = grid.run(alpha, "node", "--data", str(alpha.data))
    assert refused.returncode == 2 and "replica.json: missing" in refused.stderr, refused
    assert refused.stderr.count("\n") == 1
    text = alpha.paths.config.read_text()
    alpha.paths.config.write_text(f'role = "standby"\nroot = ["{spare.address}"]\n{text}')
    assert load_config(alpha.paths.config).role == "standby"
    alpha.launch()
    in_sync(spare)


def test_a_third_machine_does_not_disturb_the_two(grid: Grid) -> None:
    alpha = grid.add("alpha", own_vo=True)
    alpha.start()
    spare = add_standby(grid, alpha, "")
    spare.launch()
    in_sync(alpha, other=spare)
    third = add_standby(grid, alpha, "", "third")
    third.launch()
    until(
        lambda: "a site has one standby" in third.story(),
        lambda: f"the third machine is refused\n{third.story()}",
        IN_SYNC_S,
        0.2,
    )
    assert durability(alpha) == 2 and durability(third) == 0
