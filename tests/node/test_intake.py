"""The queue before the engine: bounded for strangers, and never in the way of a stop."""

from __future__ import annotations

import asyncio

import pytest

from diana.engine import events as ev
from diana.engine import messages as ms
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.node.intake import Intake


@pytest.mark.parametrize("rounds", range(6))
async def test_a_stop_that_meets_an_event_is_not_lost(rounds: int) -> None:
    intake = Intake()
    waiting = asyncio.create_task(_for_ever(intake))
    await asyncio.sleep(0.01)
    intake.push(ev.Tick())
    for _ in range(rounds):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=1.0)
    assert waiting.cancelled()


async def _for_ever(intake: Intake) -> None:
    while True:
        await intake.wait(5.0)
        intake.take(10)


async def test_a_wait_ends_when_its_time_is_over() -> None:
    await asyncio.wait_for(Intake().wait(0.01), 1.0)


async def test_a_full_queue_refuses_peers_but_takes_what_this_node_owes_itself() -> None:
    intake = Intake(limit_bytes=10_000)
    message = ev.Received(SiteId("beta"), ms.Abort(subgroup="alpha-1/0", epoch=1))  # type: ignore[arg-type]
    with pytest.raises(Overloaded):
        for _ in range(100):
            intake.put(message)
    held = len(intake)
    intake.push(ev.Tick())
    assert len(intake) == held + 1
    assert len(intake.take(1000)) == held + 1 and len(intake) == 0
    intake.put(message)
