"""Going on over a restart of the node: a verb that stays with a group waits for a node that was there and went away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar, cast

from diana.cli.shared.faults import complain
from diana.errors import NodeAway, Overloaded, WaitTimedOut

T = TypeVar("T")

PATIENCE_S = 600.0
"""Seconds that a node may be away."""
PAUSE_FIRST_S, PAUSE_MOST_S = 0.2, 5.0


class NodePatience:
    """Bounded, and said once on standard error. A node that was never there is not waited for."""

    def __init__(
        self,
        *,
        heard: bool = False,
        until_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        say: Callable[[str], None] = complain,
    ) -> None:
        """`heard`: it has answered already. `until_s`: time by `clock` at which the verb's own time is over."""
        self._heard = heard
        self._until_s = float("inf") if until_s is None else until_s
        self._clock = clock
        self._sleep = sleep
        self._say = say
        self._since_s: float | None = None
        self._pause_s = PAUSE_FIRST_S
        self._said = False

    @property
    def was_heard(self) -> bool:
        return self._heard

    def heard(self) -> None:
        """Note that the node answered."""
        self._heard, self._since_s, self._pause_s = True, None, PAUSE_FIRST_S

    def away(self, fault: NodeAway | Overloaded) -> None:
        """Sleep before the next attempt. Raises the fault when nothing is to be waited for, or no longer; WaitTimedOut
        when the verb's own time is over."""
        if not self._heard:
            raise fault
        now_s = self._clock()
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s >= self._until_s:
            raise WaitTimedOut(f"{fault}; the time to wait is over, and its jobs go on")
        if now_s - self._since_s > PATIENCE_S:
            raise fault
        if not self._said and isinstance(fault, NodeAway):
            self._say(f"{fault}; waiting for it, {PATIENCE_S / 60:g} minutes at most")
            self._said = True
        wanted_s = max(self._pause_s, fault.retry_after_s if isinstance(fault, Overloaded) else 0.0)
        self._sleep(min(wanted_s, max(0.0, self._until_s - now_s)))
        self._pause_s = min(2 * self._pause_s, PAUSE_MOST_S)


def lasting(patience: NodePatience, begin: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield what the stream tells; begin it again when it broke off because the node went away."""
    while True:
        try:
            with closing(cast("Any", begin())) as stream:
                for item in stream:
                    patience.heard()
                    yield item
            return
        except (NodeAway, Overloaded) as fault:
            patience.away(fault)


def insisting(patience: NodePatience, call: Callable[[], T]) -> T:
    """Return what the call gives; make it again while the node is away."""
    while True:
        try:
            result = call()
        except (NodeAway, Overloaded) as fault:
            patience.away(fault)
        else:
            patience.heard()
            return result
