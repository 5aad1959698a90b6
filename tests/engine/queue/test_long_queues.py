"""Queues of very many groups: what is passed over at a glance changes nothing of what starts."""

from __future__ import annotations

from random import Random

import pytest

from diana.engine.dispatch import dispatch
from diana.engine.journal import effects as fx
from diana.model.trust.principal import Principal, Role
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.machines.test_machine_software import IMAGE, Offering
from tests.engine.queueing import Waiting, entry

CALM: dict[str, object] = {"priority_mode": "paper", "time_threshold_s": 0.0, "claim_ahead": 1}


@pytest.mark.wide
def test_a_job_that_may_pass_is_found_behind_any_number_that_are_too_wide() -> None:
    """Two of four slots are busy for 20 s; all others of hundreds of users want four, and the last of who queues much
    is over in time."""
    grid, groups = Grid(CALM, alpha=4), dispatch.LOOK_PAST + 20
    alpha = grid["alpha"]
    alpha.submit(spec(1, work_s=20.0, processors=2), 1, who=ALICE)
    for number in range(groups):
        who = Principal(Role.USER, f"u{number}@vo")
        alpha.submit(spec(1, work_s=5.0, processors=4), 1, request=2 + number, who=who)
    alpha.submit(spec(5000, work_s=50.0), 5000, request=groups + 2, who=BOB)
    alpha.submit(spec(1, work_s=5.0), 1, request=groups + 3, who=BOB)
    assert [run.subgroup for run in alpha.running] == ["alpha-1/0", f"alpha-{groups + 3}/0"]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(4, 30))])
def test_what_starts_is_the_same_as_if_each_were_looked_at(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_glance = _starts(seed)
    monkeypatch.setattr(dispatch, "_stays", lambda *_: False)
    assert _starts(seed) == at_a_glance


def _starts(seed: int) -> list[tuple[str, str, int]]:
    """(subgroup, machine, jobs) in that order, while groups come to a site of three machines and jobs end."""
    luck = Random(seed)
    mode, ahead = luck.choice(("paper", "default")), luck.choice((0, 1, 4))
    grid = Grid({"priority_mode": mode, "time_threshold_s": 30.0, "claim_ahead": ahead, "guard_jobs": 0}, alpha=0)
    boxes = {name: (luck.randint(1, 5), luck.choice(((), ("containers",)))) for name in ("m1", "m2", "m3")}
    machines = Offering(grid["alpha"], **boxes)
    for request in range(1, 31):
        jobs, work_s = luck.randint(1, 6), luck.choice((2.0, 15.0, 40.0, 400.0))
        needs = IMAGE if luck.random() < 0.2 else {}
        work = spec(jobs, work_s=work_s, processors=luck.randint(1, 4), **needs)
        machines.submit(work, jobs, request, luck.choice((ALICE, BOB)))
        machines.pass_time(luck.choice((0.0, 1.0, 10.0)))
        for _ in range(luck.randint(0, 2)):
            machines.end(luck.choice(("m1", "m2", "m3")), 1)
    starts = (effect for effect in grid["alpha"].trace if isinstance(effect, fx.Start))
    return [(effect.subgroup, effect.worker, len(effect.indices)) for effect in starts]


def test_hundreds_of_users_of_one_priority_start_in_order_of_submission() -> None:
    times = list(range(700))
    Random(7).shuffle(times)
    waiting = Waiting(*(entry(f"u{k}", submitted_s=float(at)) for k, at in enumerate(times)))
    assert waiting.order() == [f"u{k}" for _, k in sorted((at, k) for k, at in enumerate(times))]
