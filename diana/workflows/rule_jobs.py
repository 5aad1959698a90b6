"""A workflow engine's jobs as diana wants them: the jobs that make one group, and that group as a job file.

It knows of Snakemake the names of its resources, nothing else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from diana.errors import UsageError

MARK = "diana_"
KEYS = {
    "sites": "group.sites",
    "not_sites": "group.not_sites",
    "container": "group.container",
    "modules": "group.modules",
    "on_crash": "group.on_crash",
    "on_site_lost": "group.on_site_lost",
    "class": "group.class",
    "log_limit": "group.log_limit",
    "grace": "group.grace",
    "max_subgroup": "group.max_subgroup",
    "division": "group.division",
    "work": "resources.work",
}
"""Resources `diana_NAME` of a rule, and the key of the job file each sets."""

NEAR = 7 / 8
"""Jobs that want at least this part of the largest one's memory share its group and its figure: Snakemake's default
follows the size of the inputs, and would else make a group of nearly every job."""
MOST_COMMAND_BYTES = 120_000
"""Linux gives one word of a command 128 KiB, a CSV reader one cell as much."""
MOST_TABLE_BYTES = 32 << 20
"""Bytes of one group's commands; a node reads tables of up to 64 MiB."""
TABLE = "commands.csv"


class RuleJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of the engine. `name` is its rule's; `command` is for a shell; memory and scratch in bytes."""

    name: str
    command: str
    cpus: int
    memory: int = 0
    scratch: int = 0
    time_s: int = 0
    gpus: int = 0
    options: tuple[tuple[str, str], ...] = ()
    """Keys of the job file, in full, and their values."""


class JobBatch(msgspec.Struct, frozen=True):
    """Jobs that make one group. Job k of the group is number `members[k]` of those gathered."""

    members: tuple[int, ...]
    jobs: tuple[RuleJob, ...]

    def alike(self) -> bool:
        """No job of it is given more than it wants."""
        return len({job.memory for job in self.jobs}) == 1

    def apart(self) -> list[JobBatch]:
        """Groups of the same jobs, each with exactly the memory it wants."""
        found: dict[int, list[int]] = {}
        for at, job in enumerate(self.jobs):
            found.setdefault(job.memory, []).append(at)
        return [_batch(self.members, self.jobs, places) for places in found.values()]


def rule_job(name: str, command: str, threads: int, resources: Mapping[str, Any], sites: str = "") -> RuleJob:
    """`resources` as Snakemake has them: mem_mb, disk_mb (10^6 bytes), runtime (minutes), gpu or gpus, and diana_NAME.
    `sites`: those of a job whose rule names none. UsageError names a resource that nobody understands."""
    if len(command.encode()) > MOST_COMMAND_BYTES:
        raise UsageError(
            f"its command has {len(command.encode())} bytes, at most {MOST_COMMAND_BYTES} can be started; put"
            " fewer jobs into one Snakemake group"
        )
    options = {"group.sites": sites} if sites else {}
    for key, value in resources.items():
        if key.startswith(MARK):
            options[_option(key)] = str(value)
    return RuleJob(
        name=name,
        command=command,
        cpus=max(1, threads),
        memory=_number(resources, "mem_mb") * 1_000_000,
        scratch=_number(resources, "disk_mb") * 1_000_000,
        time_s=_number(resources, "runtime") * 60,
        gpus=_number(resources, "gpus") or _number(resources, "gpu"),
        options=tuple(sorted(options.items())),
    )


def gather(jobs: Sequence[RuleJob]) -> list[JobBatch]:
    """Jobs of one rule with the same wants share a group, in their order; a group's memory is its greediest job's."""
    alike: dict[object, list[int]] = {}
    for at, job in enumerate(jobs):
        alike.setdefault((job.name, job.cpus, job.time_s, job.gpus, job.options), []).append(at)
    batches = []
    for places in alike.values():
        for near in _by_memory(jobs, places):
            batches += [_batch(range(len(jobs)), jobs, part) for part in _by_size(jobs, near)]
    return batches


