"""Runs in containers: their processes hang below the program that looks after the container, so that no process
group and no parent leads to them. They are found by the mark they bear, as those of an earlier spawner's runs are."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress

from diana.adapters.lrm.spawner.identity import boot_s, by_marker
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.others import OtherAccounts

_LOOK_S = 0.05
"""Seconds between two looks at all processes of the machine."""
_OTHERS_S = 1.0
"""Seconds within which the program that ends processes of another account, which cannot be looked at, has done so."""


class Contained:
    def __init__(self, launcher: Launcher, others: OtherAccounts) -> None:
        self._launcher = launcher
        self._others = others
        self._next_s = 0.0
        self._told_s: dict[Job, float] = {}

    def left(self, jobs: Collection[Job]) -> Collection[Job]:
        """Return those of these jobs, whose leaders are gone, that may have left something; kill what is there."""
        now_s = boot_s()
        if not jobs or now_s < self._next_s:
            return jobs
        self._next_s = now_s + _LOOK_S
        self._told_s = {job: told_s for job, told_s in self._told_s.items() if job in jobs}
        return self.kill(jobs)

    def hurry(self) -> None:
        """Do not wait before the next look."""
        self._next_s = 0.0

    def kill(self, jobs: Collection[Job]) -> set[Job]:
        """Look at the machine once for all of them and kill what they left; return those of which there was
        something."""
        hidden = {job for job in jobs if job.claim.record.account and self._others.separate}
        found = by_marker(self._launcher.marker_prefix) if len(hidden) < len(jobs) else {}
        some = set()
        for job in jobs:
            if job in hidden:
                continue
            for pid in found.get(self._launcher.marker(job), ()):
                some.add(job)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return some | {job for job in hidden if self._is_told(job)}

    def _is_told(self, job: Job) -> bool:
        """True if its account was told to kill it so lately that something may be left."""
        now_s = boot_s()
        if job not in self._told_s:
            self._told_s[job] = now_s
            self._others.signal(job, self._launcher.marker(job), signal.SIGKILL)
        return now_s - self._told_s[job] < _OTHERS_S
