"""A script as a job file: `#DIANA` lines, and the `#SBATCH` lines everybody already has, at its top.

An `#SBATCH` option that means nothing here (a partition, an account, mail) is passed over, which is said. Any other
outside the subset is refused by name: a limit silently dropped costs more than a line edited. A line `#SBATCH hetjob`
begins the next component of a job of several: each runs the script, with processors and GPUs of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from diana.jobfile.units import size_bytes, slurm_time_s

MOST_SCRIPT_BYTES = 1 << 20

_LINE = re.compile(r"#(DIANA|SBATCH)(?:\s+(.*))?\Z")
_SHORT = {
    "-a": "--array",
    "-J": "--job-name",
    "-D": "--chdir",
    "-c": "--cpus-per-task",
    "-n": "--ntasks",
    "-N": "--nodes",
    "-t": "--time",
    "-G": "--gpus",
    "-o": "--output",
    "-e": "--error",
    "-p": "--partition",
    "-A": "--account",
    "-q": "--qos",
}
_PASSED_OVER = frozenset({"--partition", "--account", "--qos", "--mail-type", "--mail-user", "--comment", "--wckey"})
"""Options of a cluster's own that say nothing of what a job needs."""
_SEPARATORS = frozenset({"hetjob", "packjob"})
"""Lines between the components of a job; the latter is Slurm's older word."""
_OF_COMPONENTS = frozenset({"--ntasks", "--cpus-per-task", "--nodes", "--gpus", "--mem", "--mem-per-cpu"})
"""Options that each component of a job says for itself; all others are above the first separator."""
_FLAGS_PASSED_OVER = frozenset({"--requeue", "--no-requeue", "--parsable", "--verbose", "--quiet"})
"""The same, of options without a value."""
_PATTERN = {"%j": "{group}", "%A": "{group}", "%a": "{array}", "%%": "%"}


def script_data(text: str, arguments: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], tuple[str, ...]]:
    """Return the job file's data for a script, the options its lines give, and what the author is to be told.
    `arguments` are the command line's options, which override the lines. ValueError names the line."""
    if not text.startswith("#!"):
        raise ValueError('line 1: a script begins with "#!" and its interpreter, such as "#!/bin/sh"; add that line')
    if len(text.encode()) > MOST_SCRIPT_BYTES:
        raise ValueError("a script of more than 1 MiB; put its data into files named by inputs")
    options: dict[str, str] = {}
    slurm = _Slurm()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        found = _LINE.match(line.rstrip())
        if found:
            try:
                words = shlex.split(found[2] or "", comments=True)
                if found[1] == "DIANA":
                    options.update(_diana(words))
                else:
                    slurm.take(words, number)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    group: dict[str, Any] = {"script": text, **slurm.group}
    data: dict[str, Any] = {"group": group, "resources": slurm.resources()}
    if components := slurm.components():
        data["components"] = components
    passed = ", ".join(f"{name} (line {number})" for name, number in slurm.passed_over.items())
    notes = (f"passed over, as it means nothing here: #SBATCH {passed}",) if passed else ()
    return data, {**slurm.options, **options, **arguments}, notes


def _diana(words: list[str]) -> dict[str, str]:
    """Split `key=value`, `--key=value` or `--key value`; dashes within a key become underscores."""
    out = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            if not word.startswith("--") or not waiting:
                raise ValueError(f"{word!r} has no value; write #DIANA key=value")
            value = waiting.pop(0)
        dotted, dot, last = key.rpartition(".")
        # Names of variables and swept values keep their dashes, so that a refusal quotes them as written.
        out[key if dotted in ("group.environment", "sweep") else f"{dotted}{dot}{last.replace('-', '_')}"] = value
    return out


_SLURM_VARIABLES = {
    "SLURM_JOB_ID": "{group}.{index}",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_NNODES": "1",
    "SLURM_NTASKS": "1",
    "SLURM_CPUS_PER_TASK": "1",
}
"""Variables that scripts for Slurm look at; their values are templates. On a real Slurm its own stand."""


