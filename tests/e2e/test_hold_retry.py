"""Hold, release and retry with real nodes (SPEC J6): nothing held starts, only what failed starts again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from diana import errors
from tests.e2e.grid import Grid, Site, outcomes, until

pytestmark = pytest.mark.e2e

JOBS = 12


def diana(site: Site, verb: str, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "diana.cli", verb, "--data", str(site.data), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=site.environment())
    assert ended.returncode == code, ended
    return ended.stdout if code == 0 else ended.stderr


def job(started: Path, flag: Path, sites: list[str]) -> dict[str, object]:
    """Each notes its start; while the flag stands, the odd ones fail."""
    text = f'echo "$1 $DIANA_ATTEMPT" >> {started}; [ -e {flag} ] && [ $(($1 % 2)) = 1 ] && exit 1; exit 0'
    return {
        "group": {"command": ["sh", "-c", text, "job", "{x}"], "sites": sites, "bind": "early"},
        "sweep": {"x": f"0-{JOBS - 1}"},
        "resources": {"work": 20},
    }


def test_a_held_group_waits_at_two_sites_and_only_its_failed_jobs_are_retried(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid.add("alpha", 1), grid.add("beta", 1)
    grid.join()
    grid.start()
    started, flag, gate = tmp_path / "started", tmp_path / "flag", tmp_path / "gate"
    started.touch()
    flag.touch()
    blocker = {"group": {"command": ["sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done"]}}
    with alpha.client() as client:
        # Whatever a site would claim ahead is busy too: nothing of the group starts before it is held.
        for site in ("alpha", "beta"):
            first = client.submit({**blocker, "group": {**blocker["group"], "sites": [site]}, "sweep": {"n": "1-3"}})
            until(lambda group=first.group: client.status([group])[0].running == 1, "the sites are busy")
        group = client.submit(job(started, flag, ["alpha", "beta"])).group
        until(lambda: client.status([group])[0].queued == JOBS, lambda: str(client.status([group])))
        assert {share.site for share in client.status([group])[0].shares} == {"alpha", "beta"}
        assert json.loads(diana(alpha, "hold", "--json", group)) == {"jobs": JOBS, "started": 0}
        until(lambda: client.status([group])[0].held == JOBS, lambda: str(client.status([group])))
        gate.touch()
        until(lambda: len(client.status(active=True)) == 1, "the sites are free")
        status = client.status([group])[0]
        assert (status.state, status.held, status.final) == ("held", JOBS, False), status
        assert started.read_text() == ""

        assert client.release(f"{group}.[0-3]") == 4
        with pytest.raises(errors.UsageError, match=r"\[2-3\] is not held; held are 4-11"):
            client.release(f"{group}.[2-5]")
        assert f"released {JOBS - 4} jobs" in diana(alpha, "release", group)
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.failed) == ("failed", JOBS // 2, JOBS // 2), status

        with pytest.raises(errors.UsageError, match=r"no failed jobs among those named to retry: 1 done"):
            client.retry(f"{group}.0")
        flag.unlink()
        assert f"trying {JOBS // 2} jobs again" in diana(alpha, "retry", group)
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done, status.failed) == ("done", JOBS, 0), status
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
        assert {row.index: row.attempt for row in client.results(group)} == {i: 1 + i % 2 for i in range(JOBS)}
        assert "no failed jobs to retry: 12 done" in diana(alpha, "retry", group, code=2)
    lines = Counter(started.read_text().splitlines())
    assert lines == Counter([f"{i} 1" for i in range(JOBS)] + [f"{i} 2" for i in range(1, JOBS, 2)])


def test_what_a_machine_was_given_ahead_has_not_begun_so_it_is_held_and_moved(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = grid.add("alpha", 2), grid.add("beta", 1)
    grid.join()
    grid.start()
    started, gate = tmp_path / "started", tmp_path / "gate"
    text = f'echo "$1 $DIANA_SITE" >> {started}; while [ ! -e {gate} ]; do sleep 0.05; done'
    with alpha.client() as client:
        until(lambda: len(client.sites()) == 2, "both know each other")
        command = {"command": ["sh", "-c", text, "job", "{x}"], "sites": ["alpha", "beta"], "bind": "early"}
        long = {"group": {**command, "sites": ["beta"]}, "sweep": {"x": "100-109"}, "resources": {"work": 9000}}
        busy = client.submit(long).group
        until(lambda: client.status([busy])[0].running == 1, "beta is busy")
        group = client.submit({"group": command, "sweep": {"x": "0-5"}, "resources": {"work": 1}}).group
        until(lambda: client.status([group])[0].running == 2, lambda: str(client.status([group])))
        (share,) = client.status([group])[0].shares
        assert (share.site, share.queued) == ("alpha", 4)

        assert diana(alpha, "hold", f"{group}.5") == f"{group}.5: holding 1 job\n"
        until(lambda: client.status([group])[0].held == 1, lambda: str(client.status([group])))
        moving = diana(alpha, "move", f"{group}.[0-4]", "--to", "beta")
        assert moving == f"{group}.[0-4]: moving 3 jobs to beta; 2 jobs had started and run on\n"
        gate.touch()
        until(lambda: client.status([group])[0].done == 5, lambda: str(client.status([group])))
        ran = [line for line in sorted(started.read_text().splitlines()) if len(line.split()[0]) == 1]
        assert ran == ["0 alpha", "1 alpha", "2 beta", "3 beta", "4 beta"]
        client.release(group)
        assert client.wait(group, timeout_s=60).state == "done"
