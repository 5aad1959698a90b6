"""Sites whose machines give back what they have not begun, by seeds: a run that began is never given elsewhere, and
what came back ends. Engines that leave out a sentence of that (`tests/protocol/batch_recall.py`) are caught."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import msgspec
import pytest

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.sim.experiments.failure import failure
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from tests.sim.checks.test_mutants import SCENARIOS
from tests.sim.mutants import without

_MOVING = SCENARIOS["moving"]
SCENARIO = msgspec.structs.replace(
    _MOVING, sites=tuple(msgspec.structs.replace(site, recalls=True) for site in _MOVING.sites)
)
SEEDS = 3


class Counting(Engine):
    """The unbroken one."""

    seen: ClassVar[Counter[str]] = Counter()

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, fx.RecallRuns):
                self.seen["asked"] += len(effect.indices)
            if isinstance(effect, fx.Persist) and isinstance(effect.record, r.RunsReturned):
                self.seen["returned"] += len(effect.record.indices)
            if isinstance(effect, fx.Persist) and isinstance(effect.record, r.RunsEnded):
                self.seen["moved on"] += len(effect.record.revoked)
        return effects


class TakesBackWhatItCalls(Engine):
    """Runs called back from a machine count as returned."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        for recall in [effect for effect in effects if isinstance(effect, fx.RecallRuns)]:
            back = r.RunsReturned(subgroup=recall.subgroup, epoch=recall.epoch, indices=recall.indices)
            self.core.persist(back)
            self.core.requeue.add((recall.subgroup, recall.epoch))
        out, self.core.effects = self.core.effects, []
        return effects + out


class ReturnsBeforeItIsDurable(Engine):
    """Runs that came back are forgotten at the machine, and not written."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.RunsReturned)


def test_what_is_given_back_moves_on_and_nothing_is_lost_or_doubled() -> None:
    Counting.seen.clear()
    for seed in range(SEEDS):
        report = simulate(SCENARIO, seed, boot=Boot(Counting))
        assert report.good(), failure(SCENARIO, report)
    print(dict(Counting.seen))
    assert Counting.seen["returned"] >= 10 and Counting.seen["moved on"] > Counting.seen["returned"]


@pytest.mark.parametrize("mutant", [TakesBackWhatItCalls, ReturnsBeforeItIsDurable])
def test_an_engine_that_breaks_a_rule_of_it_is_caught(mutant: type[Engine]) -> None:
    for seed in range(10):
        report = simulate(SCENARIO, seed, boot=Boot(mutant))
        if report.violations:
            print(mutant.__name__, seed, sorted({violation.rule for violation in report.violations}))
            return
    pytest.fail(f"{mutant.__name__} was not caught in 10 seeds")
