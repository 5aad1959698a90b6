"""Who waits for whom among a stager's orders (SPEC U8)."""

from __future__ import annotations

import asyncio

from diana.adapters.staging.lanes import Lanes


class Story:
    def __init__(self) -> None:
        self.lanes = Lanes()
        self.told: list[str] = []

    async def hold(self, name: str, lane: str, *, together: bool = False, seconds: float = 0.01) -> None:
        async with self.lanes.turn(lane, together=together):
            self.told.append(f"{name} began")
            await asyncio.sleep(seconds)
            self.told.append(f"{name} ended")


async def test_those_who_may_run_together_do_and_a_deletion_waits_for_all_of_them() -> None:
    story = Story()
    await asyncio.gather(
        story.hold("in 1", "a-1/0", together=True, seconds=0.03),
        story.hold("in 2", "a-1/0", together=True),
        story.hold("drop", "a-1/0"),
        story.hold("in 3", "a-1/0", together=True),
    )
    assert story.told[:2] == ["in 1 began", "in 2 began"]
    assert story.told[-6:] == ["in 2 ended", "in 1 ended", "drop began", "drop ended", "in 3 began", "in 3 ended"]


async def test_one_that_is_cancelled_while_it_waits_lets_nobody_past_those_before_it() -> None:
    story = Story()
    first = asyncio.create_task(story.hold("first", "x", seconds=0.03))
    second = asyncio.create_task(story.hold("second", "x"))
    third = asyncio.create_task(story.hold("third", "x"))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert story.told == ["first began", "first ended", "third began", "third ended"]


async def test_lanes_do_not_wait_for_each_other_and_leave_nothing_behind() -> None:
    story = Story()
    await asyncio.gather(story.hold("a", "x"), story.hold("b", "y"))
    assert story.told[:2] == ["a began", "b began"]
    assert not vars(story.lanes)["_lanes"]
