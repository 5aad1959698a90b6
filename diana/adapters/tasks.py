"""Tasks nobody awaits. A fault of ours in one of them stands in the log at once, and lasting work goes on: asyncio
alone tells of a fault when the task is forgotten, which may be never.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from diana.errors import DianaError

FIRST_PAUSE_S = 1.0
MOST_PAUSE_S = 300.0
"""Most seconds between two beginnings of work that fails again and again."""

TOLD_AGAIN_S = 1.0
"""Seconds after which a cancelled task is told again: time enough for what it puts in order."""

T = TypeVar("T")

_log = logging.getLogger("diana.tasks")


def begin(work: Coroutine[Any, Any, T], doing: str) -> asyncio.Task[T]:
    """Start a task once. `doing` says in the log what failed."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(partial(_tell, doing))
    return task


def keep_up(work: Callable[[], Coroutine[Any, Any, None]], doing: str) -> asyncio.Task[None]:
    """Keep work going until it returns or the task is cancelled; after a fault it begins anew."""
    return begin(_kept_up(work, doing), doing)


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel the tasks and wait until they are over. They are told again until they are: grpc swallows a
    cancellation that meets the beginning of a call, and a task that tries for ever would go on trying. Their faults
    are not raised."""
    left = {task for task in tasks if task is not None}
    while left:
        for task in left:
            task.cancel()
        over, left = await asyncio.wait(left, timeout=TOLD_AGAIN_S)
        for task in over:
            if not task.cancelled():
                task.exception()


async def _kept_up(work: Callable[[], Coroutine[Any, Any, None]], doing: str) -> None:
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            await work()
            return
        except asyncio.CancelledError as fault:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # grpc raises it as well, of its own accord.
            _fault(f"{doing}; it begins anew in {pause_s:g} s", fault)
        except Exception as fault:
            _fault(f"{doing}; it begins anew in {pause_s:g} s", fault)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MOST_PAUSE_S)


def _tell(doing: str, task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        _fault(doing, fault)


def _fault(doing: str, fault: BaseException) -> None:
    if isinstance(fault, DianaError):
        _log.critical("%s failed: %s", doing, fault)
    else:
        _log.critical("%s failed on a fault of ours", doing, exc_info=fault)
