"""A pair of machines of which one is upgraded: first the one that follows (docs/upgrade.md)."""

from __future__ import annotations

import pytest

from diana import __version__
from tests.e2e.grid import Grid, Site, Starts, until
from tests.real.old_code import RELEASE, OldCode, OldSite, of_both
from tests.real.pairs import add_standby, durability, in_sync, takes_over

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

JOBS = 40


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> OldCode:
    return OldCode(tmp_path_factory.mktemp("release"))


def pair_of_both(grid: Grid, old: OldCode) -> tuple[OldSite, Site]:
    """(leader of that release, its standby of this one), in sync."""
    leader = of_both(grid, old, slots=0)[0]
    text = leader.paths.config.read_text()
    spare = add_standby(grid, leader, "new")
    # As it was written there, not by today's code.
    leader.paths.config.write_text(text.replace('#witness = ""', 'witness = "new"'))
    spare.launch()
    in_sync(leader, other=spare)
    return leader, spare


def test_a_standby_of_this_release_follows_a_leader_of_the_other_and_takes_over(
    grid: Grid, starts: Starts, old: OldCode
) -> None:
    leader, spare = pair_of_both(grid, old)
    with leader.client() as client:
        assert client.info().release == RELEASE
        group = client.submit(starts.job(JOBS, then=("sleep", "0.2"))).group
        assert client.status([group])[0].durability == 2
    starts.wait_for(10)
    leader.kill()
    takes_over(spare)
    with spare.client() as client:
        assert client.info().release == __version__
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), (status, spare.story())
    assert starts.count() == JOBS
    # And the machine that led comes back as it is upgraded.
    leader.upgraded(grid).launch()
    until(lambda: durability(spare) == 2, lambda: f"it follows\n{grid.story()}", 40, 0.1)


def test_the_machine_that_is_not_upgraded_yet_follows_this_release_and_takes_over(
    grid: Grid, starts: Starts, old: OldCode
) -> None:
    """The middle of an upgrade: the standby leads by now, the other machine is still to be upgraded."""
    older, spare = pair_of_both(grid, old)
    older.kill()
    takes_over(spare)
    older.launch()
    in_sync(spare, other=older)
    with spare.client() as client:
        assert client.info().release == __version__
        group = client.submit(starts.job(JOBS, then=("sleep", "0.2"))).group
        assert client.status([group])[0].durability == 2
    starts.wait_for(10)
    spare.kill()
    takes_over(older)
    with older.client() as client:
        assert client.info().release == RELEASE
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), (status, older.story())
    assert starts.count() == JOBS and not starts.doubled()
