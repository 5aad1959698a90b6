"""Finds and kills what a job left behind outside its process group.

A stray with the marker of a run dies with that run. One that wiped its environment cannot be told apart by it: it
dies when the last of the runs that were there when it was first seen has ended. A process that looks after a
container is left alone: it ends when the container's processes are gone, which bear the mark of their run, and clears
the container away.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable

from diana.adapters.lrm.spawner.identity import name_of
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.adapters.lrm.spawner.processes import Children

_CARETAKERS = frozenset({b"conmon", b"podman", b"podman pause", b"catatonit"})
"""Names of processes that look after containers; a rootless podman keeps one for all its containers."""


class Strays:
    def __init__(self, launcher: Launcher, others: OtherAccounts) -> None:
        self._launcher = launcher
        self._others = others
        self._children = Children()
        self.caretakers = False
        """True once runs in containers have begun here."""
        self._suspects: dict[int, set[Job]] = {}
        """Unmarked stray -> runs it may belong to."""

    def reap(self, known: Collection[int]) -> None:
        """Reap zombies of strays, while jobs run."""
        self._children.strays(known)

    def kill(self, known: Collection[int], ended: list[Job], running: Iterable[Job]) -> set[Job]:
        """Kill what belongs to runs whose leader is gone; return those of `ended` that had something left."""
        strays = self._children.strays(known)
        if not strays:
            self._suspects.clear()
            return set()
        live = set(running)
        by_marker = {self._launcher.marker(job): job for job in (*ended, *live)}
        held_up: set[Job] = set()
        for pid, marker in strays.items():
            owner = by_marker.get(marker)
            if owner is not None:
                owners = {owner}
            elif marker.startswith(self._launcher.marker_prefix):
                owners = set()
            elif self.caretakers and name_of(pid) in _CARETAKERS:
                continue
            else:
                owners = self._suspects.setdefault(pid, {*ended, *live})
            if owners.isdisjoint(live):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    self._others.kill_stray(pid, owners)
                held_up |= owners.intersection(ended)
        self._suspects = {pid: owners for pid, owners in self._suspects.items() if pid in strays}
        return held_up
