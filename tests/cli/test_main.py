"""The way in: verbs, help, one-line errors and exit codes, without a node."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from diana import errors
from diana.cli import main as cli
from diana.cli.groups import follow, work
from diana.cli.shared import faults, parsing
from diana.client import steps

WITHOUT_JSON = ("node", "top", "completion", "report")
"""Verbs that run until they are stopped, that need a terminal, that are for a shell, that say nothing."""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "diana.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def one_line(text: str) -> str:
    assert text.startswith("diana: "), text
    assert text.count("\n") == 1, text
    return text


def test_without_a_verb_the_overview_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in cli.VERBS)
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out == shown


def test_options_may_stand_between_names() -> None:
    from diana.cli.groups.look import COMMANDS
    from diana.cli.watch import datasets

    for words in (["add", "--data", "D", "a", "b", "c"], ["--data", "D", "add", "a", "b", "c"]):
        args = parsing.parse("datasets", "list datasets", datasets.COMMANDS["datasets"], words)
        assert (args.action, args.name, args.paths, args.data) == ("add", "a", ["b", "c"], "D")
    args = parsing.parse("status", "groups", COMMANDS["status"], ["alpha-1", "--json", "alpha-2"])
    assert args.groups == ["alpha-1", "alpha-2"]


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help_with_an_example_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"examples:\n  diana {verb}" in shown
    assert verb in WITHOUT_JSON or "--json" in shown
    assert cli.main(["help", verb]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sumbit"], "did you mean submit?"),
        (["squeue"], "did you mean status?"),
        (["kill"], "did you mean cancel?"),
        (["rm"], "did you mean drop?"),
        (["condor_status"], "did you mean sites?"),
        (["parallel"], "did you mean submit?"),
        (["submit", "-j8", "--", "true"], "does not take -j8; did you mean --max-parallel?"),
        (["submit", "-w", "node1", "--", "true"], "does not take -w; did you mean --sites?"),
        (["submit", "--joblog", "x", "--", "true"], "does not take --joblog; did you mean diana results GROUP?"),
        (["submit", "--mail", "x", "--", "true"], "does not take --mail; did you mean --notify?"),
        (["submit", "--detach", "--", "true"], "does not take --detach; submit returns once the group is on disk"),
        (["submit", "--dry-run", "--", "true"], "does not take --dry-run; did you mean diana plan?"),
        (["logs", "alpha-1", "-n", "5"], "does not take -n; did you mean --tail?"),
        (["--json", "status"], "options come after the verb"),
        (["submit"], "nothing to submit"),
        (["submit", "echo", "hi"], "diana: submit: a command stands behind --: diana submit -- echo hi\n"),
        (
            ["plan", "--cpus", "2", "sh", "main.py", "{t}", "--time=9", ":::", "a b"],
            "behind --: diana plan --cpus 2 -- sh main.py {t} --time=9 ::: 'a b'\n",
        ),
        (["submit", "sh", "-c", "ls"], "diana submit -- sh -c ls\n"),
        (["submit", "sh"], "sh: no such file here; a command stands behind --: diana submit -- sh\n"),
        (
            ["submit", "--input", "a", "b", "sh", "main.py"],
            "diana: a command stands behind --: diana submit --input a b -- sh main.py\n",
        ),
        (["plan", "sh"], "a command stands behind --: diana plan -- sh\n"),
        (["submit", "--input", "a", "b"], "--input: takes all words up to the next option as files"),
        (["submit", "x.toml", "-q"], "does not take -q; see diana submit --help"),
        (["submit", "--arra", "1-3", "x.sh"], "did you mean --array?"),
        (["submit", "--"], "no command after --"),
        (["submit", "--timeout", "3s", "--", "true"], "--timeout: limits the waiting of --wait; add --wait"),
        (["submit", "job.toml", "--", "true"], "give either"),
        (["submit", "--set", "memory", "job.toml"], "KEY=VALUE"),
        (["submit", "--max-parallel", "0", "job.toml"], "at least 1"),
        (["submit", "/nowhere/job.toml"], "No such file"),
        (["wait"], "required: GROUP"),
        (["wait", "alpha-1", "--timeout", "soon"], "no duration"),
        (["fetch", "../alpha-1"], "no group's name"),
        (["datasets", "add", "events"], "at least one path"),
        (["datasets", "list", "events"], "takes no name"),
        (["init"], "wants a site's name"),
        (["init", "Alpha!"], "lower-case"),
        (["init", "alpha", "--out", "x"], "name a site's directory with --data"),
        (["init", "--user", "ann", "--listen", "127.0.0.1:1"], "--listen is for a site"),
        (["drain"], "say: diana site drain"),
        (["site", "ban"], "name whom: diana site ban NAME"),
        (["site", "drain", "beta"], "leave 'beta' out"),
        (["site", "drain", "--force"], "--force goes with promote"),
        (["site", "promote", "vm"], "a site has one standby"),
        (["site", "promote", "--force", "--remove"], "give one of them"),
        (["join", "--token", "x"], "see diana join --help"),
        (["join", "what?", "beta"], "no token of diana's"),
        (["node"], "diana init NAME --data"),
        (["simulate", "/nowhere.toml"], "no such file"),
        (["status", "--address", "127.0.0.1:1"], "credential"),
        (["status", "--data", "d", "--credential", "c"], "give either"),
        (["restore", "/nowhere"], "/nowhere"),
        (["submit", "--collect", "", "--", "true"], "--collect '': names nothing; name something or leave it out"),
        (["submit", "--sites", " ,", "--", "true"], "--sites ' ,': names nothing"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIANA_DATA", str(tmp_path / "data"))
    assert cli.main(words) == 2
    assert says in one_line(capsys.readouterr().err)
    assert not list(tmp_path.iterdir()), "nothing half-done"


@pytest.mark.parametrize("words", [["status"], ["sites"], ["wait", "a-1"], ["logs", "a-1.0"], ["submit", "--", "true"]])
def test_a_node_that_is_not_running_is_exit_code_4(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIANA_DATA", str(tmp_path))
    assert cli.main(words) == 4
    assert f"diana init NAME --data {tmp_path}" in one_line(capsys.readouterr().err)
    (tmp_path / "site.toml").write_text("")
    assert cli.main(words) == 4
    assert f"diana node --data {tmp_path}" in one_line(capsys.readouterr().err)


def test_a_node_that_goes_while_it_is_asked_to_stop_has_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "site.toml").write_text("")
        (Path(folder) / "control").mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/control/diana.sock")
            listener.listen()

            def goes() -> None:
                caller, _ = listener.accept()
                caller.recv(1)
                caller.close()

            gone = threading.Thread(target=goes)
            gone.start()
            assert cli.main(["stop", "--data", folder]) == 0
            gone.join(60)
    assert capsys.readouterr().out == "the node has ended; it was stopping already\n"


def failing_with(error: BaseException) -> parsing.Command:
    def fail(args: object) -> int:
        raise error

    return parsing.Command(lambda parser: None, fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (errors.Denied("x"), 2),
        (errors.Unplaceable("x"), 3),
        (errors.Unreachable("x"), 4),
        (errors.Overloaded("x"), 4),
        (errors.WaitTimedOut("x"), 124),
    ],
)
def test_each_error_has_its_exit_code(
    error: errors.DianaError, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from diana.cli.groups import look

    monkeypatch.setitem(look.COMMANDS, "sites", failing_with(error))
    assert cli.main(["sites"]) == code
    assert capsys.readouterr().err == "diana: x\n"


def test_a_fault_of_ours_is_one_line_that_names_a_file_with_the_evidence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from diana.cli.groups import look

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(look.COMMANDS, "sites", failing_with(KeyError("a bug")))
    assert cli.main(["sites"]) == faults.INTERNAL
    line = one_line(capsys.readouterr().err)
    [evidence] = tmp_path.iterdir()
    assert str(evidence) in line
    assert "KeyError: 'a bug'" in evidence.read_text() and "Traceback" in evidence.read_text()
    assert evidence.stat().st_mode & 0o777 == 0o600


def test_a_path_that_was_named_and_cannot_be_used_is_no_fault_of_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from diana.cli.groups import look

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("DIANA_DATA", raising=False)
    closed = PermissionError(errno.EACCES, "Permission denied", "/srv/one/two/site.toml")
    monkeypatch.setitem(look.COMMANDS, "sites", failing_with(closed))
    for words in (
        ["--data", "/srv/one/two"],
        ["--data=/srv/one/two"],
        ["/srv/one/two/job.toml"],
        ["/srv/one/two/site.toml/a"],
    ):
        # Its own options do not matter here.
        assert faults.report(closed, ["sites", *words]) == 2, words
        line = one_line(capsys.readouterr().err)
        assert line.startswith("diana: /srv/one/two/site.toml: Permission denied; name another path, or have"), words
    monkeypatch.setenv("DIANA_DATA", "/srv/one/two")
    assert cli.main(["sites"]) == 2
    file = NotADirectoryError(errno.ENOTDIR, "Not a directory", "/srv/one/two/x")
    assert faults.report(file, ["sites"]) == 2
    assert capsys.readouterr().err.endswith("two/x: Not a directory; name another path\n")
    # A path that nobody named, a node's own, another fault.
    for error, words in (
        (closed, ["sites", "--data", "/srv/another"]),
        (closed, ["node", "--data", "/srv/one/two"]),
        (FileNotFoundError(errno.ENOENT, "No such file", "/srv/one/two/x"), ["sites", "--data", "/srv/one/two"]),
    ):
        monkeypatch.delenv("DIANA_DATA", raising=False)
        assert faults.report(error, words) == faults.INTERNAL


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    from diana.cli.groups import look

    monkeypatch.setitem(look.COMMANDS, "sites", failing_with(KeyboardInterrupt()))
    assert cli.main(["sites"]) == 130


def test_control_characters_in_an_error_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["\033[2Jstatus\nstatus"]) == 2
    assert "\033" not in one_line(capsys.readouterr().err)


def test_a_reader_that_goes_away_is_no_error() -> None:
    pipeline = f"{sys.executable} -m diana.cli --help | true; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, cli.PIPE_CLOSED)
    assert ended.stderr == ""


def test_the_module_runs_as_the_command_does() -> None:
    assert run("--version").stdout.startswith("diana 0.")
    assert run("nonsense").returncode == 2


@pytest.mark.parametrize(
    ("text", "value_s"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("250ms", 0.25), ("1h30m", 5400)],
)
def test_durations_read_as_people_write_them(text: str, value_s: float) -> None:
    assert parsing.duration_s(text) == value_s


@pytest.mark.parametrize(("option", "key"), [("--work", "work"), ("--scratch=1G", "scratch")])
def test_a_key_of_the_job_file_without_an_option_of_its_own_is_pointed_to_set(
    capsys: pytest.CaptureFixture[str], option: str, key: str
) -> None:
    assert cli.main(["submit", option, "1", "--", "true"]) == 2
    assert f"does not take {option}; write --set {key}=VALUE" in one_line(capsys.readouterr().err)


def test_an_expression_may_begin_with_a_minus() -> None:
    words = ["--rank", "-site.wait_s", "--require", "-1 < site.slots", "--require=-2 < site.slots", "--", "true"]
    args = parsing.parse("plan", "plan", work.COMMANDS["plan"], words)
    assert (args.rank, args.require) == ("-site.wait_s", ["-1 < site.slots", "-2 < site.slots"])
    with pytest.raises(errors.UsageError, match="--rank: expected one argument"):
        parsing.parse("plan", "plan", work.COMMANDS["plan"], ["--rank", "--json", "--", "true"])


def test_gpus_are_asked_for_beside_processors_and_memory() -> None:
    args = parsing.parse("submit", "x", work.COMMANDS["submit"], ["--cpus", "2", "--gpus", "1", "--", "true"])
    assert work._job_of(args)["options"] == {"cpus": "2", "gpus": "1"}


def test_an_option_of_several_names_that_is_given_again_adds_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIANA_NOTIFY", "mail:from@the.environment")
    words = ["--collect", "a.csv", "--collect", "b.csv,plots/", "--sites", "alpha", "--sites", "beta"]
    words += [
        "--not-sites",
        "x",
        "--not-sites",
        "y",
        "--after",
        "a-1",
        "--after",
        "a-2",
        "--modules",
        "m",
        "--modules",
        "n",
    ]
    words += ["--notify", "mail:a@x", "--notify", "mail:b@x", "--", "true"]
    args = parsing.parse("submit", "x", work.COMMANDS["submit"], words)
    assert work._job_of(args)["options"] == {
        "collect": "a.csv,b.csv,plots/",
        "sites": "alpha,beta",
        "not_sites": "x,y",
        "after": "a-1,a-2",
        "modules": "m,n",
        "notify": "mail:a@x,mail:b@x",
    }


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--data", "/srv/al pha"], " --data '/srv/al pha'"),
        (["--credential", "ann", "--address", "a.org:7400"], " --address a.org:7400 --credential ann"),
        ([], ""),
    ],
)
def test_a_command_that_is_printed_asks_the_node_that_was_asked(words: list[str], given: str) -> None:
    assert parsing.node_given(parsing.parse("wait", "x", follow.COMMANDS["wait"], [*words, "alpha-1"])) == given


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-- python3 main.py {t} ::: 1 2 3", "main.py: a file here that does not travel with the jobs; send it with"),
        ("-- python3 ./main.py", "--input ./main.py, or write --cwd . if the sites have this folder"),
        ("-- cat {x} ::: a.txt b.txt c.txt", "a.txt, b.txt and 1 more: files here that do not travel with the jobs"),
        ("-- cat ::: a.txt gone.txt", "a.txt: a file here"),
        ("-- cat {x} {y} ::: a.txt :::+ b.txt", "a.txt and b.txt: files here"),
        ("--input a.txt -- cat {} ::: a.txt b.txt", "--input b.txt, or"),
        ("-- python3 run/deep.py", "--input run/deep.py (jobs find run/deep.py as deep.py), or"),
        ("--input run/deep.py -- python3 run/deep.py", "(jobs find run/deep.py as deep.py)"),
        # They are brought, made, at the sites, or none.
        ("--input main.py -- python3 main.py {t} ::: 1 2 3", ""),
        ("--input run/deep.py -- python3 ./deep.py", ""),
        ("--input dataset:events/{x} -- cat {x} ::: a.txt b.txt", ""),
        ("--input dataset:run -- cat run/deep.py", ""),
        ("--cwd . -- python3 main.py", ""),
        ("--set cwd=/data -- python3 main.py", ""),
        ("--set group.cwd=/data -- python3 main.py", ""),
        ("--collect a.txt,b.*,run/ -- ./main.py a.txt b.txt run/deep.py", ""),
        ("--no-check-command -- python3 main.py", ""),
        ("-- python3 {x}.py run gone.txt 1 -o --in=a.txt ::: main", ""),
        ("-- python3 {t} {x} ::: 1 2 :::+ run other", ""),
        ("-- ./main.py main.py", ""),
        ("-- python3 /etc/passwd", ""),
        ("main.toml", ""),
    ],
)
def test_files_of_a_command_that_stay_here_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("main.py", "a.txt", "b.txt", "c.txt", "run/deep.py", "1", "-o", "main.toml"):
        (tmp_path / name).touch()
    args = parsing.parse("submit", "x", work.COMMANDS["submit"], words.split())
    told = list(work._left_here(args, work._job_of(args)))
    assert len(told) == bool(says) and all(says in line for line in told)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("main.py", b"import numpy\ngroup = 1\n", "diana submit --input main.py -- python3 main.py"),
        ("my sub/main.py", b"import numpy\n", "diana submit --input 'my sub/main.py' -- python3 main.py"),
        ("fit.R", b"x <- 1\n", "diana submit --input fit.R -- PROGRAM fit.R"),
        ("a.out", b"\x7fELF\xff\n", "diana submit -- ./a.out"),
        ("large.csv", b"1,2,3\n" * 200_000, "diana submit --input large.csv -- PROGRAM large.csv"),
        # Their own mistakes are told.
        ("sweep", b"[group]\ncommand = ls\n", ""),
        ("sweep.job", b"group:\n  command: ls\n", ""),
        ("empty", b"", ""),
        ("gruop", b"[gruop]\ncommand = 'ls'\n", ""),
        ("bad.toml", b"import numpy\n", ""),
        ("run", b"\n#!/bin/sh\nls\n", ""),
        ("bad.yaml", b"import numpy\n", ""),
    ],
)
@pytest.mark.parametrize("verb", ["submit", "plan"])
def test_a_file_that_is_no_job_is_told_so_with_the_line_that_runs_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    name: str,
    content: bytes,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIANA_DATA", str(tmp_path))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    code = cli.main([verb, name])
    told = one_line(capsys.readouterr().err)
    if says:
        assert (code, told) == (2, f"diana: {name}: no job file and no script (#!); to run it, write: {says}\n")
    else:
        assert "no job file" not in told


def test_a_file_of_any_name_that_is_said_to_be_toml_is_read_as_that(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_bytes(b"import numpy\n")
    assert steps.prepare(tmp_path / "main.py", "", {}, "toml", None).request.format == "toml"
