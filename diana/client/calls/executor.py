"""`GridExecutor`: the standard library's Executor over the sites of a VO."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from diana.client.calls.driving import Driver
from diana.client.calls.gathering import NO_ROOM, CallGroup, GridFuture, forked, no_room
from diana.client.calls.packing import (
    Call,
    Outcome,
    checked_inputs,
    checked_options,
    function_name,
    packed_calls,
    packed_function,
    python_command,
)
from diana.client.calls.sizing import FIRST, MOST_WAITING_BYTES, Rest
from diana.client.client import Client

if TYPE_CHECKING:
    from types import TracebackType

    from diana.client.where import StrPath

P = ParamSpec("P")
T = TypeVar("T")

_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


class GridExecutor(Executor):
    """Calls as jobs of the submitting user. `data`, `address`, `credential` as for `Client`.

    `options`: as on the command line (`{"cpus": 2, "memory": "4G", "sites": ["alpha"], "time": "10m"}`). `python`: the
    interpreter's command at the sites; left out, `python3.N` of this version, else `python3`. `inputs`: files and
    datasets each job finds in its directory, as in a job file. Single calls wait `linger_s` for others, to be one group
    with them; a node that is away is waited for so long as `patience_s`. `warm`: each call is a child of a process that
    has loaded the function already; False: an interpreter of its own, started anew.

    UsageError, Denied or Unreachable at once where the node or the options are not right.
    """

    def __init__(
        self,
        data: StrPath | None = None,
        address: str | None = None,
        credential: StrPath | None = None,
        *,
        options: Mapping[str, object] | None = None,
        python: str | Sequence[str] | None = None,
        inputs: Iterable[StrPath | Mapping[str, Any]] = (),
        linger_s: float = 0.05,
        patience_s: float = 60.0,
        warm: bool = True,
    ) -> None:
        self._pid = os.getpid()
        self._client = Client(data, address, credential)
        self._client.info()
        self._driver = Driver(
            self._client,
            (data, address, credential),
            options=checked_options(options),
            python=python_command(python),
            inputs=checked_inputs(inputs),
            linger_s=linger_s,
            patience_s=patience_s,
            warm=warm,
        )
        _drivers.add(self._driver)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> GridFuture[T]:
        """UsageError at once for what cannot be pickled; RuntimeError after shutdown. Waits while too much is on its
        way to the node."""
        self._check_here()
        call = Call(packed_function(fn), packed_calls(fn, [(args, kwargs)]))
        future: GridFuture[T] = GridFuture(self._driver.withdraw)
        self._driver.add(future, call, function_name(fn))
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
    ) -> Iterator[T]:
        """Run the calls, a job per `chunksize` of them; left out: a job each, but where the first few turn out to be
        tiny the others share jobs (`sizing.py`). Results in the order of the arguments; whoever stops reading cancels
        what has not started."""
        if chunksize is not None and chunksize < 1:
            raise ValueError(f"chunksize {chunksize}: want at least 1")
        self._check_here()
        end_s = None if timeout is None else time.monotonic() + timeout
        function = packed_function(fn)
        calls = zip(*iterables, strict=False)
        group, futures = self._send(
            fn, function, calls if chunksize else itertools.islice(calls, FIRST), chunksize or 1
        )
        later: list[bytes] = []
        for arguments in calls:
            later.append(packed_calls(fn, [(arguments, {})]))
            if len(later) * len(later[-1]) > MOST_WAITING_BYTES:
                # They wait for nobody, so that they need not lie in memory.
                another, more = self._send(fn, function, calls, 1, later)
                return _results(self._driver, [group, another], [*futures, *more], None, end_s)
        rest = Rest(group.title, function, later, group, time.monotonic()) if later else None
        if rest is not None:
            self._driver.send_later(rest)
        return _results(self._driver, [group], futures, rest, end_s)

    def _send(
        self,
        fn: Callable[..., T],
        function: bytes,
        calls: Iterable[tuple[Any, ...]],
        chunksize: int,
        packed: Iterable[bytes] = (),
    ) -> tuple[CallGroup, list[GridFuture[list[Outcome]]]]:
        try:
            group = CallGroup(function_name(fn), whole=True)
        except OSError as error:
            raise no_room(error) from error
        futures: list[GridFuture[list[Outcome]]] = []
        try:
            source = iter(calls)
            chunks = iter(lambda: list(itertools.islice(source, chunksize)), [])
            more = (packed_calls(fn, [(arguments, {}) for arguments in chunk]) for chunk in chunks)
            for data in itertools.chain(packed, more):
                future: GridFuture[list[Outcome]] = GridFuture(self._driver.withdraw)
                group.add(future, Call(function, data))
                futures.append(future)
            group.payload.finish()
            self._driver.send(group)
        except OSError as error:
            group.drop_files()
            if error.errno not in NO_ROOM:
                # The arguments' own.
                raise
            raise no_room(error) from error
        except BaseException:
            group.drop_files()
            raise
        return group, futures

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._driver.forked:
            return
        self._driver.close(cancel=cancel_futures)
        if wait and self._driver.join():
            self._client.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for everything; Unreachable if the node stays away meanwhile. After an exception: cancel what has not
        started, and do not wait for what runs, of which standard error tells."""
        if self._driver.forked:
            return
        if kind is not None:
            if self._driver.leave():
                self._client.close()
            return
        try:
            self.shutdown()
        except KeyboardInterrupt:
            self._driver.leave()
            raise
        if self._driver.lost is not None:
            raise self._driver.lost

    def _check_here(self) -> None:
        if self._driver.forked:
            raise forked(self._pid)


def _results(
    driver: Driver,
    groups: list[CallGroup],
    futures: list[GridFuture[list[Outcome]]],
    rest: Rest | None,
    end_s: float | None,
) -> Iterator[Any]:
    futures.reverse()
    try:
        while futures:
            # Popped, so that what was read can be forgotten.
            yield from (outcome.result() for outcome in futures.pop().result(_left_s(end_s)))
            if not futures and rest is not None and not rest.dropped:
                if not rest.sent.wait(_left_s(end_s)):
                    raise TimeoutError
                if rest.error is not None:
                    raise rest.error
                futures, rest.futures = rest.futures[::-1], []
    finally:
        # The last one, too, is popped before it is waited for.
        for group in groups:
            if group.open:
                driver.abandon(group)
        if rest is not None:
            driver.drop(rest)


def _left_s(end_s: float | None) -> float | None:
    return None if end_s is None else max(0.0, end_s - time.monotonic())


def _end_all() -> None:
    """Before the interpreter ends, as the standard library's executors do: what was submitted is carried out. An
    interrupt, and `with` that an exception ended, leave what runs."""
    drivers = list(_drivers)
    try:
        for driver in drivers:
            with suppress(Exception):
                driver.finish()
    except KeyboardInterrupt:
        for driver in drivers:
            with suppress(Exception):
                driver.leave()
    for driver in drivers:
        driver.stop()


# Functions of atexit come too late. The last one registered is called first: before the one that ends asyncio's
# threads, which their module registers.
import_module("concurrent.futures.thread")
getattr(threading, "_register_atexit", lambda function: None)(_end_all)
# Drivers of a parent have no thread in its child, which would wait for them for ever.
os.register_at_fork(after_in_child=_drivers.clear)
