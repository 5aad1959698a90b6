"""Odd surroundings of a user and an operator, with real processes and a real node: a folder that is gone, names that
are not UTF-8 or hold braces and escape sequences, a disk mounted noexec, a path too deep. Each is one line with its
mend, or works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
DIANA = [os.fsencode(sys.executable), b"-m", b"diana.cli"]
ODD = b"caf\xe9.txt"
"""A name in Latin-1, as old archives leave it."""
ESCAPE = "\x1b[31m"


def run(
    site: Path, folder: Path | bytes, *words: str | bytes, shell: str = "", env: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """`diana` with DIANA_DATA, in that folder; `shell`: what a shell there does before."""
    command: Sequence[bytes] = [*DIANA, *map(os.fsencode, words)]
    if shell:
        command = [b"sh", b"-c", os.fsencode(f'{shell}; exec "$@"'), b"sh", *command]
    environment = {**os.environ, "DIANA_DATA": str(site), **env}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL, errors="surrogateescape",
    )  # fmt: skip


def refused(ended: subprocess.CompletedProcess[str], *says: str) -> None:
    assert ended.returncode == 2, ended
    assert ended.stderr.startswith("diana: ") and ended.stderr.count("\n") == 1, ended.stderr
    assert "internal error" not in ended.stderr and "\x1b" not in ended.stderr
    for words in says:
        assert words in ended.stderr, ended.stderr


def accepted(site: Path) -> int:
    return run(site, site, "status", "--limit", "0").stdout.count("alpha-")


GONE = "mkdir gone && cd gone && rmdir ../gone"


def test_a_working_directory_that_is_gone_is_told_and_what_needs_none_goes_on(site: Path, tmp_path: Path) -> None:
    before = accepted(site)
    for words in (["submit", "--", "true"], ["init", "beta", "--data", "rel"], ["datasets", "add", "a", "f"]):
        refused(run(site, tmp_path, *words, shell=GONE), "the working directory is gone; change to one that is there")
    refused(run(site, tmp_path, "sites", shell=GONE, env={"DIANA_DATA": "rel"}), "the working directory is gone")
    assert run(site, tmp_path, "sites", shell=GONE).returncode == 0
    assert accepted(site) == before


def test_a_name_that_is_not_utf_8_is_refused_in_a_line_that_shows_its_bytes(site: Path, tmp_path: Path) -> None:
    before, odd = accepted(site), os.fsencode(tmp_path) + b"/d\xe9"
    (tmp_path / os.fsdecode(ODD)).write_text("x")
    os.mkdir(odd)
    for words in (
        ["--input", ODD, "--", "true"], ["--collect", ODD, "--", "true"], ["--name", ODD, "--", "true"], [ODD],
        ["--", "cat", ODD], ["--env", b"A=" + ODD, "--", "true"], ["--cwd", b"d\xe9/caf\xe9.txt", "--", "true"],
    ):  # fmt: skip
        refused(run(site, tmp_path, "submit", *words), "caf\\xe9.txt", "not UTF-8; rename the file")
    refused(run(site, tmp_path, "init", "beta", "--data", ODD), "caf\\xe9.txt")
    refused(run(site, tmp_path, "fetch", ODD), "caf\\xe9.txt")
    variables = {"ODD": os.fsdecode(ODD)}
    refused(run(site, tmp_path, "submit", "--export", "ALL", "--", "true", env=variables), "'ODD': 'caf\\xe9.txt'")
    refused(run(site, odd, "submit", "--", "true"), "working directory", "d\\xe9", "not UTF-8")
    assert accepted(site) == before


def test_an_output_of_such_a_name_ends_its_job_with_the_reason_and_the_group_goes_on(
    site: Path, tmp_path: Path
) -> None:
    script = ': > "$(printf -- "$1")"'
    words = ["--collect", "*", "--", "sh", "-c", script, "sh", "{name}", ":::"]
    ended = run(site, tmp_path, "submit", "--wait", *words, "caf\\351.txt", "a\\033[31mb", "fine", "-x", "%0255d")
    assert ended.returncode == 1 and "alpha" in ended.stdout, ended
    group = ended.stdout.split(":")[0]
    told = run(site, tmp_path, "results", group)
    assert "caf\\xe9.txt': not UTF-8; rename the file" in told.stdout + told.stderr, told
    assert "holds a control character; rename the file" in told.stdout + told.stderr, told
    assert ESCAPE not in ended.stdout + ended.stderr + told.stdout + told.stderr
    assert run(site, tmp_path, "fetch", group).returncode == 0
    names = sorted(path.name for path in (tmp_path / group).rglob("*") if path.is_file())
    assert names == ["-x", f"{0:0255d}", "fine"], "a name of 255 bytes, too, has its place"


def test_a_literal_brace_is_doubled_and_each_refusal_says_so(site: Path, tmp_path: Path) -> None:
    (tmp_path / "{a}").write_text("in braces\n")
    tool = tmp_path / "{s}.sh"
    tool.write_text("#!/bin/sh\ncat '{a}'\n")
    tool.chmod(0o755)
    refused(run(site, tmp_path, "submit", "--input", "{a}", "--", "cat", "{a}"), "write '{{a}}' for the text itself")
    refused(run(site, tmp_path, "submit", "--", "./{{s}}.sh"), 'url = "{{s}}.sh"')
    done = run(site, tmp_path, "submit", "--wait", "--input", "{a}", "{s}.sh", "--", "./{{s}}.sh")
    assert done.returncode == 0, done
    assert run(site, tmp_path, "logs", done.stdout.split(":")[0]).stdout.endswith("in braces\n")


def test_a_locale_that_cannot_show_a_name_shows_it_escaped(site: Path, tmp_path: Path) -> None:
    assert run(site, tmp_path, "submit", "--wait", "--name", "hél", "--", "true").returncode == 0
    plain = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    shown = run(site, tmp_path, "status", env=plain)
    assert shown.returncode == 0 and "h\\xe9l" in shown.stdout, shown
    shown = run(site, tmp_path, "status", "--json", env=plain)
    assert shown.returncode == 0 and '"h\\u00e9l"' in shown.stdout, shown
    refused(run(site, tmp_path, "submit", "--name", "hél", "--", "true", env=plain), "set LC_ALL=C.UTF-8")


def test_a_file_in_place_of_a_data_directory_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for words in (["sites"], ["submit", "--", "true"], ["node"], ["init", "beta"]):
        refused(run(tmp_path / "file", tmp_path, *words), "file: not a directory; name a")
    assert "file: not a directory; name a" in run(tmp_path / "file", tmp_path, "doctor").stdout


def test_a_umask_that_takes_everything_leaves_an_account_its_own_rights(tmp_path: Path) -> None:
    made = run(tmp_path / "d", tmp_path, "init", "beta", shell="umask 777")
    assert made.returncode == 0 and (tmp_path / "d").stat().st_mode & 0o777 == 0o700, made


@pytest.mark.skipif(os.getuid() != 0, reason="mounting takes root")
def test_a_machine_without_proc_is_told_before_anything_is_begun(tmp_path: Path) -> None:
    data = tmp_path / "d"
    run(data, tmp_path, "init", "beta", "--root-jobs")
    before = sorted(path.name for path in data.iterdir())
    words = [*DIANA, b"node", b"--data", os.fsencode(data)]
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs diana /proc && exec "$@"', "sh", *words]
    refused(
        subprocess.run(hidden, capture_output=True, text=True, timeout=120, check=False), "mount -t proc proc /proc"
    )
    assert sorted(path.name for path in data.iterdir()) == before


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder of a short name."""
    import shutil
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting takes root")
def test_on_a_disk_mounted_noexec_a_script_runs_and_what_cannot_is_told_so(short: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "diana", str(short)], check=True)
    try:
        data, told = short / "d", "lies on a file system mounted noexec"
        made = run(data, short, "init", "beta", "--root-jobs", "--slots", "2")
        assert f"warning: {data} {told}" in made.stdout and "; remount it with exec" in made.stdout, made
        started = run(data, short, "node", "--detach", "--no-zeroconf")
        assert f"warning: {data} {told}" in started.stdout, started
        try:
            assert f"warn  place        {data} {told}" in run(data, short, "doctor").stdout
            assert f"warning: {data} {told}" in (data / "node.out").read_text()
            (short / "s.py").write_text("#!/usr/bin/env python3\nprint('ran')\n")
            (short / "s.py").chmod(0o755)
            done = run(data, short, "submit", "--wait", "s.py")
            assert done.returncode == 0, done
            assert run(data, short, "logs", "beta-1").stdout.endswith("ran\n")
            ended = run(data, short, "submit", "--wait", "--input", "s.py", "--", "./s.py")
            assert ended.returncode == 1 and f"'./s.py' {told}; start a script by its" in ended.stdout, ended
        finally:
            pid = int(re.findall(r"process (\d+)", started.stdout)[0])
            assert run(data, short, "stop").returncode == 0
            while os.path.exists(f"/proc/{pid}"):
                os.sched_yield()
    finally:
        subprocess.run(["umount", "--lazy", str(short)], check=True)


