"""`diana drop`: groups that are over are forgotten, and nothing that a user may still want goes unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


def diana(site: Site, verb: str, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "diana.cli", verb, "--data", str(site.data), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=site.environment())
    assert ended.returncode == code, ended
    return ended.stdout if code == 0 else ended.stderr


def submitted(site: Site, *words: str) -> str:
    return diana(site, "submit", "--parsable", "--no-check-command", *words).strip()


def test_a_user_drops_groups_that_are_over(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    log = submitted(alpha, "--key", "nightly", "--", "sh", "-c", "echo once")
    made = submitted(alpha, "--collect", "o", "--", "sh", "-c", "echo x > o")
    runs = submitted(alpha, "--", "sh", "-c", f"until [ -e {tmp_path / 'go'} ]; do sleep 0.05; done")
    diana(alpha, "wait", "--quiet", log, made)

    assert diana(alpha, "drop", log, runs, code=2) == f"diana: {runs} is not over; diana cancel {runs} ends it\n"
    assert diana(alpha, "logs", f"{log}.0") == "once\n"
    assert f"diana fetch {made} copies them, diana drop --outputs {made} deletes them" in diana(
        alpha, "drop", made, code=2
    )
    diana(alpha, "fetch", made, "--to", str(tmp_path / "got"))
    assert diana(alpha, "drop", "--outputs", log, made) == f"dropped {log}, {made}\n"
    assert (tmp_path / "got" / "0" / "o").read_text() == "x\n"
    for left in ("logs", "groups"):
        until(lambda at=alpha.data / left: not (at / log).exists() and not (at / made).exists(), left)
    for verb in ("status", "results", "logs", "explain"):
        assert f"no group {log} of yours" in diana(alpha, verb, log, code=2)
    assert json.loads(diana(alpha, "status", "--json"))["groups"][0]["group"] == runs

    # A key is free again, also over a restart of the node.
    alpha.kill()
    alpha.start()
    again = submitted(alpha, "--key", "nightly", "--", "sh", "-c", "echo twice")
    assert again != log
    (tmp_path / "go").touch()
    diana(alpha, "wait", "--quiet", again, runs)
    assert diana(alpha, "logs", f"{again}.0") == "twice\n"

    hidden = submitted(alpha, "--collect", ".o", "--", "sh", "-c", "echo x > .o")
    diana(alpha, "wait", "--quiet", hidden)
    assert f"{hidden} has outputs at the node" in diana(alpha, "drop", hidden, code=2)
    diana(alpha, "drop", "--outputs", hidden)

    kept = submitted(alpha, "--collect", "o", "--", "sh", "-c", "echo x > o")
    diana(alpha, "wait", "--quiet", kept)
    assert diana(alpha, "drop", "--older-than", "1h") == "no group of yours has been over for so long\n"
    told = json.loads(diana(alpha, "drop", "--older-than", "1ms", "--json"))
    assert sorted(told["groups"]) == sorted([runs, again]) and [one["group"] for one in told["left"]] == [kept]
    assert [row["group"] for row in json.loads(diana(alpha, "status", "--json"))["groups"]] == [kept]


def test_what_drop_is_not_told_it_asks_for(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.start()
    assert diana(alpha, "drop", code=2) == "diana: drop: name groups, or say which: --older-than 30d\n"
    assert "no group alpha-99 of yours" in diana(alpha, "drop", "alpha-99", code=2)
    assert "want SITE-NUMBER" in diana(alpha, "drop", "../alpha-1", code=2)
    assert "alpha-1.0 is a job" in diana(alpha, "drop", "alpha-1.0", code=2)
    assert diana(alpha, "drop", "-f", "alpha-1", code=2) == (
        "diana: drop: does not take -f; it asks nothing; with --outputs also what lies at the node alone is deleted\n"
    )
    # All that are named, or none.
    many = [f"alpha-{number}" for number in range(1, 1002)]
    assert diana(alpha, "drop", *many, code=2) == "diana: drop: 1,001 groups; name 1 to 1,000 at a time\n"
