"""Takes calls back from the node: they are held first, so that none starts meanwhile; then those that are held and had
not started are cancelled, and the others let go."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from diana.client.calls.gathering import CallGroup
from diana.errors import DianaError, Overloaded, Unreachable
from diana.model.indexset import IndexSet

if TYPE_CHECKING:
    from diana.client.client import Client

WITHDRAW_S = 5.0
"""Seconds for the sites that have the jobs to say which they hold."""
LOOK_EVERY_S = 0.02
PAUSE_FIRST_S, PAUSE_MOST_S = 0.1, 2.0


class Withdrawn(NamedTuple):
    """The outcome of a wish to take calls back."""

    cancelled: IndexSet
    """Jobs that will never run."""
    stuck: str = ""
    """Why the others may stay held for ever; empty: they are let go."""


class _Round:
    """Calls of one group that are asked for together."""

    def __init__(self) -> None:
        self.indices: set[int] = set()
        self.taken = Withdrawn(IndexSet())
        self.over = threading.Event()


class Withdrawals:
    """Any thread may call it; each call blocks until the node has answered, at most for `patience_s` and a little."""

    def __init__(self, client: Client, patience_s: float) -> None:
        self._client = client
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._next: dict[CallGroup, _Round] = {}
        self._known = False
        """True once the node is known to know the call all this stands on."""

    def one(self, group: CallGroup, index: int) -> bool:
        """Take the job back; True if it will never run. While the node is being asked, all who ask for others of the
        group wait and go together next, in three calls however many they are."""
        with self._lock:
            mine = self._next.get(group)
            leads = mine is None
            if mine is None:
                mine = self._next[group] = _Round()
            mine.indices.add(index)
        if not leads:
            mine.over.wait()
            return index in mine.taken.cancelled
        try:
            with group.turn:
                with self._lock:
                    del self._next[group]
                indices = IndexSet.of(mine.indices)
                mine.taken = self.of(group, indices, time.monotonic() + self._patience_s)
            if mine.taken.stuck:
                group.fail_stuck(indices - mine.taken.cancelled, mine.taken.stuck)
        finally:
            with self._lock:
                # Also where it ends before its turn, for an interrupt.
                if self._next.get(group) is mine:
                    del self._next[group]
            mine.over.set()
        return index in mine.taken.cancelled

    def of(self, group: CallGroup, indices: IndexSet | None, end_s: float) -> Withdrawn:
        """Cancel those of `indices` (None: all of the group's jobs) that had not started; the others run on. Ends at
        `end_s` of the monotonic clock, or WITHDRAW_S from now if that is later."""
        if not group.name:
            return Withdrawn(IndexSet())
        target = group.name if indices is None else f"{group.name}.[{indices}]"
        out = IndexSet()
        try:
            if not self._known:
                # Before anything is held: a node of an older release cannot go on from there.
                out = self._cancel_held(target)[0]
                self._known = True
            self._client.hold(target)
        except Unreachable:
            # It may have heard it all the same.
            if not self._known:
                return Withdrawn(out)
        except DianaError:
            # All have ended, or it has too much to do: nothing is held.
            return Withdrawn(out)
        else:
            out |= self._cancelled(target)
            if indices is not None and indices.issubset(out):
                return Withdrawn(out)
        return self._let_go(target, out, end_s)

    def _cancelled(self, target: str) -> IndexSet:
        out, end_s = IndexSet(), time.monotonic() + WITHDRAW_S
        try:
            while True:
                some, unsure = self._cancel_held(target)
                out |= some
                if not unsure or time.monotonic() >= end_s:
                    return out
                time.sleep(LOOK_EVERY_S)
        except DianaError:
            return out

    def _let_go(self, target: str, out: IndexSet, end_s: float) -> Withdrawn:
        """Let the others go: one that runs, and has to start again some day, may. What the node has not heard stays
        held until somebody says so: it is told again and again."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return Withdrawn(out | self._cancel_held(target, release=True)[0])
            except (Unreachable, Overloaded) as error:
                pause_s = max(pause_s, getattr(error, "retry_after_s", 0.0))
                if time.monotonic() + pause_s > end_s:
                    return Withdrawn(out, str(error))
            except DianaError as error:
                return Withdrawn(out, str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MOST_S)

    def _cancel_held(self, target: str, *, release: bool = False) -> tuple[IndexSet, int]:
        answer = self._client.cancel_held(target, release=release)
        return IndexSet.parse(answer.indices) if answer.indices else IndexSet(), answer.unsure
