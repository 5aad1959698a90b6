"""The time for which the node's loop waited, and the pace of peers that follows it."""

from __future__ import annotations

import asyncio
import selectors

import pytest

from diana.adapters.grpc.pacing import Slack
from diana.node.loop import leisure
from diana.node.loop.leisure import NodeLoop, note_leisure


class Noting(Slack):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[float] = []

    def note(self, idle: float) -> None:
        self.heard.append(idle)


class Told(NodeLoop):
    """A loop whose time and waiting a test says."""

    now_s = waits_s = 0.0

    def time(self) -> float:
        return self.now_s

    @property
    def waited_s(self) -> float:
        return self.waits_s


def test_a_loop_adds_up_the_time_for_which_it_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def waits(self: object, timeout: float | None = None) -> list[object]:
        nonlocal now_s
        now_s += timeout or 0.0
        return []

    monkeypatch.setattr(selectors.DefaultSelector, "select", waits)
    monkeypatch.setattr(leisure, "perf_counter", lambda: now_s)
    selector = leisure._Selector()
    selector.select(3.0)
    now_s += 5.0
    selector.select(4.0)
    selector.close()
    assert selector.waited_s == 7.0


def test_a_loop_of_a_node_knows_how_long_it_waited() -> None:
    with asyncio.Runner(loop_factory=NodeLoop) as loops:
        loops.run(asyncio.sleep(0.01))
        loop = loops.get_loop()
        assert isinstance(loop, NodeLoop) and loop.waited_s > 0.0


async def test_the_pace_is_told_the_part_of_each_time_in_which_the_loop_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, slack, spans = Told(), Noting(), iter([(2.0, 0.5), (4.0, 4.0), (1.0, 0.0)])

    async def passes(seconds: float) -> None:
        assert seconds == leisure.NOTE_S
        passed_s, waited_s = next(spans, (0.0, 0.0))
        if not passed_s:
            raise asyncio.CancelledError
        loop.now_s += passed_s
        loop.waits_s += waited_s

    monkeypatch.setattr("diana.node.loop.leisure.asyncio.sleep", passes)
    with pytest.raises(asyncio.CancelledError):
        await note_leisure(loop, slack)
    loop.close()
    assert slack.heard == [0.25, 1.0, 0.0]
