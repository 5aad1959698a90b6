"""Finds and kills what a job left behind outside its process group.

A stray with the mark of a run, or with its marker, dies with that run. One that bears neither, since none could be put
on it or it took both off, dies when the last of the runs that were there when it was first seen has ended. A process
that looks after a container is left alone: it ends when the container's processes are gone, which bear the marker of
their run, and clears the container away.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable

from diana.adapters.lrm.spawner.behind.marks import mark_of
from diana.adapters.lrm.spawner.behind.sweep import sweep
from diana.adapters.lrm.spawner.identity import name_of
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.adapters.lrm.spawner.processes import Children, marker_of

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
        """Stray that bears nothing -> runs it may belong to."""
        self._rounds: dict[Job, int] = {}
        """Ended run -> times that something of it was killed here."""

    def reap(self, known: Collection[int]) -> None:
        """Reap zombies of strays, while jobs run."""
        self._children.strays(known)

    def kill(
        self, known: Collection[int], ended: list[Job], running: Iterable[Job], spared: Collection[int] = ()
    ) -> set[Job]:
        """Kill what belongs to runs whose leader is gone; return those of `ended` that had something left. What bears
        a mark of `spared` is left alone."""
        strays = self._children.strays(known)
        if not strays:
            self._suspects.clear()
            self._rounds.clear()
            return set()
        live = set(running)
        by_marker = {self._launcher.marker(job): job for job in (*ended, *live)}
        by_mark = {job.mark: job for job in by_marker.values() if job.mark}
        held_up: set[Job] = set()
        for pid in strays:
            marker = marker_of(pid)
            mark = mark_of(pid) if self._launcher.marks.given else 0
            if owner := by_marker.get(marker):
                owners = {owner}
            elif self.caretakers and name_of(pid) in _CARETAKERS:
                continue
            elif owner := by_mark.get(mark):
                owners = {owner}
            elif mark in spared:
                continue
            elif mark or marker.startswith(self._launcher.marker_prefix):
                owners = set()
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
        self._hurry(held_up)
        return held_up

    def _hurry(self, held_up: set[Job]) -> None:
        """End all of a run at once that had something left again: what forks could keep ahead of us for ever."""
        self._rounds = {job: self._rounds.get(job, 0) + 1 for job in held_up}
        again = [job for job, rounds in self._rounds.items() if rounds > 1 and not rounds & rounds - 1]
        if marks := {job.mark for job in again if job.mark}:
            sweep(marks)
