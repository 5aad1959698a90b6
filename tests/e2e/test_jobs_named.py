"""One job, or some jobs, of a group named to verbs that look: status, results, fetch; and what wait says of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diana.errors import UsageError
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

JOBS = 10
SCRIPT = """echo $DIANA_INDEX > out-$DIANA_INDEX.txt
case $DIANA_INDEX in 3) exit 7;; 4) kill -9 $$;; 5|9) while [ ! -e {go} ]; do sleep 0.05; done;; esac"""


def submitted(alpha: Site, go: Path) -> str:
    job = {
        "group": {"command": ["sh", "-c", SCRIPT.replace("{go}", str(go))]},
        "sweep": {"array": f"0-{JOBS - 1}"},
        "outputs": {"collect": ["out-{array}.txt"]},
    }
    with alpha.client() as client:
        return client.submit(job).group


def test_results_status_and_fetch_take_jobs_of_a_group(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    go = tmp_path / "go"
    group = submitted(alpha, go)

    def said(*words: str, code: int = 0) -> str:
        done = grid.run(alpha, *words, "--data", str(alpha.data))
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    def rows(*words: str) -> list[int]:
        return [json.loads(line)["index"] for line in said("results", *words, "--json").splitlines()]

    with alpha.client() as client:
        until(lambda: client.status([group])[0].running == 2 and client.status([group])[0].done == 6, "two are left")
        assert rows(f"{group}.3") == [3]
        assert rows(f"{group}.[2-4,8]") == [2, 3, 4, 8]
        assert rows(f"{group}.[2-4,8]", "--outcome", "failed") == [3, 4]
        assert rows(f"{group}.[2-4,8]", "--from", "3", "--limit", "2") == [3, 4]
        assert rows(f"{group}.[7-9]") == [7, 8]
        assert rows(f"{group}.[4-5]") == [4], "not job 6, which ended where job 5 has not"
        assert said("results", f"{group}.[2-8]", "--limit", "2").splitlines()[-1] == (
            f"and more; diana results '{group}.[2-8]' --limit 2 --from 4 --data {alpha.data} goes on"
        )
        assert said("results", f"{group}.9") == (
            f"{group}.9: no job has ended so far; diana status {group}.9 --data {alpha.data} tells how it stands\n"
        )
        columns = json.loads(said("results", f"{group}.[3,4]", "--json", "--columns"))
        assert (columns["indices"], columns["signals"]) == ([3, 4], [0, 9])
        assert [row.job for row in client.results(f"{group}.[3,4]")] == [f"{group}.3", f"{group}.4"]
        with pytest.raises(UsageError, match="are not followed"):
            list(client.results(f"{group}.3", follow=True))

        # Beyond the group, each says so in one line.
        beyond = f"diana: {group} has jobs 0 to 9, no 10\n"
        for verb in ("results", "status", "fetch"):
            assert said(verb, f"{group}.10", code=2) == beyond
        assert said("results", f"{group}.[8-12]", code=2) == f"diana: {group} has jobs 0 to 9, no 10-12\n"

        assert said("status", f"{group}.4").startswith(f"{group}.4 ended: failed at alpha, attempt 1, by SIGKILL\n")
        running = said("status", f"{group}.9").splitlines()
        assert running[0].startswith(f"{group}.9 runs at alpha for ") and f"diana logs -f {group}.9" in running[0]
        story = json.loads(said("status", f"{group}.9", "--json"))
        assert (story["job"], story["state"], story["site"]) == (f"{group}.9", "running", "alpha")
        assert story["runsForS"] > 0
        several = said("status", f"{group}.[3-4]", f"{group}.9").splitlines()
        assert [line.split()[:2] for line in several[1:]] == [
            [f"{group}.3", "failed"],
            [f"{group}.4", "failed"],
            [f"{group}.9", "running"],
        ]
        assert [line.split()[4] for line in several[1:]] == ["7", "SIGKILL", "-"]
        assert "name groups or jobs, not both" in said("status", group, f"{group}.3", code=2)
        assert "choose among groups" in said("status", "--mine", f"{group}.3", code=2)
        assert "ask for at most 100" in said("status", f"{group}.[0-1000]", code=2)
        assert said("wait", f"{group}.3", code=2) == (
            f"diana: wait: {group}.3 is no group; diana wait {group} waits for all of its group, "
            f"diana logs -f {group}.3 for a job that runs\n"
        )

        to = str(tmp_path / "some")
        assert said("fetch", f"{group}.[3,7-8]", "--to", to).startswith(f"{group}.[3,7-8]: 3 files in {to}")
        assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["out-3.txt", "out-7.txt", "out-8.txt"]
        assert "a whole group" in said("fetch", "-f", f"{group}.3", code=2)
        assert said("fetch", f"{group}.9", code=2) == (
            f"diana: {group}.9: no outputs; diana status {group}.9 tells how it stands, diana logs what it printed\n"
        )
        go.touch()
        client.wait(group, timeout_s=60)
        assert rows(f"{group}.9") == [9]
