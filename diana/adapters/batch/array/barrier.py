"""The barrier at which a component's task waits on its processors until its gang is let go (SPEC K5).

One file decides: `go/K`, which is made whole elsewhere and gets its name by link(), so that exactly one of those who
try has it. The node makes it to let task K go, or to end it; the task makes it when its time is over, by its own clock,
or when it is told to end. Whoever finds it there obeys it. `held/K` is the task's word that it waits.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana.adapters.durable import sync
from diana.adapters.lrm.spawner.identity import wall_s
from diana.adapters.lrm.spawner.protocol import Order

GO, LATE = "go", "late"
_WHOLE = "."
"""Last line of a word: a file without it is still being written."""
_HELD, _GO = "held", "go"
_LOOK_S = 0.2
"""Seconds between two looks of a task at its barrier."""
_FIRST_PORT, _PORTS = 20_000, 12_000
"""Ports below those that systems hand out by themselves."""
_PORT = re.compile(r"[0-9]{1,5}")
_MOST_BYTES = 64 << 10
_MOST_HOLD_S = 86_400.0
"""Longest wait, whatever became of the clock since it was ordered."""


class HeldTask(NamedTuple):
    """A task at its barrier. `host`: the address at which its machine is reached; empty: it could not tell one;
    `port`: free there when it came."""

    task: int
    host: str
    port: int


class BarrierWord(NamedTuple):
    """The decision about a task. `why`: `GO`, or why it never begins; `at_s`: the file system's time, seconds since
    1970."""

    why: str
    at_s: float


class Barrier:
    """Methods block. OSError where the disk refuses. `root`: the array's folder."""

    def __init__(self, root: Path) -> None:
        self._held, self._go = root / _HELD, root / _GO
        self._there = False

    def make(self) -> None:
        for folder in (self._held, self._go):
            folder.mkdir(mode=0o700, exist_ok=True)

    def there(self) -> bool:
        """True if the array's tasks wait at a barrier."""
        self._there = self._there or self._go.is_dir()
        return self._there

    def keep(self) -> None:
        """Make decisions that were taken outlive a power failure."""
        sync(self._go)

    def decided(self) -> set[int]:
        """Return the tasks about which a word stands."""
        return {int(name) for name in os.listdir(self._go) if name.isdecimal()}

    def held(self) -> list[HeldTask]:
        """Return the tasks that wait, by number."""
        decided = self.decided()
        came = sorted(int(name) for name in os.listdir(self._held) if name.isdecimal())
        return [held for task in came if task not in decided and (held := self._came(task)) is not None]

    def _came(self, task: int) -> HeldTask | None:
        with (self._held / str(task)).open("rb") as file:
            lines = file.read(_MOST_BYTES).decode(errors="replace").split("\n")
        if lines[1:2] != [_WHOLE]:
            # It is being written.
            return None
        port, _, host = lines[0].partition(" ")
        return HeldTask(task, host.strip(), int(port) if _PORT.fullmatch(port) else 0)

    def word(self, task: int) -> BarrierWord | None:
        """Return what was decided about a task; None: nothing yet, or there is no barrier."""
        try:
            with (self._go / str(task)).open("rb") as file:
                words, at_s = file.read(_MOST_BYTES), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        # A disk that had no room for the task's own word left an empty one.
        return BarrierWord(words.partition(b"\n")[0].removeprefix(b"b=").decode(errors="replace") or LATE, at_s)

    def let_go(self, task: int, environment: Iterable[tuple[str, str]]) -> bool:
        """Let a task begin, with this environment beside its own; True if it does, or did."""
        return self._decide(task, GO, [f"export {name}={shlex.quote(value)}" for name, value in environment])

    def close(self, task: int, why: str) -> bool:
        """End a task that was not let go; True if it never begins, for this reason or an earlier one."""
        self._decide(task, why)
        found = self.word(task)
        return found is not None and found.why != GO

    def _decide(self, task: int, why: str, more: Iterable[str] = ()) -> bool:
        made = self._go / f".{task}.{os.getpid()}.{why}"
        fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, "\n".join([f"b={why}", *more, ""]).encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            # A file server that lost its answer may say that the name is taken: it is looked at, whoever made it.
            with suppress(FileExistsError):
                os.link(made, self._go / str(task))
        finally:
            made.unlink(missing_ok=True)
        found = self.word(task)
        return found is not None and found.why == why


def hold_s(order: Order) -> float:
    """Return the seconds for which tasks of this order may still wait; 0 without a barrier."""
    return min(max(0.0, order.barrier_s - wall_s()), _MOST_HOLD_S)


def lines(order: Order, wait_s: float, address: str) -> Iterable[str]:
    """Yield the lines of a script at which its task waits, for `wait_s` seconds since its folder was made. `address`:
    shell words that print the machine's. The folder's age is told by the file system alone, so machines whose clocks
    differ agree."""
    yield 'leave() { trap "" TERM; [ -z "$gone" ] || { cd /; rm -rf "$gone"; }; told "$1" "$2"; }'
    if not order.before:
        yield 'command -v -- "$1" >/dev/null || leave 127 n'
    yield f'H="$D/{_HELD}/$k"; G="$D/{_GO}/$k"; b=; t='
    # Written once: once it is linked, it is the decision itself.
    yield f'late() {{ [ -e "$H.{LATE}" ] || echo b={LATE} >"$H.{LATE}"; ln "$H.{LATE}" "$G"; }} 2>/dev/null'
    yield "trap 't=1; late' TERM"
    yield f"p=$(({_FIRST_PORT} + $$ % {_PORTS}))"
    yield 'while grep -qi ":$(printf %04X $p) " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do p=$((p + 1)); done'
    yield f'{{ echo "$p $({address})"; echo {_WHOLE}; }} 2>/dev/null >"$H"'
    yield "clock() { read -r u _ </proc/uptime && u=${u%%.*} || u=$(date +%s); } 2>/dev/null"
    # No part of the sum comes from a process: a signal to the task ends all of its processes.
    yield "age() { s=$(($2 - $1)); }"
    yield 'a=$(stat -c %Y "$D/script" "$H" 2>/dev/null) || a="0 0"'
    yield f"clock; age $a; d=$((u + {math.floor(wait_s)} - s))"
    yield f"z={_LOOK_S:g}; sleep $z 2>/dev/null || z=1"
    yield 'until [ -e "$G" ]; do'
    yield '{ clock; [ -z "$t" ] && [ "$u" -lt "$d" ]; } || late'
    yield '[ -e "$G" ] || sleep "$z"'
    # Reading the folder makes a file system that remembers absent names look again.
    yield f'for f in "$D/{_GO}/"*; do :; done'
    yield "done"
    yield '. "$G"'
    yield f"case $t$b in {GO}) trap - TERM;; *{GO}) leave 143 -;; *) leave 0 b;; esac"
    yield '[ -z "$t" ] || leave 143 -'
