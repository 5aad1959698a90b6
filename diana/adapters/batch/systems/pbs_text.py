"""Readers of what PBS's commands print. Pure; anything that is not as expected is `BatchUnreachable`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from diana.adapters.batch.systems import task_ranges
from diana.adapters.batch.systems.system import BatchUnreachable, ClusterCapacity, Fate, Seen, Stage
from diana.adapters.batch.systems.understood import understood
from diana.model.indexset import IndexSet

WHO = "PBS"
NAME_PREFIX = "diana."
"""Prefix before the token, in the name of a job."""
Block = tuple[str, dict[str, str]]
_UNITS = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "": 1}
_OUT_OF_USE = frozenset(
    ("down", "offline", "unknown", "state-unknown", "unresolvable", "stale", "initializing", "provisioning")
) | {"wait-provisioning", "maintenance", "sleep", "state-unknown,down"}
_WAITS, _RUNS, _OVER = frozenset("QHWTM"), frozenset("RESUB"), frozenset("XF")
_NEVER = "Can Never Run"
_KILLED = {-29: Fate.TIME_LIMIT, **dict.fromkeys(range(-28, -23), Fate.LIMIT)}
"""Fates by the exit codes that tell for which limit it ended a job."""


def blocks(text: str, head: str = "") -> Iterator[Block]:
    """Read `qstat -f`, `-Bf`, `-Qf` (each block begins with `head`) or `pbsnodes -a`: a name, and `key = value`
    below it."""
    name, known, last = "", dict[str, str](), ""
    for line in text.splitlines():
        if line.startswith("\t") and last:
            known[last] += line.strip()
        elif line[:1] not in ("", " ", "\t"):
            if name:
                yield name, known
            name, known, last = line.removeprefix(head).strip(), {}, ""
            if head and not line.startswith(head):
                raise BatchUnreachable(f"{WHO} says {line[:100]!r}")
        elif " = " in line:
            last, _, value = line.strip().partition(" = ")
            known[last] = value
    if name:
        yield name, known


@understood(WHO)
def listing(qstat: str) -> tuple[list[Seen], int]:
    """Read `qstat -f -t`: our tasks, and the processors they hold now."""
    running: dict[str, list[int]] = {}
    seen: list[Seen] = []
    holding = 0
    jobs = list(blocks(qstat, "Job Id: "))
    for name, known in jobs:
        state = known.get("job_state", "")
        if state not in _WAITS | _RUNS | _OVER:
            raise BatchUnreachable(f"{WHO} shows the state {state!r}")
        task = re.fullmatch(r"(\d+\[)(\d+)(\].*)", name)
        if task is not None and state in _RUNS and _is_ours(known):
            running.setdefault(task[1] + task[3], []).append(int(task[2]))
            holding += _processors(known)
    for name, known in jobs:
        if not _is_ours(known) or re.match(r"\d+\[\d+\]", name) or known["job_state"] in _OVER:
            continue
        token, comment = known["Job_Name"].removeprefix(NAME_PREFIX), known.get("comment", "")
        if "[]" in name:
            left = known.get("array_indices_remaining", "-").strip()
            runs = IndexSet.of(running.get(name, ()))
            waits = (task_ranges.read(left, WHO) if left not in ("", "-") else IndexSet()) - runs
        else:
            alone = IndexSet.of([_index(known)])
            runs, waits = (alone, IndexSet()) if known["job_state"] in _RUNS else (IndexSet(), alone)
            holding += _processors(known) if runs else 0
        why = "on hold" if known["job_state"] == "H" else comment
        seen += [Seen(name, token, waits, Stage.WAITING, why, never=_NEVER in comment)] if waits else []
        seen += [Seen(name, token, runs, Stage.RUNNING)] if runs else []
    return seen, holding


def _is_ours(known: dict[str, str]) -> bool:
    return known.get("Job_Name", "").startswith(NAME_PREFIX)


def _processors(known: dict[str, str]) -> int:
    return _number(known.get("Resource_List.ncpus", "1"), 1)


def _index(known: dict[str, str]) -> int:
    """Return the index of a task that was submitted alone: the number it was told (`pbs.Pbs.submit`)."""
    told = re.search(r"(?:^|,)PBS_ARRAY_INDEX=(\d+)(?:,|$)", known.get("Variable_List", ""))
    if told is None:
        raise BatchUnreachable(f"{WHO} does not tell a job's PBS_ARRAY_INDEX")
    return int(told[1])


@understood(WHO)
def past(qstat: str) -> list[Seen]:
    """Read the tasks that are over from `qstat -x -f -t`."""
    found = []
    for name, known in blocks(qstat, "Job Id: "):
        task = re.fullmatch(r"(\d+\[)(\d+)(\].*)", name)
        if known.get("job_state") not in _OVER or "[]" in name or "Exit_status" not in known:
            continue
        code = _number(known["Exit_status"], 0)
        why = known.get("comment") or f"exit status {code}"
        job, index = (task[1] + task[3], int(task[2])) if task is not None else (name, _index(known))
        found.append(Seen(job, "", IndexSet.of([index]), Stage.OVER, why, fate=_KILLED.get(code)))
    return found


@understood(WHO)
def capacity(nodes: str, server: str, queues: str, queue: str, ours: int) -> ClusterCapacity:
    """Read the capacity from `pbsnodes -a`, `qstat -Bf` and `qstat -Qf`. `queue`: the one used; empty: the server's
    default. `ours`: processors our own jobs hold."""
    about = next((known for _, known in blocks(server, "Server: ")), {})
    named = dict(blocks(queues, "Queue: "))
    limits = named.get(queue or about.get("default_queue", ""), {})
    slots = used = widest = memory = gpus = all_gpus = 0
    for _, known in blocks(nodes):
        if _OUT_OF_USE & set(known.get("state", "unknown").replace(" ", "").split(",")):
            continue
        has = _number(known.get("resources_available.ncpus", ""), _number(known.get("pcpus", ""), 0))
        devices = _number(known.get("resources_available.ngpus", ""), 0)
        slots, used = slots + has, used + min(has, _number(known.get("resources_assigned.ncpus", ""), 0))
        widest, memory = max(widest, has), max(memory, _bytes(known.get("resources_available.mem", "")))
        gpus, all_gpus = max(gpus, devices), all_gpus + devices
    most = [_number(each.get("max_array_size", ""), 10_000) for each in (about, limits)]
    return ClusterCapacity(
        version=about.get("pbs_version", ""),
        slots=slots,
        others=max(0, used - ours),
        memory_bytes=memory,
        widest=widest,
        gpus=gpus,
        all_gpus=all_gpus,
        most_tasks=min(most),
        time_limit_s=_seconds(limits.get("resources_max.walltime", "")),
    )


def _number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"-?\d+", text.strip()) else default


def _bytes(text: str) -> int:
    """Read bytes such as `16384kb`; 0 where it says nothing."""
    match = re.fullmatch(r"(\d+)([kmgt]?b?)", text.strip().lower())
    return int(match[1]) * _UNITS.get(match[2], 1) if match else 0


def _seconds(text: str) -> float:
    """Read seconds from `24:00:00`, `90`; 0 where it says nothing."""
    parts = text.strip().split(":")
    if not all(part.isdecimal() for part in parts):
        return 0.0
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))


def tasks_of(job: str, tasks: IndexSet) -> Iterable[str]:
    """Return the ids by which `qdel` knows these tasks of an array."""
    before, bracket, after = job.partition("[]")
    if not bracket:
        return [job]
    return [f"{before}[{a}-{b - 1}]{after}" if b - a > 1 else f"{before}[{a}]{after}" for a, b in tasks.ranges()]
