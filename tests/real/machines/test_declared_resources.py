"""A resource that an operator declares of a machine is handed out as GPUs are, by real processes: to as
many jobs at once as there is of it, and only there, also while the node is killed; a site without it says so, and who
asks for too much hears how much there is."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, outcomes, until

JOBS = 5


def declare(site: Site, **resources: int) -> None:
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, resources=resources))


def job(marks: Path, fpga: int = 1, jobs: int = JOBS) -> dict[str, object]:
    """Both lines are written while the job has what it asked for."""
    script = f'echo "+ $DIANA_SITE" >> {marks}; sleep 0.5; echo "- $DIANA_SITE" >> {marks}'
    return {
        "group": {"command": ["sh", "-c", script]},
        "sweep": {"array": f"0-{jobs - 1}"},
        "resources": {"fpga": fpga, "work": 1.0},
    }


def used(marks: Path) -> tuple[int, set[str]]:
    """(the most jobs at once, sites that had any)."""
    now = most = 0
    lines = marks.read_text().splitlines()
    for line in lines:
        now += 1 if line[0] == "+" else -1
        most = max(most, now)
    assert now == 0
    return most, {line[2:] for line in lines}


def test_jobs_with_an_fpga_run_two_at_a_time_at_the_site_that_declares_two_and_nowhere_else(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", slots=4), grid.add("beta", slots=4)
    grid.join()
    declare(beta, fpga=2)
    grid.start()
    marks, file = grid.root / "marks", grid.root / "job.json"
    with alpha.client() as client, beta.client() as there:
        until(lambda: [one.what for one in there.peers().machines[0].has] == ["fpga"], "beta tells what it has")
        file.write_text(json.dumps(job(marks)))
        told = grid.run(alpha, "plan", str(file), "--data", str(alpha.data))
        assert told.returncode == 0 and "has no fpga" in told.stdout + told.stderr, told

        group = client.submit(job(marks)).group
        until(lambda: marks.exists() and "+" in marks.read_text(), "some run")
        beta.kill()
        beta.start()
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}
        assert used(marks) == (2, {"beta"})
        assert marks.read_text().count("+") == JOBS

        file.write_text(json.dumps(job(marks, fpga=3, jobs=1)))
        for verb in ("plan", "submit"):
            refused = grid.run(alpha, verb, str(file), "--data", str(alpha.data))
            told = refused.stdout + refused.stderr
            assert refused.returncode == 3 and "fpga <= 2" in told, told

        # Those that ask for none pass, also at the site whose FPGAs are all in use.
        later = client.submit(job(marks, jobs=2)).group
        plain = client.submit({"group": {"command": ["true"]}, "resources": {"work": 1.0}}).group
        assert client.wait(plain, timeout_s=60).state == "done"
        assert client.wait(later, timeout_s=60).state == "done"
