"""Models that a site of submission fits to past runs, over processors and sites (SPEC G2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal.state import decode_state
from diana.model.ids import GroupId
from diana.model.job.spec import GroupSpec, Resources
from diana.model.views.decision import Decision
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.placement.test_grads_placing import gang as modelled_gang
from tests.engine.placement.test_grads_placing import grid, sites


def learned(processors: int, **more: object) -> GroupSpec:
    wanted = msgspec.structs.replace(spec(1), resources=Resources(processors=processors), learned=True)
    return msgspec.structs.replace(wanted, **more)


def plan(made: Grid, wanted: GroupSpec) -> Decision:
    made["alpha"].replies.pop(1, None)
    made["alpha"].submit(wanted, 1, plan_only=True)
    made.pass_time(60.0)
    found = made["alpha"].replies[1]
    assert isinstance(found, fx.DecisionMade), found
    return found.decision


def run(made: Grid, number: int, wanted: GroupSpec, took_s: float) -> Decision:
    name = GroupId(f"alpha-{number}")
    made["alpha"].submit(wanted, wanted.gang_size, number)
    made.pass_time(5.0)
    made.pass_time(took_s)
    for site in made.sites.values():
        site.end()
    made.settle()
    made.pass_time(1.0)
    group = made["alpha"].group(name)
    assert group.state == "done", group.state
    return group.decisions[-1]


def test_jobs_on_a_number_of_processors_that_never_ran_are_foretold_by_those_that_did() -> None:
    made = grid(alpha=(16, 1.0))
    for number, processors in enumerate((1, 2, 4, 1, 2, 4), 1):
        run(made, number, learned(processors), 20.0 + 400.0 / processors)
    (row,) = plan(made, learned(8)).candidates
    assert row.run_from == "model" and row.run_s == pytest.approx(20.0 + 400.0 / 8 + 5, rel=0.05)
    assert plan(made, learned(8, learned=False)).candidates[0].run_from == "guess", (
        "the program's runs alone say nothing"
    )
    made["alpha"].restart()
    made.settle()
    assert plan(made, learned(8)).candidates[0].run_s == row.run_s
    assert decode_state(made["alpha"].engine.snapshot()).run_fits == made["alpha"].engine.state.run_fits


def test_too_few_runs_foretell_nothing() -> None:
    made = grid(alpha=(16, 1.0))
    for number in range(1, 5):
        run(made, number, learned(1), 100.0)
        assert plan(made, learned(4)).candidates[0].run_from == "guess"
    run(made, 5, learned(1), 100.0)
    assert plan(made, learned(4)).candidates[0].run_from == "model"


def test_a_gang_learns_what_further_sites_cost_and_stays_together() -> None:
    """Two sites run it in 40 s of work and 300 s of talk between them: when that is known, the slower machines of one
    site have it sooner."""
    made = grid(alpha=(8, 1.0), beta=(4, 2.0), gamma=(4, 2.0))
    wanted = modelled_gang("2x4", model=(), learned=True, gang_placement="grads")
    for number in range(1, 6):
        # A rank spreads it while nothing is known.
        apart = msgspec.structs.replace(wanted, sites=("beta", "gamma"))
        decided = run(made, number, apart, 340.0)
        assert decided.gang is not None and sorted(sites(decided.gang)) == ["beta", "gamma"]
        assert decided.gang.policy == "worst-fit", "too few runs have taught anything"
    for number in range(6, 10):
        run(made, number, msgspec.structs.replace(wanted, sites=("alpha",)), 80.0)
    found = plan(made, wanted).gang
    assert found is not None and found.policy == "grads" and sites(found) == ["alpha", "alpha"]
    assert found.run_s == pytest.approx(85.0, rel=0.25) and found.runs_seen > 0
    assert found.run_low_s <= found.run_s <= found.run_high_s
