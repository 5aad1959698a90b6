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
from tests.e2e.grid import Grid, Site, until

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
    assert (told.stdout, told.stderr) == ("", f"diana: {silent}.0: wrote nothing to its log\n")


def test_a_job_has_the_files_and_variables_that_the_command_line_names(
    alpha: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b.txt").write_text("one ")
    (tmp_path / "c.txt").write_text("two ")
    monkeypatch.setenv("COLOUR", "{blue}")
    monkeypatch.setenv("SHAPE", "round")
    show = "cat 'a b.txt' c.txt; echo $MODE $COLOUR $SHAPE"
    words = ("--input", "a b.txt", "c.txt", "--env", "MODE={x}", "--env", "COLOUR", "--", "sh", "-c", show)
    group = submitted(alpha, *words, cwd=tmp_path)
    assert diana(alpha, "logs", f"{group}.0") == "one two {x} {blue}\n"
    everything = submitted(alpha, "--export", "ALL", "--", "sh", "-c", "echo $COLOUR $SHAPE $DIANA_SITE")
    assert diana(alpha, "logs", f"{everything}.0") == "{blue} round alpha\n"
    some = submitted(alpha, "--export", "SHAPE,MODE=m", "--", "sh", "-c", "echo $COLOUR $SHAPE $MODE")
    assert diana(alpha, "logs", f"{some}.0") == "round m\n"
    for bad in (
        ["--env", "NOT_HERE"],
        ["--input", "gone.txt"],
        ["--env", "A=" + 70_000 * "x", "--env", "B=" + 70_000 * "x"],
    ):
        diana(alpha, "submit", *bad, "--", "true", code=2)
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n#SBATCH --partition=long\n#SBATCH -n 2\necho $SLURM_JOB_ID $SLURM_NTASKS\n")
    ended = subprocess.run(
        [*DIANA, "submit", "--data", str(alpha.data), "--wait", "--parsable", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=alpha.environment(),
    )
    note = "passed over, as it means nothing here: #SBATCH --partition (line 2)"
    assert ended.stderr == f"diana: {script}: {note}\n"
    assert diana(alpha, "logs", f"{ended.stdout.strip()}.0") == f"{ended.stdout.strip()}.0 2\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("windows.sh", b"#!/bin/sh\r\n#SBATCH -o %x-%a.out\r\n#SBATCH -J fit -a 3\r\n"),
        ("marked.slurm", b"\xef\xbb\xbf#!/bin/sh\n#SBATCH -o %x-%a.out\n#SBATCH -J fit -a 3\n"),
        ("late.sbatch", b"\n\n#!/bin/sh\n#SBATCH -o %x-%a.out\n#SBATCH -J fit -a 3\n"),
        ("noname", b"\n#!/bin/sh\n#SBATCH -a 3\n#SBATCH -J fit -o fit-%a.out -e fit-%a.out\n"),
    ],
)
def test_a_script_of_a_cluster_leaves_what_it_made_in_the_folder_it_goes_to(
    alpha: Site, tmp_path: Path, name: str, content: bytes
) -> None:
    end = b"\r\n" if b"\r\n" in content else b"\n"
    lines = [b'cd "$SLURM_SUBMIT_DIR"', b'echo "$SLURM_JOB_NAME $SLURM_ARRAY_TASK_ID" > made', b"echo a", b"echo b >&2"]
    (tmp_path / name).write_bytes(content + end.join(lines) + end)
    words = ["--wait", "--parsable", "--collect", "made", "--log-limit", "64K", name]
    command = [*DIANA, "submit", "--data", str(alpha.data), *words]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path, env=alpha.environment()
    )
    assert f"is each job's own directory here, not {tmp_path}: name files that it reads" in ended.stderr
    group = ended.stdout.strip()
    diana(alpha, "fetch", group, cwd=tmp_path)
    files = {str(path.relative_to(tmp_path / group)): path.read_text() for path in (tmp_path / group).rglob("*.*")}
    assert files == {"fit-3.out": "a\nb\n"}
    assert [path.read_text() for path in (tmp_path / group).rglob("made")] == ["fit 3\n"]


