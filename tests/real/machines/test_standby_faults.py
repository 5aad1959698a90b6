"""Faults of a pair beside the loss of a machine: its witness forgets, or comes late; a file is deleted; a third
machine wants to stand by (SPEC D8; PROMISES section 2, Standby)."""

from __future__ import annotations

import time
from contextlib import suppress

import msgspec
import pytest

from diana.errors import DianaError, Overloaded
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, Starts, until
from tests.real.grid.test_old_database import copied, put_back
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


def test_a_pair_whose_two_journals_are_older_copies_takes_nothing_says_so_and_goes_on_as_the_operator_is_told(
    grid: Grid, starts: Starts
) -> None:
    """Marks were taken away, and neither machine's journal is the newest: only what beta heard, and can show."""
    alpha = grid.add("alpha", 0)
    grid.add("beta", 2)
    grid.join()
    grid.start()
    spare = add_standby(grid, alpha, "")
    spare.launch()
    in_sync(alpha, other=spare)
    go = grid.root / "go"
    wait = ("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.2; done")
    with alpha.client() as client:
        old = client.submit(starts.job(1, wait, sites=["beta"])).group
    starts.wait_for(1)
    copies = {site: copied(site) for site in (alpha, spare)}
    with alpha.client() as client:
        gone = client.submit(starts.job(4, sites=["beta"])).group
        client.wait(gone, timeout_s=60)
    ran = len(starts.all())
    alpha.owned_up = "the journals of both machines are older copies: nothing is taken or started"
    for site, copy in copies.items():
        put_back(site, copy)
        for mark in (site.paths.mark, site.paths.mark_twin):
            mark.unlink()
    alpha.launch()
    spare.launch()

    def fell() -> bool:
        with suppress(DianaError), alpha.client() as client:
            return "is an older copy" in client.status([old])[0].note
        return False

    until(fell, lambda: f"beta tells\n{alpha.story()}\n{spare.story()}", IN_SYNC_S, 0.2)
    why = "alpha starts nothing, for its database is an older copy (beta knows a later state of this site's database)"
    mend = "stop this node, then diana site promote --force on the other machine"
    with alpha.client() as client:
        assert client.status([old])[0].note == f"{why}; {mend}"
        assert f"alpha {client.queue().note}" == f"{why}; {mend}"
        with pytest.raises(Overloaded) as refused:
            client.submit({"group": {"command": ["true"]}})
        assert str(refused.value) == f"{why}; {mend}"
    assert alpha.owned_up in alpha.paths.node_log.read_text()
    doctor = grid.run(alpha, "doctor", "--data", str(alpha.data))
    assert doctor.returncode == 1 and "older copy: beta knows a later state" in doctor.stdout, doctor
    assert "on spare: diana site promote --force" in doctor.stdout, doctor

    alpha.terminate()
    force = ("site", "promote", "--force", "--data", str(spare.data))
    until(lambda: grid.run(spare, *force).stdout == "spare leads alpha\n", spare.story, 30.0, 1.0)
    takes_over(spare)
    with spare.client() as client:
        until(lambda: "waits for what main runs" in client.status([old])[0].note, spare.story, 30.0)
    alpha.launch()
    in_sync(spare, other=alpha)
    with spare.client() as client:
        told = lambda: f"{client.status([old])}\n{spare.story()}"  # noqa: E731
        until(lambda: "diana release" in client.status([old])[0].note, told, 30.0)
        fresh = client.submit(starts.job(2, sites=["beta"])).group
        assert fresh not in (old, gone)
        assert client.wait(fresh, timeout_s=60).done == 2
        client.release(old)
        go.touch()
        assert client.wait(old, timeout_s=60).done == 1
    assert len(starts.all()) == ran + 2, "what ran at beta meanwhile ran on"
