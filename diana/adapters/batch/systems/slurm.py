"""Slurm, by its commands, as a plain user of a login node (SPEC U7)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec

from diana.adapters.batch.array.memory import SAID
from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import slurm_text as read
from diana.adapters.batch.systems import task_ranges
from diana.adapters.batch.systems.commands import Commands
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, ClusterCapacity, Seen
from diana.bounds import MOST_OUTPUT_BYTES, end_of
from diana.model.indexset import IndexSet

_TRANSIENT = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "Zero Bytes were transmitted",
    "Slurm backup controller in standby mode",
    "Unexpected message received",
    "Communication connection failure",
    "Transport endpoint",
    "Resource temporarily unavailable",
    "error: If munged is up",
    "Munge encode failed",
    "Protocol authentication error",
    "not reachable",
)
"""Words of faults that may be over in a minute."""
_FULL = ("Job violates accounting/QOS policy", "QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit", "cannot accept")
"""Words of a refusal: Slurm takes no more jobs of ours now."""
_EVERY = (
    "Invalid account",
    "invalid partition",
    "Invalid partition",
    "Invalid qos",
    "Access/permission denied",
    "not permitted to use this partition",
    "unrecognized option",
)
"""Words of a refusal of every job of ours, with these settings."""
_GONE = ("Invalid job id", "already completed", "Job/step already completing or completed")
_MOST_CANCELLED = 200
"""Most ranges of tasks in one call: a command line has a length."""
_FIRST_VERSION = (17, 11)


class Slurm:
    """`system.BatchSystem`. Where Slurm keeps no accounts, its file of completed jobs is the second source, if this
    account may read it."""

    kind = "slurm"
    dialect = Dialect(
        task="SLURM_ARRAY_TASK_ID",
        first=0,
        job="SLURM_ARRAY_JOB_ID",
        machine="SLURMD_NODENAME",
        memory_group='*/job_"$SLURM_JOB_ID"/*',
        too_much=read.TOO_MUCH,
        warns=True,
    )

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        # Long lists of tasks are cut short otherwise.
        environment = {"SLURM_BITSTR_LEN": "0"}
        if settings.config:
            environment["SLURM_CONF"] = settings.config
        self.commands = Commands(environment, keeps=("SLURM_CONF",))
        self._partition = ["-p", settings.partition] if settings.partition else []
        self._holding = 0
        self._config = ""
        self._no_sacct = False

    def capacity(self) -> ClusterCapacity:
        if not self._config:
            self._config = self._run("scontrol", "show", "config")
        has = read.capacity(
            self._run("sinfo", "-h", "-o", read.SINFO_FORMAT, *self._partition), self._config, self._holding
        )
        self._check_version(has.version)
        has = msgspec.structs.replace(has, licences=self._licences())
        if self._settings.partition and not has.slots and not has.widest:
            self._run("scontrol", "show", "partition", self._settings.partition)
        return has

    def _licences(self) -> tuple[tuple[str, int], ...]:
        """Return the licences; Slurm is not asked where it has none of its own and nobody named any."""
        if not self._settings.licences and re.search(r"^Licenses\s*=\s*\(null\)", self._config, re.MULTILINE):
            return ()
        return read.licences(self._run("scontrol", "show", "licenses", "-o"), self._settings.licences)

    def _check_version(self, version: str) -> None:
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) < _FIRST_VERSION:
            wanted = ".".join(map(str, _FIRST_VERSION))
            raise BatchRefused(f"Slurm {version} is too old; diana speaks to {wanted} and later")

    def starts_in_s(self) -> float | None:
        argv = ["sbatch", "--test-only", "--ntasks=1", *self._partition, *self._chosen(), "--wrap=true"]
        try:
            return read.starts_in_s(self.commands.run(argv, _TRANSIENT, errors_too=True), time.time())
        except (BatchRefused, BatchUnreachable):
            # The obstacle that a job would meet is told when there is one.
            return None

    def _chosen(self) -> list[str]:
        """Return the options that the operator wants of every job."""
        wanted = (("account", self._settings.account), ("qos", self._settings.qos))
        return [*(f"--{option}={value}" for option, value in wanted if value), *self._settings.options]

    def submit(self, array: Array) -> str:
        argv = ["sbatch", "--parsable", "--no-requeue", "--export=ALL", "--input=/dev/null"]
        argv += ["--output=/dev/null", f"--error={_said(array)}", f"--job-name={read.NAME_PREFIX}{array.token}"]
        at_once = f"%{array.at_once}" if array.at_once else ""
        argv += [f"--array={array.tasks}{at_once}", f"--chdir={Path(array.script).parent}", *self._partition]
        # Wherever an MPI job lies, Slurm tells its launcher how many processes it has.
        each, tasks = (1, array.processors) if array.mpi else (array.processors, 1)
        argv += [f"--ntasks={tasks}", f"--cpus-per-task={each}", *([] if array.spread else ["--nodes=1"])]
        if array.memory_bytes:
            parts, per = (array.processors, "-per-cpu") if array.spread else (1, "")
            argv.append(f"--mem{per}={-(-array.memory_bytes // (2**20 * parts))}M")
        if array.time_limit_s:
            argv.append(f"--time={read.clock(array.time_limit_s)}")
        if array.gpus:
            argv.append(f"--gres=gpu:{array.gpus}")
        if array.licences:
            argv.append("--licenses=" + ",".join(f"{name}:{count}" for name, count in array.licences))
        try:
            said = self._run(*argv, *self._chosen(), array.script, transient=(*_TRANSIENT, *_FULL))
        except BatchRefused as refusal:
            raise BatchRefused(str(refusal), every=any(words in str(refusal) for words in _EVERY)) from None
        job = said.strip().partition(";")[0]
        if not job.isdecimal():
            raise BatchUnreachable(f"sbatch says {said.strip()!r}")
        return job

    def listing(self) -> list[Seen]:
        found, self._holding = read.listing(
            self._run("squeue", "-h", "--me", "-t", "all", "-o", read.SQUEUE_FORMAT, *self._partition)
        )
        return found

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        if not self._no_sacct:
            try:
                return read.past(self._run("sacct", "-n", "-P", "-X", "-j", ",".join(jobs), "-o", read.SACCT_FORMAT))
            except BatchRefused:
                # It keeps no accounts: that does not change while it runs.
                self._no_sacct = True
        path = self._completion_file()
        if path is None:
            raise BatchUnreachable("Slurm keeps neither accounts nor a file of completed jobs that can be read")
        try:
            return read.completed(end_of(path, MOST_OUTPUT_BYTES).decode(errors="replace"), jobs)
        except OSError as fault:
            raise BatchUnreachable(f"{path}: {fault.strerror}") from None

    def _completion_file(self) -> Path | None:
        kind = re.search(r"^JobCompType\s*=\s*jobcomp/filetxt", self._config, re.MULTILINE)
        place = re.search(r"^JobCompLoc\s*=\s*(\S+)", self._config, re.MULTILINE)
        return Path(place[1]) if kind and place else None

    def cancel(self, job: str, tasks: IndexSet) -> None:
        for some in task_ranges.write(tasks, _MOST_CANCELLED):
            self._cancelled(f"{job}_[{some}]")

    def _cancelled(self, what: str) -> None:
        try:
            self._run("scancel", "--quiet", what)
        except BatchRefused as refusal:
            if not any(each in str(refusal) for each in _GONE):
                raise

    def _run(self, *argv: str, transient: tuple[str, ...] = _TRANSIENT) -> str:
        return self.commands.run(argv, transient)


def _said(array: Array) -> str:
    """Return the file for Slurm's own words on each task; folders of an earlier release have none."""
    said = Path(array.script).parent / SAID
    # In a name Slurm reads a `%` as a pattern, and two as one; what stands behind a backslash it takes as it is.
    named = str(said).replace("%", "%%")
    return f"{named}/%a" if array.memory_bytes and "\\" not in named and said.is_dir() else "/dev/null"
