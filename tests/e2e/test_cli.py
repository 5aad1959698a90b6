"""Every verb that talks to a node, as a user calls it: text for people, JSON for programs, exit codes for scripts."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.node.config.setup import init_user
from tests.cli.shells import completed, make_program
from tests.cli.terminal import Terminal
from tests.e2e.grid import Grid, Site

pytestmark = pytest.mark.e2e
DIANA = [sys.executable, "-m", "diana.cli"]


@pytest.fixture(scope="module")
def alpha() -> Iterator[Site]:
    made = Grid()
    try:
        site = made.add("alpha", 2)
        site.start()
        yield site
    finally:
        made.close()


def diana(site: Site, verb: str, *words: str, code: int = 0, cwd: Path | None = None, stdin: str = "") -> str:
    """Standard output of a verb that must end with `code`."""
    command = [*DIANA, verb, "--data", str(site.data), *words]
    environment = site.environment()
    ended = subprocess.run(
        command, capture_output=True, text=True, input=stdin, timeout=60, check=False, cwd=cwd, env=environment
    )
    assert ended.returncode == code, ended
    assert "Traceback" not in ended.stderr
    return ended.stdout


def as_json(site: Site, verb: str, *words: str, code: int = 0) -> Any:
    return json.loads(diana(site, verb, "--json", *words, code=code))


def submitted(site: Site, *words: str, cwd: Path | None = None, code: int = 0) -> str:
    """A group that has ended, with `code`."""
    return diana(site, "submit", "--parsable", "--wait", *words, cwd=cwd, code=code).strip()


def test_a_swept_command_runs_once_per_value_and_its_logs_come_back(alpha: Site) -> None:
    group = submitted(alpha, "--", "echo", "value-{x}", ":::", "1", "2", "3")
    assert diana(alpha, "logs", f"{group}.1") == "value-2\n"
    assert diana(alpha, "logs", group).count("==>") == 3
    chunks = [json.loads(line) for line in diana(alpha, "logs", "--json", f"{group}.0").splitlines()]
    assert b"".join(base64.b64decode(chunk.get("data", "")) for chunk in chunks) == b"value-1\n"
    assert {chunk["job"] for chunk in chunks} == {f"{group}.0"}


def test_the_exit_code_is_the_groups_result(alpha: Site) -> None:
    """SPEC U2: 1 where jobs failed, on a real node; `tests/cli/test_help.py` holds the other codes."""
    group = submitted(alpha, "--", "false", code=1)
    assert diana(alpha, "wait", group, code=1).startswith(f"{group}: failed, 0 of 1 job done")
    ended = as_json(alpha, "wait", group, code=1)
    assert (ended["state"], ended["failed"], ended["final"]) == ("failed", 1, True)


def test_why_jobs_failed_is_told_beside_their_logs(alpha: Site) -> None:
    group = submitted(alpha, "--", "sh", "-c", "echo out; exit {x}", ":::", "0", "3", code=1)
    assert diana(alpha, "wait", group, code=1).endswith(f"why: diana logs --failed {group} --data {alpha.data}\n")
    command = [*DIANA, "logs", "--data", str(alpha.data)]
    told = subprocess.run([*command, "--failed", group], capture_output=True, text=True, timeout=60, check=True)
    assert (told.stdout, told.stderr) == (
        f"==> {group}.1 <==\nout\n",
        f"diana: {group}.1: failed at alpha, exit code 3\n",
    )
    silent = submitted(alpha, "--", "true")
    told = subprocess.run([*command, f"{silent}.0"], capture_output=True, text=True, timeout=60, check=True)
    assert (told.stdout, told.stderr) == ("", f"diana: {silent}.0: wrote nothing so far\n")


def test_a_wait_that_times_out_is_exit_code_124_and_a_cancelled_group_is_1(alpha: Site) -> None:
    group = diana(alpha, "submit", "--parsable", "--array", "1-1000000", "--", "sleep", "600").strip()
    diana(alpha, "wait", "--timeout", "300ms", group, code=124)
    assert as_json(alpha, "cancel", group)["jobs"] == 1_000_000
    assert "cancelled" in diana(alpha, "wait", group, code=1)


def test_status_shows_one_row_per_group_and_the_shares_of_a_named_one(alpha: Site) -> None:
    group = submitted(alpha, "--name", "shown", "--", "true")
    assert any(line.split()[:3] == [group, "shown", "done"] for line in diana(alpha, "status").splitlines())
    named = diana(alpha, "status", group)
    assert "durability 1" in named and "HEARD" in named
    [status] = as_json(alpha, "status", group)["groups"]
    assert status["shares"][0]["site"] == "alpha" and status["done"] == 1
    assert diana(alpha, "status", "--active") == "no groups that are not over\n"


def test_the_same_key_gives_the_same_group(alpha: Site) -> None:
    words = ("--key", "nightly", "--", "true", "{x}", ":::", "1")
    assert submitted(alpha, *words) == submitted(alpha, *words)
    diana(alpha, "submit", "--key", "nightly", "--", "true", "other", code=2)


def test_a_job_file_on_standard_input_may_be_any_kind(alpha: Site) -> None:
    for job in (
        '[group]\ncommand = "true"\n',
        '{"group": {"command": "true"}}',
        "#!/bin/sh\n#DIANA --array 0-3\ntrue\n",
    ):
        assert json.loads(diana(alpha, "submit", "--json", "-", stdin=job))["jobs"] in (1, 4)
    assert json.loads(diana(alpha, "submit", "--json", "--format", "yaml", "-", stdin="group: {command: 'true'}"))


def test_a_script_with_an_array_on_the_command_line(alpha: Site, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho job $DIANA_INDEX\n")
    group = submitted(alpha, "--array", "5-7%2", "run.sh", cwd=tmp_path)
    assert diana(alpha, "logs", group).count("job ") == 3


def test_a_program_named_by_a_relative_path_travels_with_the_group(alpha: Site, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello $1\n")
    program.chmod(0o755)
    group = submitted(alpha, "--", "bin/greet", "{x}", ":::", "you", cwd=tmp_path)
    assert diana(alpha, "logs", f"{group}.0") == "hello you\n"


def test_outputs_are_fetched_whole_or_by_pattern(alpha: Site, tmp_path: Path) -> None:
    words = ("--collect", "out-{x}.txt", "--", "sh", "-c", "echo {x} > out-{x}.txt", ":::", "a", "b")
    group = submitted(alpha, *words)
    assert "2 files" in diana(alpha, "fetch", group, cwd=tmp_path)
    assert (tmp_path / group / "out-b.txt").read_text() == "b\n"
    diana(alpha, "fetch", group, "*a.txt", "--to", "some", cwd=tmp_path)
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["out-a.txt"]


def test_plan_and_explain_show_the_decision(alpha: Site) -> None:
    assert "SITE" in diana(alpha, "plan", "--", "true")
    assert as_json(alpha, "plan", "--", "true")["decision"]["parts"][0]["site"] == "alpha"
    group = submitted(alpha, "--", "true")
    assert "achieved:" in diana(alpha, "explain", group)
    assert as_json(alpha, "explain", group)["decisions"]


def test_datasets_are_added_listed_and_read_by_jobs(alpha: Site, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("from a dataset\n")
    assert diana(alpha, "datasets", "add", "events", "one.txt", cwd=tmp_path).startswith("events: 1 file")
    (row,) = as_json(alpha, "datasets")["datasets"]
    seen = {key: row[key] for key in ("name", "site", "files", "sizeBytes", "version", "state")}
    assert seen == {
        "name": "events", "site": "alpha", "files": 1, "sizeBytes": 15, "version": 1, "state": "registered",
    }  # fmt: skip
    job = '[group]\ncommand = "cat events/one.txt"\n[[inputs]]\nurl = "dataset:events"\n'
    group = diana(alpha, "submit", "--parsable", "--wait", "-", stdin=job).strip()
    assert diana(alpha, "logs", group).endswith("from a dataset\n")
    assert "events" in diana(alpha, "sites")


def test_a_remote_client_works_with_a_credential(alpha: Site, tmp_path: Path) -> None:
    init_user(alpha.data, "ann", tmp_path / "ann")
    remote = ["--address", alpha.address, "--credential", str(tmp_path / "ann")]
    words = [*DIANA, "submit", *remote, "--wait", "--json", "--", "true"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ended.stdout)["owner"] == "ann@alpha-vo"


def test_bash_completes_the_names_of_groups_and_sites(alpha: Site, tmp_path: Path) -> None:
    group = submitted(alpha, "--", "true")
    program, node = make_program(tmp_path), ("--data", str(alpha.data))
    assert completed(program, "status", *node, group) == [group]
    assert completed(program, "queue", *node, "--site", "al") == ["alpha"]


def test_a_list_of_groups_says_how_many_it_leaves_out(alpha: Site) -> None:
    groups = [submitted(alpha, "--", "true") for _ in range(2)]
    shown = diana(alpha, "groups", "--limit", "1").splitlines()
    assert shown[1].split()[0] == groups[1] and shown[2].endswith("asks for all")
    assert as_json(alpha, "groups", "--limit", "1")["leftOut"] >= 1


def test_a_terminal_of_60_columns_gets_tables_that_fit(alpha: Site) -> None:
    group = submitted(alpha, "--name", "[red]shown", "--", "true")
    for verb in (["status", group], ["sites"], ["groups"], ["queue"], ["peers"], ["explain", group]):
        command = [*DIANA, verb[0], "--data", str(alpha.data), *verb[1:]]
        with Terminal(command, columns=60, environment=alpha.environment()) as terminal:
            assert terminal.ended() == 0
        rows = [line for line in terminal.text().splitlines() if line.startswith((group, "GROUP ", "SITE ", "USER "))]
        assert all(len(line) <= 60 or ": " in line for line in rows), terminal.text()


def test_backup_restore_and_stop_go_round(alpha: Site, tmp_path: Path) -> None:
    group = submitted(alpha, "--", "true")
    assert as_json(alpha, "backup", "--keys", str(tmp_path / "kept"))["files"] > 3
    made = Grid()
    try:
        copy = Site("copy", made.root / "copy", 1, made.mark)
        made.sites["copy"] = copy
        restored = [*DIANA, "restore", str(tmp_path / "kept"), "--data", str(copy.data)]
        subprocess.run(restored, check=True, capture_output=True, timeout=60)
        alpha.terminate()
        copy.start()
        assert as_json(copy, "status", group)["groups"][0]["done"] == 1
        assert diana(copy, "stop").startswith("alpha: stopping")
        assert copy.process is not None and copy.process.wait(20) == 0
    finally:
        made.close()
