"""A member's word on the signal that ended a job comes to its site, and to the site that asked."""

from __future__ import annotations

import pytest

from tests.e2e.grid import Grid
from tests.real.members import add_member

pytestmark = pytest.mark.e2e


def test_the_signal_that_ended_a_job_at_a_member_of_another_site_is_told_where_it_was_submitted(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", 0), grid.add("beta", 0)
    grid.join()
    grid.start()
    add_member(grid, alpha, "m1").start()
    script = "case $DIANA_INDEX in 0) kill -9 $$;; 1) exit 137;; 2) kill -6 $$;; esac"
    job = {"group": {"command": ["sh", "-c", script]}, "sweep": {"array": "0-3"}}
    with beta.client() as client:
        group = client.submit(job).group
        client.wait(group, timeout_s=60)
        rows = sorted(client.results(group), key=lambda row: row.index)
        assert [(row.site, row.exit_code, row.signal) for row in rows] == [
            ("alpha", 137, 9),
            ("alpha", 137, 0),
            ("alpha", 134, 6),
            ("alpha", 0, 0),
        ]
        story = client.explain(f"{group}.2").job
        assert story is not None and story.signal == 6
