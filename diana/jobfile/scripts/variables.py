"""Variables that scripts for Slurm look at: those that are known are set, and the author is told of all others."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from diana.model.job.own_folder import ARRAY_TASK, HERE, SUBMIT_DIR
from diana.model.job.spec import GroupSpec

_NAME = re.compile(r"(?<![A-Za-z0-9_])SLURMD?_[A-Z][A-Z0-9_]*(?![A-Za-z0-9_])")
_MOST_TOLD = 8
"""Names in one note."""


class SlurmLines(NamedTuple):
    """The words of a script's `#SBATCH` lines that the spec does not hold."""

    name: str = ""
    """Name of the job by Slurm's rule: that of the file, if no other is given."""
    tasks: int = 1
    cpus: int = 1
    """Processors per task."""
    memory_per_cpu: int = 0
    """Bytes; 0: memory is said of the whole job."""
    there: bool = False
    """True if there are any."""


def array_environment(first: int, last: int, count: int) -> dict[str, str]:
    """Return the variables of an array's script, under our names and Slurm's; their values are templates."""
    return {
        ARRAY_TASK: "{array}",
        "SLURM_ARRAY_TASK_ID": "{array}",
        "SLURM_ARRAY_JOB_ID": "{group}",
        "SLURM_ARRAY_TASK_COUNT": str(count),
        "SLURM_ARRAY_TASK_MIN": str(first),
        "SLURM_ARRAY_TASK_MAX": str(last),
    }


def variables_read(script: str, skipped: int = 0) -> dict[str, int]:
    """Return Slurm's variables that lines of the script read, and the first line of each; `skipped` lines stood above
    it. Comments read none, and a variable that the script sets itself is its own."""
    found: dict[str, int] = {}
    own = set()
    for number, line in enumerate(script.split("\n"), 1 + skipped):
        if "SLURM" not in line or line.lstrip().startswith("#"):
            continue
        for each in _NAME.finditer(line):
            name, after = each[0], line[each.end() : each.end() + 2]
            before = line[: each.start()].rstrip()
            if after.startswith("=") and after != "==" and not before.endswith("$"):
                own.add(name)
            elif not before.endswith("unset"):
                found.setdefault(name, number)
    return {name: number for name, number in found.items() if name not in own}


def environment(spec: GroupSpec, lines: SlurmLines, read: Container[str]) -> dict[str, str]:
    """Return the variables of Slurm's that are known of each job; their values are templates. On a real Slurm its own
    word on the job it started stands (`adapters/batch/array/script.py`).

    Those that launchers of parallel programs know a Slurm by are set only where the script itself reads them.
    """
    name = lines.name or spec.name
    out = {
        "SLURM_JOB_ID": "{group}.{index}",
        "SLURM_JOB_NAME": _literal(name if name.isprintable() else spec.name),
        SUBMIT_DIR: _literal(spec.cwd) or HERE,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
    }
    at_need = {"SLURM_JOBID": out["SLURM_JOB_ID"], "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    needs = spec.resources
    if memory := needs.memory_bytes:
        per_cpu = lines.memory_per_cpu
        said = per_cpu and per_cpu * needs.processors == memory and not spec.components
        out["SLURM_MEM_PER_CPU" if said else "SLURM_MEM_PER_NODE"] = str((per_cpu if said else memory) >> 20)
    if spec.components:
        # All other numbers would be the same for all components.
        out["SLURM_HET_SIZE"] = str(spec.gang_size - spec.spares)
    elif spec.flexible is None:
        tasks, cpus = (needs.processors, 1) if spec.mpi else _divided(needs.processors, lines)
        out |= {"SLURM_NTASKS": str(tasks), "SLURM_CPUS_PER_TASK": str(cpus)}
        at_need |= dict.fromkeys(("SLURM_NPROCS", "SLURM_TASKS_PER_NODE"), str(tasks))
        at_need |= dict.fromkeys(("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"), str(needs.processors))
        if needs.gpus:
            at_need |= dict.fromkeys(("SLURM_GPUS", "SLURM_GPUS_ON_NODE"), str(needs.gpus))
    return out | {name: text for name, text in at_need.items() if name in read}


def _literal(text: str) -> str:
    """Return a template of `text` itself."""
    return text.replace("{", "{{").replace("}", "}}")


def _divided(processors: int, lines: SlurmLines) -> tuple[int, int]:
    """Return tasks and processors of each, whose product is the job's: an option may have given other ones."""
    if lines.tasks > 1 and lines.cpus == 1:
        return processors, 1
    return (lines.tasks, processors // lines.tasks) if processors % lines.tasks == 0 else (1, processors)


def told(read: Mapping[str, int], set_here: Iterable[str], cwd: str, submitted_in: str) -> list[str]:
    """Return notes on variables that the script reads: those that only Slurm sets, and the folder that it takes for
    that of its submission, `submitted_in`, if that is known."""
    notes = []
    if SUBMIT_DIR in read and not cwd:
        where = f", not {submitted_in}" if submitted_in and submitted_in.isprintable() else ""
        notes.append(
            f"{SUBMIT_DIR} (line {read[SUBMIT_DIR]}) is each job's own directory here{where}: name files that it reads"
            " there with --input, and those that it leaves with --collect"
        )
    known = frozenset(set_here)
    unknown = [f"{name} (line {number})" for name, number in read.items() if name not in known]
    if unknown:
        more = f" and {len(unknown) - _MOST_TOLD} more" if len(unknown) > _MOST_TOLD else ""
        notes.append(
            f"set nowhere but in jobs of a real Slurm: {', '.join(unknown[:_MOST_TOLD])}{more}; write what is meant"
        )
    return notes
