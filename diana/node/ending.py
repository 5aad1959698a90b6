"""The end of a node: its fault goes into the log, and it ends no later than its operator waits. Or it becomes a new
process of the same command, with the same id, because what it was must not go on."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from diana.adapters.lrm.spawner.identity import machine, start_ticks
from diana.errors import DianaError, StoreFull

ANEW_S = 2.0
"""Seconds before a node that found no room begins anew."""
LONGEST_STOP_S = 8.0
"""systemd and the like kill after 10 s at the earliest, and then nobody learns what hung."""
AGAIN = -1
"""Returned instead of an exit code: start anew."""
GAVE_UP = 1
"""The exit code where a stop took longer."""

_log = logging.getLogger("diana.node")


def report(error: BaseException | None) -> int:
    """The exit code of a node that ended with `error`; raises what an operator can mend, and faults of ours, logged."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return 0
    if isinstance(error, DianaError):
        raise error
    _log.critical("the node stops", exc_info=error)
    raise error


class Stop(asyncio.Event):
    """Once set, its task must end within `longest_s`, else the process ends as at a crash, after which a node goes on
    where it was. The log then names what hung."""

    def __init__(self, longest_s: float = LONGEST_STOP_S) -> None:
        super().__init__()
        self._longest_s = longest_s
        self._timer: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Set the event and start the countdown. Twice is fine: the first counts."""
        super().set()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._longest_s, self._give_up)

    def ended(self) -> None:
        """Stop the countdown: everything ended, and the process has more to do."""
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        _log.critical(
            "not ended %g s after it was told to stop: it ends as at a crash; what was still waited for:\n%s",
            self._longest_s,
            "\n".join(sorted(_where(task) for task in asyncio.all_tasks())),
        )
        os._exit(GAVE_UP)


def _where(task: asyncio.Task[Any]) -> str:
    return f"  {task.get_name()}: " + " > ".join(_chain(task.get_coro()))


def _chain(work: Any) -> Iterator[str]:
    """The frames from a coroutine down to what it awaits; `Task.get_stack` shows the outermost alone."""
    while work is not None:
        frame = getattr(work, "cr_frame", None) or getattr(work, "ag_frame", None) or getattr(work, "gi_frame", None)
        if frame is None:
            yield type(work).__name__
            return
        yield f"{frame.f_code.co_qualname} ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"
        work = getattr(work, "cr_await", None) or getattr(work, "ag_await", None) or getattr(work, "gi_yieldfrom", None)


async def begins_anew(full: StoreFull, told_to_stop: Callable[[], bool]) -> int:
    """AGAIN for a node that ends because it found no room for a record: nothing of it was stored, and as a new process
    it waits for room before it begins. Raises `full` where it was to stop anyway; 0: it was told to meanwhile."""
    if told_to_stop():
        raise full
    print(f"diana: {full}; the node begins anew when there is room", file=sys.stderr, flush=True)
    # An account's quota, or files that cannot be made, show in no count of free bytes: it would find room at once.
    await asyncio.sleep(ANEW_S)
    return 0 if told_to_stop() else AGAIN


def this_process() -> str:
    """Return the identity of this process, which it keeps when it becomes a new one (`again`)."""
    here, pid = machine(), os.getpid()
    return f"{here.boot_id}:{here.pid_namespace}:{here.init_ticks}:{pid}:{start_ticks(pid)}"


def again() -> NoReturn:
    """Replace this process by a new one. Nothing is closed in order, as after a kill; the spawner and its jobs go
    on."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
