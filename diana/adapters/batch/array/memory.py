"""Memory of tasks: most that one used, and whether it was ended for too much.

The script reads both at its end where the batch system gives each job a cgroup of its own, by the shell's own means.
Where the batch system ends the script with its job, it says so in the file `said/K`, which it writes for task K.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana.adapters.lrm.spawner.protocol import Order
from diana.bounds import end_of

FLAG = "m"
"""Tells in an end that the kernel ended a process of the task for its memory, and that the command failed."""
SAID = "said"
_MOST_SAID_BYTES = 1 << 14


class EndedForMemory(NamedTuple):
    """The memory of a task that was ended for it. `used_bytes` 0: not known."""

    used_bytes: int


class TaskMemory:
    """Methods block. OSError where the disk refuses. `root`: the array's folder."""

    def __init__(self, root: Path) -> None:
        self._said = root / SAID

    def make(self, order: Order) -> None:
        if order.memory_bytes:
            self._said.mkdir(mode=0o700, exist_ok=True)

    def too_much(self, task: int, order: Order, words: str) -> EndedForMemory | None:
        """Return what the batch system says of a task that told no end. `words`: `Dialect.too_much`."""
        text = b""
        with suppress(FileNotFoundError):
            text = end_of(self._said / str(task), _MOST_SAID_BYTES)
        found = re.search(words, text.decode(errors="replace")) if words and text else None
        if found is None:
            return None
        used, limit = (found.groupdict().get(name) or "" for name in ("used", "limit"))
        # Releases count in units of their own.
        known = used.isdecimal() and limit.isdecimal() and int(limit) > 0
        return EndedForMemory(order.memory_bytes * int(used) // int(limit) if known else 0)


def lines(own: str) -> Iterable[str]:
    """Yield the lines after the command that set `m`, the most bytes that the job used, and `n` where the kernel ended
    a process of it for its memory. `own`: `Dialect.memory_group`."""
    yield "m="
    if not own:
        return
    yield "while IFS=: read -r x y z; do"
    yield f"case $z in {own}) ;; *) continue;; esac"
    yield "case ,$y, in"
    yield ",,) x=/sys/fs/cgroup$z; y=memory.events; z=memory.peak;;"
    yield "*,memory,*) x=/sys/fs/cgroup/memory$z; y=memory.oom_control; z=memory.max_usage_in_bytes;;"
    yield "*) continue;;"
    yield "esac"
    yield '[ ! -r "$x/$z" ] || read -r m <"$x/$z"'
    yield '[ -r "$x/$y" ] || continue'
    yield "while read -r s e; do"
    yield f"case $s,$e,$c in oom_kill,0,*|*,0) ;; oom_kill,*) n=${{n:-{FLAG}}};; esac"
    yield 'done <"$x/$y"'
    yield "done 2>/dev/null </proc/self/cgroup"
    # Other ends say no more, as earlier releases read them.
    yield f'case $n in ""|{FLAG}) ;; *) m=;; esac'
