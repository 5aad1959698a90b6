"""An array's folder, which the node and the cluster's machines share: gates, ends, logs.

`run/K` is the gate of task K: who makes it has the run. `end/K` is the end that its script tells, `out/K` its log;
both stay until the site knows that end, and `over/K` marks that it does. Tasks that wait for others of their gang
have a barrier behind the gate (`barrier.py`); how tasks are asked to save and how far they are: `saving.py`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana.adapters.batch.array.barrier import GO, Barrier
from diana.adapters.batch.array.memory import TaskMemory
from diana.adapters.batch.array.saving import TaskSaving
from diana.adapters.batch.array.script import END_OF_FILE
from diana.adapters.durable import sync
from diana.model.indexset import IndexSet

NODE = "node"
"""First word of a gate that the node made, so that the task never begins, in place of the array's id; the reason
follows."""
CANCELLED, GIVEN_UP, RECALLED = "cancelled", "given-up", "recalled"
LOST = "lost"
"""The same at a barrier: the batch system has the task no more."""

_OVER = ".over"
_GATE_BYTES = 500
_MOST_MEMORY_BYTES = 1 << 62


class TaskEnd(NamedTuple):
    """The end that a task's script told. Times are the file system's, seconds since 1970."""

    exit_code: int
    flag: str
    """`n`: no such command, `w`: no working folder, `s`: no scratch directory, `l`: the lease was over, `b`: it left
    its barrier without being let go, `c`: it saved its state as it was asked to, `m`: the kernel ended
    a process of it for its memory, and the command failed; `-`: the command's own end."""
    started_s: float
    ended_s: float
    cpu_s: float
    machine: str
    peak_bytes: int = 0
    """Most memory that it used, as its cgroup counts it; 0: not known."""


class Begun(NamedTuple):
    """The content of a gate, and of the decision at the barrier behind it. `why`: why the task never begins; empty: it
    did, or waits at its barrier. `error`: as `ArrayFolder.close_gate` was given it."""

    why: str
    job: str
    machine: str
    at_s: float
    error: str = ""


