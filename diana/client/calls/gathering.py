"""Futures of calls, and the groups they become: single calls wait a moment for others and travel as one group."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from diana.client.calls.packing import Call, Payload
from diana.errors import DianaError, UsageError
from diana.model.indexset import FinishedSet, IndexSet

T = TypeVar("T")

MOST_CALLS = 10_000
MOST_BYTES = 32 << 20
"""Waiting calls, or as many bytes of them, make a group at once."""

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG))

_telling = threading.Lock()


class GridFuture(Future[T]):
    """A future whose call is a job. `running()` is never true: sites tell ends, not starts."""

    def __init__(self, withdraw: Callable[[GridFuture[Any]], bool]) -> None:
        self._pid = os.getpid()
        super().__init__()
        self._withdraw = withdraw
        self._told = False
        self.place: tuple[CallGroup, int] | None = None
        """None: waits for company."""

    @property
    def _condition(self) -> threading.Condition:
        """The standard library's, by which it reads, waits for and ends futures. In a child process nobody ends one,
        and a lock may be held for ever: what has ended gets another."""
        if (pid := os.getpid()) != self._pid:
            if self._state in ("PENDING", "RUNNING"):
                raise forked(self._pid)
            if self._lock_of != pid:
                self._condition = threading.Condition()
        return self._own_condition

    @_condition.setter
    def _condition(self, condition: threading.Condition) -> None:
        self._own_condition, self._lock_of = condition, os.getpid()

    @property
    def job(self) -> str:
        """Its job's name (`alpha-3.17`), for `diana logs` and the like; empty until the node has it."""
        return f"{self.place[0].name}.{self.place[1]}" if self.place is not None and self.place[0].name else ""

    def cancel(self) -> bool:
        """Take the call back; True if it will never run. A call that has started runs on, and this is False. Asks the
        node, which may have to hear of the site that has the job; False also where nobody answers in time."""
        if self.done():
            return self.cancelled()
        return self._withdraw(self) and self.end_cancelled()

    def end_cancelled(self) -> bool:
        """End the future as cancelled, without asking the node. False: it has ended otherwise."""
        if not super().cancel():
            return False
        with _telling:
            told, self._told = self._told, True
        if not told:
            self.set_running_or_notify_cancel()
        return True

    def end(self, value: T) -> None:
        with suppress(InvalidStateError):
            self.set_result(value)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.set_exception(error)


class CallGroup:
    """Calls that are one bulk group, or are about to be: job k of it is the future `open[k]`, until that has ended."""

    def __init__(self, title: str, *, whole: bool) -> None:
        self.title = title
        self.whole = whole
        """A future's result is the list of a job's outcomes, not its only one."""
        self.key = os.urandom(12).hex()
        self.name = ""
        """The node's name for the group; empty until it was sent."""
        self.sent = threading.Event()
        """Set once the group has a name, or never will."""
        self.open: dict[int, GridFuture[Any]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="diana-calls-"))
        try:
            self.payload = Payload(self.folder)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.chunks_read = 0
        """Chunks of its results read so far."""
        self.have = FinishedSet()
        """Jobs whose outcomes came."""
        self.ran = FinishedSet()
        """Jobs whose ends were told, outcomes or none."""
        self.cancelled = 0
        """Jobs cancelled, as far as their futures know."""
        self.lost = 0
        """Jobs that may go on at the node, or be held there, although their futures have failed."""
        self.turn = threading.Lock()
        """Held by the thread that takes some of its calls back."""
        self.unwanted: set[int] = set()
        """Calls that callbacks cancelled in the driver's thread, until it asks for them together."""
        self.trouble = ""
        """Why some of its outcomes cannot be had."""
        self.logs_read = 0
        self.measured = 0
        """Jobs that told how long they took."""
        self.spent_s = 0.0
        """The sum of that."""
        self.heard_s = 0.0
        """Time of the group's last news, by the loop's clock."""

    def add(self, future: GridFuture[Any], call: Call) -> None:
        index = self.payload.add(call)
        self.open[index] = future
        future.place = (self, index)

    def fail(self, error: BaseException) -> None:
        """Fail all futures that are still open."""
        self.sent.set()
        for _, future in self.take_open():
            self.lost += 1
            future.fail(error)

    def end_cancelled(self, indices: IndexSet) -> None:
        """End the futures among them that are open and never ran."""
        for index in indices:
            if (future := self.open.pop(index, None)) is not None:
                self.cancelled += 1
                future.end_cancelled()

    def fail_stuck(self, indices: IndexSet, why: str) -> None:
        """Fail the futures among them that are open: their jobs may be held, and nobody could let them go."""
        for index in indices:
            if (future := self.open.pop(index, None)) is not None:
                self.lost += 1
                text = f"may be held and could not be let go ({why}); once the node answers: diana release {self.name}"
                future.fail(DianaError(f"{self.title} as {self.name}.{index} {text}"))

    def take_open(self) -> Iterator[tuple[int, GridFuture[Any]]]:
        """Whatever is still open; another thread may take from it, too."""
        with suppress(KeyError):
            while True:
                yield self.open.popitem()

    def drop_files(self) -> None:
        # What is not written yet finds no room where the disk is full.
        with suppress(OSError):
            self.payload.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class WaitingCalls:
    """Single calls that wait for company. The caller holds the lock."""

    def __init__(self) -> None:
        self._calls: dict[GridFuture[Any], tuple[Call, str]] = {}
        self._size_bytes = 0
        self.since_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def full(self) -> bool:
        return len(self._calls) >= MOST_CALLS or self._size_bytes >= MOST_BYTES

    def add(self, future: GridFuture[Any], call: Call, title: str, now_s: float) -> None:
        if not self._calls:
            self.since_s = now_s
        self._calls[future] = call, title
        self._size_bytes += _size_bytes(call)

    def remove(self, future: GridFuture[Any]) -> bool:
        """Take the call out; True if it was among them. They may be `full` no more."""
        found = self._calls.pop(future, None)
        if found is None:
            return False
        self._size_bytes -= _size_bytes(found[0])
        return True

    def drain(self) -> list[GridFuture[Any]]:
        """Take all futures out; none of them is sent."""
        futures = list(self._calls)
        self._calls, self._size_bytes = {}, 0
        return futures

    def group(self) -> CallGroup:
        title = next(iter(self._calls.values()))[1]
        group = CallGroup(title, whole=False)
        try:
            for future, (call, _) in self._calls.items():
                group.add(future, call)
            group.payload.finish()
        except BaseException:
            group.drop_files()
            raise
        self.drain()
        return group


def _size_bytes(call: Call) -> int:
    """Bytes of a call, as if no two shared their function, which most do."""
    return len(call.calls) + len(call.function)


def forked(pid: int) -> UsageError:
    """The error for a user who asks an executor, or a future, of the parent of this process."""
    return UsageError(f"this executor is that of process {pid}, which forked this one; make a GridExecutor here")


def no_room(error: OSError) -> UsageError:
    """The error for a user where a group's files could not be written."""
    return UsageError(f"{error.filename or tempfile.gettempdir()}: {error.strerror}; make room, or set TMPDIR")
