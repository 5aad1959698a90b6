"""`diana logs --merge`: what a group's merge command wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


def logs(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diana.cli", "logs", "--data", str(site.data), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=site.environment())


def job(merge: str, command: str = "echo row {index} > {index}.csv; echo job {index}") -> dict[str, object]:
    return {
        "group": {"command": ["sh", "-c", command]},
        "sweep": {"x": "1-3"},
        "outputs": {"collect": "{index}.csv", "merge": ["sh", "-c", merge]},
    }


def test_what_a_merge_command_wrote_is_shown_while_it_runs_and_when_it_has_failed(grid: Grid, tmp_path: Path) -> None:
    alpha, go = grid.add("alpha", 2), tmp_path / "go"
    grid.start()
    with alpha.client() as client:
        held = client.submit(job("true", f"until [ -e {go} ]; do sleep 0.05; done; echo > {{index}}.csv")).group
        early = logs(alpha, "--merge", held)
        assert (early.returncode, early.stdout) == (4, ""), early
        assert early.stderr == (
            f"diana: {held}.merge: no log yet: the merge command begins once all jobs are done; -f waits for it\n"
        )
        go.touch()
        client.wait(held)
        go.unlink()
        assert logs(alpha, "--merge", held).stderr == f"diana: {held}: its merge command wrote nothing to its log\n"

        slow = f"cat 0.csv; echo begun; until [ -e {go} ]; do sleep 0.05; done; echo the reason >&2; exit 126"
        group = client.submit(job(slow)).group
        until(lambda: "begun" in logs(alpha, "--merge", group).stdout, lambda: str(logs(alpha, "--merge", group)))
        running = logs(alpha, "--merge", "--tail", "1", group)
        assert (running.returncode, running.stdout) == (0, "begun\n"), running
        command = [sys.executable, "-m", "diana.cli", "logs", "--data", str(alpha.data), "--merge", "-f", group]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=alpha.environment()) as followed:
            try:
                assert followed.stdout is not None and followed.stdout.readline() == "row 0\n"
                go.touch()
                status = client.wait(group)
                assert followed.stdout.read() == "begun\nthe reason\n" and followed.wait(60) == 0
            finally:
                followed.kill()
    told = f"the merge command failed: exit code 126; what it wrote: diana logs --merge {group}"
    assert (status.state, status.note) == ("failed", told), status
    ended = logs(alpha, "--merge", group)
    assert (ended.returncode, ended.stdout) == (0, "row 0\nbegun\nthe reason\n"), ended
    assert ended.stderr == f"diana: {group}.merge: the merge command failed: exit code 126\n"
    chunks = [json.loads(line) for line in logs(alpha, "--merge", "--json", group).stdout.splitlines()]
    assert {chunk["job"] for chunk in chunks} == {f"{group}.merge"} and told.startswith(chunks[-1]["error"] + "; ")


def test_a_group_without_a_merge_command_and_one_whose_merge_never_ran_say_so(grid: Grid) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    with alpha.client() as client:
        plain = client.submit({"group": {"command": "true"}}).group
        failed = client.submit(job("true", "exit 1")).group
        client.wait(plain)
        client.wait(failed)
    for words, told in (
        ((plain,), f"{plain} has no merge command"),
        ((f"{failed}.0",), f"the merge command is that of a whole group; diana logs --merge {failed} shows its log"),
        (("--failed", failed), "the merge command is that of a whole group"),
    ):
        refused = logs(alpha, "--merge", *words)
        assert refused.returncode == 2 and told in refused.stderr, refused
    never = logs(alpha, "--merge", failed)
    assert never.returncode == 0 and "never ran: the merge command begins once all jobs are done" in never.stderr


def test_a_merge_command_has_the_name_of_its_group_and_the_variables_that_all_jobs_share(grid: Grid) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    wanted = job("echo {group} $ALL ${EACH-none} ${{ALL}}{{}}")
    wanted["group"] = {**wanted["group"], "environment": {"ALL": "of {group}", "EACH": "{array}"}}
    wanted["sweep"] = {"array": "4-6", "x": "1"}
    with alpha.client() as client:
        group = client.submit(wanted).group
        assert client.wait(group).state == "done"
    assert logs(alpha, "--merge", group).stdout == f"{group} of {group} none of {group}{{}}\n"
