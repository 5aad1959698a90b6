"""Files that only the leading machine had when it died: outputs nobody had gathered yet, outputs that were,
logs, open invitations (SPEC D8, J5; PROMISES section 2 Standby)."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.adapters.trust import certificates
from diana.client import Client
from diana.errors import DianaError
from diana.model.ids import GroupId
from diana.model.views.group import GroupStatus
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.real.joining import invited
from tests.real.pairs import add_standby, in_sync, takes_over, user_of

pytestmark = pytest.mark.e2e

JOBS = 30
END_S = 90.0
NAMES = {f"out-{index}.txt" for index in range(JOBS)}


def job(starts: Starts, *, to: str = "", on_crash: str = "hold", **more: object) -> dict[str, object]:
    """Each job writes `out-INDEX.txt` and a line into its log."""
    then = ("sh", "-c", "sleep 0.5; echo this is $DIANA_INDEX | tee out-$DIANA_INDEX.txt")
    made = starts.job(JOBS, then=then, on_crash=on_crash, **more)
    return {**made, "outputs": {"collect": ["out-{index}.txt"], **({"to": to} if to else {})}}


def pair(grid: Grid, *others: str) -> tuple[Site, Site]:
    """alpha with two machines that both run jobs; beta is its witness and runs none."""
    main = grid.add("alpha", 4)
    grid.add("beta", 0)
    for name in others:
        grid.add(name, 0)
    grid.join()
    grid.start()
    spare = add_standby(grid, main, "beta")
    spare.launch()
    in_sync(main)
    return main, spare


def submitted(
    grid: Grid, main: Site, spare: Site, made: dict[str, object], folder: Path | None = None
) -> tuple[Path, str]:
    """All its jobs are done; `folder` is blocked."""
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(made).group
        if folder is not None:
            block(folder)
        until(lambda: client.status([group])[0].done == JOBS, lambda: f"jobs end\n{grid.story()}", END_S, 0.1)
    return credential, group


def folder_of(grid: Grid) -> Path:
    folder = grid.root / "results"
    folder.mkdir()
    return folder


def block(folder: Path) -> None:
    """Before the first job ends: nothing can be gathered there."""
    folder.rmdir()
    folder.touch()


def unblock(folder: Path) -> None:
    folder.unlink()
    folder.mkdir()


def ended(client: Client, grid: Grid, group: str) -> GroupStatus:
    until(
        lambda: client.status([group])[0].final,
        lambda: f"{client.status([group])} is final\n{grid.story()}",
        END_S,
        0.2,
    )
    return client.status([group])[0]


def note_says(client: Client, grid: Grid, group: str, words: str) -> None:
    until(
        lambda: words in client.status([group])[0].note,
        lambda: f"{words!r} in {client.status([group])}\n{grid.story()}",
        END_S,
        0.2,
    )


def test_outputs_a_dead_leader_had_collected_come_when_it_is_back(grid: Grid, starts: Starts) -> None:
    main, spare = pair(grid)
    folder = folder_of(grid)
    credential, group = submitted(grid, main, spare, job(starts, to=str(folder)), folder)
    main.kill()
    unblock(folder)
    takes_over(spare)
    with Client(credential=credential) as client:
        note_says(client, grid, group, "on machine main, which is away")
        assert not client.status([group])[0].final
        main.launch()
        status = ended(client, grid, group)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            f"out-{index}.txt": f"this is {index}\n" for index in range(JOBS)
        }
        fetched = client.fetch(group, grid.root / "fetched")
        assert {path.name for path in fetched} == NAMES and len(fetched) == JOBS
        assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
    assert len(starts.all()) == JOBS


@pytest.mark.parametrize("on_crash", ["rerun", "hold"])
def test_jobs_whose_outputs_lay_on_a_machine_that_was_removed_run_again_or_are_shown(
    grid: Grid, starts: Starts, on_crash: str
) -> None:
    main, spare = pair(grid)
    folder = folder_of(grid)
    credential, group = submitted(grid, main, spare, job(starts, to=str(folder), on_crash=on_crash), folder)
    there = {start.index for start in starts.all()}
    assert there == set(range(JOBS))
    main.kill()
    unblock(folder)
    takes_over(spare)
    with Client(credential=credential) as client:
        note_says(client, grid, group, "on machine main, which is away")
        done = grid.run(spare, "site", "remove-machine", "main", "--data", str(spare.data))
        assert done.returncode == 0, done
        status = ended(client, grid, group)
        if on_crash == "rerun":
            assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
            assert {path.name for path in folder.iterdir()} == NAMES
            assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
        else:
            assert status.state == "failed" and "machine main, which was removed" in status.note, status
            assert len(starts.all()) == JOBS


def test_outputs_for_another_site_come_from_whichever_machine_has_them(grid: Grid, starts: Starts) -> None:
    main, spare = pair(grid, "gamma")
    gamma = grid.sites["gamma"]
    folder = folder_of(grid)
    with gamma.client() as client:
        group = client.submit(job(starts, to=str(folder))).group
        block(folder)
        until(lambda: client.status([group])[0].done == JOBS, lambda: f"jobs end\n{grid.story()}", END_S, 0.1)
        main.kill()
        unblock(folder)
        takes_over(spare)
        note_says(client, grid, group, "on machine main, which is away")
        main.launch()
        status = ended(client, grid, group)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
    assert {path.name for path in folder.iterdir()} == NAMES and len(starts.all()) == JOBS


def test_what_a_dead_leader_gathered_is_fetched_from_it_or_said_to_be_on_it(grid: Grid, starts: Starts) -> None:
    main, spare = pair(grid)
    made = job(starts)
    made["outputs"] = {"collect": ["out-{index}.txt"], "merge": ["sh", "-c", "cat out-*.txt > all.txt"]}
    credential, group = submitted(grid, main, spare, made)
    with Client(credential=credential) as client:
        assert client.wait(group, timeout_s=END_S).state == "done"
    main.kill()
    takes_over(spare)
    with Client(credential=credential) as client:
        with pytest.raises(DianaError, match="on machine main, which is away"):
            client.fetch(group, grid.root / "early")
        (chunk,) = client.logs(f"{group}.3")
        assert "on machine main" in chunk.error, chunk
        main.launch()
        in_sync(spare)
        fetched = client.fetch(group, grid.root / "fetched")
        assert {path.name for path in fetched} == {*NAMES, "all.txt"}
        assert (grid.root / "fetched" / "out-7.txt").read_text() == "this is 7\n"
        assert b"".join(chunk.data for chunk in client.logs(f"{group}.3")) == b"this is 3\n"


def test_a_merge_after_a_takeover_waits_for_what_was_gathered_before_it(grid: Grid, starts: Starts) -> None:
    main, spare = pair(grid)
    made = job(starts)
    made["outputs"] = {"collect": ["out-{index}.txt"], "merge": ["sh", "-c", "sort -k 3n out-*.txt > all.txt"]}
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(made).group
        until(lambda: len(list(main.paths.gathered(group).glob("out-*"))) >= 5, "some are gathered", END_S, 0.02)
    main.kill()
    takes_over(spare)
    here = spare.paths.gathered(group)
    assert not (here / "all.txt").exists()
    main.launch()
    with Client(credential=credential) as client:
        status = ended(client, grid, group)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert {path.name for path in client.fetch(group, grid.root / "fetched")} == {*NAMES, "all.txt"}
    assert (here / "all.txt").read_text().splitlines() == [f"this is {index}" for index in range(JOBS)]
    assert len(starts.all()) == JOBS and not starts.doubled()


def test_a_merge_runs_over_what_the_retry_left_though_the_failed_attempt_left_as_much_here(
    grid: Grid, starts: Starts
) -> None:
    """Gathered on main: what failed. On spare, which leads then: what the retry made. The merge runs on main."""
    main, spare = pair(grid)
    mended, merges = grid.root / "mended", grid.root / "merges"
    script = f"[ -e {mended} ] && w=new || w=old; echo $w $DIANA_INDEX; : > ok-$DIANA_INDEX; [ $w = new ]"
    made: dict[str, object] = {
        **starts.job(2, then=("sh", "-c", script), stdout="out-{index}.txt"),
        "outputs": {
            "collect": ["ok-{index}"],
            "merge": ["sh", "-c", f"[ -e {merges} ] && cat out-*.txt > all.txt"],
        },
    }
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(made).group
        assert ended(client, grid, group).state == "failed"
    here = main.paths.gathered(GroupId(group))
    assert {path.read_text() for path in here.iterdir()} == {"old 0\n", "old 1\n"}
    leads_instead(main, spare)
    mended.touch()
    with Client(credential=credential) as client:
        assert client.retry(group) == 2
        assert "merge command failed" in ended(client, grid, group).note
    leads_instead(spare, main)
    assert (here / "out-0.txt").read_text() == "old 0\n"
    merges.touch()
    with Client(credential=credential) as client:
        assert client.retry(group) == 1
        status = ended(client, grid, group)
        assert (status.state, status.done) == ("done", 2), f"{status}\n{grid.story()}"
    assert (here / "all.txt").read_text() == "new 0\nnew 1\n"


def leads_instead(old: Site, new: Site) -> None:
    old.kill()
    takes_over(new)
    old.launch()
    in_sync(new)


def test_an_invitation_given_out_before_a_takeover_is_good_after_it_and_only_once(grid: Grid) -> None:
    main, spare = pair(grid)
    certificates.make_signer(main.paths.keys, "alpha", spare.paths.keys)
    tokens = {name: invited(grid, main, "--member", name) for name in ("m1", "m2")}
    assert joins(grid, spare, tokens["m1"], "m1", "first") == ""
    main.kill()
    takes_over(spare)
    still = grid.run(spare, "invite", "--list", "--data", str(spare.data))
    assert "m2" in still.stdout and "m1" not in still.stdout, still
    assert "used already" in joins(grid, spare, tokens["m1"], "m1", "thief")
    assert joins(grid, spare, tokens["m2"], "m2", "second") == "", grid.story()
    main.launch()
    in_sync(spare)
    spare.kill()
    takes_over(main)
    assert "used already" in joins(grid, main, tokens["m2"], "m2", "another")


def joins(grid: Grid, site: Site, token: str, name: str, folder: str) -> str:
    """Its complaints."""
    return grid.run(site, "join", token, name, "--data", str(grid.root / folder)).stderr
