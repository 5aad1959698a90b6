"""PBS (OpenPBS, PBS Pro), by its commands, as a plain user (SPEC U7). Experimental: no real one was at hand."""

from __future__ import annotations

import os
from itertools import islice

from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import pbs_text as read
from diana.adapters.batch.systems.commands import Commands
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, ClusterCapacity, Seen
from diana.model.indexset import IndexSet

_KEPT = ("PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT", "PBS_EXEC")
_TRANSIENT = (
    "cannot connect to server",
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Communication failure",
    "End of File",
    "server is shutting down",
    "No Permission to connect",
    "Server busy",
    "timed out",
)
"""Words of faults that may be over in a minute."""
_FULL = ("would exceed", "limit on", "Maximum number of jobs", "too many jobs")
"""Words of a refusal to take more jobs of ours now."""
_EVERY = ("Unknown queue", "Invalid account", "Unauthorized Request", "not in the PATH", "Bad UID", "is not enabled")
"""Words of a refusal of every job of ours, with these settings."""
_GONE = ("Unknown Job Id", "Job has finished", "invalid for state", "Unknown Job")
_MOST_CANCELLED = 200
_NO_DIRECTIVES = ["-C", ""]
"""Options that keep it from reading options in the script, those of a job's own text among them."""


class Pbs:
    """`system.BatchSystem`. `ClusterSettings.config` is the path of a `pbs.conf`. ValueError where there is none."""

    kind = "pbs"
    dialect = Dialect(task="PBS_ARRAY_INDEX", first=0, job="{PBS_ARRAY_ID:-$PBS_JOBID}", machine="(uname -n)")

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        if settings.config and not os.path.isfile(settings.config):
            raise ValueError(f"config: {settings.config}: no such file; give the path of a pbs.conf")
        environment = {"PBS_CONF_FILE": settings.config} if settings.config else {}
        self.commands = Commands(environment, keeps=() if settings.config else _KEPT)
        self._holding = 0

    def capacity(self) -> ClusterCapacity:
        server, queues = self._run("qstat", "-Bf"), self._run("qstat", "-Qf")
        return read.capacity(self._run("pbsnodes", "-a"), server, queues, self._settings.partition, self._holding)

    def starts_in_s(self) -> float | None:
        return None

    def submit(self, array: Array) -> str:
        """Submit one range of at least two tasks, which is all that it takes: those between that are not asked for
        find their gates taken, or their turn. A single task is a job that is told its number."""
        ranges = list(array.tasks.ranges())
        first, last = ranges[0][0], ranges[-1][1] - 1
        # Its arrays may always be run again; the gate of each task says what comes of that.
        alone = ["-r", "n", "-v", f"PBS_ARRAY_INDEX={first}"]
        argv = ["qsub", *_NO_DIRECTIVES, *(["-J", f"{first}-{last}"] if last > first else alone)]
        argv += ["-N", f"{read.NAME_PREFIX}{array.token}", "-S", "/bin/sh", "-o", "/dev/null", "-e", "/dev/null"]
        chunk = f"select=1:ncpus={array.processors}"
        chunk += f":mem={-(-array.memory_bytes // 2**20)}mb" if array.memory_bytes else ""
        chunk += f":ngpus={array.gpus}" if array.gpus else ""
        argv += ["-l", chunk]
        if array.time_limit_s:
            # Never shorter than the script's own, and some time for what happens around the command.
            argv += ["-l", f"walltime={int(array.time_limit_s) + 60}"]
        argv += ["-q", self._settings.partition] if self._settings.partition else []
        argv += ["-A", self._settings.account] if self._settings.account else []
        try:
            said = self._run(*argv, *self._settings.options, array.script, transient=(*_TRANSIENT, *_FULL))
        except BatchRefused as refusal:
            every = refusal.every or any(words in str(refusal) for words in _EVERY)
            raise BatchRefused(str(refusal), every=every) from None
        job = said.strip().splitlines()[-1] if said.strip() else ""
        if not job[:1].isdecimal() or ("[]" in job) != (last > first):
            raise BatchUnreachable(f"qsub says {said.strip()!r}")
        return job

    def listing(self) -> list[Seen]:
        found, self._holding = read.listing(self._run("qstat", "-f", "-t"))
        return found

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        found: list[Seen] = []
        for job in jobs:
            try:
                found += read.past(self._run("qstat", "-x", "-f", "-t", job))
            except BatchRefused as refusal:
                # It keeps jobs that are over for a time, or not at all.
                if not any(each in str(refusal) for each in _GONE):
                    raise
        return found

    def cancel(self, job: str, tasks: IndexSet) -> None:
        names = iter(read.tasks_of(job, tasks))
        while some := list(islice(names, _MOST_CANCELLED)):
            try:
                self._run("qdel", *some)
            except BatchRefused as refusal:
                if not any(each in str(refusal) for each in _GONE):
                    raise

    def _run(self, *argv: str, transient: tuple[str, ...] = _TRANSIENT) -> str:
        return self.commands.run(argv, transient)
