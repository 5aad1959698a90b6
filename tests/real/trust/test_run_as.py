"""Jobs under the accounts of their owners, on a real node with real accounts (PROMISES 5.7, 5.13; SPEC U1).

This machine's root runs the node here, which drops to the accounts by the same program that sudo would start for a
node under an account of its own; what the program itself asks of its caller is tested with both kinds of caller.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.adapters.lrm.spawner.others import OtherAccounts
from tests.e2e.gets_and_keeps import copies_little, gets_and_keeps
from tests.e2e.grid import Grid, Site, outcomes, timely, until
from tests.real.accounts import accounts, map_accounts, processes_of

Made = dict[str, pwd.struct_passwd]


@pytest.fixture(scope="module")
def people() -> Iterator[Made]:
    with accounts("ann-t", "bob-t", "diana-t") as made:
        yield made


@pytest.fixture
def site(grid: Grid, people: Made) -> Site:
    """Root's jobs run as ann-t, ann-t's too, bob-t's as bob-t, nobody else's at all."""
    grid.root.chmod(0o755)
    alpha = copies_little(grid.add("alpha", slots=2))
    names = {"root@alpha-vo": "ann-t", "bob-t@alpha-vo": "bob-t"}
    map_accounts(grid.root / "libexec", alpha.data, names, allow={"max_processes": 200})
    grid.join()
    grid.start()
    return alpha


def _job(script: str, jobs: int = 1, **group: object) -> dict[str, object]:
    return {"group": {"command": ["sh", "-c", script], **group}, "sweep": {"array": f"0-{jobs - 1}"}}


def _run(site: Site, job: dict[str, object], within_s: float = 60.0) -> tuple[str, dict[int, str]]:
    with site.client() as client:
        group = client.submit(job).group
        client.wait(group, timeout_s=within_s)
        return group, dict(outcomes(client, group))


def _log(site: Site, group: str, index: int = 0) -> str:
    with site.client() as client:
        return b"".join(chunk.data for chunk in client.logs(f"{group}.{index}")).decode()


def test_a_job_runs_as_the_account_of_its_owner_with_nothing_of_roots(site: Site, people: Made) -> None:
    script = "id -u; id -g; id -G; echo $HOME $USER; grep ^CapEff /proc/self/status; echo err >>/dev/stderr"
    group, ends = _run(site, _job(script, 2))
    said = _log(site, group).splitlines()
    ann = people["ann-t"]
    assert ends == {0: "done", 1: "done"}, _log(site, group)
    assert said[:4] == [str(ann.pw_uid), str(ann.pw_gid), str(ann.pw_gid), f"{ann.pw_dir} ann-t"]
    assert "CapEff:\t0000000000000000" in said and "err" in said


def test_outputs_inputs_and_scratch_work_though_the_account_shuts_others_out(site: Site, people: Made) -> None:
    data = site.data.parent / "in.txt"
    data.write_text("hello")
    script = (
        "umask 077; set -e; cat given/in.txt > out-{index}; chmod 600 out-{index}; mkdir -p d/e;"
        " cp out-{index} d/e/deep-{index}; chmod 700 d d/e;"
        " mkdir -p $TMPDIR/shut/in; touch $TMPDIR/shut/in/x; chmod 000 $TMPDIR/shut/in; pwd; ls -l"
    )
    job = _job(script, 3, name="io")
    job["inputs"] = [{"url": str(data), "path": "given/in.txt"}]
    job["outputs"] = {"collect": ["out-{index}", "d/e/deep-{index}"]}
    group, ends = _run(site, job)
    assert set(ends.values()) == {"done"}, _log(site, group)
    kept = sorted(site.data.glob(f"groups/{group}/outputs/**/out-*"))
    assert len(kept) == 3 and all(path.read_text() == "hello" and path.stat().st_uid == 0 for path in kept)
    until(lambda: not list(site.data.glob("slots/*/*")), "scratch is empty", 10.0)
    assert all(path.stat().st_uid == 0 for path in site.data.glob("slots/*"))


def test_a_job_of_another_account_gets_inputs_of_its_own_and_what_it_made_is_kept(
    site: Site, grid: Grid, tmp_path: Path
) -> None:
    gets_and_keeps(grid, site, tmp_path)


def test_one_account_sees_nothing_of_the_nodes_nor_of_anothers(site: Site, people: Made) -> None:
    look = f"cat secret; cd {site.data}; ls; for f in *; do test -r $f && echo SEEN $f; ls $f && echo LISTED $f; done"
    first = _job("echo s3cret > secret; sleep 3")
    first["outputs"] = {"collect": ["secret"]}
    with site.client() as client:
        held = client.submit(first).group
        until(lambda: processes_of(people["ann-t"].pw_uid), "it runs", 20.0)
    group, _ = _run(site, _job(look))
    assert "SEEN" not in _log(site, group) and "LISTED" not in _log(site, group)
    folder = site.paths.jobs(f"{held}/0")  # type: ignore[arg-type]
    spy = ["cat", str(next(folder.glob("e*/0"), folder / "e1/0") / "secret")]
    bob = people["bob-t"].pw_uid
    done = subprocess.run(spy, user=bob, group=bob, extra_groups=[], capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stderr, done


def test_cancel_and_time_limit_reap_all_that_a_job_of_another_account_started(site: Site, people: Made) -> None:
    uid = people["ann-t"].pw_uid
    with site.client() as client:
        group = client.submit(
            _job("setsid sleep 600 & env -i setsid sleep 601 & trap '' TERM; sleep 602 & wait; wait")
        ).group
        until(lambda: len(processes_of(uid)) >= 4, "all run", 20.0)
        client.cancel(group)
        client.wait(group, timeout_s=30.0)
    until(lambda: not processes_of(uid), "all are gone", 20.0)


def test_a_fork_bomb_leaves_node_and_machine_alive_and_dies_with_its_job(site: Site, people: Made) -> None:
    uid = people["ann-t"].pw_uid
    with site.client() as client:
        # Each copy starts two and stays; the account's limit of processes ends the growth.
        group = client.submit(_job("b() {{ b & b & wait; }}; b; sleep 60")).group
        until(lambda: len(processes_of(uid)) >= 150, "it grew", 30.0)
        time.sleep(1.0)
        assert len(processes_of(uid)) <= 200
        began_s = time.monotonic()
        assert client.info().site == "alpha"
        timely(time.monotonic() - began_s, 5.0, "an answer")
        client.cancel(group)
        client.wait(group, timeout_s=60.0)
    until(lambda: not processes_of(uid), "all are gone", 20.0)
    _, ends = _run(site, _job("true"))
    assert ends == {0: "done"}


def test_what_a_job_of_an_account_left_without_environment_ends_with_it_though_another_runs_on(
    site: Site, people: Made
) -> None:
    uid = people["ann-t"].pw_uid
    with site.client() as client:
        other = client.submit(_job("exec sleep 600")).group
        until(lambda: _sleeps(uid, "600"), "it runs", 20.0)
        group = client.submit(_job("(env -i setsid sleep 601 & exec env -i setsid sleep 601) & sleep 3")).group
        until(lambda: _sleeps(uid, "601") == 2, "both are left", 20.0)
        client.wait(group, timeout_s=60.0)
        assert (_sleeps(uid, "600"), _sleeps(uid, "601")) == (1, 0)
        client.cancel(other)


def _sleeps(uid: int, seconds: str) -> int:
    """How many processes of an account sleep for so long."""
    found = 0
    for pid in processes_of(uid):
        with suppress(OSError):
            found += Path(f"/proc/{pid}/cmdline").read_bytes() == f"sleep\0{seconds}\0".encode()
    return found


def test_jobs_of_another_account_outlive_a_restart_of_the_node_and_of_the_spawner(site: Site, people: Made) -> None:
    with site.client() as client:
        group = client.submit(_job("sleep 6; echo over")).group
        until(lambda: processes_of(people["ann-t"].pw_uid), "it runs", 20.0)
    assert site.process is not None
    site.process.kill()
    site.process.wait()
    site.start()
    with site.client() as client:
        client.wait(group, timeout_s=30.0)
        assert outcomes(client, group) == {0: "done"}
    assert "over" in _log(site, group)


def test_who_has_no_account_here_gets_no_job_and_one_line(grid: Grid, people: Made) -> None:
    grid.root.chmod(0o755)
    alpha = grid.add("alpha", slots=1)
    map_accounts(grid.root / "libexec", alpha.data, {"bob-t@alpha-vo": "bob-t"})
    grid.join()
    grid.start()
    with alpha.client() as client:
        group = client.submit(_job("id -u")).group
        client.wait(group, timeout_s=30.0)
        (result,) = client.results(group)
        assert result.outcome == "not_started", result
        assert "no account here runs jobs of root@alpha-vo" in result.error


SAVES = """
trap 'echo $n > state; exit 85' USR1
n=0; [ -z "$DIANA_CHECKPOINT" ] || n=$(cat state); from=$n
while [ $n -lt 40 ]; do n=$((n + 1)); sleep 0.1; done
echo $from $n $(id -un) > answer
"""


def test_a_job_of_another_account_is_asked_to_save_and_goes_on_from_its_own_files(site: Site) -> None:
    job = _job(SAVES)
    job["checkpoint"] = {"paths": ["state"]}
    job["outputs"] = {"collect": ["answer"]}
    with site.client() as client:
        group = client.submit(job).group
        until(lambda: client.status([group])[0].running, lambda: str(client.status([group])), 30.0)
        time.sleep(1.5)
        client.checkpoint(group)
        client.wait(group, timeout_s=60.0)
        (result,) = client.results(group)
        assert (result.outcome, result.attempt) == ("done", 2), result
    (answer,) = site.data.glob(f"groups/{group}/outputs/**/answer")
    begun, ended, account = answer.read_text().split()
    assert 0 < int(begun) < 40 and (ended, account) == ("40", "ann-t")


# --- the program's own checks -------------------------------------------------------------------------------


def _call(
    program: Path, *words: str, caller: int | None = None, told: bytes = b"{}"
) -> subprocess.CompletedProcess[str]:
    env = {"SUDO_UID": str(caller)} if caller is not None else {}
    done = subprocess.run([str(program), *words], input=told, capture_output=True, env=env, check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def program(grid: Grid, people: Made) -> Path:
    grid.root.chmod(0o755)
    data = grid.add("alpha").data
    os.chown(data, people["diana-t"].pw_uid, -1)
    return map_accounts(grid.root / "libexec", data, {"*": "ann-t"})


def test_the_program_serves_the_account_of_the_node_and_no_other(program: Path, people: Made) -> None:
    assert _call(program, "check", "ann-t", caller=people["diana-t"].pw_uid).returncode == 0
    for caller in (people["bob-t"].pw_uid, people["ann-t"].pw_uid, 0, None):
        done = _call(program, "check", "ann-t", caller=caller)
        assert done.returncode == 125 and "may not use it" in done.stderr
    bob = people["bob-t"].pw_uid
    done2 = subprocess.run([str(program), "check", "ann-t"], user=bob, group=bob, capture_output=True, check=False)
    assert done2.returncode == 125 and b"through sudo" in done2.stderr


@pytest.mark.parametrize("account", ["root", "daemon", "bob-t", "nobody-of-that-name", "0", "../ann-t", "", "ann-t\n"])
def test_the_program_becomes_no_account_but_those_listed(program: Path, people: Made, account: str) -> None:
    done = _call(program, "run", account, caller=people["diana-t"].pw_uid)
    assert done.returncode == 125 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("account", ["root", "daemon"])
def test_the_program_never_becomes_root_nor_the_system_though_they_be_listed(
    program: Path, people: Made, account: str
) -> None:
    listed = program.with_name("run-as.toml")
    listed.write_text(f'nodes = ["diana-t"]\naccounts = ["{account}"]\n')
    done = _call(program, "run", account, caller=people["diana-t"].pw_uid)
    assert done.returncode == 125 and "never run jobs" in done.stderr


def test_the_program_refuses_what_others_could_have_written(program: Path, people: Made) -> None:
    node, listed, folder = people["diana-t"].pw_uid, program.with_name("run-as.toml"), program.parent
    for path, good, bad in (
        (listed, 0o644, 0o664),
        (listed, 0o644, 0o646),
        (program, 0o755, 0o775),
        (folder, 0o755, 0o777),
    ):
        path.chmod(bad)
        done = _call(program, "check", "ann-t", caller=node)
        assert done.returncode == 125 and "writable by nobody else" in done.stderr, path
        path.chmod(good)
    os.chown(listed, node, -1)
    assert "must be root's" in _call(program, "check", "ann-t", caller=node).stderr
    os.chown(listed, 0, -1)
    for text in ("nodes = 1", "accounts = [", 'nodes = ["diana-t"]\naccounts = ["ann-t"]\nmin_uid = 0', 'shell = "x"'):
        listed.write_text(text)
        assert _call(program, "check", "ann-t", caller=node).returncode == 125, text


def test_the_program_passes_no_environment_and_starts_no_shell(program: Path, people: Made) -> None:
    told = (
        b'{"program": "/usr/bin/env", "argv": ["env"], "memory_bytes": 0,'
        b' "environment": {"A": "$(id); `id`", "LD_X": "1"}}'
    )
    env = {"SUDO_UID": str(people["diana-t"].pw_uid), "SECRET": "s", "PYTHONPATH": "/nowhere", "LD_LIBRARY_PATH": "/x"}
    done = subprocess.run([str(program), "run", "ann-t"], input=told, capture_output=True, env=env, check=True)
    names = {line.partition("=")[0] for line in done.stdout.decode().splitlines()}
    assert names == {"A", "LD_X", "HOME", "USER", "LOGNAME", "SHELL"} and b"A=$(id); `id`" in done.stdout


def test_the_program_kills_and_opens_as_the_account_and_never_more(program: Path, people: Made, tmp_path: Path) -> None:
    node, bob = people["diana-t"].pw_uid, people["bob-t"].pw_uid
    other = subprocess.Popen(["sleep", "60"], user=bob, group=bob, start_new_session=True)
    try:
        told = f'{{"signal": 9, "runs": [[{other.pid}, 0, ""], [1, 0, ""]]}}'.encode()
        assert _call(program, "kill", "ann-t", caller=node, told=told).returncode == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    shut = program.parent.parent / "shut"
    shut.mkdir(mode=0o755)
    (shut / "of-root").write_text("x")
    (shut / "of-root").chmod(0o600)
    (shut / "link").symlink_to("/etc/shadow")
    told = b'["."]'
    env = {"SUDO_UID": str(node)}
    subprocess.run([str(program), "release", "ann-t"], input=told, env=env, cwd=shut, check=True)
    assert (shut / "of-root").stat().st_mode & 0o777 == 0o600
    assert os.stat("/etc/shadow").st_mode & 0o004 == 0


@pytest.fixture
def runs(people: Made) -> Iterator[list[subprocess.Popen[str]]]:
    """Two runs of ann-t, each known by its mark: one heeds USR1, the other does not."""
    scripts = ("trap 'echo asked; exit 85' USR1; echo ready; while :; do sleep 0.1; done", "echo ready; sleep 600")
    ann = people["ann-t"].pw_uid
    made = [
        subprocess.Popen(
            ["sh", "-c", script],
            user=ann,
            group=ann,
            extra_groups=[],
            env={"MARK": str(at)},
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        for at, script in enumerate(scripts)
    ]
    try:
        for one in made:
            assert one.stdout is not None and one.stdout.readline() == "ready\n"
        yield made
    finally:
        for one in made:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
            assert one.stdout is not None
            one.stdout.close()


def test_the_program_asks_only_those_that_heed_the_signal_and_says_which(
    program: Path, people: Made, runs: list[subprocess.Popen[str]]
) -> None:
    told = {"signal": signal.SIGUSR1, "runs": [(0, 0, "MARK=1"), (0, 0, "MARK=0")]}
    node = people["diana-t"].pw_uid
    done = _call(program, "ask", "ann-t", caller=node, told=json.dumps(told).encode())
    assert (done.returncode, json.loads(done.stdout)) == (0, [1]), done
    assert runs[0].wait(timeout=60) == 85 and runs[1].poll() is None
    assert _call(program, "ask", "bob-t", caller=node, told=json.dumps(told).encode()).returncode == 125


class Asked:
    """A job as the spawner has it."""

    def __init__(self, pid: int) -> None:
        self.pid, self.asked_by_s = pid, 1e12
        self.claim = SimpleNamespace(record=SimpleNamespace(account="ann-t"))


def test_the_spawner_asks_by_the_program_until_a_run_heeds_it_and_gives_up_on_a_program_that_cannot(
    program: Path, people: Made, runs: list[subprocess.Popen[str]]
) -> None:
    program.with_name("run-as.toml").write_text('nodes = ["root"]\naccounts = ["ann-t"]\n')
    others = OtherAccounts()
    others.program = str(program)
    jobs: list[Any] = [Asked(one.pid) for one in runs]

    def told() -> bool:
        for at, one in enumerate(jobs):
            if one.asked_by_s:
                others.ask(one, b"MARK=%d" % at, signal.SIGUSR1)
        others.flush()
        others.helpers()
        return not jobs[0].asked_by_s

    until(told, "it heeds", 30.0)
    assert runs[0].wait(timeout=60) == 85
    until(lambda: not others.helpers(), "no process of it is left", 30.0)
    assert jobs[1].asked_by_s and runs[1].poll() is None, "it is asked again"
    program.write_text(program.read_text().replace('"ask": ask,', ""))
    until(lambda: told() and not jobs[1].asked_by_s, "an older program cannot", 30.0)
    assert runs[1].poll() is None