def test_a_data_directory_too_deep_for_the_sockets_of_jobs_is_told_at_init_and_by_doctor(short: Path) -> None:
    from multiprocessing.connection import Listener

    from diana.adapters.places import LONGEST_ROOT_BYTES

    root = short / ("d" * (LONGEST_ROOT_BYTES - len(str(short)) - 1))
    assert "warning" not in run(root, short, "init", "beta").stdout
    scratch = root / "slots" / "9999" / "pymp-12345678"
    scratch.mkdir(parents=True)
    Listener(str(scratch / "listener-12345678"), family="AF_UNIX").close()
    deep = short / ("e" * (LONGEST_ROOT_BYTES - len(str(short))))
    told = f"{deep} has {LONGEST_ROOT_BYTES + 1} bytes, so that Unix sockets in a job's TMPDIR get too long a name"
    assert f"warning: {told}" in run(deep, short, "init", "beta").stdout
    assert f"warn  place        {told}" in run(deep, short, "doctor").stdout


def test_a_read_only_data_directory_and_a_full_disk_have_their_own_mends(short: Path) -> None:
    if os.getuid():
        pytest.skip("mounting takes root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "diana", str(short)], check=True)
    try:
        run(short / "d", Path("/"), "init", "beta", "--root-jobs")
        (short / "filler").write_bytes(bytes(4096))
        with (short / "filler").open("ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        refused(run(short / "e", Path("/"), "init", "gamma"), "No space left on device; make room there")
        assert not (short / "e").exists(), "nothing half-done"
        subprocess.run(["mount", "-o", "remount,ro", str(short)], check=True)
        detached = run(short / "d", Path("/"), "node", "--detach")
        refused(detached, "node.out: Read-only file system; name a data directory this account can write")
        assert "cannot be written: Read-only file system" in run(short / "d", Path("/"), "doctor").stdout
    finally:
        subprocess.run(["umount", "--lazy", str(short)], check=True)


def test_a_site_without_a_name_and_a_folder_in_the_place_of_the_log_are_one_line_each(short: Path) -> None:
    refused(run(short / "e", short, "init", ""), "site id '': want 1 to 40 lower-case letters")
    run(short / "d", short, "init", "beta", "--root-jobs", "--listen", "127.0.0.1:0")
    (short / "d" / "node.log").mkdir()
    refused(run(short / "d", short, "node"), "node.log: Is a directory; move away what lies there")