class _Slurm:
    """Collects `#SBATCH` options as they come."""

    def __init__(self) -> None:
        self.group: dict[str, Any] = {}
        self.options: dict[str, str] = {}
        self.passed_over: dict[str, int] = {}
        """Options that mean nothing here, and their lines."""
        self._resources: dict[str, Any] = {}
        self._tasks = 1
        self._cpus = 1
        self._memory_per_cpu = 0
        self._before: list[tuple[int, int, int]] = []
        """Components above the last separator: processors, GPUs, bytes of memory."""

    def take(self, words: list[str], line: int) -> None:
        if words and words[0] in _SEPARATORS:
            if len(words) > 1:
                raise ValueError(f"#SBATCH {words[0]}: stands on a line of its own; write {words[1]} on the next one")
            self._next()
            return
        self.group.setdefault("environment", {}).update(_SLURM_VARIABLES | self.group.get("environment", {}))
        waiting = list(words)
        while waiting:
            word = waiting.pop(0)
            name, equals, value = word.partition("=")
            if not word.startswith("--") and word[:2] in _SHORT:
                name, equals, value = word[:2], word[2:], word[2:]
            name = _SHORT.get(name, name)
            if name in _FLAGS_PASSED_OVER and not equals:
                self.passed_over[name] = line
                continue
            act = self._acts().get(name)
            if name in _PASSED_OVER:
                self.passed_over[name] = line
                act = _nothing
            elif self._before and name not in _OF_COMPONENTS:
                raise ValueError(f"#SBATCH {name}: is of the whole job; move it above the first #SBATCH hetjob")
            if act is None and not name.startswith("-"):
                raise ValueError(f"#SBATCH: {name!r} belongs to no option; put quotes around a value of several words")
            if act is None:
                known = ", ".join(sorted(self._acts()))
                raise ValueError(
                    f"#SBATCH {name}: not understood; remove it or give a #DIANA line (understood: {known})"
                )
            if not equals:
                if not waiting:
                    raise ValueError(f"#SBATCH {name}: has no value; write {name}=VALUE")
                value = waiting.pop(0)
            try:
                act(value)
            except ValueError as error:
                raise ValueError(f"#SBATCH {name}: {error}") from None

    def _next(self) -> None:
        """Begin another component; it begins with Slurm's defaults, as there."""
        self._before.append(self._one())
        self._tasks, self._cpus, self._memory_per_cpu = 1, 1, 0
        for key in ("gpus", "memory"):
            self._resources.pop(key, None)

    def _one(self) -> tuple[int, int, int]:
        cpus = self._tasks * self._cpus
        return cpus, self._resources.get("gpus", 0), self._resources.get("memory", self._memory_per_cpu * cpus)

    def components(self) -> list[dict[str, Any]]:
        """Return the components that separators made; none: it is an ordinary job."""
        every = [*self._before, self._one()] if self._before else []
        return [{"cpus": cpus, "gpus": gpus} for cpus, gpus, _ in every]

    def _of_components(self) -> dict[str, Any]:
        every = [*self._before, self._one()]
        memory = {size for _, _, size in every}
        if len(memory) > 1:
            told = ", ".join(f"{size >> 20} MiB" for _, _, size in every)
            raise ValueError(f"#SBATCH --mem: {told}: components have one limit here; give all the same")
        variables = self.group.setdefault("environment", {})
        for name in ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK"):
            # They would be the same for all components.
            variables.pop(name, None)
        variables["SLURM_HET_SIZE"] = str(len(every))
        whole = {key: value for key, value in self._resources.items() if key not in ("gpus", "memory")}
        return {**whole, **({"memory": size} if (size := memory.pop()) else {})}

    def resources(self) -> dict[str, Any]:
        """Return what each job needs; of a job of several components, the limits that all of them share."""
        if self._before:
            return self._of_components()
        out = dict(self._resources)
        if self._tasks * self._cpus > 1:
            out["cpus"] = self._tasks * self._cpus
        if variables := self.group.get("environment"):
            if variables.get("SLURM_CPUS_PER_TASK") == "1":
                variables["SLURM_CPUS_PER_TASK"] = str(self._cpus)
            if variables.get("SLURM_NTASKS") == "1":
                variables["SLURM_NTASKS"] = str(self._tasks)
        if self._memory_per_cpu and "memory" not in out:
            out["memory"] = self._memory_per_cpu * self._tasks * self._cpus
        return out

    def _acts(self) -> dict[str, Callable[[str], None]]:
        return {
            "--array": self._array,
            "--job-name": self._name,
            "--cpus-per-task": self._cpus_per_task,
            "--ntasks": self._ntasks,
            "--nodes": self._nodes,
            "--mem": self._mem,
            "--mem-per-cpu": self._mem_per_cpu,
            "--time": self._time,
            "--gpus": self._gpus,
            "--export": self._export,
            "--output": self._output,
            "--error": self._error,
            "--chdir": self._chdir,
        }

    def _array(self, value: str) -> None:
        # Slurm counts by numbers: `01-10` is 1 to 10 there.
        self.options["array"] = re.sub(r"\b0+(?=\d)", "", value)

    def _name(self, value: str) -> None:
        self.group["name"] = value

    def _cpus_per_task(self, value: str) -> None:
        self._cpus = _count(value)

    def _ntasks(self, value: str) -> None:
        self._tasks = _count(value)

    def _nodes(self, value: str) -> None:
        if value not in ("1", "1-1"):
            raise ValueError(f"{value!r}: a job runs on one machine; write 1 or remove it")

    def _mem(self, value: str) -> None:
        self._resources["memory"] = size_bytes(value, bare="M")

    def _mem_per_cpu(self, value: str) -> None:
        self._memory_per_cpu = size_bytes(value, bare="M")

    def _time(self, value: str) -> None:
        self._resources["time"] = slurm_time_s(value)

    def _gpus(self, value: str) -> None:
        self._resources["gpus"] = _count(value)

    def _export(self, value: str) -> None:
        """Keep assignments; ALL and NONE mean nothing here, since a job never inherits the submitter's variables."""
        for part in value.split(","):
            name, equals, text = part.partition("=")
            if equals:
                escaped = text.replace("{", "{{").replace("}", "}}")
                self.group.setdefault("environment", {})[name] = escaped
            elif part not in ("ALL", "NONE", "NIL"):
                raise ValueError(f"{part!r}: the submitter's variables do not travel; write {part}=VALUE")

    def _output(self, value: str) -> None:
        self.group["stdout"] = self._file(value)

    def _error(self, value: str) -> None:
        self.group["stderr"] = self._file(value)

    def _chdir(self, value: str) -> None:
        self.group["cwd"] = value

    def _file(self, value: str) -> str:
        """Return Slurm's file name pattern as a template. The file comes home by itself, also when the job failed."""
        text = value.replace("{", "{{").replace("}", "}}")

        def one(found: re.Match[str]) -> str:
            if found[0] == "%x":
                return str(self.group.get("name", "job"))
            if found[0] not in _PATTERN:
                raise ValueError(f"{value!r}: {found[0]} is not understood; want %A, %a, %j or %x")
            return _PATTERN[found[0]]

        return re.sub(r"%.", one, text)


def _nothing(_: str) -> None:
    """Act on an option that is passed over."""


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"{value!r}: want a whole number of at least 1")
    return int(value)


def array_environment(first: int, last: int, count: int) -> dict[str, str]:
    """Return the variables of an array's script, under our names and Slurm's; their values are templates."""
    return {
        "DIANA_ARRAY_TASK_ID": "{array}",
        "SLURM_ARRAY_TASK_ID": "{array}",
        "SLURM_ARRAY_JOB_ID": "{group}",
        "SLURM_ARRAY_TASK_COUNT": str(count),
        "SLURM_ARRAY_TASK_MIN": str(first),
        "SLURM_ARRAY_TASK_MAX": str(last),
    }
