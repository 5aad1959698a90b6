"""What the machine that led had on its disk alone when it died: outputs nobody had gathered yet, outputs that were,
logs, open invitations (SPEC D8, J5; PROMISES section 2 Standby)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diana.client import Client
from diana.errors import DianaError
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.real.joining import joined_member
from tests.real.pairs import add_standby, in_sync, takes_over, user_of

pytestmark = pytest.mark.e2e

JOBS = 30
END_S = 60.0
NAMES = {f"out-{index}.txt" for index in range(JOBS)}


def job(starts: Starts, *, to: str = "", on_crash: str = "hold", **more: object) -> dict[str, object]:
    """Each job writes `out-INDEX.txt` and a line into its log."""
    then = ("sh", "-c", "echo this is $DIANA_INDEX | tee out-$DIANA_INDEX.txt")
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


def submitted(grid: Grid, main: Site, spare: Site, made: dict[str, object]) -> tuple[Path, str]:
    credential = user_of(grid, main, spare)
    with Client(credential=credential) as client:
        group = client.submit(made).group
        until(lambda: client.status([group])[0].done == JOBS, lambda: f"jobs end\n{grid.story()}", END_S, 0.1)
    return credential, group


def blocked(path: Path) -> Path:
    """A folder's name that is a file's: nothing can be gathered there."""
    path.touch()
    return path


def opened(path: Path) -> None:
    path.unlink()
    path.mkdir()


def note_says(client: Client, grid: Grid, group: str, words: str) -> None:
    until(
        lambda: words in client.status([group])[0].note,
        lambda: f"{words!r} in {client.status([group])}\n{grid.story()}",
        END_S,
        0.2,
    )


def test_outputs_a_dead_leader_had_collected_come_when_it_is_back(grid: Grid, starts: Starts) -> None:
    main, spare = pair(grid)
    folder = blocked(grid.root / "results")
    credential, group = submitted(grid, main, spare, job(starts, to=str(folder)))
    main.kill()
    opened(folder)
    takes_over(spare)
    with Client(credential=credential) as client:
        note_says(client, grid, group, "on machine main, which is away")
        assert not client.status([group])[0].final
        main.launch()
        status = client.wait(group, timeout_s=END_S)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            f"out-{index}.txt": f"this is {index}\n" for index in range(JOBS)
        }
        fetched = client.fetch(group, grid.root / "fetched")
        assert {path.name for path in fetched} == NAMES and len(fetched) == JOBS
        assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "DONE")
    assert len(starts.all()) == JOBS


@pytest.mark.parametrize("on_crash", ["rerun", "hold"])
def test_jobs_whose_outputs_lay_on_a_machine_that_was_removed_run_again_or_are_shown(
    grid: Grid, starts: Starts, on_crash: str
) -> None:
    main, spare = pair(grid)
    folder = blocked(grid.root / "results")
    credential, group = submitted(grid, main, spare, job(starts, to=str(folder), on_crash=on_crash))
    there = {start.index for start in starts.all()}
    assert there == set(range(JOBS))
    main.kill()
    opened(folder)
    takes_over(spare)
    with Client(credential=credential) as client:
        note_says(client, grid, group, "on machine main, which is away")
        done = grid.run(spare, "site", "remove-machine", "main", "--data", str(spare.data))
        assert done.returncode == 0, done
        status = client.wait(group, timeout_s=END_S)
        if on_crash == "rerun":
            assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
            assert {path.name for path in folder.iterdir()} == NAMES
            assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "DONE")
        else:
            assert status.state == "failed" and "machine main, which was removed" in status.note, status
            assert len(starts.all()) == JOBS


def test_outputs_for_another_site_come_from_whichever_machine_has_them(grid: Grid, starts: Starts) -> None:
    main, spare = pair(grid, "gamma")
    gamma = grid.sites["gamma"]
    folder = blocked(grid.root / "results")
    with gamma.client() as client:
        group = client.submit(job(starts, to=str(folder))).group
        until(lambda: client.status([group])[0].done == JOBS, lambda: f"jobs end\n{grid.story()}", END_S, 0.1)
        main.kill()
        opened(folder)
        takes_over(spare)
        note_says(client, grid, group, "on machine main, which is away")
        main.launch()
        status = client.wait(group, timeout_s=END_S)
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


def test_an_invitation_given_out_before_a_takeover_is_good_after_it(grid: Grid) -> None:
    main, spare = pair(grid)
    tokens = [
        json.loads(grid.run(main, "invite", "--data", str(main.data), "--json", "--member", name).stdout)["token"]
        for name in ("m1", "m2")
    ]
    joined_member(grid, main, tokens[0], "m1")
    main.kill()
    takes_over(spare)
    open_now = grid.run(spare, "invite", "--list", "--data", str(spare.data))
    assert "m2" in open_now.stdout and "m1" not in open_now.stdout, open_now
