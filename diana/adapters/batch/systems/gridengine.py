"""Grid Engine, by its commands, as a plain user of a submit host (SPEC U7): the batch system KOALA ran on."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import msgspec

from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import gridengine_text as read
from diana.adapters.batch.systems import task_ranges
from diana.adapters.batch.systems.commands import Commands
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, ClusterCapacity, Seen
from diana.bounds import MOST_TOML_BYTES, content_of
from diana.model.indexset import IndexSet

_KEPT = ("SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT")
_TRANSIENT = (
    "unable to contact qmaster",
    "commlib error",
    "got select error",
    "got no valid answer",
    "unable to send message",
    "failed receiving gdi request",
    "timeout",
    "try again later",
)
"""Words of faults that may be over in a minute."""
_FULL = (
    "jobs are allowed per",
    "user defined limit",
    "is over the limit",
    "maximum number of jobs",
    "max_u_jobs",
    "would exceed",
)
"""Words of a refusal to take more jobs of ours now."""
_EVERY = ("unknown queue", "requested project", "is not a submit host", "no submit host", "access to", "invalid option")
"""Words of a refusal of every job of ours, with these settings."""
_GONE = ("does not exist", "already in deletion", "comprises no tasks")
_MOST_CANCELLED = 200
"""Most ranges of tasks in one call: a command line has a length."""
_MOST_ASKED = 50
"""Most machines asked in one look how many GPUs they have; for the others the free ones count until then."""
_AGAIN, _ERROR_STATE = 99, 100
"""Exit codes on which it treats a task as sge_conf(5) says."""
_NO_DIRECTIVES = ["-C", ""]
"""Options that keep it from reading options in any line of the script, a job's own text among them."""


