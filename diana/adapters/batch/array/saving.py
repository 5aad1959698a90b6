"""Tasks that are asked to save their state and stop, and that report how far they are (SPEC G5, G6).

`ask/K` is the node's word to task K, which its script looks for once a second: the signal, and for how many looks the
job may come to heed it. Whoever of the job's processes catches that signal gets it; the others would die of it.
`steps/K` is the job's own word, which it replaces as often as it likes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from math import ceil
from pathlib import Path

from diana.adapters.durable import replace_durably
from diana.adapters.lrm.spawner import steps
from diana.adapters.lrm.spawner.identity import wall_s
from diana.adapters.lrm.spawner.processes import MARKER
from diana.adapters.lrm.spawner.protocol import Order
from diana.model.job.checkpoint import EXIT, SIGNALS

_ASK, _STEPS = "ask", "steps"
_PID = "pid"
"""End of the name of the file with the pid of the task's command."""


class TaskSaving:
    """Methods block. OSError where the disk refuses. `root`: the array's folder."""

    def __init__(self, root: Path) -> None:
        self._ask, self._steps = root / _ASK, root / _STEPS

    def make(self, order: Order) -> None:
        if order.saves:
            self._ask.mkdir(mode=0o700, exist_ok=True)
        if order.reports:
            self._steps.mkdir(mode=0o700, exist_ok=True)

    def ask(self, task: int, name: str, wait_s: float) -> None:
        """Ask a task that runs to save its state; one that was asked before is asked again."""
        name = name if name in SIGNALS else SIGNALS[0]
        words = f"{name} {int(signal.Signals[f'SIG{name}'])} {max(1, ceil(wait_s))} {wall_s():.6f}\n"
        replace_durably(self._ask / str(task), words.encode())

    def steps(self, task: int, last: bytes) -> tuple[bytes, tuple[float, float, float]] | None:
        """Return a task's report, if it is another than the last one (`spawner.steps.read`)."""
        return steps.read(str(self._steps / str(task)), last)

    def reported(self) -> list[int]:
        """Return the tasks that ever reported."""
        with suppress(FileNotFoundError):
            return sorted(int(name) for name in os.listdir(self._steps) if name.isdecimal())
        return []


def environment(order: Order) -> Iterable[str]:
    """Yield the lines that tell a job of these things, and nothing that its spec forged."""
    yield "unset DIANA_CHECKPOINT DIANA_REPORT"
    if order.reports:
        yield f'export DIANA_REPORT="$D/{_STEPS}/$k"'


def before(order: Order) -> str:
    """Return the words before a command that is asked by its pid; empty: it never is."""
    return f"""sh -c 'echo $$ >"$0"; exec "$@"' "$D/run/$k.{_PID}" """ if order.saves else ""


def watched(order: Order) -> Iterable[str]:
    """Yield the lines that look for the node's word beside the command, until `_unwatched`."""
    if not order.saves:
        return
    marker = MARKER.decode().rstrip("=")
    # The time limit's own process catches some signals, to end the job.
    yield "asked() {"
    yield 'read -r c <"$D/run/$k.' + _PID + '" && read -r l <"/proc/$c/stat" || return 1'
    yield "l=${l##*) }; l=${l#* }; l=${l%% *}; h=1"
    yield "for q in /proc/[0-9]*; do"
    yield f'tr "\\0" "\\n" <"$q/environ" | grep -qxF "{marker}=${marker}" && [ "$q" != "/proc/$l" ] || continue'
    yield 'while read -r x y; do [ "$x" != SigCgt: ] || break; done <"$q/status"'
    yield '[ $((0x${y#????????} >> ($2 - 1) & 1)) = 1 ] && kill -s "$1" "${q#/proc/}" && h=0'
    yield "done"
    yield "return $h"
    yield "}"
    yield '(z=; o=; while sleep 1 && [ -e "/proc/$$" ]; do'
    # Reading the folder makes a file system that remembers absent names look again.
    yield f'for f in "$D/{_ASK}/"*; do :; done'
    yield f'read -r s n w t <"$D/{_ASK}/$k" && [ "$t" != "$o" ] || continue'
    yield '[ "$t" = "$z" ] || { z=$t; m=0; }'
    yield 'm=$((m + 1)); if asked "$s" "$n" || [ $m -ge $w ]; then o=$t; fi'
    yield "done) >/dev/null 2>&1 &"
    yield "r=$!"


def unwatched(order: Order) -> Iterable[str]:
    """Yield the lines after the command: a job that stopped as it was asked to says so by its exit code."""
    if order.saves:
        yield "kill $r 2>/dev/null"
        # The first of a gang that is asked stops all of it.
        asked = "" if order.barrier_s else f'[ ! -e "$D/{_ASK}/$k" ] || '
        yield f'[ "$c" != {EXIT} ] || {asked}n=c'
