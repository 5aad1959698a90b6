"""SPEC D11: what one user may have running at one site."""

from __future__ import annotations

from tests.engine.bench import Grid
from tests.engine.builders import BOB, spec


def test_a_user_never_runs_more_jobs_here_than_the_sites_limit_and_others_use_the_rest() -> None:
    grid = Grid({"user_max_running": 2, "claim_ahead": 1}, alpha=4)
    site = grid["alpha"]
    site.submit(spec(20), 20, 1)
    assert len(site.running) == 2
    site.submit(spec(20), 20, 2, who=BOB)
    assert len(site.running) == 4
    grid.finish()
    assert [site.group(f"alpha-{n}").state for n in (1, 2)] == ["done", "done"]
