"""Cancelling only what is held, in a grid that loses, doubles and reorders words: what was answered as cancelled never
starts anywhere."""

from __future__ import annotations

from collections import defaultdict

import pytest
from msgspec.structs import replace

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.model.ids import GroupId, group_of
from diana.model.views.views import Ok
from diana.sim.experiments.failure import failure
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate

ASKS_S = 1.4

SCENARIO = sc.parse(
    """version = 1
report = ["faults"]
settings = {offer_wait_s = 3.0, resend_most_s = 3.0}
sites = [{name = "a", slots = 1}, {name = "b", slots = 2}, {name = "c", slots = 2}]
"""
    + "".join(
        f"""
[[workload]]
name = "held {k}"
site = "a"
sites = ["b", "c"]
jobs = 12
work_s = 1.5
submit_s = {2 + k}.0
hold_s = {4 + 2 * k}.0
release_s = {5 + 2 * k}.5
cancel_s = {5 + 2 * k}.{55 + k}
"""
        for k in range(8)
    )
    + """
[faults]
until_s = 40.0
heal_s = 300.0
loss = 0.25
duplicate = 0.4
delay = 0.5
"""
)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_answered_as_cancelled_never_starts(seed: int) -> None:
    cancelled: dict[GroupId, set[int]] = defaultdict(set)
    started: dict[GroupId, set[int]] = defaultdict(set)

    class CancelsOnlyWhatIsHeld(Engine):
        """Whoever cancels means what can be held: it is held once more, and asked about again and again."""

        _asking: ev.CancelJobs | None = None
        _asked = GroupId("")
        _until_s = 0.0

        def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
            effects: list[fx.Effect] = []
            if isinstance(event, ev.CancelJobs):
                self._asked = event.group
                self._asking, self._until_s = replace(event, request=-1, held=True), now + ASKS_S
                hold = ev.HoldJobs(request=-1, principal=event.principal, group=event.group, indices=None)
                effects += super().handle(hold, now)
                event = replace(event, held=True)
            effects += super().handle(event, now)
            if self._asking is not None:
                effects += super().handle(self._asking, now)
                if now > self._until_s:
                    effects += super().handle(replace(self._asking, release=True), now)
                    self._asking = None
            out = []
            for effect in effects:
                if isinstance(effect, fx.Reply) and isinstance(effect.body, Ok) and effect.body.jobs:
                    cancelled[self._asked] |= set(effect.body.jobs)
                elif isinstance(effect, fx.Start):
                    started[group_of(effect.subgroup)] |= set(effect.indices)
                if not (isinstance(effect, fx.Reply) and effect.request < 0):
                    out.append(effect)
            return out

    report = simulate(SCENARIO, seed, boot=Boot(CancelsOnlyWhatIsHeld))
    assert report.good(), failure(SCENARIO, report, Boot(CancelsOnlyWhatIsHeld))
    wrong = {group: both for group in cancelled if (both := cancelled[group] & started[group])}
    assert not wrong, f"seed {seed}: {wrong} were answered as cancelled, and started"
    assert sum(map(len, cancelled.values())) > 5 and any(started.values())
