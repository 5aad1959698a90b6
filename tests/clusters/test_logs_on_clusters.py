"""Logs of jobs that run in a real batch system: read, followed, cut, and gone under who follows them; of jobs as people
write them there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site, until
from tests.real.grid.test_running_logs import Followed

Cluster = SlurmSite | GridEngineSite


@pytest.fixture(params=["slurm", "gridengine"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def beta(grid: Grid, clustered: Clustered, cluster: Cluster) -> Site:
    site = clustered("beta", cluster)
    site.start()
    return site


def submit(grid: Grid, site: Site, *words: str, folder: Path | None = None) -> str:
    done = grid.run(site, "submit", "--data", str(site.data), "--parsable", *words, folder=folder)
    assert done.returncode == 0, done
    return done.stdout.strip()


def logs(grid: Grid, site: Site, *words: str) -> str:
    done = grid.run(site, "logs", "--data", str(site.data), *words)
    assert done.returncode == 0, done
    return done.stdout


def test_a_job_that_runs_is_read_followed_and_cut(grid: Grid, beta: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo begun; seq 5; until [ -e {go} ]; do sleep 0.1; done; echo over; exit $(($1 == 3))"
    group = submit(grid, beta, "--array", "2-3", "--", "sh", "-c", script, "job", "{array}")
    followed = Followed(beta, f"{group}.1")
    failed = Followed(beta, "--failed", group)
    followed.until("begun\n1\n2\n3\n4\n5\n")
    assert logs(grid, beta, f"{group}.1") == "begun\n1\n2\n3\n4\n5\n"
    assert logs(grid, beta, "--tail", "2", f"{group}.1") == "4\n5\n"
    assert "over" not in followed.said() + failed.said()
    go.touch()
    code, said, errors = followed.end()
    assert (code, said) == (0, "begun\n1\n2\n3\n4\n5\nover\n"), errors
    assert errors.endswith(f"diana: {group}.1: failed at beta, exit code 1\n"), errors
    code, said, errors = failed.end()
    assert (code, said) == (0, f"==> {group}.1 <==\nbegun\n1\n2\n3\n4\n5\nover\n"), errors
    assert logs(grid, beta, "--tail", "1", f"{group}.0") == "over\n"


def test_a_log_that_goes_under_who_follows_it_does_not_hang(grid: Grid, beta: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    group = submit(grid, beta, "--", "sh", "-c", f"echo begun; until [ -e {go} ]; do sleep 0.1; done; echo over")
    followed = Followed(beta, f"{group}.0")
    followed.until("begun\n")
    (log,) = (beta.data / "clusters").glob("**/out/0")
    log.unlink()
    read = grid.run(beta, "logs", "--data", str(beta.data), f"{group}.0")
    assert (read.returncode, read.stdout) == (0, ""), read
    go.touch()
    code, said, errors = followed.end()
    assert (code, said) == (0, "begun\n") and errors.count(f"diana: {group}.0: kept no log") == 1, errors


def test_jobs_as_people_write_them_there_have_all_they_ask_for(
    grid: Grid, beta: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "shell's")
    monkeypatch.setenv("B", "b c")
    here, tries, go = tmp_path / "work here", tmp_path / "tries", tmp_path / "go"
    here.mkdir()
    (tmp_path / "in.txt").write_text("input\n")
    script = (
        f'echo try >>{tries}; echo "$A,$B,$PWD,$DIANA_DATA"; cat in.txt 2>/dev/null; seq 3000;'
        f" until [ -e {go} ]; do sleep 0.1; done; echo over; [ $DIANA_ATTEMPT = 3 ]"
    )
    options = ["--export", "A,B", "--env", "A=1", "--retries", "2", "--log-limit", "4K"]
    both = grid.run(
        *(beta, "submit", "--data", str(beta.data), *options, "--cwd", str(here), "--input", "in.txt"),
        *("--", "sh", "-c", script),
        folder=tmp_path,
    )
    assert both.returncode == 2 and both.stderr.count("\n") == 1 and "cwd" in both.stderr, both
    at_place = submit(grid, beta, *options, "--cwd", str(here), "--", "sh", "-c", script, folder=tmp_path)
    followed = Followed(beta, f"{at_place}.0")
    followed.until(f"1,b c,{here},{beta.data}\n1\n2\n")
    followed.until("\n3000\n")
    assert logs(grid, beta, "--tail", "1", f"{at_place}.0") == "3000\n"
    with_input = submit(grid, beta, *options, "--input", "in.txt", "--", "sh", "-c", script, folder=tmp_path)
    until(lambda: tries.read_text().count("try") == 2, "both run")
    until(lambda: "input\n1\n2\n" in logs(grid, beta, f"{with_input}.0"), "its input is there")
    go.touch()
    with beta.client() as client:
        for group in (at_place, with_input):
            assert client.wait(group, timeout_s=120).state == "done"
            (row,) = client.results(group)
            assert row.attempt == 3
            text = b"".join(chunk.data for chunk in client.logs(f"{group}.0")).decode()
            assert text.endswith("3000\nover\n") and "bytes left out here; log_limit is 4" in text, text[-200:]
            assert len(text) < 4500
    code, said, errors = followed.end()
    assert code == 0 and said.endswith("\n3000\nover\n"), (said[-200:], errors)
    assert tries.read_text().count("try") == 6 and os.listdir(here) == []
