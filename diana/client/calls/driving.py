"""The thread behind an executor: sends groups of calls, follows them, ends their futures.

It lives while there is something to do. Groups are followed by streams, each for as long as it takes, or by turns where
there are more groups than a client may have streams.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from diana.client.aio import AsyncClient
from diana.client.calls.following import follow, hold_out
from diana.client.calls.gathering import CallGroup, GridFuture, WaitingCalls, no_room
from diana.client.calls.packing import Call, job_of
from diana.client.calls.sizing import Rest
from diana.client.calls.withdrawing import LOOK_EVERY_S, Withdrawals, Withdrawn
from diana.errors import DianaError, Unreachable
from diana.model.indexset import IndexSet
from diana.threads import in_thread

if TYPE_CHECKING:
    from diana.client.client import Client
    from diana.client.where import StrPath
    from diana.wire.client.messages import SubmitResponse

PLACES = 24
"""Groups followed at once, by two streams each: a node gives one user 192 connections."""
IDLE_S = 0.5
"""Seconds after which the thread ends without work; the next call starts another."""
MOST_LINGER_S = 2.0
LOOK_S = 0.05
"""Seconds between two looks at calls that wait until others were measured."""
TOGETHER_S = 0.01
"""Seconds within which calls of a group that callbacks cancel are taken back together."""
LEAVE_S = 5.0
"""Seconds for which an executor that an exception ends tries to take calls back."""
MOST_NAMED = 8
"""Groups that the line about what is left names."""


class Driver:
    """Drives the groups of one executor. Any thread may call it."""

    def __init__(
        self,
        client: Client,
        node: tuple[StrPath | None, str | None, StrPath | None],
        *,
        options: Mapping[str, object],
        python: Sequence[str],
        inputs: Sequence[Mapping[str, Any]],
        linger_s: float,
        patience_s: float,
        warm: bool = True,
    ) -> None:
        self._withdrawals = Withdrawals(client, patience_s)
        """Called in the user's threads and in the loop's helper threads, never in the driver's own: it blocks."""
        self._node = node
        self._options, self._python, self._inputs, self._warm = options, python, inputs, warm
        self._linger_s = linger_s
        self._patience_s = patience_s
        # Entered anew by callbacks, and by generators that are collected at any moment.
        self._lock = threading.RLock()
        self._drained = threading.Condition(self._lock)
        self._waiting = WaitingCalls()
        self._ready: list[CallGroup] = []
        self._rests: list[Rest] = []
        self._groups: set[CallGroup] = set()
        """Groups that are not over."""
        self._closed = False
        self._leaving = False
        """Nothing is sent any more, and the interpreter does not wait for what runs."""
        self.lost: Unreachable | None = None
        """Why calls that were to be waited for are lost sight of; None: they are not."""
        self._pid = os.getpid()
        self._main_task: asyncio.Task[object] | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        """Set when the last thread has ended."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None

    # --- from the user's threads ---------------------------------------------------------------------------

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one whose driver it is: the thread is not here, locks may be held for
        ever, and grpc must not be touched."""
        return os.getpid() != self._pid

    def add(self, future: GridFuture[Any], call: Call, title: str) -> None:
        with self._lock:
            self._check_open()
            while self._waiting.full and threading.current_thread() is not self._thread:
                self._drained.wait()
                self._check_open()
            self._waiting.add(future, call, title, time.monotonic())
            self._stir()

    def send(self, group: CallGroup) -> None:
        with self._lock:
            self._check_open()
            if not group.open:
                group.drop_files()
                return
            self._groups.add(group)
            self._ready.append(group)
            self._stir()

    def send_later(self, rest: Rest) -> None:
        """Send these once the first of their kind were measured."""
        with self._lock:
            self._check_open()
            self._rests.append(rest)
            self._stir()

    def drop(self, rest: Rest) -> None:
        """Take back what is not read any more."""
        if self.forked:
            return
        with self._lock:
            rest.dropped = True
            if rest in self._rests:
                self._rests.remove(rest)
                rest.sent.set()
        if rest.group is not None and rest.group.open:
            self.abandon(rest.group)

    def withdraw(self, future: GridFuture[Any]) -> bool:
        """Take a call back; True if it will never run. Blocks while the call is on its way to the node. In a callback
        in the driver's own thread it does not block and returns False: the future ends as cancelled when the node has
        said so."""
        with self._lock:
            if self._waiting.remove(future):
                self._drained.notify_all()
                return True
        if future.place is None:
            return future.cancelled()
        group, index = future.place
        if threading.current_thread() is self._thread:
            group.unwanted.add(index)
            if len(group.unwanted) == 1:
                self._spawn(self._take_unwanted(group))
            return False
        if not group.sent.wait(self._patience_s) or not self._withdrawals.one(group, index):
            return False
        if group.open.pop(index, None) is not None:
            group.cancelled += 1
        return True

    def abandon(self, group: CallGroup) -> None:
        """Give up a group whose results nobody reads any more: what has not started need not. Does not wait."""
        if self.forked:
            return
        with self._lock:
            if self._loop is not None and group in self._groups:
                self._loop.call_soon_threadsafe(lambda: self._spawn(self._take_back(group, None)))

    def close(self, *, cancel: bool, within_s: float | None = None) -> None:
        """Take no calls any more. `cancel`: take back those that have not started, within so many seconds."""
        with self._lock:
            self._closed = True
            dropped = self._waiting.drain() if cancel else []
            rests, self._rests = (self._rests, []) if cancel else ([], self._rests)
            unsent, self._ready = (self._ready, []) if cancel else ([], self._ready)
            self._groups.difference_update(unsent)
            groups = list(self._groups) if cancel else []
            self._drained.notify_all()
            self._stir(start=False)
        for rest in rests:
            rest.error = CancelledError()
            rest.sent.set()
        for group in unsent:
            group.sent.set()
            dropped += [future for _, future in group.take_open()]
            group.drop_files()
        for future in dropped:
            future.end_cancelled()
        end_s = time.monotonic() + (self._patience_s if within_s is None else within_s)
        for group in groups:
            if threading.current_thread() is self._thread:
                self._spawn(self._take_back(group, None))
            elif group.sent.wait(max(0.0, end_s - time.monotonic())):
                self._took(group, self._taken(group, None, end_s), None)

    def leave(self) -> bool:
        """Cancel what has not started, do not wait for what runs, and tell the user of it on standard error. The
        futures of what runs go on while the interpreter does. False: the node may still be asked."""
        with self._lock:
            self._leaving = True
            groups = sorted(self._groups, key=lambda group: group.name)
        over = threading.Event()

        def take_back() -> None:
            try:
                self.close(cancel=True, within_s=within_s)
            finally:
                over.set()

        # A node that is frozen keeps a call for minutes.
        within_s = min(self._patience_s, LEAVE_S)
        try:
            threading.Thread(target=take_back, name="diana-leave", daemon=True).start()
            return over.wait(within_s + 1.0)
        finally:
            # Also where another interrupt ends that.
            if (text := self._left(groups)) and sys.stderr is not None:
                print(text, file=sys.stderr, flush=True)

    def _left(self, groups: list[CallGroup]) -> str:
        """The line for a user who leaves; empty: nothing is left."""
        left = [(group.name, jobs, group.title) for group in groups if (jobs := len(group.open) + group.lost)]
        if not left:
            return ""
        told = [f"{jobs} of {name or title + ', which may not be sent'}" for name, jobs, title in left[:MOST_NAMED]]
        more = f", and {len(left) - MOST_NAMED} more groups" if len(left) > MOST_NAMED else ""
        names = [name for name, _, _ in left if name][:MOST_NAMED]
        options = zip(("--data", "--address", "--credential"), self._node, strict=True)
        words = ["diana", "cancel", *names]
        words += [word for option, value in options if value is not None for word in (option, os.fspath(value))]
        mend = f"; end them with: {shlex.join(words)}" if names else "; see: diana status"
        return f"GridExecutor: jobs still at the node: {', '.join(told)}{more}{mend}"

    def finish(self) -> None:
        """Wait for everything, but after an exception."""
        if not self._leaving:
            self.close(cancel=False)
            self.join()

    def stop(self) -> None:
        """End the thread of an executor that was left; what runs goes on at the node."""
        with self._lock:
            thread, ended, loop, task = self._thread, self._ended, self._loop, self._main_task
            if self._leaving and loop is not None and task is not None:
                loop.call_soon_threadsafe(task.cancel)
        if self._leaving and thread is not None and thread is not threading.current_thread():
            ended.wait()

    def join(self) -> bool:
        """Wait until nothing is open any more; False: the driver's own thread asks, and cannot wait."""
        while True:
            with self._lock:
                thread, ended = self._thread, self._ended
            if thread is None:
                return True
            if thread is threading.current_thread():
                return False
            # Not `join`, after whose interrupt a thread counts as ended.
            ended.wait()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _stir(self, *, start: bool = True) -> None:
        if self._loop is not None and self._wake is not None:
            self._loop.call_soon_threadsafe(self._wake.set)
        elif self._thread is None and start:
            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._ended,), name="diana-calls")
            self._thread.start()

    @staticmethod
    def _took(group: CallGroup, taken: Withdrawn, indices: IndexSet | None) -> None:
        group.end_cancelled(taken.cancelled)
        if taken.stuck:
            group.fail_stuck(IndexSet.of(list(group.open)) if indices is None else indices, taken.stuck)

    # --- in the thread -------------------------------------------------------------------------------------

    def _run(self, ended: threading.Event) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._break(error)
        finally:
            ended.set()

    def _break(self, error: BaseException) -> None:
        """A bug, or an interpreter that is ending: no future may wait for ever."""
        broken = BrokenExecutor(f"the executor's thread ended: {error!r}; jobs that were sent go on at the node")
        broken.__cause__ = error
        with self._lock:
            self._closed, self._loop, self._wake, self._thread = True, None, None, None
            left, groups = self._waiting.drain(), list(self._groups)
            rests, self._rests = self._rests, []
            self._drained.notify_all()
        for rest in rests:
            rest.error = broken
            rest.sent.set()
        for future in left:
            future.fail(broken)
        for group in groups:
            group.fail(broken)
            group.drop_files()

    async def _main(self) -> None:
        self._wake, self._main_task = asyncio.Event(), asyncio.current_task()
        self._tasks: set[asyncio.Task[object]] = set()
        self._places = asyncio.Semaphore(PLACES)
        async with AsyncClient(*self._node) as client:
            with self._lock:
                self._loop = asyncio.get_running_loop()
            idle_since_s = time.monotonic()
            while True:
                now_s = time.monotonic()
                due, wait_s = self._due(now_s)
                for group in due:
                    self._spawn(self._drive(client, group))
                idle_since_s = now_s if self._tasks else idle_since_s
                if self._over(now_s - idle_since_s):
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                self._wake.clear()

    def _due(self, now_s: float) -> tuple[list[CallGroup], float]:
        """Groups to send now, and how long to wait for more."""
        with self._lock:
            wait_s = IDLE_S
            if self._waiting:
                # The more groups are open, the longer single calls wait for company.
                linger_s = min(MOST_LINGER_S, self._linger_s * (1 + len(self._groups) // 4))
                wait_s = max(0.0, self._waiting.since_s + linger_s - now_s)
                if self._closed or self._waiting.full or wait_s <= 0.0:
                    self._make_group()
                    wait_s = IDLE_S
            if self._rests:
                self._send_measured(now_s)
                wait_s = min(wait_s, LOOK_S)
            due, self._ready = self._ready, []
        return due, wait_s

    def _send_measured(self, now_s: float) -> None:
        for rest in list(self._rests):
            size = rest.size(now_s)
            if not size:
                continue
            self._rests.remove(rest)
            try:
                group = rest.make(size, self.withdraw)
            except OSError as error:
                rest.error = no_room(error)
            else:
                self._groups.add(group)
                self._ready.append(group)
            rest.sent.set()

    def _make_group(self) -> None:
        try:
            group = self._waiting.group()
        except OSError as error:
            full = no_room(error)
            for future in self._waiting.drain():
                future.fail(full)
        else:
            self._groups.add(group)
            self._ready.append(group)
        self._drained.notify_all()

    def _over(self, idle_s: float) -> bool:
        with self._lock:
            if self._tasks or self._waiting or self._ready or self._rests or (idle_s < IDLE_S and not self._closed):
                return False
            self._loop = self._wake = self._thread = None
            return True

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()
        if self._wake is not None:
            self._wake.set()

    async def _take_unwanted(self, group: CallGroup) -> None:
        await asyncio.sleep(TOGETHER_S)
        indices, group.unwanted = IndexSet.of(group.unwanted), set()
        await self._take_back(group, indices)

    async def _take_back(self, group: CallGroup, indices: IndexSet | None) -> None:
        # Without a thread: those of the loop are needed to send it.
        while not group.sent.is_set():
            await asyncio.sleep(LOOK_EVERY_S)
        end_s = time.monotonic() + self._patience_s
        taken = await in_thread(lambda: self._taken(group, indices, end_s))
        self._took(group, taken, indices)

    def _taken(self, group: CallGroup, indices: IndexSet | None, end_s: float) -> Withdrawn:
        with group.turn:
            return self._withdrawals.of(group, indices, end_s)

    async def _drive(self, client: AsyncClient, group: CallGroup) -> None:
        try:
            await self._send(client, group)
            if self._leaving:
                await self._take_back(group, None)
            await follow(client, group, self._places, self._patience_s)
        except DianaError as error:
            if self._closed and isinstance(error, Unreachable):
                self.lost = error
            group.fail(error)
        except Exception as error:
            broken = BrokenExecutor(f"group {group.name or group.title} cannot be followed any more: {error!r}")
            broken.__cause__ = error
            group.fail(broken)
        finally:
            group.sent.set()
            with self._lock:
                self._groups.discard(group)
            await asyncio.to_thread(group.drop_files)

    async def _send(self, client: AsyncClient, group: CallGroup) -> None:
        """Send the group, under the same key however often: it is one group."""
        title = group.title if group.title.isprintable() else "calls"
        job = job_of(title[:100], group.payload.jobs, self._python, self._inputs, warm=self._warm)

        async def submit() -> SubmitResponse:
            if self._leaving:
                raise DianaError(f"{group.title}: not sent, for its executor was left by an exception")
            return await client.submit(job, key=group.key, options=self._options, folder=group.folder)

        made = await hold_out(submit, self._patience_s)
        group.name = made.group
        group.sent.set()
        await asyncio.to_thread(group.drop_files)
