"""Jobs that submit: a job finds the node of the site where it runs, by no option, and is a user of it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from diana.client import Client
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, until
from tests.real.members import add_member

pytestmark = pytest.mark.e2e


def two_sites(grid: Grid, slots: int = 2) -> tuple[Site, Site]:
    alpha, beta = grid.add("alpha", slots), grid.add("beta", slots)
    grid.join()
    return alpha, beta


def log_of(client: Client, group: str, job: int = 0) -> str:
    return b"".join(chunk.data for chunk in client.logs(f"{group}.{job}")).decode()


def at_beta(script: str, **group: object) -> dict[str, object]:
    return {"group": {"command": ["sh", "-c", script], "sites": ["beta"], **group}}


def test_a_job_submits_where_it_runs_and_waits_for_what_it_submitted(grid: Grid, tmp_path: Path) -> None:
    alpha, beta = two_sites(grid)
    grid.start()
    script = (
        "g=$(diana submit --parsable --key $DIANA_GROUP-$DIANA_INDEX -- sh -c 'echo $((6 * 7)) at $DIANA_DATA; exit 3')"
        "; diana wait $g; echo wait says $?; diana logs $g.0; diana status $g | head -1; echo $g"
    )
    with alpha.client() as client:
        group = client.submit(at_beta(script)).group
        status = client.wait(group, timeout_s=60)
        said = log_of(client, group)
    assert status.state == "done", f"{said}\n{grid.story()}"
    lines = said.splitlines()
    inner = lines[-1]
    assert inner.startswith("beta-") and "wait says 1" in lines, said
    with beta.client() as client:
        (row,) = client.results(inner)
        assert row.outcome == "failed" and row.exit_code == 3
        # Of this site it is, wherever its job ran.
        data = {"alpha": alpha.data, "beta": beta.data}[row.site]
        assert f"42 at {data}" in lines, said
        assert client.status(inner)[0].owner == client.info().principal


def test_an_attempt_that_is_made_again_submits_nothing_twice(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = two_sites(grid)
    grid.start()
    script = "diana submit --parsable --key $DIANA_GROUP-$DIANA_INDEX -- true; exit $((2 - DIANA_ATTEMPT))"
    with alpha.client() as client:
        group = client.submit(at_beta(script)).group
        assert client.wait(group, timeout_s=60).state == "failed"
        first = log_of(client, group)
        client.retry(group)
        assert client.wait(group, timeout_s=60).state == "done"
        assert first == log_of(client, group) and first.startswith("beta-")


def test_python_in_a_job_needs_no_option_either(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = two_sites(grid)
    grid.start()
    program = (
        "from diana.client import Client, GridExecutor\n"
        "with Client() as client:\n"
        "    group = client.submit({'group': {'command': ['echo', 'inner']}}).group\n"
        "    print(client.wait(group, timeout_s=60).state, client.info().site)\n"
        f"with GridExecutor(python={sys.executable!r}) as executor:\n"
        "    print(list(executor.map(abs, [-1, -2])))\n"
    )
    with alpha.client() as client:
        job = {"group": {"command": [sys.executable, "-c", program.replace("{", "{{").replace("}", "}}")]}}
        job["group"]["sites"] = ["beta"]  # type: ignore[assignment]
        group = client.submit(job).group
        assert client.wait(group, timeout_s=90).state == "done", log_of(client, group)
        assert log_of(client, group) == "done beta\n[1, 2]\n"


def test_what_a_group_says_of_its_jobs_node_holds_and_what_the_submitters_shell_says_does_not_travel(
    grid: Grid, tmp_path: Path
) -> None:
    alpha, beta = two_sites(grid)
    grid.start()
    words = ["submit", "--data", str(alpha.data), "--wait", "--sites", "beta", "--parsable"]
    show = ["--", "sh", "-c", "echo $DIANA_DATA $DIANA_NOTIFY"]
    env = {**alpha.environment(), "DIANA_DATA": "/nowhere", "DIANA_NOTIFY": "", "OWN": "x"}
    site_env = alpha.environment
    try:
        alpha.environment = lambda: env  # type: ignore[method-assign]
        shell = grid.run(alpha, *words, "--export", "ALL", *show)
        named = grid.run(alpha, *words, "--env", "DIANA_DATA", *show)
        swept = grid.run(
            alpha,
            *words,
            "--set",
            "group.environment.DIANA_DATA=/nowhere/{x}",
            *show[:-1],
            ": {x}; " + show[-1],
            ":::",
            "a",
        )
    finally:
        alpha.environment = site_env  # type: ignore[method-assign]
    with alpha.client() as client:
        assert log_of(client, shell.stdout.strip()) == f"{beta.data}\n", shell
        assert log_of(client, named.stdout.strip()) == "/nowhere\n", named
        assert log_of(client, swept.stdout.strip()) == "/nowhere/a\n", swept


def test_a_job_that_submits_itself_for_ever_is_refused_politely_and_the_node_lives(grid: Grid, tmp_path: Path) -> None:
    """Each job submits three like itself and ends: the bound of one user's waiting jobs holds them."""
    _, beta = two_sites(grid)
    config = load_config(beta.paths.config)
    settings = msgspec.structs.replace(config.settings, user_max_queued=8)
    write_config(beta.paths.config, msgspec.structs.replace(config, settings=settings))
    grid.start()
    bomb, said, over = tmp_path / "bomb", tmp_path / "said", tmp_path / "over"
    bomb.write_text(
        "#!/bin/sh\n"
        f"for i in 1 2 3; do [ -e {over} ] || diana submit --parsable --sites beta -- {bomb} 2>>{said}; done\n"
    )
    bomb.chmod(0o755)
    with beta.client() as client:
        client.submit({"group": {"command": [str(bomb)], "sites": ["beta"]}})
        until(lambda: said.exists() and said.read_text(), "one is refused")
        assert client.info().site == "beta"
        over.touch()
        until(lambda: all(group.final for group in client.status()), "all of it is over")
        after = client.submit({"group": {"command": ["true"], "sites": ["beta"]}}).group
        assert client.wait(after, timeout_s=60).state == "done"
    for line in said.read_text().splitlines():
        # Some are refused by the node that takes the word, some by the plan of what it has room for.
        assert line.startswith("diana: ") and ("8 jobs per user" in line or "user_max_queued" in line), line


def test_a_job_is_no_operator_though_it_has_the_account_of_one(grid: Grid, tmp_path: Path) -> None:
    alpha, beta = two_sites(grid)
    grid.start()
    script = "diana stop; echo $?; diana status --json >/dev/null && echo ok"
    with alpha.client() as client:
        group = client.submit(at_beta(script)).group
        assert client.wait(group, timeout_s=60).state == "done"
        said = log_of(client, group).splitlines()
    assert said[1:] == ["2", "ok"] and "operator" in said[0], said
    beta.assert_runs()
    with beta.client() as client:
        assert client.info().role == "operator"


def test_a_job_on_a_machine_of_a_site_is_told_whom_to_ask(grid: Grid, tmp_path: Path) -> None:
    root = grid.add("alpha", slots=0)
    grid.join()
    root.start()
    member = add_member(grid, root, "m1", slots=1)
    member.start()
    with root.client() as client:
        group = client.submit({"group": {"command": ["sh", "-c", "echo $DIANA_DATA; diana submit -- true"]}}).group
        assert client.wait(group, timeout_s=60).state == "failed"
        place, refusal = log_of(client, group).splitlines()
    assert place == str(member.data)
    assert refusal == f"diana: m1 only runs jobs for alpha; ask the machine at {root.address}"