class GridEngine:
    """`system.BatchSystem`. `ClusterSettings.config` is the path of a cell, `$SGE_ROOT/$SGE_CELL`.
    ValueError where there is none."""

    kind = "gridengine"
    dialect = Dialect(
        task="SGE_TASK_ID", first=read.FIRST, job="JOB_ID", machine="HOSTNAME", reserved=(_AGAIN, _ERROR_STATE)
    )

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        environment = _environment(settings.config) if settings.config else {}
        self.commands = Commands(environment, keeps=() if settings.config else _KEPT)
        self._user = pwd.getpwuid(os.getuid()).pw_name
        self._queue = ["-q", settings.partition] if settings.partition else []
        self._holding = 0
        self._version = self._config = ""
        self._environments: list[str] = []
        self._parallel: list[str] = []
        """Parallel environments that give a job processors of one machine."""
        self._memory_is_used_up = False
        self._gpus_by = ""
        """The taker of the consumable of GPUs: YES (each slot), JOB or HOST."""
        self._licences_by: dict[str, str] = {}
        """The taker of each consumable that is a licence."""
        self._gpus_at: dict[str, int] = {}
        """Machine -> number of GPUs in all, as it declares them."""

    def capacity(self) -> ClusterCapacity:
        if not self._config:
            self._version = self._run("qconf", "-help").partition("\n")[0].strip()
            self._parallel = self._parallel_environments()
            self._check_mpi_environment()
            complexes = self._run("qconf", "-sc")
            self._memory_is_used_up = read.is_used_up(complexes, "mem_free")
            gpus = self._settings.gpu_resource
            self._gpus_by = self._consumed(complexes, gpus, "gpu_resource") if gpus else ""
            self._licences_by = {
                name: self._consumed(complexes, name, "licences") for name in self._settings.licences.values()
            }
            self._config = self._run("qconf", "-sconf")
        # The jobs of nobody: those of all are no part of the question.
        gpus = self._settings.gpu_resource
        wanted = f"mem_total,{gpus}" if gpus else "mem_total"
        queues = self._run("qstat", "-f", "-F", wanted, "-xml", "-u", "nobody", *self._queue)
        has = read.capacity(queues, self._config, self._version, self._holding, parallel=bool(self._parallel))
        found = self._devices(read.devices(queues, gpus)) if gpus else []
        every = {"gpus": max(found, default=0), "all_gpus": sum(found), "licences": self._licences()}
        return msgspec.structs.replace(has, **every)

    @staticmethod
    def _consumed(complexes: str, name: str, key: str) -> str:
        """Return the taker of the consumable of this name, which a key of the settings names. Refused where there is
        none."""
        found = read.consumed(complexes, name)
        if not found:
            raise BatchRefused(f"it has no consumable {name!r} (qconf -sc), which {key} names", every=True)
        return found

    def _licences(self) -> tuple[tuple[str, int], ...]:
        """Return the licences that the cluster has as a whole."""
        names = self._settings.licences
        host = self._run("qconf", "-se", "global") if names else ""
        return tuple(sorted((name, read.declared(host, there)) for name, there in names.items()))

    def _devices(self, free: dict[str, int]) -> list[int]:
        """Return the GPUs of each of these machines in all. `qstat` tells only what is free: each machine is asked
        once."""
        new = [host for host in sorted(free) if host not in self._gpus_at][:_MOST_ASKED]
        for host in new:
            self._gpus_at[host] = read.declared(self._run("qconf", "-se", host), self._settings.gpu_resource)
        return [max(self._gpus_at.get(host, 0), count) for host, count in free.items()]

    def _parallel_environments(self) -> list[str]:
        try:
            names = self._environments = self._run("qconf", "-spl").split()
        except BatchRefused:
            # It has none.
            self._environments = []
            return []
        return read.one_machine_environments((name, self._run("qconf", "-sp", name)) for name in names)

    def _check_mpi_environment(self) -> None:
        """Raise Refused if the operator named an MPI environment that is not there."""
        name = self._settings.mpi_environment
        if name and name not in self._environments:
            raise BatchRefused(
                f"it has no parallel environment {name!r} (qconf -spl), which mpi_environment names", every=True
            )

    def starts_in_s(self) -> float | None:
        return None

    def submit(self, array: Array) -> str:
        """Submit one range of tasks, which is all that it takes: those between that are not asked for find their
        gates taken, or their turn."""
        ranges = list(array.tasks.ranges())
        first, last = ranges[0][0] + read.FIRST, ranges[-1][1] - 1 + read.FIRST
        argv = ["qsub", "-terse", *_NO_DIRECTIVES, "-V", "-r", "n", "-S", "/bin/sh"]
        argv += ["-N", f"{read.NAME_PREFIX}{array.token}"]
        argv += ["-i", "/dev/null", "-o", "/dev/null", "-e", "/dev/null", "-wd", str(Path(array.script).parent)]
        argv += ["-t", f"{first}-{last}", *self._queue]
        # Tasks between had their turn counted where they were asked for.
        at_once = array.at_once or (len(array.tasks) if last - first >= len(array.tasks) else 0)
        if at_once:
            argv += ["-tc", str(at_once)]
        if array.spread:
            argv += ["-pe", self._settings.mpi_environment, str(array.processors)]
        elif array.processors > 1:
            if not self._parallel:
                raise BatchRefused(
                    "Grid Engine has no parallel environment with allocation_rule $pe_slots for jobs of several "
                    "processors; have the operator add one (qconf -ap)"
                )
            argv += ["-pe", self._parallel[0], str(array.processors)]
        # Where memory is asked for it cannot tell what would never start: it looks at no load values for that.
        argv += ["-w", "w" if array.memory_bytes else "e"]
        if array.memory_bytes:
            # A resource that is used up is counted by the slot.
            parts = array.processors if self._memory_is_used_up or array.spread else 1
            argv += ["-l", f"mem_free={-(-array.memory_bytes // (2**20 * parts))}M"]
        if array.gpus:
            if not (name := self._settings.gpu_resource):
                raise BatchRefused(
                    "nobody said which consumable of Grid Engine is its GPUs; have the operator set gpu_resource"
                )
            argv += ["-l", f"{name}={_each(array, name, self._gpus_by, array.gpus)}"]
        for name, count in array.licences:
            argv += ["-l", f"{name}={_each(array, name, self._licences_by.get(name, ''), count)}"]
        if array.time_limit_s:
            # Never shorter than the script's own, and some time for what happens around the command.
            argv += ["-l", f"h_rt={int(array.time_limit_s) + 60}"]
        if self._settings.account:
            argv += ["-P", self._settings.account]
        try:
            said = self._run(*argv, *self._settings.options, array.script, transient=(*_TRANSIENT, *_FULL))
        except BatchRefused as refusal:
            raise BatchRefused(str(refusal), every=any(words in str(refusal) for words in _EVERY)) from None
        job = re.search(r"^(\d+)(?:\.\S+)?\s*$", said, re.MULTILINE)
        if job is None:
            raise BatchUnreachable(f"qsub says {said.strip()!r}")
        return job[1]

    def listing(self) -> list[Seen]:
        found, self._holding = read.listing(self._run("qstat", "-xml", "-u", self._user, *self._queue))
        return found

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        found: list[Seen] = []
        for job in jobs:
            try:
                found += read.past(self._run("qacct", "-j", job))
            except BatchRefused as refusal:
                # Its accounts are written some seconds after the end.
                if "not found" not in str(refusal):
                    raise
        return found

    def cancel(self, job: str, tasks: IndexSet) -> None:
        for some in task_ranges.write(tasks, _MOST_CANCELLED, read.FIRST):
            try:
                self._run("qdel", ",".join(f"{job}.{each}" for each in some.split(",")))
            except BatchRefused as refusal:
                if not any(each in str(refusal) for each in _GONE):
                    raise

    def _run(self, *argv: str, transient: tuple[str, ...] = _TRANSIENT) -> str:
        return self.commands.run(argv, transient)


def _each(array: Array, name: str, taken_by: str, count: int) -> int:
    """Return the amount of a consumable as `qsub` is asked for it. Refused."""
    parts = array.processors if taken_by == "YES" else 1
    if count % parts:
        raise BatchRefused(
            f"its consumable {name} is counted by the slot: {count} for {array.processors} processors cannot be asked "
            "for; have the operator make it JOB (qconf -mc)"
        )
    return count // parts


def _environment(cell: str) -> dict[str, str]:
    """Return the variables that the cell's own settings.sh would set. ValueError."""
    path = Path(cell)
    settings = path / "common" / "settings.sh"
    try:
        text = content_of(settings, MOST_TOML_BYTES).decode(errors="replace")
    except OSError as fault:
        raise ValueError(
            f"config: {settings}: {fault.strerror}; give the path of the cell, $SGE_ROOT/$SGE_CELL"
        ) from None
    ports = re.findall(r"^\s*(?:export\s+)?(SGE_QMASTER_PORT|SGE_EXECD_PORT)=(\d+)", text, re.MULTILINE)
    return {"SGE_ROOT": str(path.parent), "SGE_CELL": path.name, **dict(ports)}
