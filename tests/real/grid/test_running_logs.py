"""Logs of jobs that run: here, at another site, on a machine of another site; followed, over a node's restart too."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, timely, until
from tests.real.members import Machine, add_member

pytestmark = pytest.mark.e2e
DIANA = [sys.executable, "-m", "diana.cli"]
WITHIN_S = 90.0


class Sites:
    """Alpha of one slot; beta, whose only slots are those of its machine."""

    def __init__(self) -> None:
        self.grid = Grid()
        # The first of a VO signs certificates, those of its machines too.
        self.beta, self.alpha = self.grid.add("beta", 0), self.grid.add("alpha", 1)
        self.grid.join()
        self.machine: Machine = add_member(self.grid, self.beta, "m1", 2)
        for site in (self.alpha, self.beta):
            site.launch()
        for site in (self.alpha, self.beta):
            site.ready()
        self.machine.start()

    def submit(self, where: str, script: str, jobs: int = 1, **group: object) -> str:
        with self.alpha.client() as client:
            more = {"sweep": {"array": f"0-{jobs - 1}"}} if jobs > 1 else {}
            command = {"command": ["sh", "-c", script], "sites": [where], **group}
            return client.submit({"group": command, **more}).group

    def logs(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.grid.run(self.alpha, "logs", "--data", str(self.alpha.data), *words)

    def follow(self, *words: str) -> Followed:
        return Followed(self.alpha, *words)


class Followed:
    """`diana logs -f`, or another verb, as it runs."""

    def __init__(self, site: Site, *words: str) -> None:
        self.output = site.data.parent / f"follow-{time.monotonic_ns()}"
        self.errors = self.output.with_suffix(".err")
        verb, *more = words if words[0] in ("wait", "submit", "status", "fetch") else ("logs", "-f", *words)
        command = [*DIANA, verb, "--data", str(site.data), *more]
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=site.environment())

    def said(self) -> str:
        return self.output.read_text()

    def warned(self, text: str) -> None:
        until(lambda: text in self.errors.read_text(), lambda: f"{text!r} in {self.errors.read_text()!r}", WITHIN_S)

    def until(self, text: str) -> None:
        until(lambda: text in self.said(), lambda: f"{text!r} in {self.said()!r}, {self.errors.read_text()}", WITHIN_S)

    def end(self) -> tuple[int, str, str]:
        code = self.process.wait(WITHIN_S)
        return code, self.said(), self.errors.read_text()


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    made = Sites()
    try:
        yield made
    finally:
        made.grid.close()


def waiting_for(go: Path) -> str:
    return f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo over"


@pytest.mark.parametrize("where", ["alpha", "beta"])
def test_a_running_job_is_read_and_followed_wherever_it_runs(sites: Sites, where: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    group = sites.submit(where, waiting_for(go) + "; exit 3")
    followed = sites.follow(f"{group}.0")
    followed.until("begun\n")
    read = sites.logs(f"{group}.0")
    assert (read.returncode, read.stdout) == (0, "begun\n"), read
    go.touch()
    code, said, errors = followed.end()
    # That it was waited for may be said before.
    assert (code, said) == (0, "begun\nover\n") and errors.endswith(
        f"diana: {group}.0: failed at {where}, exit code 3\n"
    )
    assert sites.logs("--tail", "1", f"{group}.0").stdout == "over\n"


def test_a_log_that_is_not_there_yet_is_exit_code_4_or_waited_for(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    before = sites.submit("alpha", waiting_for(go))
    group = sites.submit("alpha", "echo mine")
    none = sites.logs(f"{group}.0")
    assert (none.returncode, none.stdout) == (4, "") and "no log yet" in none.stderr, none
    two = sites.submit("alpha", "echo mine", jobs=2)
    none = sites.logs(two)
    assert (none.returncode, none.stdout) == (4, ""), none
    assert none.stderr == f"diana: {two}: 2 of 2 jobs have not ended; what one writes: diana logs {two}.N\n"
    followed = sites.follow(f"{group}.0")
    followed.warned("waited for")
    go.touch()
    code, said, _ = followed.end()
    assert (code, said) == (0, "mine\n")
    assert sites.logs("--tail", "1", f"{before}.0").stdout == "over\n"


def test_a_log_that_is_removed_while_it_is_followed_is_missed_in_one_line(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    group = sites.submit("alpha", waiting_for(go))
    followed = sites.follow(f"{group}.0")
    followed.until("begun\n")
    shutil.rmtree(sites.alpha.data / "logs" / group)
    followed.warned("No such file or directory; its log is waited for")
    go.touch()
    code, said, errors = followed.end()
    assert (code, said) == (4, "begun\n") and errors.endswith(f"diana results {group} --from 0 --limit 1\n"), errors


def test_the_middle_of_a_long_log_is_left_out_and_the_last_words_are_not(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"seq 1 100000; until [ -e {go} ]; do sleep 0.05; done; echo the last words"
    group = sites.submit("beta", script, log_limit="10K")
    followed = sites.follow(f"{group}.0")
    followed.until("\n100000\n")
    go.touch()
    code, said, _ = followed.end()
    assert code == 0 and said.startswith("1\n2\n") and said.endswith("\n100000\nthe last words\n")
    assert "bytes left out here; log_limit is 1" in said
    whole = sites.logs(f"{group}.0").stdout
    assert whole.startswith("1\n2\n") and whole.endswith("\n100000\nthe last words\n") and len(whole) < 11_000


def test_failed_jobs_of_a_group_are_told_as_they_end(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo job $DIANA_INDEX; [ $DIANA_INDEX = 0 ] && exit 1; until [ -e {go} ]; do sleep 0.05; done; exit 2"
    group = sites.submit("beta", script, jobs=2)
    followed = sites.follow("--failed", group)
    followed.until("job 0\n")
    assert "job 1" not in followed.said()
    go.touch()
    code, said, errors = followed.end()
    assert (code, said) == (0, f"==> {group}.0 <==\njob 0\n==> {group}.1 <==\njob 1\n")
    assert errors.splitlines() == [f"diana: {group}.{k}: failed at beta, exit code {k + 1}" for k in (0, 1)]


def test_a_job_that_is_tried_again_shows_what_it_writes_now(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo attempt $DIANA_ATTEMPT; [ $DIANA_ATTEMPT = 2 ] || exit 1; until [ -e {go} ]; do sleep 0.05; done"
    group = sites.submit("beta", script, retries=1)
    followed = sites.follow(f"{group}.0")
    followed.until("attempt 2\n")
    assert sites.logs(f"{group}.0").stdout == "attempt 2\n"
    go.touch()
    code, said, _ = followed.end()
    assert code == 0 and said in ("attempt 2\n", "attempt 1\nattempt 2\n")


def test_another_site_reads_no_log_of_a_job_it_did_not_submit(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    group = sites.submit("alpha", waiting_for(go))
    until(lambda: sites.logs(f"{group}.0").stdout == "begun\n", "it begins", WITHIN_S)
    ended = sites.grid.run(sites.beta, "logs", "--data", str(sites.beta.data), f"{group}.0")
    assert ended.returncode == 2 and ended.stdout == "", ended
    go.touch()


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_those_who_wait_and_follow_go_on_over_a_restart_of_the_node(sites: Sites, how: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    group = sites.submit("beta", waiting_for(go))
    followers = [sites.follow(f"{group}.0"), sites.follow("wait", group)]
    followers.append(sites.follow("submit", "--wait", "--", "sh", "-c", waiting_for(go)))
    with sites.alpha.client() as client:
        job = {"command": ["sh", "-c", f"{waiting_for(go)}; echo made > o"], "sites": ["beta"]}
        made = client.submit({"group": job, "outputs": {"collect": "o"}}).group
    followers.append(sites.follow("fetch", "--follow", "--to", str(tmp_path / "made"), made))
    watching = sites.follow("status", "--watch", "500ms", group)
    followers[0].until("begun\n")
    for each in followers[1:3]:
        each.warned("running" if each is followers[1] else " 0/1 done")
    watching.until("running")
    getattr(sites.alpha, how)()
    for each in (*followers, watching):
        each.warned("waiting for it, 10 minutes at most")
    sites.alpha.start()
    go.touch()
    (code, said, errors), *waits = [each.end() for each in followers]
    assert (code, said) == (0, "begun\nover\n") and errors.count("waiting for it") == 1, errors
    assert [code for code, _, _ in waits] == [0, 0, 0], waits
    assert (tmp_path / "made" / "0" / "o").read_text() == "made\n"
    assert f"{group}: done, 1 of 1 job done" in waits[0][1]
    watching.until("done")
    watching.process.terminate()
    watching.process.wait(WITHIN_S)


def test_a_node_that_was_never_there_is_not_waited_for_nor_longer_than_was_said(sites: Sites, tmp_path: Path) -> None:
    go = tmp_path / "go"
    group = sites.submit("alpha", waiting_for(go))
    waiting = sites.follow("wait", "--timeout", "4s", group)
    waiting.warned("running")
    sites.alpha.terminate()
    begun_s = time.monotonic()
    assert waiting.end()[0] == 124
    timely(time.monotonic() - begun_s, WITHIN_S, "a wait of 4 s")
    for verb in (["wait", group], ["-f", f"{group}.0"]):
        code, _, errors = sites.follow(*verb).end()
        assert code == 4 and "no node answers" in errors and "waiting" not in errors
    sites.alpha.start()
    go.touch()
    assert sites.follow("wait", group).end()[0] == 0
