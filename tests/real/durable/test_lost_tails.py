"""Facts that were durable and are gone are noticed, held and said: a claim log that is cut or deleted, a journal's log
that is cut, one that is gone together with its mark (PROMISES 1.3, 1.4, 1.9). What peers have comes back."""

from __future__ import annotations

import os
import re
import signal

import pytest

from diana.client import Client
from diana.errors import UsageError
from diana.model.views.group import GroupStatus
from tests.e2e.grid import Grid, Site, Starts, is_alive, outcomes, until
from tests.real.pairs import add_standby, durability, in_sync, takes_over

pytestmark = pytest.mark.e2e

JOBS = 48
SLOTS = 4
END_S = 90.0


def killed_in_the_middle(
    grid: Grid, starts: Starts, on_crash: str = "hold", jobs: int = JOBS, run_s: float = 1.5
) -> tuple[Site, str]:
    """Node and spawner are dead, jobs run on, a third of the group has begun."""
    alpha = grid.add("alpha", SLOTS)
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(jobs, then=("sleep", f"{run_s}"), on_crash=on_crash)).group
    starts.wait_for(jobs // 3)
    spawner = alpha.spawner_pid()
    alpha.kill()
    os.kill(spawner, signal.SIGKILL)
    until(lambda: not is_alive(spawner), "the spawner is gone", END_S)
    assert alpha.jobs_alive()
    return alpha, group


def over(site: Site, group: str) -> GroupStatus:
    with site.client() as client:
        return client.wait(group, timeout_s=END_S)


def holds_what_it_cannot_know(grid: Grid, alpha: Site, starts: Starts, group: str) -> None:
    alpha.start()
    seen = over(alpha, group)
    assert not starts.doubled()
    assert seen.done + seen.held == JOBS, seen
    assert seen.held >= SLOTS and "lost what it once held, so nobody knows whether it ran" in seen.note, seen
    said = alpha.paths.node_log.read_text()
    assert "its claim log lost what it once held" in said, said
    with alpha.client() as client:
        errors = {result.error for result in client.results(group) if result.outcome != "done"}
    assert any("nobody knows whether it ran" in error for error in errors), errors
    says_the_loss_of_claims(grid, alpha, group)


def says_the_loss_of_claims(grid: Grid, alpha: Site, group: str) -> None:
    # The spawner wrote the log anew at its start, and it is whole from then on.
    told = grid.run(alpha, "doctor", "--data", str(alpha.data))
    (row,) = (line for line in told.stdout.splitlines() if re.match(r"warn +claims ", line))
    assert "claims.log: " in row and "written anew" in row, told
    shown = grid.run(alpha, "status", group, "--data", str(alpha.data))
    assert "its claim log" in shown.stdout or "lost what it once held" in shown.stdout, shown


@pytest.mark.parametrize("left", [0.0, 0.5, 0.95])
def test_a_claim_log_that_was_cut_starts_nothing_again(grid: Grid, starts: Starts, left: float) -> None:
    alpha, group = killed_in_the_middle(grid, starts)
    log = alpha.paths.spawner / "claims.log"
    os.truncate(log, int(log.stat().st_size * left))
    holds_what_it_cannot_know(grid, alpha, starts, group)


@pytest.mark.parametrize("marked", [True, False], ids=["its mark stays", "with its mark"])
def test_a_claim_log_that_was_deleted_starts_nothing_again(grid: Grid, starts: Starts, marked: bool) -> None:
    alpha, group = killed_in_the_middle(grid, starts)
    (alpha.paths.spawner / "claims.log").unlink()
    if not marked:
        (alpha.paths.spawner / "claims.mark").unlink()
    holds_what_it_cannot_know(grid, alpha, starts, group)


def test_what_ran_without_its_claim_is_ended_before_it_is_tried_again(grid: Grid, starts: Starts) -> None:
    # Long enough that none ends by itself before the next node looks.
    alpha, group = killed_in_the_middle(grid, starts, "rerun", jobs=3 * SLOTS, run_s=12.0)
    ran = alpha.jobs_alive()
    os.truncate(alpha.paths.spawner / "claims.log", 0)
    alpha.start()
    until(lambda: not any(map(is_alive, ran)), "what ran without its claim is ended", 5.0)
    assert over(alpha, group).done == 3 * SLOTS


def test_a_kill_of_node_and_spawner_alone_loses_no_claim(grid: Grid, starts: Starts) -> None:
    alpha, group = killed_in_the_middle(grid, starts)
    alpha.start()
    seen = over(alpha, group)
    assert seen.done + seen.held == JOBS and seen.held <= SLOTS, seen
    assert "lost what it once held" not in alpha.paths.node_log.read_text()
    assert not starts.doubled()


GROUPS = 12


def accepted(grid: Grid, starts: Starts) -> tuple[Site, list[str], int]:
    """The node is dead that accepted twelve groups, half of them when its journal was so long; the spawner too."""
    alpha = grid.add("alpha", SLOTS)
    grid.start()
    wal = alpha.paths.journal.with_name("journal.db-wal")
    groups, half = [], 0
    with alpha.client() as client:
        for k in range(GROUPS):
            groups.append(client.submit(starts.job(2, then=("sleep", "60")), key=f"key-{k}").group)
            half = half or (wal.stat().st_size if k == GROUPS // 2 else 0)
    alpha.kill()
    return alpha, groups, half


def says_what_is_gone(grid: Grid, alpha: Site, groups: list[str], at_least: int) -> None:
    alpha.start()
    with alpha.client() as client:
        kept = {status.group: status for status in client.status([])}
        gone = [group for group in groups if group not in kept]
        assert len(gone) >= at_least
        said = alpha.paths.node_log.read_text()
        assert f"{len(gone)} groups accepted and gone with the end of the journal: {gone[0]}" in said, said
        with pytest.raises(UsageError, match=f"no group {gone[-1]} at alpha: if it was accepted, it went with"):
            client.wait(gone[-1], timeout_s=1)
        for status in kept.values():
            assert status.state != "done" and not status.running, status
        fresh = client.submit({"group": {"command": ["true"]}}).group
        assert fresh not in groups, "no name is given twice"
    told = grid.run(alpha, "doctor", "--data", str(alpha.data))
    assert f"{len(gone)} groups accepted and gone" in told.stdout + told.stderr, told


def test_half_a_log_of_the_journal_holds_what_is_left_and_names_what_is_gone(grid: Grid, starts: Starts) -> None:
    alpha, groups, half = accepted(grid, starts)
    os.truncate(alpha.paths.journal.with_name("journal.db-wal"), half)
    says_what_is_gone(grid, alpha, groups, 1)


@pytest.mark.parametrize("taken", ["its mark", "both marks"])
def test_a_journal_that_is_gone_with_its_mark_is_noticed_and_its_groups_are_named(
    grid: Grid, starts: Starts, taken: str
) -> None:
    alpha, groups, _ = accepted(grid, starts)
    alpha.paths.journal.with_name("journal.db-wal").unlink()
    alpha.paths.mark.unlink()
    if taken == "both marks":
        alpha.paths.mark_twin.unlink()
    says_what_is_gone(grid, alpha, groups, GROUPS)


def test_groups_that_half_a_log_lost_come_back_from_the_peer_that_has_them_and_run_once(
    grid: Grid, starts: Starts
) -> None:
    """Twelve were acknowledged and handed over; a thirteenth stays at home, and nobody can show that."""
    alpha = grid.add("alpha", SLOTS)
    grid.add("beta", SLOTS)
    grid.join()
    grid.settings(resend_most_s=2.0)
    grid.start()
    go = grid.root / "go"
    wait = ("sh", "-c", f"echo it is done; while [ ! -e {go} ]; do sleep 0.2; done")
    wal = alpha.paths.journal.with_name("journal.db-wal")
    groups, half = [], 0
    with alpha.client() as client:
        for k in range(GROUPS):
            groups.append(client.submit(starts.job(2, wait, sites=["beta"]), key=f"key-{k}").group)
            half = half or (wal.stat().st_size if k == GROUPS // 2 else 0)
        at_home = client.submit({"group": {"command": ["true"], "sites": ["alpha"]}}).group
        client.wait(at_home, timeout_s=END_S)
        until(
            lambda: all(
                [(share.site, share.state) for share in status.shares] == [("beta", "committed")]
                for status in client.status(groups)
            ),
            grid.story,
            END_S,
        )
    starts.wait_for(SLOTS)
    alpha.kill()
    os.truncate(wal, half)
    alpha.start()
    with alpha.client() as client:

        def back() -> dict[str, GroupStatus]:
            return {status.group: status for status in client.status([])}

        until(lambda: back().keys() >= set(groups), lambda: f"all are back: {sorted(back())}\n{grid.story()}", END_S)
        said = alpha.paths.node_log.read_text()
        returned = [group for group in groups if f"beta shows {group}, which went with the end" in said]
        assert returned and returned == groups[-len(returned) :], said
        for group in returned:
            until(lambda name=group: "diana release" in back()[name].note, grid.story, END_S)  # type: ignore[misc]
            seen = back()[group]
            assert not seen.final and "restored from a backup" in seen.note, seen
        with pytest.raises(UsageError, match=f"no group {at_home} at alpha: .* submit it again"):
            client.wait(at_home, timeout_s=1)
        again = client.submit(starts.job(2, wait, sites=["beta"]), key=f"key-{GROUPS - 1}").group
        assert again == groups[-1], "the key is that of the group that came back"
        for group in groups:
            if back()[group].note:
                client.release(group)
        go.touch()
        for group in groups:
            seen = over(alpha, group)
            assert seen.done == 2 and not seen.note, seen
            assert outcomes(client, group) == {0: "done", 1: "done"}
            told = b"".join(chunk.data for chunk in client.logs(group))
            assert told.count(b"it is done") == 2, told
    assert starts.count() == 2 * GROUPS and starts.sites() == {"beta"}, starts.all()


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_claim_log_and_a_journal_that_were_both_cut_start_nothing_again(
    grid: Grid, starts: Starts, left: float
) -> None:
    alpha, group = killed_in_the_middle(grid, starts)
    began = starts.count()
    for path in (alpha.paths.spawner / "claims.log", alpha.paths.journal.with_name("journal.db-wal")):
        os.truncate(path, int(path.stat().st_size * left))
    alpha.start()
    with alpha.client() as client:
        # What ran may end, and nothing is to begin: neither what the journal still has, nor what it has lost.
        fresh = client.submit({"group": {"command": ["true"]}}).group
        assert fresh != group, "no name is given twice"
        assert client.wait(fresh, timeout_s=END_S).done == 1
        groups = {status.group: status for status in client.status([])}
    assert starts.count() == began and not starts.doubled()
    told = grid.run(alpha, "doctor", "--data", str(alpha.data)).stdout
    assert re.search(r"^warn +claims .*claims\.log: .*written anew", told, re.M), told
    shown = grid.run(alpha, "status", group, "--data", str(alpha.data))
    if group in groups:
        assert groups[group].held and not groups[group].running, groups
        assert f"diana release {group} lets it go on" in shown.stdout, shown
        assert "lost what it once held, so nobody knows whether it ran" in shown.stdout, shown
        assert re.search("^warn +store .*its end was lost; no group is known to be gone", told, re.M), told
    else:
        assert f"no group {group} at alpha: if it was accepted, it went with" in shown.stderr, shown
        assert re.search(f"^warn +store .*1 group accepted and gone .*{group}", told, re.M), told


def cut_in_half(site: Site) -> None:
    """The spawner is dead as well: both of the machine's logs lose what came last."""
    spawner = site.kill_spawner()
    until(lambda: not is_alive(spawner), "the spawner is gone", END_S)
    for path in (site.paths.spawner / "claims.log", site.paths.journal.with_name("journal.db-wal")):
        os.truncate(path, path.stat().st_size // 2)


def paired(grid: Grid) -> tuple[Site, Site]:
    """A leader and its standby in sync; beta is their witness."""
    alpha = grid.add("alpha", SLOTS)
    grid.add("beta", 1)
    grid.join()
    grid.start()
    spare = add_standby(grid, alpha, "beta")
    spare.launch()
    in_sync(alpha, other=spare)
    return alpha, spare


def asked_for(client: Client, starts: Starts) -> list[str]:
    """One group whose starts are counted, and then as many as make a long journal."""
    counted = client.submit(starts.job(JOBS, then=("sleep", "60"))).group
    until(lambda: starts.count() >= SLOTS, "jobs have begun", END_S)
    more = [client.submit({"group": {"command": ["sleep", "60"]}}, key=f"key-{k}").group for k in range(GROUPS)]
    return [counted, *more]


def test_a_leader_whose_logs_lost_their_ends_follows_the_standby_that_has_all(grid: Grid, starts: Starts) -> None:
    alpha, spare = paired(grid)
    with alpha.client() as client:
        groups = asked_for(client, starts)
    alpha.kill()
    cut_in_half(alpha)
    alpha.launch()
    takes_over(spare)
    with spare.client() as client:
        assert {status.group for status in client.status([])} == {*groups}
    # It is given a whole copy, and counts again.
    in_sync(spare, other=alpha)
    assert "the journal lost its end" in alpha.paths.node_log.read_text()
    assert not starts.doubled()


def test_a_leader_alone_whose_logs_lost_their_ends_waits_for_its_standby_or_an_operator(
    grid: Grid, starts: Starts
) -> None:
    alpha, spare = paired(grid)
    spare.kill()
    until(lambda: durability(alpha) == 1, lambda: f"alpha goes on alone\n{alpha.story()}", END_S, 0.1)
    with alpha.client() as client:
        groups = asked_for(client, starts)
    alpha.kill()
    cut_in_half(alpha)
    began = starts.count()
    alpha.launch()

    def said() -> str:
        shown = grid.run(alpha, "status", "--data", str(alpha.data))
        return shown.stdout + shown.stderr

    until(lambda: "lost the end of its journal" in said(), lambda: f"status says so\n{alpha.story()}", END_S, 0.5)
    told = grid.run(alpha, "doctor", "--data", str(alpha.data)).stdout
    assert re.search("^warn +store .*lost its end", told, re.M), told
    assert starts.count() == began

    def forced() -> bool:
        # Not while a lease that it may have granted before its start could stand.
        return grid.run(alpha, "site", "promote", "--force", "--data", str(alpha.data)).returncode == 0

    until(forced, lambda: f"an operator has it lead\n{alpha.story()}", END_S, 0.5)
    takes_over(alpha)
    with alpha.client() as client:
        kept = {status.group: status for status in client.status([])}
    assert kept.keys() < {*groups}
    assert starts.count() == began and not starts.doubled()
