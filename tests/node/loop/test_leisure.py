"""How long the node's loop waited, and that peers' pace follows it."""

from __future__ import annotations

import asyncio
import time

import pytest

from diana.adapters.grpc.pacing import Slack
from diana.node.loop import leisure
from diana.node.loop.leisure import NodeLoop, note_leisure


class Noting(Slack):
    def __init__(self, enough: int) -> None:
        super().__init__()
        self.heard: list[float] = []
        self.enough = asyncio.Event()
        self._most = enough

    def note(self, idle: float) -> None:
        self.heard.append(idle)
        if len(self.heard) >= self._most:
            self.enough.set()


def notes(works: bool) -> list[float]:
    """What is noted of a loop that works all the time, or waits all the time."""

    async def all_of_it() -> list[float]:
        loop, slack = asyncio.get_running_loop(), Noting(5)
        assert isinstance(loop, NodeLoop)
        noting = asyncio.create_task(note_leisure(loop, slack))
        while works and not slack.enough.is_set():
            time.sleep(0.001)
            await asyncio.sleep(0)
        await slack.enough.wait()
        noting.cancel()
        return slack.heard

    with asyncio.Runner(loop_factory=NodeLoop) as loops:
        return loops.run(all_of_it())


def test_a_loop_that_works_is_told_from_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leisure, "NOTE_S", 0.02)
    assert max(notes(works=True)) < min(notes(works=False))