class ArrayFolder:
    """Methods block. OSError where the disk refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.script = root / "script"
        self._runs, self._ends, self._logs, self._over = root / "run", root / "end", root / "out", root / "over"
        self.barrier = Barrier(root)
        self.saving = TaskSaving(root)
        self.memory = TaskMemory(root)

    def make(self, script: str, cases: str, *, holds: bool = False) -> None:
        """Make the folder; both texts are durable on return: they are never made anew. Files that are there already
        belong to the same order and stay. `holds`: its tasks wait at a barrier."""
        for folder in (self._runs, self._ends, self._logs, self._over):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if holds:
            self.barrier.make()
        if cases:
            (self.root / "cases").write_text(cases)
            sync(self.root / "cases")
        self.script.write_text(script)
        self.script.chmod(0o700)
        sync(self.script)

    def made_s(self) -> float:
        """Return the time it was made, by the file system's clock: before any of its tasks was submitted. 0: it is
        not there."""
        try:
            return self.script.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def remove(self) -> None:
        """Remove the folder. Its gates go at once: a task that starts late finds none that is open."""
        over = self.root.with_name(f"{self.root.name}{_OVER}")
        with suppress(FileNotFoundError):
            self.root.rename(over)
        shutil.rmtree(over, ignore_errors=True)

    def empty(self) -> None:
        """Empty the folder as `remove` does, but keep its name taken."""
        with suppress(FileNotFoundError):
            self._runs.rename(self._runs.with_name(f"{self._runs.name}{_OVER}"))
        for path in self.root.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def keep_gates(self) -> None:
        """Make the gates that are there outlive a power failure, and what was decided behind them."""
        sync(self._runs)
        if self.barrier.there():
            self.barrier.keep()

    def close_gate(self, task: int, why: str, error: str = "") -> bool:
        """Take the run of a task for the node, at its gate or at its barrier; True if the node has it: the task has not
        begun and never will. The node may have had it before, for another reason. `error`: the words for the task's
        end, also for a machine that takes over before that end is written down; its beginning is kept."""
        try:
            fd = os.open(self._runs / str(task), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            found = self.begun(task)
            if found is not None and not found.why and self.barrier.there():
                return self.barrier.close(task, why)
            return found is not None and bool(found.why)
        try:
            os.write(fd, f"{NODE} {why}\n{error}".encode()[:_GATE_BYTES])
        finally:
            os.close(fd)
        return True

    def begun(self, task: int) -> Begun | None:
        try:
            with (self._runs / str(task)).open("rb") as file:
                words, at_s = file.read(_GATE_BYTES), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        # A text that was cut may end within a character.
        who, _, error = words.decode(errors="ignore").partition("\n")
        job, _, machine = who.strip().partition(" ")
        if job == NODE:
            return Begun(machine, job, machine, at_s, error)
        word = self.barrier.word(task) if self.barrier.there() else None
        if word is None:
            return Begun("", job, machine, at_s)
        return Begun("" if word.why == GO else word.why, job, machine, word.at_s)

    def shut(self, among: Collection[int]) -> list[int]:
        """Return those of these tasks whose gates the node made. It costs one listing, and a look at each gate among
        them."""
        with suppress(FileNotFoundError):
            gates = sorted(int(name) for name in os.listdir(self._runs) if name.isdecimal())
            return [task for task in gates if task in among and (gate := self.begun(task)) is not None and gate.why]
        return []

    def ended(self) -> list[int]:
        """Return the tasks that have told an end, or are about to."""
        return sorted(int(name) for name in os.listdir(self._ends) if name.isdecimal())

    def end(self, task: int) -> TaskEnd | None:
        """Return a task's end; None: there is none, or it is not whole yet."""
        try:
            with (self._ends / str(task)).open("rb") as file:
                text, ended_s = file.read(500).decode(errors="replace"), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        lines = text.split("\n")
        if len(lines) < 5 or lines[3] != END_OF_FILE:
            return None
        code, _, how = lines[0].partition(" ")
        flag, _, peak = how.partition(" ")
        begun = self.begun(task)
        return TaskEnd(
            int(code) if code.isdecimal() else 255,
            flag,
            min(begun.at_s, ended_s) if begun else ended_s,
            ended_s,
            _cpu_s(lines[2]),
            begun.machine if begun else "",
            min(int(peak), _MOST_MEMORY_BYTES) if peak.isdecimal() else 0,
        )

    def log(self, task: int) -> Path:
        return self._logs / str(task)

    def logs(self) -> list[tuple[Path, int]]:
        """Return the logs' paths and sizes in bytes."""
        with os.scandir(self._logs) as entries:
            return [(Path(entry.path), entry.stat().st_size) for entry in entries]

    def clear(self, tasks: Iterable[int]) -> None:
        """Clear these tasks: the site knows their ends, and no machine of it is to tell them again. Gates stay: a
        task may yet be started again."""
        for task in tasks:
            self._over.mkdir(mode=0o700, exist_ok=True)
            try:
                (self._ends / str(task)).rename(self._over / str(task))
            except FileNotFoundError:
                (self._over / str(task)).touch(mode=0o600)
            self.log(task).unlink(missing_ok=True)

    def over(self) -> IndexSet:
        """Return the tasks that were cleared."""
        with suppress(FileNotFoundError):
            return IndexSet.of(int(name) for name in os.listdir(self._over) if name.isdecimal())
        return IndexSet()

    def begun_as(self) -> dict[str, IndexSet]:
        """Return the tasks that came to their gates, by the ids of the batch jobs in which they did."""
        found: dict[str, list[int]] = {}
        for name in os.listdir(self._runs):
            gate = self.begun(int(name)) if name.isdecimal() else None
            if gate is not None and gate.job not in ("", NODE):
                found.setdefault(gate.job, []).append(int(name))
        return {job: IndexSet.of(tasks) for job, tasks in sorted(found.items())}


def sweep(root: Path) -> None:
    """Remove what a crash left of folders that were being removed."""
    for over in root.glob(f"*{_OVER}"):
        shutil.rmtree(over, ignore_errors=True)


def _cpu_s(text: str) -> float:
    """Return the CPU seconds in a line such as `0m1.250s 0m0.030s`, as the shell's `times` writes it; 0 if it is
    none."""
    total = 0.0
    for part in text.split():
        minutes, _, seconds = part.removesuffix("s").partition("m")
        try:
            total += 60.0 * int(minutes) + float(seconds)
        except ValueError:
            return 0.0
    return total
