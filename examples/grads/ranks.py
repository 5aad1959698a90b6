"""Processes of a parallel program that need each other at each step, and what such a program owes to diana: reports,
saved state, the division of its data. The programs beside this file use it; it needs Python and numpy.

Started alone, a process is the whole program. As components of a gang (`components = "3x1"` in a job file), or as
processes with the same environment, they find each other by DIANA_GANG_HOSTS and talk by way of the first.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np

try:
    from diana import report
except ImportError:  # a machine whose Python has no diana: the same by hand

    def report(done: float, total: float, own_s: float = 0.0, roster: int = 0) -> bool:
        path = os.environ.get("DIANA_REPORT", "")
        if path:
            with open(f"{path}.new", "w", encoding="ascii") as file:
                file.write(f"{done}/{total}" + (f" {own_s} {roster}" if own_s or roster else ""))
            os.replace(f"{path}.new", path)
        return bool(path)


STATE = "state.npz"
SAVED = 85
"""Exit code of a job that saved its state and stopped."""
PATIENCE_S = 60.0


class Ranks:
    """The processes of one program. What they say is trusted once it shows the gang's token."""

    def __init__(self) -> None:
        told = os.environ.get
        self.rank, self.size = int(told("DIANA_GANG_RANK", "0")), int(told("DIANA_GANG_SIZE", "1"))
        self._first: Connection | None = None
        self._others: list[Connection] = []
        """Those that the first process hears, by rank."""
        self._asked = False
        self.active = tuple(range(self.size - int(told("DIANA_GANG_SPARES", "0"))))
        """Ranks that compute, by their places; the others stand by (`gang.spares` in the job file)."""
        self.roster = 0
        """Number of the word that said so; 0: there was none yet."""
        signal.signal(signal.SIGUSR1, lambda *_: self._ask())
        if self.size > 1:
            host, port = told("DIANA_GANG_HOSTS", "127.0.0.1").split(",")[0], int(told("DIANA_GANG_PORT", "0"))
            self._meet(host, port, told("DIANA_GANG_TOKEN", "").encode())

    def _ask(self) -> None:
        self._asked = True

    def _meet(self, host: str, port: int, token: bytes) -> None:
        if self.rank:
            self._first = _dialled(host, port, token)
            self._first.send(self.rank)
            return
        with Listener(("0.0.0.0", port), backlog=self.size, authkey=token) as door:
            came = [door.accept() for _ in range(self.size - 1)]
        by_rank = sorted((one.recv(), at) for at, one in enumerate(came))
        self._others = [came[at] for _, at in by_rank]

    def all(self, mine: Any) -> list[Any]:
        """Return what each process says, by rank."""
        if self._first is not None:
            self._first.send(mine)
            said: list[Any] = self._first.recv()
            return said
        said = [mine, *(one.recv() for one in self._others)]
        for one in self._others:
            one.send(said)
        return said

    @property
    def place(self) -> int:
        """Place of this process among those that compute; -1: it stands by."""
        return self.active.index(self.rank) if self.rank in self.active else -1

    def parts(self, mine: Any) -> list[Any]:
        """Return what each process that computes says, by its place."""
        said = self.all(mine)
        return [said[rank] for rank in self.active]

    def exchanged(self) -> bool:
        """Learn who computes from here on; True: others than before. All processes call it at the end of the same step,
        and go by the latest word that any of them has: so none takes a place that another one still has, whomever the
        word did not reach."""
        if len(self.active) == self.size:
            return False
        number, active = max(self.all(self._told()))
        if number <= self.roster:
            return False
        self.roster, self.active = number, active
        return True

    def _told(self) -> tuple[int, tuple[int, ...]]:
        """Return the word in the file that DIANA_GANG_ROSTER names; (0, ()): there is none, or none that fits."""
        try:
            with open(os.environ.get("DIANA_GANG_ROSTER", ""), encoding="ascii") as file:
                number, ranks = file.read().split()
            active = tuple(int(rank) for rank in ranks.split(","))
        except (OSError, ValueError):
            return 0, ()
        fits = len(active) == len(self.active) == len(set(active)) and set(active) <= set(range(self.size))
        return (int(number), active) if fits else (0, ())

    def is_asked(self) -> bool:
        """True, for all at the same step, if one of them was asked to save its state."""
        return any(self.all(self._asked))

    def balanced(self, items: int, probe_s: float) -> range:
        """Return the items of this process after a division anew by what each measured just now: the seconds of one and
        the same piece of work. All processes call it at the same step."""
        speeds = [1.0 / max(one, 1e-9) for one in self.parts(probe_s)]
        if self.place < 0:
            return range(0)
        ends = [round(items * sum(speeds[: at + 1]) / sum(speeds)) for at in range(len(speeds))]
        first = ends[self.place - 1] if self.place else 0
        return range(first, ends[self.place])

    def share(self, items: int) -> range:
        """Return the items of this process: as DIANA_GANG_ITEMS divides them, else as many as any other has; none
        where it stands by."""
        return self.share_of(self.place, items) if self.place >= 0 else range(0)

    def share_of(self, place: int, items: int) -> range:
        """Return the items of a place."""
        told = os.environ.get("DIANA_GANG_ITEMS", "")
        counts = [int(one) for one in told.split(",")] if told else []
        size = len(self.active)
        if len(counts) != size or sum(counts) != items:
            counts = [items * (at + 1) // size - items * at // size for at in range(size)]
        first = sum(counts[:place])
        return range(first, first + counts[place])


def _dialled(host: str, port: int, token: bytes) -> Connection:
    by_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Client((host, port), authkey=token)
        except (ConnectionError, EOFError, OSError):
            if time.monotonic() > by_s:
                raise
            time.sleep(0.1)


class Progress:
    """The steps of one program: counted, hashed in a chain, reported, and saved when that is asked for. Two runs that
    print the same chain did the same work, however many processes they had."""

    def __init__(self, ranks: Ranks, total: int, pause_s: float = 0.0) -> None:
        self.ranks, self.total, self.step = ranks, total, 0
        self._pause_s, self._chain = pause_s, ""

    def begun(self) -> dict[str, Any]:
        """Return the arrays that an earlier attempt saved; empty: there was none, and the program begins anew."""
        found: dict[str, Any] = {}
        if self.ranks.rank == 0 and os.environ.get("DIANA_CHECKPOINT"):
            with np.load(STATE, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        found = self.ranks.all(found)[0]
        if found:
            self.step, self._chain = int(found.pop("step")), str(found.pop("chain"))
        return found

    def more(self) -> bool:
        return self.step < self.total

    def did(self, state: Mapping[str, np.ndarray], own_s: float = 0.0) -> None:
        """Count a step after which the whole state is this, the same at each process. The program ends here with exit
        code 85 if it was asked to save. `own_s`: seconds of this process's own part of it."""
        self.step += 1
        parts = b"".join(np.ascontiguousarray(state[name]).tobytes() for name in sorted(state))
        self._chain = hashlib.sha256(self._chain.encode() + parts).hexdigest()
        if self.ranks.rank == 0:
            print(self.step, self._chain[:16], os.environ.get("DIANA_SITE", "-"), flush=True)
        report(self.step, self.total, own_s, self.ranks.roster)
        if self._pause_s:
            time.sleep(self._pause_s)
        if self.ranks.is_asked() and self.more():
            self._save(state)
            sys.exit(SAVED)

    def _save(self, state: Mapping[str, np.ndarray]) -> None:
        """Write the state under another name first: a part of it is never taken for the whole."""
        with open(STATE + ".new", "wb") as file:
            np.savez(file, step=self.step, chain=self._chain, **state)
            file.flush()
            os.fsync(file.fileno())
        os.replace(STATE + ".new", STATE)

    def answer(self, lines: Sequence[str]) -> None:
        """Write the answer and the chain, by the first process."""
        if self.ranks.rank == 0:
            with open("answer.txt", "w", encoding="ascii") as file:
                file.write("\n".join([self._chain, *lines, ""]))
