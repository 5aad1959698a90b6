"""`python -m tests.protocol.counted`: what the searches of this folder cover, as one table.

The bounds are those of `make test`; with DIANA_FULL=1 those of the full searches (an hour). Mutants are counted, not
run: each model's tests fail when a sentence has none, or when nothing comes of leaving it out.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.protocol import (
    control,
    control_rules,
    dbloss,
    dbloss_rules,
    handover,
    handover_rules,
    lease,
    moves,
    recall,
    standby,
    standby_mutants,
    standby_rules,
    test_control_model,
    test_dbloss_model,
    test_handover_model,
    test_lease_model,
    test_moves_model,
    test_recall_model,
    test_standby_model,
)
from tests.protocol.search import Explored, explore


class Searched(NamedTuple):
    model: str
    bound: str
    run: Callable[[], Explored[Any]]
    mutants: int


def searches() -> Iterator[Searched]:
    """In the order of PROMISES section 2."""
    full = test_handover_model.FULL
    for epochs, attempts in test_handover_model.BOUNDS:
        hand = handover.Handover(epochs, attempts)
        yield _of("hand-over", f"{epochs} epochs, {attempts} attempts", hand, handover_rules.HARMS, handover.Rules)
    yield _of("recall", f"{3 if full else 2} epochs", recall.Recall(epochs=3 if full else 2), _RECALL, recall.Rules)
    for controls, epochs in test_control_model.BOUNDS:
        model = control.ControlModel(controls, epochs)
        yield _of("control", f"{controls} orders, {epochs} epochs", model, control_rules.HARMS, control.Rules)
    for world, moving in test_moves_model.WORLDS.items():
        yield _of("moves", f"{world}, {moving.epochs} epochs", moving, moves.HARMS, moves.Rules)
    for side in test_dbloss_model.SIDES:
        lost = dbloss.DbLoss(side, epochs=3 if full else 2)
        yield _of("database lost", f"{side}, {lost.epochs} epochs", lost, dbloss_rules.HARMS, dbloss.Rules)
    renewals = 2 if full else 1
    leased = lease.Lease(renewals=renewals)
    yield _of("leases", f"{renewals} renewals", leased, [test_lease_model.HARM], lease.Rules)
    for world, on in test_standby_model.WORLDS.items():
        stood = standby.Standby(on)
        yield Searched(
            "standby",
            world,
            lambda stood=stood: explore(stood, standby_rules.HARMS, standby_rules.RULES),  # type: ignore[misc]
            len(standby_mutants.MUTANTS),
        )


_RECALL = test_recall_model.HARMS


def _of(name: str, bound: str, model: Any, harms: Any, rules: Any) -> Searched:
    return Searched(name, bound, lambda: explore(model, harms), len(dataclasses.fields(rules)))


def main() -> int:
    found = total = 0
    print(f"{'model':<14} {'bound':<28} {'states':>10} {'steps':>11} {'harms':>6} {'mutants':>8} {'s':>6}")
    for one in searches():
        begun_s = time.monotonic()
        explored = one.run()
        harms = 0 if explored.found is None else 1
        found, total = found + harms, total + len(explored.reached)
        print(
            f"{one.model:<14} {one.bound:<28} {len(explored.reached):>10,} {explored.steps:>11,} {harms:>6} "
            f"{one.mutants:>8} {time.monotonic() - begun_s:>6.1f}",
            flush=True,
        )
    print(f"{total:,} states, {found} harms")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
