"""What jobs made comes home as their user would look for it: found by patterns, of failed jobs too, and a retry's in
the place of what was there before."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site
from tests.e2e.test_cli import DIANA, as_json, diana, submitted

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def alpha() -> Iterator[Site]:
    made = Grid()
    try:
        site = made.add("alpha", 2)
        site.start()
        yield site
    finally:
        made.close()


def fetched(site: Site, group: str, to: Path) -> dict[str, str]:
    diana(site, "fetch", group, "--to", str(to))
    return {str(path.relative_to(to)): path.read_text() for path in to.rglob("*") if path.is_file()}


def test_what_a_pattern_finds_and_a_folder_holds_comes_home(alpha: Site, tmp_path: Path) -> None:
    script = "mkdir -p out/deep; echo {x} > {x}.csv; echo more > out/deep/more; ln -s more out/deep/last"
    group = submitted(alpha, "--collect", "*.csv,out/", "--", "sh", "-c", script, ":::", "a", "b")
    found = {"0/a.csv": "a\n", "0/out/deep/more": "more\n", "1/b.csv": "b\n", "1/out/deep/more": "more\n"}
    assert fetched(alpha, group, tmp_path / "got") == found
    assert "out/deep/last' is passed over" in diana(alpha, "status", group)
    assert as_json(alpha, "status", group)["groups"][0]["state"] == "done"
    diana(alpha, "fetch", group, "a.csv", "--to", str(tmp_path / "some"))
    assert [path.name for path in (tmp_path / "some").rglob("*.csv")] == ["a.csv"]


def test_a_file_that_each_job_calls_the_same_is_kept_of_each(alpha: Site, tmp_path: Path) -> None:
    group = submitted(alpha, "--collect", "out.csv", "--", "sh", "-c", "echo {x} > out.csv", ":::", "a", "b")
    assert fetched(alpha, group, tmp_path) == {"0/out.csv": "a\n", "1/out.csv": "b\n"}


def test_what_a_job_left_at_its_time_limit_comes_home(alpha: Site, tmp_path: Path) -> None:
    script = 'trap "echo saved > c; exit 0" TERM; while :; do sleep .2; done'
    group = submitted(alpha, "--time", "2s", "--collect", "c", "--", "sh", "-c", script, code=1)
    assert fetched(alpha, group, tmp_path) == {"0/c": "saved\n"}
    assert as_json(alpha, "results", group)["outcome"] == "timed_out"


def test_what_a_job_writes_in_the_grace_it_asked_for_comes_home_when_it_is_cancelled(
    alpha: Site, tmp_path: Path
) -> None:
    script = f'trap "sleep 6; echo saved > c; exit 1" TERM; touch {tmp_path}/begun; while :; do sleep .2; done'
    group = diana(alpha, "submit", "--parsable", "--grace", "1m", "--collect", "c", "--", "sh", "-c", script).strip()
    by_s = time.monotonic() + 60.0
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < by_s
        time.sleep(0.05)
    diana(alpha, "cancel", group)
    diana(alpha, "wait", group, code=1)
    assert fetched(alpha, group, tmp_path / "got") == {"0/c": "saved\n"}


def test_a_retry_replaces_what_the_first_attempt_left(alpha: Site, tmp_path: Path) -> None:
    mark, to = tmp_path / "mark", tmp_path / "to"
    script = f"echo $DIANA_INDEX > one.csv; [ -e {mark} ] || (echo old > two.csv; exit $DIANA_INDEX)"
    words = ("--collect", "*.csv", "--set", f"outputs.to={to}", "--array", "0-1", "--", "sh", "-c", script)
    group = submitted(alpha, *words, code=1)
    two = {"0/one.csv": "0\n", "0/two.csv": "old\n", "1/one.csv": "1\n", "1/two.csv": "old\n"}
    assert {str(path.relative_to(to)): path.read_text() for path in to.rglob("*.csv")} == two
    (to / "1" / "mine.csv").write_text("the user's own\n")
    mark.touch()
    diana(alpha, "retry", group)
    diana(alpha, "wait", group)
    del two["1/two.csv"]
    assert fetched(alpha, group, tmp_path / "got") == two
    two["1/mine.csv"] = "the user's own\n"
    assert {str(path.relative_to(to)): path.read_text() for path in to.rglob("*.csv")} == two


def test_fetch_tells_how_many_jobs_did_not_end_well_and_where_they_are_named(alpha: Site, tmp_path: Path) -> None:
    words = ("--collect", "out.csv", "--", "sh", "-c", "echo {x} > out.csv; exit {x}", ":::")
    for group, code, clause in (
        (submitted(alpha, *words, "0", "1", "2", code=1), 1, "; 2 failed of 3 jobs, whose files may be among these: "),
        (submitted(alpha, *words, "0"), 0, ""),
    ):
        for way in ((), ("--follow",)):
            to = tmp_path / f"{group}{len(way)}"
            said = diana(alpha, "fetch", *way, group, "--to", str(to))
            mend = f"diana results {group} --outcome failed --data {alpha.data}" if code else ""
            assert said == f"{group}: {3 if code else 1} file{'s' * code} in {to}, {6 if code else 2} B{clause}{mend}\n"


def test_fetch_of_a_group_that_left_nothing_says_which_of_two_reasons_it_has(alpha: Site, tmp_path: Path) -> None:
    script = "mkdir plot; while :; do sleep .2; done"
    left = diana(alpha, "submit", "--parsable", "--collect", "out.csv", "--", "sh", "-c", script).strip()
    diana(alpha, "cancel", left)
    diana(alpha, "wait", left, code=1)
    for group, says in (
        (left, ": its jobs left none of what they were to leave; 1 job of it cancelled"),
        (submitted(alpha, "--", "false", code=1), "; a job file names them under outputs.collect"),
    ):
        command = [*DIANA, "fetch", "--data", str(alpha.data), group]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
        assert ended.returncode == 2 and ended.stderr.startswith(f"diana: group {group}: no outputs{says}"), ended
