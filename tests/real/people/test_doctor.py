"""SPEC U2, U10: `diana peers`, `diana sites` and `diana doctor` at real sites, while others die, hang and run full."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.grid import Grid, Site, until
from tests.real.members import add_member
from tests.real.pairs import add_standby, in_sync

pytestmark = pytest.mark.e2e


def doctor(grid: Grid, site: Site) -> tuple[int, dict[str, dict[str, str]]]:
    """Its exit code, and its rows by name. That it takes 6 s at most is a test of its own, where nothing else runs."""
    done = grid.run(site, "doctor", "--data", str(site.data), "--json", within_s=60.0)
    assert not done.stderr, done.stderr
    return done.returncode, {row["name"]: row for row in json.loads(done.stdout)["checks"]}


def failed(rows: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    return [row for row in rows.values() if row["state"] == "fail"]


def asked(grid: Grid, site: Site, verb: str) -> dict[str, Any]:
    done = grid.run(site, verb, "--data", str(site.data), "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_dead_are_shown_by_age_and_break_nobodys_commands(grid: Grid) -> None:
    alpha, beta, gamma = (grid.add(name, 2) for name in ("alpha", "beta", "gamma"))
    grid.join()
    grid.start()
    member = add_member(grid, alpha, "m2", slots=3)
    member.start()
    until(lambda: len(asked(grid, alpha, "peers")["machines"]) == 2, "the machine shows", 30, 0.3)
    code, rows = doctor(grid, alpha)
    assert code == 0, failed(rows)
    assert rows["peer beta"]["state"] == rows["peer gamma"]["state"] == rows["clock"]["state"] == "ok", rows
    assert rows["machines"]["found"] == "2 of 2 here, 5 slots"
    code, rows = doctor(grid, member)
    assert code == 0 and rows["peer alpha"]["state"] == rows["clock"]["state"] == rows["node"]["state"] == "ok", rows
    peers = {row["site"]: row for row in asked(grid, alpha, "peers")["peers"]}
    assert {row["link"] for row in peers.values()} <= {"in", "out"} and peers["beta"]["streams"] >= 1, peers
    beta.kill()
    gamma.terminate()
    member.terminate()
    until(lambda: _state(grid, alpha, "beta") != "alive", "beta is missed", 60, 0.5)
    peers = {row["site"]: row for row in asked(grid, alpha, "peers")["peers"]}
    assert peers["gamma"]["state"] == "left" and not peers["beta"]["link"] and peers["beta"]["ageS"] > 0
    assert {row["site"] for row in asked(grid, alpha, "sites")["sites"]} == {"alpha", "beta", "gamma"}
    until(lambda: "machine m2" in doctor(grid, alpha)[1], "m2 is missed", 60, 0.5)
    code, rows = doctor(grid, alpha)
    assert code == 0 and rows["peer beta"]["state"] == "warn", rows
    assert rows["machine m2"]["mend"].endswith("diana site remove-machine m2")
    code, rows = doctor(grid, beta)
    assert code == 0 and rows["node"]["found"] == "it does not run" and rows["peer alpha"]["state"] == "ok", rows
    assert alpha.process is not None
    alpha.process.send_signal(signal.SIGSTOP)
    code, rows = doctor(grid, alpha)
    assert code == 1 and rows["node"]["mend"] == f"kill -CONT {alpha.process.pid}", rows
    alpha.process.send_signal(signal.SIGCONT)


def _state(grid: Grid, site: Site, other: str) -> str:
    return next(row["state"] for row in asked(grid, site, "peers")["peers"] if row["site"] == other)


def test_a_standby_shows_with_its_witness_and_a_dead_one_as_a_warning(grid: Grid) -> None:
    beta, alpha = grid.add("beta", 1), grid.add("alpha", 1)
    grid.join()
    spare = add_standby(grid, alpha, "beta")
    for site in (beta, alpha, spare):
        site.launch()
    for site in (beta, alpha, spare):
        site.ready()
    in_sync(alpha)
    peers = asked(grid, alpha, "peers")
    assert peers["witness"] == "beta"
    assert {row["machine"]: (row["role"], row.get("note", "")) for row in peers["machines"]} == {
        "main": ("RootGrid", ""),
        "spare": ("standby", "in sync"),
    }
    assert doctor(grid, alpha)[1]["standby"]["state"] == "ok"
    code, rows = doctor(grid, spare)
    assert code == 0, failed(rows)
    assert rows["standby"]["found"] == "standby; main leads" and rows["peer alpha"]["state"] == "ok", rows
    spare.kill()
    until(lambda: doctor(grid, alpha)[1]["standby"]["state"] == "warn", "the loss shows", 60, 0.5)
    assert "promote --remove" in doctor(grid, alpha)[1]["standby"]["mend"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(tmp_path)], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_says_how_much_is_missing(grid: Grid, small: Path) -> None:
    alpha = grid.add("alpha", 1)
    shutil.move(alpha.data, small / "alpha")
    alpha.data.symlink_to(small / "alpha")
    code, rows = doctor(grid, alpha)
    row = rows["disk"]
    assert (
        code == 1 and row["state"] == "fail" and "of 24 MiB free, new work takes 512 MiB: none is taken" in row["found"]
    )
    (small / "fill").write_bytes(b"x" * (18 << 20))
    with pytest.raises(OSError), (small / "more").open("wb") as more:
        more.write(b"x" * (16 << 20))
    row = doctor(grid, alpha)[1]["disk"]
    assert row["state"] == "fail" and row["found"].startswith("0 of 24 MiB free"), row
