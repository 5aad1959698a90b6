"""A node that went away is waited for: not for ever, said once, and only if it was there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from diana.cli.shared.patience import PATIENCE_S, NodePatience, insisting, lasting
from diana.errors import NodeAway, Overloaded, Unreachable, WaitTimedOut


class Away:
    """A clock that sleeping moves, and what was said."""

    def __init__(self, **options: float) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.patience = NodePatience(
            clock=lambda: self.now_s, sleep=self.sleep, say=self.said.append, heard=True, until_s=options.get("until_s")
        )

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


def test_a_stream_goes_on_where_it_broke_off_and_it_is_said_once() -> None:
    away, begun = Away(), []

    def begin() -> Iterator[int]:
        begun.append(len(begun))
        yield begun[-1]
        if len(begun) < 4:
            raise NodeAway("gone")

    assert list(lasting(away.patience, begin)) == [0, 1, 2, 3]
    assert len(away.said) == 1 and "10 minutes" in away.said[0]


def test_patience_ends_and_begins_anew_when_the_node_answered() -> None:
    away = Away()
    for _ in range(2):
        since_s = away.now_s
        with pytest.raises(NodeAway):
            while True:
                away.patience.away(NodeAway("gone"))
        assert PATIENCE_S < away.now_s - since_s < PATIENCE_S + 10
        away.patience.heard()


def test_the_verbs_own_time_is_not_exceeded() -> None:
    away = Away(until_s=3.0)
    with pytest.raises(WaitTimedOut):
        insisting(away.patience, lambda: _raise(NodeAway("gone")))
    assert away.now_s == 3.0


def test_what_is_out_of_reach_for_the_node_itself_is_told_at_once() -> None:
    away = Away()
    with pytest.raises(Unreachable, match="beta"):
        insisting(away.patience, lambda: _raise(Unreachable("beta is away")))
    assert away.now_s == 0.0 and not away.said


def test_an_overloaded_node_is_asked_again_when_it_said() -> None:
    away, asked = Away(), []

    def call() -> int:
        asked.append(away.now_s)
        return 7 if len(asked) > 1 else _raise(Overloaded("much to do", 2.5))

    assert insisting(away.patience, call) == 7
    assert asked == [0.0, 2.5] and not away.said


def _raise(fault: Exception) -> int:
    raise fault
