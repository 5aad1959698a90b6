"""An older copy of a site's database is put back in the middle of a group (PROMISES section 2 "Database lost or
restored", section 4): nothing is started twice unasked, nothing vanishes, and what nobody can know is shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from diana.adapters.sqlite_store.seeding import online_copy
from diana.client import Client
from diana.model.views.group import GroupStatus
from tests.e2e.grid import Grid, Site, Starts, outcomes, until

pytestmark = pytest.mark.e2e

JOBS = 60
END_S = 90.0


def begun(grid: Grid, starts: Starts) -> tuple[Site, Site, str]:
    """A group of alpha's runs at beta, a third of it so far."""
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 4)
    grid.join()
    grid.settings(resend_most_s=2.0)
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, then=("sleep", "0.4"), sites=["beta"])).group
    return alpha, beta, group


def copied(site: Site) -> Path:
    copy = site.data.with_name(f"{site.name}.copy")
    online_copy(site.paths.journal, copy)
    return copy


def put_back(site: Site, copy: Path) -> None:
    """The mistake of an operator who knows no better: the file alone, over the one of a node that died."""
    site.kill()
    for end in ("-wal", "-shm"):
        site.paths.journal.with_name(f"journal.db{end}").unlink(missing_ok=True)
    shutil.copy(copy, site.paths.journal)


def status(client: Client, group: str) -> GroupStatus:
    return client.status([group])[0]


def settled(grid: Grid, site: Site, group: str) -> GroupStatus:
    """Each of its jobs is done or shown as what nobody can know."""

    def over() -> bool:
        with site.client() as client:
            seen = status(client, group)
            return seen.done + seen.held + seen.unreachable == JOBS and not seen.running

    def story() -> str:
        with site.client() as client:
            return f"{status(client, group)}\n{grid.story()}"

    until(over, story, END_S, 0.2)
    with site.client() as client:
        return status(client, group)


@pytest.mark.parametrize("marked", [True, False], ids=["with its mark", "without"])
def test_an_old_copy_at_a_destination_is_noticed_before_its_first_start(
    grid: Grid, starts: Starts, marked: bool
) -> None:
    """By itself, from the mark beside the journal; or, where that is gone too, by the origin's word."""
    alpha, beta, group = begun(grid, starts)
    starts.wait_for(8)
    copy = copied(beta)
    with alpha.client() as client:
        until(lambda: status(client, group).done >= 24, lambda: f"some are done\n{grid.story()}", END_S)
    put_back(beta, copy)
    if not marked:
        beta.paths.mark.unlink()
        beta.paths.mark_twin.unlink()
    beta.start()
    seen = settled(grid, alpha, group)
    assert not starts.doubled()
    assert seen.unreachable, "what had not started when it was killed may have run, for all that anybody knows"
    assert seen.done >= 24
    assert "beta" in seen.note
    assert not seen.final
    if not marked:
        # Its origin speaks at once, and then it starts anew.
        log = beta.paths.node_log
        until(lambda: "site beta stops" in log.read_text(), lambda: f"it ends\n{beta.story()}", END_S)
        beta.ready()


def test_an_origin_with_an_old_copy_is_told_what_its_peers_hold_and_holds_what_they_finished(
    grid: Grid, starts: Starts
) -> None:
    alpha, beta, group = begun(grid, starts)
    starts.wait_for(4)
    copy = copied(alpha)
    with alpha.client() as client:
        until(lambda: status(client, group).done >= 24, lambda: f"some are done\n{grid.story()}", END_S)
    put_back(alpha, copy)
    alpha.start()
    with alpha.client() as client:
        until(lambda: not status(client, group).unreachable, lambda: f"beta tells\n{grid.story()}", END_S)
    seen = settled(grid, alpha, group)
    assert not starts.doubled()
    assert seen.held
    assert "diana retry --held" in seen.note
    with alpha.client() as client:
        client.release(group)
        client.retry(group, held=True)
        until(lambda: status(client, group).final, lambda: f"{status(client, group)}\n{grid.story()}", END_S, 0.2)
        assert status(client, group).done == JOBS
        assert len(outcomes(client, group)) == JOBS
    refused = grid.run(alpha, "site", "go-on", "beta", "--data", str(alpha.data))
    assert "alpha does not wait for beta; it waits for nobody" in refused.stderr
    again = starts.doubled()
    assert len(again) == seen.held
    assert all(len(some) == 2 for some in again.values())
    assert starts.sites() == {"beta"}
    assert beta.process is not None


FAILS_THEN_RUNS = 'if mkdir "$0.failed"; then exit 1; fi; until test -e "$0.end"; do sleep 0.2; done'


@pytest.mark.parametrize("marked", [True, False], ids=["with its mark", "without"])
def test_a_job_tried_again_at_home_since_the_copy_runs_on_and_ends_once(
    grid: Grid, starts: Starts, marked: bool
) -> None:
    """By itself, from the mark beside the journal; or, where that is gone too, by what its spawner runs: no peer knows
    of it."""
    alpha, path = grid.add("alpha", 2), grid.root / "long"
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(1, then=("sh", "-c", FAILS_THEN_RUNS, str(path)))).group
        until(lambda: status(client, group).final, lambda: f"it fails\n{grid.story()}", END_S)
        copy = copied(alpha)
        assert client.retry(group) == 1
    starts.wait_for(2)
    put_back(alpha, copy)
    if not marked:
        alpha.paths.mark.unlink()
        alpha.paths.mark_twin.unlink()
        alpha.launch()
        log = alpha.paths.node_log
        until(lambda: "site alpha stops" in log.read_text(), lambda: f"it starts anew\n{alpha.story()}", END_S)
        alpha.ready()
    else:
        alpha.start()
    with alpha.client() as client:
        until(lambda: status(client, group).running == 1, lambda: f"it is found\n{grid.story()}", END_S)
        assert "restored from a backup" in status(client, group).note
        assert f"diana release {group}" in status(client, group).note
    refused = grid.run(alpha, "retry", "--held", group, "--data", str(alpha.data))
    assert refused.returncode and f"{group} has no failed or held jobs to retry" in refused.stderr
    with alpha.client() as client:
        client.release(group)
        assert status(client, group).running == 1
        assert starts.count() == 2
        path.with_name("long.end").touch()
        until(lambda: status(client, group).final, lambda: f"{status(client, group)}\n{grid.story()}", END_S)
        assert (status(client, group).done, len(outcomes(client, group))) == (1, 1)
    assert starts.count() == 2