def test_a_wait_that_times_out_is_exit_code_124_and_a_cancelled_group_is_1(alpha: Site) -> None:
    group = diana(alpha, "submit", "--parsable", "--array", "1-1000000", "--", "sleep", "600").strip()
    diana(alpha, "wait", "--timeout", "300ms", group, code=124)
    assert as_json(alpha, "cancel", group)["jobs"] == 1_000_000
    assert "cancelled" in diana(alpha, "wait", group, code=1)


def test_one_of_several_is_waited_for_and_outputs_are_fetched_as_they_come(alpha: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = f"until [ -e {go} ]; do sleep 0.05; done"
    slow = diana(alpha, "submit", "--parsable", "--", "sh", "-c", waits).strip()
    failing = diana(alpha, "submit", "--parsable", "--", "false").strip()
    assert diana(alpha, "wait", "--any", slow, failing, code=1).startswith(f"{failing}: failed, 0 of 1 job done")
    diana(alpha, "wait", "--any", "--timeout", "300ms", slow, code=124)
    go.touch()
    assert as_json(alpha, "wait", "--any", slow)["state"] == "done"
    go.unlink()
    two = "echo $DIANA_INDEX > out; [ $DIANA_INDEX = 0 ] || " + waits
    words = (
        "--array",
        "0-1",
        "--set",
        "outputs.collect={index}.txt",
        "--",
        "sh",
        "-c",
        two.replace("> out", "> $DIANA_INDEX.txt"),
    )
    group = diana(alpha, "submit", "--parsable", *words).strip()
    command = [*DIANA, "fetch", "--data", str(alpha.data), "--follow", group, "--to", str(tmp_path / "to")]
    following = subprocess.Popen(command, env=alpha.environment(), stdout=subprocess.PIPE, text=True)
    until((tmp_path / "to" / "0.txt").exists, "the first output comes")
    assert following.poll() is None
    go.touch()
    said, _ = following.communicate(timeout=60)
    assert following.returncode == 0 and said.startswith(f"{group}: 2 files in ")
    assert (tmp_path / "to" / "1.txt").read_text() == "1\n"


def test_what_failed_is_tried_again_by_itself_as_often_as_was_said(alpha: Site) -> None:
    last = '[ $DIANA_INDEX = 0 ] || [ "$DIANA_ATTEMPT" -ge 3 ]'
    words = ("--array", "0-2", "--", "sh", "-c", last)
    enough = submitted(alpha, "--retries", "2", *words)
    rows = [json.loads(line) for line in diana(alpha, "results", "--json", enough).splitlines()]
    assert [(row["job"], row["attempt"], row["exitCode"]) for row in rows] == [
        (f"{enough}.{k}", 1 if not k else 3, 0) for k in range(3)
    ]
    submitted(alpha, "--retries", "1", *words, code=1)
    diana(alpha, "submit", "--retries", "1000", *words, code=2)


def test_a_job_begins_in_the_folder_that_was_named_or_not_at_all(alpha: Site, tmp_path: Path) -> None:
    folder = tmp_path / "it's shared"
    folder.mkdir()
    (folder / "here.sh").write_text("#!/bin/sh\ncat data.txt; pwd\n")
    (folder / "here.sh").chmod(0o755)
    (folder / "data.txt").write_text("found\n")
    group = submitted(alpha, "--cwd", ".", "--", "./here.sh", cwd=folder)
    assert diana(alpha, "logs", f"{group}.0") == f"found\n{folder}\n"
    script = f"#!/bin/sh\n#DIANA cwd={str(folder)!r}\npwd\n"
    group = diana(alpha, "submit", "--parsable", "--wait", "-", stdin=script).strip()
    assert diana(alpha, "logs", f"{group}.0") == f"{folder}\n"
    (folder / "job.slurm").write_text('#!/bin/sh\n#SBATCH -J fit\ncd /\ncd "$SLURM_SUBMIT_DIR"\ncat data.txt; pwd\n')
    group = submitted(alpha, "--cwd", ".", "job.slurm", cwd=folder)
    assert diana(alpha, "logs", f"{group}.0") == f"found\n{folder}\n"
    lost = submitted(alpha, "--cwd", str(tmp_path / "gone"), "--", "true", code=1)
    (row,) = [json.loads(line) for line in diana(alpha, "results", "--json", lost).splitlines()]
    why = f"no folder {tmp_path / 'gone'} here that its account may enter (cwd)"
    assert (row["outcome"], row["error"]) == ("not_started", f"{lost}.0: {why}; its log says why")
    assert f"no folder {tmp_path / 'gone'} here that its account may enter" in diana(alpha, "logs", f"{lost}.0")
    diana(alpha, "submit", "--cwd", ".", "--collect", "x", "--", "true", code=2)
    diana(alpha, "submit", "--set", "cwd=here", "--", "true", code=2)


def test_jobs_that_ran_out_of_memory_are_tried_again_with_more(alpha: Site) -> None:
    takes = "import sys, time; b = bytes(b'x' * (80 << 20)); time.sleep(2)"
    words = ("--memory", "60M", "--", sys.executable, "-c", takes)
    group = submitted(alpha, *words, code=1)
    (row,) = [json.loads(line) for line in diana(alpha, "results", "--json", group).splitlines()]
    assert row["outcome"] == "out_of_memory" and f"diana retry --memory 2x {group}" in row["error"]
    diana(alpha, "retry", "--memory", "2x", "--held", group, code=2)
    diana(alpha, "retry", "--memory", "1x", group, code=2)
    assert "with 3x of memory" in diana(alpha, "retry", "--memory", "3x", group)
    diana(alpha, "wait", group)
    itself = submitted(alpha, "--retries", "out_of_memory=1,factor=3", *words)
    (row,) = [json.loads(line) for line in diana(alpha, "results", "--json", itself).splitlines()]
    assert (row["outcome"], row["attempt"]) == ("done", 2)
    assert row["maxRssBytes"] > 80 << 20
    diana(alpha, "submit", "--retries", "out_of_memory=1", "--", "true", code=2)


def test_one_job_is_explained_while_it_waits_runs_and_is_over(alpha: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = ["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done; [ $DIANA_INDEX != 1 ]"]
    group = diana(alpha, "submit", "--parsable", "--array", "0-9", "--", *command).strip()

    def job(index: int) -> Any:
        return as_json(alpha, "explain", f"{group}.{index}")["job"]

    until(lambda: job(0)["state"] == "running", "the first one runs")
    assert (job(0)["site"], job(0)["attempt"]) == ("alpha", 1)
    runs = diana(alpha, "explain", f"{group}.0").splitlines()[0]
    assert runs.startswith(f"{group}.0 runs at alpha for "), runs
    assert runs.endswith(f" s, attempt 1; diana logs -f {group}.0 follows its output"), runs
    assert job(9)["state"] in ("queued", "waiting")
    queue = diana(alpha, "queue")
    assert queue.splitlines()[0].startswith("alpha: 2 running in 2 slots, ") and group in queue
    assert "Little" not in queue and "Little's law" in diana(alpha, "queue", "--verbose")
    diana(alpha, "hold", f"{group}.9")
    held = diana(alpha, "explain", f"{group}.9")
    assert f"{group}.9 is held; diana release {group}.9 has it go on" in held
    diana(alpha, "release", f"{group}.9")
    go.touch()
    diana(alpha, "wait", group, code=1)
    assert job(0)["state"] == "done" and job(0)["exitCode"] == 0
    failed = diana(alpha, "explain", f"{group}.1")
    assert f"{group}.1 ended: failed at alpha, attempt 1, exit code 1" in failed
    assert f"diana retry {group}.1 tries it again" in failed and "the plan:" in failed
    diana(alpha, "explain", f"{group}.10", code=2)


def test_json_has_its_zeros(alpha: Site) -> None:
    group = submitted(alpha, "--", "true")
    (status,) = as_json(alpha, "status", group)["groups"]
    assert (status["failed"], status["held"], status["note"]) == (0, 0, "")
    columns = json.loads(diana(alpha, "results", "--json", "--columns", group))
    assert columns["indices"] == [0] and columns["exitCodes"] == [0] and columns["errors"] == []
    diana(alpha, "results", "--columns", group, code=2)


def test_wrong_wishes_are_told_so_and_what_frees_held_jobs_is_said(alpha: Site) -> None:
    command = [*DIANA, "submit", "--data", str(alpha.data), "--array", "1-100000000", "--", "true"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=alpha.environment())
    assert ended.returncode == 2 and "submit them in pieces" in ended.stderr, ended
    command = [*DIANA, "plan", "--data", str(alpha.data), "--after", "alpha-9999", "--", "true"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=alpha.environment())
    assert ended.returncode == 2 and "after: no group alpha-9999" in ended.stderr, ended
    over = submitted(alpha, "--", "true")
    assert diana(alpha, "cancel", over) == f"{over}: nothing to cancel: {over} is done\n"
    held = diana(alpha, "submit", "--parsable", "--after", over, "--array", "1-3", "--", "sleep", "600").strip()
    diana(alpha, "hold", held)
    assert f"held; diana release {held} has it go on" in diana(alpha, "status", held)
    diana(alpha, "cancel", held)
    assert "has it go on" not in diana(alpha, "status", held)


def test_status_shows_one_row_per_group_and_the_shares_of_a_named_one(alpha: Site) -> None:
    group = submitted(alpha, "--name", "shown", "--", "true")
    assert any(line.split()[:3] == [group, "shown", "done"] for line in diana(alpha, "status").splitlines())
    named = diana(alpha, "status", group)
    assert "durability 1" in named and "HEARD" in named
    later = submitted(alpha, "--", "true")
    shown = [line.split()[0] for line in diana(alpha, "status").splitlines()[1:]]
    assert shown.index(later) < shown.index(group), "the newest stands first"
    few = diana(alpha, "status", "--limit", "1").splitlines()
    assert few[1].split()[0] == later and few[2].endswith("; diana status --limit 0 shows all")
    every = [line.split()[0] for line in diana(alpha, "status", "--limit", "0").splitlines()[1:]]
    assert len(as_json(alpha, "status")["groups"]) == len([name for name in every if not name.endswith(":")])
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


def test_a_file_that_stays_here_is_told_at_submission_and_the_group_accepted(alpha: Site, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print(1)\n")
    command = [*DIANA, "submit", "--data", str(alpha.data), "--parsable", "--", sys.executable, "main.py"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path, env=alpha.environment()
    )
    assert ended.stderr == (
        "diana: main.py: a file here that does not travel with the jobs; send it with --input main.py, or write"
        " --cwd . if the sites have this folder\n"
    )
    diana(alpha, "wait", ended.stdout.strip(), code=1)


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


def test_what_a_job_writes_to_its_linked_upload_no_other_group_and_no_retry_finds(alpha: Site, tmp_path: Path) -> None:
    changed, done, again = (tmp_path / name for name in ("changed", "done", "again"))
    (tmp_path / "in.txt").write_text("given\n")
    script = (
        f"cat in.txt; [ -e {again} ] && exit; chmod u+w in.txt; echo CORRUPT >> in.txt; touch {changed};"
        f" while [ ! -e {done} ]; do sleep 0.05; done"
    )
    job = f"inputs = [{{url = 'in.txt', mode = 'link'}}]\n[group]\ncommand = ['sh', '-c', {json.dumps(script)}]\n"
    (tmp_path / "job.toml").write_text(job)
    first = diana(alpha, "submit", "--parsable", "job.toml", cwd=tmp_path).strip()
    until(changed.exists, "the job has changed its input")
    other = submitted(alpha, "--input", "in.txt", "--", "cat", "in.txt", cwd=tmp_path)
    assert diana(alpha, "logs", f"{other}.0") == "given\n"
    done.touch()
    diana(alpha, "wait", first, code=1)
    again.touch()
    diana(alpha, "retry", first)
    diana(alpha, "wait", first)
    assert diana(alpha, "logs", f"{first}.0") == "given\n"


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
        assert copy.process is not None and copy.process.wait(60) == 0
    finally:
        made.close()
