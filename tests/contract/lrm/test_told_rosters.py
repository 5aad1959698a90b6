"""A component of a gang with spares says how long its part takes, and is told who computes: on the node's own machine
and on a member (SPEC G6)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diana.engine.journal.effects import Go, TellRoster
from diana.engine.journal.events import StepsReported
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from tests.contract.lrm_builders import SUBGROUP, RealSite, shell
from tests.contract.subgrid_builders import SubGridSite

SCRIPT = """
say() {{ echo "$1" >"$DIANA_REPORT.new"; mv "$DIANA_REPORT.new" "$DIANA_REPORT"; }}
test "$DIANA_GANG_SPARES" = 1 && test ! -e "$DIANA_GANG_ROSTER" || exit 3
say "1/3 0.5 0"
until test -e "$DIANA_GANG_ROSTER"; do sleep 0.1; done
read number active <"$DIANA_GANG_ROSTER"
test "$active" = 0,2 || exit 4
say "2/3 0.25 $number"
until test -e HEARD; do sleep 0.1; done
"""


@pytest.mark.parametrize("kind", [RealSite, SubGridSite])
async def test_a_component_is_heard_and_told(kind: type[RealSite], tmp_path: Path) -> None:
    at = kind(tmp_path)
    await at.up()
    try:
        at.start(shell(SCRIPT.replace("HEARD", f"{tmp_path}/heard"), spares=1), 0, barrier_s=time.monotonic() + 120.0)
        await at.until(lambda: at.at_barrier() == {0})
        where = {"worker": at.worker, "subgroup": SUBGROUP, "epoch": 1, "indices": IndexSet.of([0])}
        at.lrm.go(Go(**where, environment=(("DIANA_GANG_HOSTS", "a,b,c"),), size=3, spares=1))

        def heard() -> set[tuple[float, float, int]]:
            told = [event for event in at.events if isinstance(event, StepsReported)]
            return {(row[3], *own) for one in told for row, own in zip(one.steps, one.own, strict=True)}

        await at.until(lambda: (1.0, 0.5, 0) in heard())
        at.lrm.tell_roster(TellRoster(**where, number=7, active=(0, 2)))
        await at.until(lambda: (2.0, 0.25, 7) in heard())
        (tmp_path / "heard").touch()
        (end,) = await at.ended(1)
        assert end.outcome is Outcome.DONE, end
    finally:
        await at.down()
