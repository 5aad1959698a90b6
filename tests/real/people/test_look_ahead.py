"""`diana plan --look-ahead` at real sites: what comes out of each way, aside from the node."""

from __future__ import annotations

import pytest

from tests.e2e.grid import Grid

pytestmark = pytest.mark.e2e

JOB = ("--set", "resources.work=60", "--array", "1-12", "--", "true")


def test_plan_looks_ahead_by_each_way_and_leaves_the_node_as_it_was(grid: Grid) -> None:
    alpha, _ = grid.add("alpha", 1), grid.add("beta", 6)
    grid.join()
    grid.start()

    def planned(*options: str) -> tuple[int, str, str]:
        done = grid.run(alpha, "plan", "--data", str(alpha.data), *options, *JOB, within_s=60.0)
        return done.returncode, done.stdout, done.stderr

    with alpha.client() as client:
        before = client.groups()
        code, out, err = planned("--look-ahead", "--rolls", "2")
        assert code == 0, err
        rows = {line[:16].strip(): line for line in out.partition("looking ahead")[2].splitlines()}
        assert "whole at alpha" in rows and "2 rolls of each way" in out, out
        # Twelve minutes of work at one slot are no match for six slots.
        assert "best" not in rows["whole at alpha"] and "planned" in out, out
        assert client.groups() == before
    code, out, err = planned("--look-ahead", "--components", "2x1")
    assert code == 2 and not out and "gangs are not played" in err, (out, err)
    code, out, err = planned("--look-ahead", "--json")
    assert code == 2 and err.count("\n") == 1, err