def job_file(batch: JobBatch, environment: Mapping[str, str], *, directory: bool) -> dict[str, Any]:
    """The group as `Client.submit` takes it, with `options(batch)`; of several jobs the commands' differences are in
    the file `TABLE`, which holds `table(batch)`. `directory`: each job starts in a fresh one of its own."""
    head, middles, tail = _split([job.command for job in batch.jobs])
    command = _plain(head) + ("{command}" if len(middles) > 1 else _plain(middles[0])) + _plain(tail)
    first = batch.jobs[0]
    resources = {
        "cpus": first.cpus,
        "memory": max(job.memory for job in batch.jobs),
        "scratch": max(job.scratch for job in batch.jobs),
        "time": first.time_s,
        "gpus": first.gpus,
    }
    file: dict[str, Any] = {
        "group": {
            "name": first.name,
            "command": ["/bin/sh", "-c", command],
            "environment": {name: _plain(value) for name, value in environment.items()},
            "directory": directory,
            # A rule's job begins by removing what an earlier try left.
            "on_crash": "rerun",
        },
        "resources": {name: value for name, value in resources.items() if value},
    }
    if len(middles) > 1:
        file["sweep"] = {"from": TABLE}
    return file


def options(batch: JobBatch) -> dict[str, str]:
    return dict(batch.jobs[0].options)


def table(batch: JobBatch) -> str:
    """CSV; a row per job, in order, quoted: a command may hold any sign."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["command"])
    writer.writerows([middle] for middle in _split([job.command for job in batch.jobs])[1])
    return out.getvalue()


def _option(key: str) -> str:
    known = KEYS.get(key.removeprefix(MARK))
    if known is None:
        # It knows the whole model of job files, which only a mistake needs.
        from diana.jobfile.problems import nearest

        raise UsageError(f"resource {key}: unknown; {nearest(key, [MARK + one for one in KEYS])}")
    return known


def _number(resources: Mapping[str, Any], key: str) -> int:
    value = resources.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"resource {key}: {value!r}: want a whole number, 0 or more")
    return value


def _batch(members: Sequence[int], jobs: Sequence[RuleJob], places: Iterable[int]) -> JobBatch:
    chosen = tuple(places)
    return JobBatch(tuple(members[at] for at in chosen), tuple(jobs[at] for at in chosen))


def _by_memory(jobs: Sequence[RuleJob], places: list[int]) -> list[list[int]]:
    out: list[list[int]] = []
    most = 0
    for at in sorted(places, key=lambda at: (-jobs[at].memory, at)):
        if not out or jobs[at].memory < NEAR * most:
            most = jobs[at].memory
            out.append([])
        out[-1].append(at)
    return [sorted(near) for near in out]


def _by_size(jobs: Sequence[RuleJob], places: list[int]) -> list[list[int]]:
    out: list[list[int]] = [[]]
    held = 0
    for at in places:
        size = len(jobs[at].command.encode())
        if out[-1] and held + size > MOST_TABLE_BYTES:
            out.append([])
            held = 0
        out[-1].append(at)
        held += size
    return out


def _split(commands: list[str]) -> tuple[str, list[str], str]:
    """Split the commands into their common beginning, their differing middles and their common end: the common parts
    travel once."""
    head = _beginning(commands) if len(commands) > 1 else ""
    rests = [command[len(head) :] for command in commands]
    tail = _beginning([rest[::-1] for rest in rests])[::-1] if len(commands) > 1 else ""
    return head, [rest[: len(rest) - len(tail)] for rest in rests], tail


def _beginning(texts: list[str]) -> str:
    """The common beginning of all texts: what the first and the last in order share, all share."""
    first, last = min(texts), max(texts)
    for at, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:at]
    return first


def _plain(text: str) -> str:
    """Escape the text, so that nothing in it is a placeholder."""
    return text.replace("{", "{{").replace("}", "}}")
