"""The sentences about lost and old databases are needed: engines without one are caught (`mutants_of_databases.py`)."""

from __future__ import annotations

import pytest

from diana.engine.engine import Engine
from diana.engine.journal.events import ReleaseJobs
from diana.model.trust.principal import Principal, Role
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from diana.sim.world.world import World
from tests.sim.faults.test_databases import TEXT, A, at
from tests.sim.mutants_of_databases import DESCRIBED, TakesNoStock

SEEDS = 40


@pytest.mark.wide
@pytest.mark.parametrize("mutant", DESCRIBED, ids=lambda mutant: mutant.__name__)
def test_an_engine_without_a_sentence_about_databases_starts_a_job_twice(mutant: type[Engine]) -> None:
    scenario = sc.parse(TEXT + f"[faults]\nuntil_s = 50.0\nheal_s = 400.0\n{DESCRIBED[mutant]}_every_s = 20.0\n")
    for seed in range(SEEDS):
        report = simulate(scenario, seed, boot=Boot(engine=mutant))
        if not report.good():
            print(f"{mutant.__name__}: seed {seed}, {report.violations[:1]}")
            assert report.doubled
            return
    raise AssertionError(f"{mutant.__name__} was not caught by {SEEDS} seeds")


@pytest.mark.parametrize(("engine", "doubled"), [(Engine, False), (TakesNoStock, True)])
def test_an_origin_that_takes_no_stock_runs_again_what_went_elsewhere_since_the_copy(
    engine: type[Engine], doubled: bool
) -> None:
    """adopts: no site has the jobs in the copy, and many ran elsewhere since."""
    world = World(sc.parse(TEXT), 0, Boot(engine=engine))
    world.begin()
    a = at(world, A)
    now_s = 3.0
    while not (a.engine and a.engine.core.state.groups) or a.store.log_end().seq < a.engine.core.state.seq:
        now_s += 0.0005
        world.clock.run_until(now_s)
    assert all(not group.subgroups for group in a.engine.core.state.groups.values())
    a.store.keep_copy()
    world.clock.run_until(16.0)
    a.put_back("database_old", True)
    world.clock.run_until(24.0)
    group = world.users.submissions["one"].group
    assert group is not None
    a.handle(ReleaseJobs(request=77, principal=Principal(Role.OPERATOR, "op@sim"), group=group, indices=None))
    world.clock.run_until(80.0)
    assert bool(world.checkers.doubled) is doubled
