"""A log at a site that is away: one line that says so, and the exit code for what cannot be reached."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.e2e.grid import Grid, until

pytestmark = pytest.mark.e2e


def test_a_log_out_of_reach_ends_with_exit_code_4_and_one_line_and_is_had_again(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    script = "echo job $DIANA_INDEX; exit $((DIANA_INDEX % 2))"

    def logs(*words: str) -> subprocess.CompletedProcess[str]:
        return grid.run(alpha, "logs", "--data", str(alpha.data), *words)

    with alpha.client() as client:
        job = {"group": {"command": ["sh", "-c", script], "sites": ["beta"]}, "sweep": {"array": "0-3"}}
        there = client.submit(job).group
        here = client.submit({"group": {"command": ["echo", "mine"], "sites": ["alpha"]}}).group
        assert client.wait(there, timeout_s=40).failed == 2
        assert client.wait(here, timeout_s=40).done == 1
        assert logs(there).returncode == 0
        assert beta.terminate() == 0
        until(lambda: {s.site: s.state for s in client.sites()}["beta"] != "alive", "beta is missed", 40)

        one = logs(f"{there}.2")
        assert (one.returncode, one.stdout) == (4, ""), one
        assert one.stderr.count("\n") == 1, one.stderr
        assert one.stderr.startswith(f"diana: {there}.2: its log at beta cannot be had now: "), one.stderr

        whole = logs(there)
        assert (whole.returncode, whole.stdout) == (4, ""), whole
        assert whole.stderr.count("\n") == 1, whole.stderr
        assert whole.stderr.startswith(f"diana: {there}: 4 logs are out of reach, the first: {there}.0: "), whole.stderr

        # How jobs failed is known all the same.
        failed = logs("--failed", there).stderr.splitlines()
        assert failed[:2] == [f"diana: {there}.{k}: failed at beta, exit code 1" for k in (1, 3)], failed
        assert failed[2].startswith(f"diana: {there}: 2 logs are out of reach") and len(failed) == 3

        told = logs("--json", f"{there}.1")
        (chunk,) = map(json.loads, told.stdout.splitlines())
        assert told.returncode == 4 and chunk["unreachable"] and told.stderr.count("\n") == 1, told
        assert (logs(here).returncode, logs(here).stderr) == (0, "")

        beta.start()
        until(lambda: logs(there).returncode == 0, "its logs are to be had again", 40, 0.5)
    again = logs(f"{there}.2")
    assert (again.returncode, again.stdout, again.stderr) == (0, "job 2\n", "")

    # What was removed there is not to be had again.
    for log in (beta.data / "logs" / there).iterdir():
        log.unlink()
    gone = logs(f"{there}.2")
    said = f"its log is no longer at beta; its result is: diana results {there} --from 2 --limit 1"
    assert (gone.returncode, gone.stderr) == (4, f"diana: {there}.2: {said}\n")
