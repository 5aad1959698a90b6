"""Contracts and moves with real nodes under a real load (SPEC G5, G6): processes that compute beside the program, on
the processor of its site. At a quarter of its run it moves and ends sooner than one that stays. That it stays near its
end is tried in `test_checkpoints.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from diana.client.client import Client
from diana.model.ids import GroupId
from diana.model.views.contract import JobContract
from tests.e2e.grid import Grid, Site, until
from tests.e2e.test_hold_retry import diana
from tests.real.grads_programs import PROGRAMS, steps_of
from tests.runs import SOAK

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.alone,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two sites need a processor each"),
]

N, TRIED, EVERY = 120, 150, 10
BESIDE = 5
"""Processes that compute beside the program: it gets a sixth of the processor."""
MOST_S = 90.0
"""No load outlives this, whatever becomes of the test."""
WEIGHT = "-5"
"""Of the program, its load and the nodes, as the kernel weighs sessions (/proc/PID/autogroup): others on this machine
get a third of it, so that the load is what these tests make. Without autogroups, or root, they want an idle machine."""
SPIN = f"import time\nend = time.monotonic() + {MOST_S}\nwhile time.monotonic() < end: pass"


def weigh(pid: int) -> None:
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(WEIGHT)


@contextmanager
def loaded(processor: int) -> Iterator[None]:
    """Others compute on a processor, each in a session of its own: the kernel may divide processors by session."""
    code = f"import os\nos.sched_setaffinity(0, {{{processor}}})\n{SPIN}"
    others = [subprocess.Popen([sys.executable, "-c", code], start_new_session=True) for _ in range(BESIDE)]
    for other in others:
        weigh(other.pid)
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def words(iterations: int) -> list[str]:
    program = [sys.executable, str(PROGRAMS / "jacobi.py"), str(N), str(iterations), "--every", str(EVERY)]
    return ["sh", "-c", f'echo {WEIGHT} > /proc/self/autogroup; exec "$@"', "sh", *program]


def alone(folder: Path, iterations: int, processor: int) -> subprocess.Popen[bytes]:
    """The program by itself, on one processor."""
    folder.mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith("DIANA_")}
    pinned = f"import os, sys\nos.sched_setaffinity(0, {{{processor}}})\nos.execvp(sys.argv[1], sys.argv[1:])"
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-c", pinned, *words(iterations)], cwd=folder, env=own, stdout=said, start_new_session=True
        )


class Loaded:
    """A home without processors, and two sites that have one each."""

    def __init__(self, grid: Grid, folder: Path, seconds: float) -> None:
        self.grid, self.folder = grid, folder
        self.home, *_ = (grid.add(name, slots) for name, slots in (("home", 0), ("beta", 1), ("gamma", 1)))
        grid.join()
        grid.start()
        for site in grid.sites.values():
            assert site.process is not None
            weigh(site.process.pid)
        self.processors = dict(zip(("beta", "gamma"), sorted(os.sched_getaffinity(0)), strict=False))
        for name, processor in self.processors.items():
            pid = until(self.grid.sites[name].spawner_pid, f"{name} has a spawner", 20)
            os.sched_setaffinity(pid, {processor})
        began_s = time.monotonic()
        assert alone(folder / "tried", TRIED, self.processors["beta"]).wait(60) == 0
        self.step_s = (time.monotonic() - began_s) / TRIED
        self.iterations = int(seconds / self.step_s) // EVERY * EVERY

    def job(self, *, move: bool, **group: object) -> dict[str, object]:
        return {
            "group": {"command": words(self.iterations), "bind": "early", **group},
            "resources": {"work": self.iterations * self.step_s},
            "outputs": {"collect": ["answer.txt"]},
            "checkpoint": {"paths": ["state.bin"]},
            # The machine has other work: half as slow again is no load of ours.
            "contract": {"window": 3, "move": move, "tolerance": [0.5, 1.8]},
        }

    def reached(self, client: Client, group: str, part: float) -> JobContract:
        """The program's contract once so much of it is done."""

        def row() -> JobContract | None:
            rows = client.explain(group).contracts
            return rows[0] if rows and rows[0].done >= part * rows[0].total else None

        found = until(row, lambda: self.said(client, group), 60, 0.3)
        assert found is not None
        return found

    def said(self, client: Client, group: str) -> str:
        (status,) = client.status([group])
        return f"{status}\n{diana(self.home, 'explain', group)}\n{self.grid.story()}"


def answer_of(site: Site, group: str) -> str:
    (found,) = site.paths.gathered(GroupId(group)).rglob("answer.txt")
    return found.read_text()


def test_with_others_at_a_quarter_of_its_run_it_moves_and_ends_sooner_than_one_that_stays(
    grid: Grid, tmp_path: Path
) -> None:
    sites = Loaded(grid, tmp_path, 14.0)
    with sites.home.client() as client:
        group = client.submit(sites.job(move=True)).group
        first = sites.reached(client, group, 0.0).site
        began_s = time.monotonic()
        sites.reached(client, group, 0.25)
        with loaded(sites.processors[first]):
            status = client.wait(group, timeout_s=80)
            took_s = time.monotonic() - began_s
        assert (status.state, status.done) == ("done", 1), sites.said(client, group)
        (result,) = client.results(group)
        assert result.attempt == 2 and result.site != first, sites.said(client, group)
        why = diana(sites.home, "explain", group)
        assert "from a checkpoint: " in why and "s sooner, more than the" in why, why
        print(why)

        serial = alone(tmp_path / "serial", sites.iterations, sites.processors[str(result.site)])
        stays = client.submit(sites.job(move=False, sites=[first])).group
        sites.reached(client, stays, 0.0)
        began_s = time.monotonic()
        sites.reached(client, stays, 0.25)
        with loaded(sites.processors[first]):
            until(lambda: time.monotonic() - began_s > took_s, "the time passes", 80, 0.1)
            (status,) = client.status([stays])
            (row,) = client.explain(stays).contracts
            print(f"moved: {took_s:.1f} s; stays: {row}")
            assert status.running == 1 and row.site == first and row.attempt == 1, sites.said(client, stays)
            assert row.done < row.total, (took_s, row)
            assert not SOAK or row.done < 0.8 * row.total, (took_s, row)
            client.cancel(stays)
        assert serial.wait(60) == 0

    expected = steps_of((tmp_path / "serial" / "said").read_text())
    with sites.home.client() as client:
        log = steps_of(b"".join(chunk.data for chunk in client.logs(f"{group}.0")).decode())
    assert answer_of(sites.home, group) == (tmp_path / "serial" / "answer.txt").read_text()
    assert 0 < len(log) < len(expected) and log == expected[-len(log) :], "it went on where it stopped"
