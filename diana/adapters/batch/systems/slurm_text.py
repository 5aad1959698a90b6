"""Readers of what Slurm's commands print. Pure; what is not as expected is `BatchUnreachable`, with the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from diana.adapters.batch.systems import task_ranges
from diana.adapters.batch.systems.system import BatchUnreachable, ClusterCapacity, Fate, Seen, Stage
from diana.adapters.batch.systems.understood import understood
from diana.bounds import count_of
from diana.model.indexset import IndexSet
from diana.model.job.licences import is_name

NAME_PREFIX = "diana."
"""Prefix before the token, in the name of a job."""

SINFO_FORMAT = "%C|%c|%m|%l|%G|%T|%P|%N|%D"
"""Processors by state, and of one machine; MiB of one; longest time; GPUs; state; partition, `*` the default one;
machines and their number."""
SQUEUE_FORMAT = "%F|%K|%T|%j|%C|%r"
"""Array id, its tasks, state, name, processors, why it waits."""
SACCT_FORMAT = "JobID,State%30"

_WAITING = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "CONFIGURING"}
)
_RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
_DOWN = ("down", "drain", "fail", "maint", "unknown", "power", "reboot", "planned_down", "no_respond", "future")
_NEVER = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSNotAllowed",
    }
)
"""Reasons that no time mends."""
_UNLIMITED = ("infinite", "UNLIMITED", "n/a", "NOT_SET")


TOO_MUCH = r"oom.kill event|xceeded (?:job |step )?memory limit(?: \((?P<used>\d{1,20}) > (?P<limit>\d{1,20})\))?"
"""Words on the standard error of a job that it, or the kernel for it, ended for its memory."""

_FATES = {
    "TIMEOUT": Fate.TIME_LIMIT,
    "DEADLINE": Fate.TIME_LIMIT,
    "OUT_OF_MEMORY": Fate.MEMORY,
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED"), Fate.MACHINE_LOST),
}


def stage_of(state: str) -> Stage:
    """Return the stage of a state; any that is none of the states above is an end."""
    word = _word(state)
    if not word.replace("_", "").isalpha():
        raise BatchUnreachable(f"Slurm shows the state {state!r}")
    return Stage.WAITING if word in _WAITING else Stage.RUNNING if word in _RUNNING else Stage.OVER


def fate_of(state: str) -> Fate | None:
    return _FATES.get(_word(state))


def _word(state: str) -> str:
    """Return the first word of a state such as `CANCELLED by 0`, `OUT_OF_ME+`."""
    return state.split()[0].rstrip("+") if state.split() else ""


@understood("Slurm")
def licences(text: str, names: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Read `scontrol show licenses -o`: the number of each licence in all, by the name jobs ask for it. `names`:
    jobs' names for Slurm's own, where they differ."""
    there = {}
    for line in text.splitlines():
        said = dict(re.findall(r"(?<!\w)(\w++)=(\S++)", line))
        name, total = said.get("LicenseName", ""), said.get("Total", "")
        if is_name(name) and total.isdecimal():
            there[name] = int(total)
    own = {name: total for name, total in there.items() if name not in names.values()}
    return tuple(sorted({**own, **{name: there[known] for name, known in names.items() if known in there}}.items()))


@understood("Slurm")
def capacity(sinfo: str, config: str, ours: int) -> ClusterCapacity:
    """Read the capacity from `sinfo -h -o SINFO_FORMAT` and `scontrol show config`. `ours`: processors our own jobs
    hold. Machines of the default partition count, where the lines tell which one that is; those of several
    partitions count once."""
    known = dict(re.findall(r"^(\w+)\s*=\s*(\S+)", config, re.MULTILINE))
    slots = used = widest = memory = gpus = all_gpus = 0
    longest_s: list[float] = []
    counted: set[tuple[str, str]] = set()
    lines = [line.split("|") for line in sinfo.splitlines()]
    default = any(line[6:7] and line[6].endswith("*") for line in lines)
    for line in lines:
        try:
            by_state, each, mib, longest, gres, state, partition, names, count = line
            allocated, idle, _, _ = map(int, by_state.split("/"))
            wide, size, machines = int(each.rstrip("+")), int(mib.rstrip("+")), int(count)
        except ValueError:
            raise BatchUnreachable(f"sinfo says {'|'.join(line)!r}") from None
        if default and not partition.endswith("*"):
            continue
        longest_s.append(seconds(longest))
        if (names, state) in counted:
            continue
        counted.add((names, state))
        if state.rstrip("*~#!%$@^-").lower().startswith(_DOWN):
            # Jobs that run there still end.
            slots, used = slots + allocated, used + allocated
            continue
        slots, used = slots + allocated + idle, used + allocated
        # 1 MiB is what Slurm says where nobody told it.
        widest, memory = max(widest, wide), max(memory, size << 20 if size > 1 else 0)
        gpus, all_gpus = max(gpus, _gpus(gres)), all_gpus + machines * _gpus(gres)
    limit_s = max(longest_s, default=0.0)
    return ClusterCapacity(
        version=known.get("SLURM_VERSION", ""),
        slots=slots,
        others=max(0, used - ours),
        memory_bytes=memory,
        widest=widest,
        gpus=gpus,
        all_gpus=all_gpus,
        throttles=True,
        # A task's number must stay below it.
        most_tasks=max(1, int(known.get("MaxArraySize", "1001")) - 1),
        most_jobs=int(known.get("MaxJobCount", "0")),
        time_limit_s=0.0 if 0.0 in longest_s else limit_s,
    )


def _gpus(gres: str) -> int:
    """Read the GPUs in `gpu:4`, `gpu:a100:4(S:0-1)`, among others."""
    return sum(count_of(count) for count in re.findall(r"(?:^|,)gpu(?::[^:,(]+)?:(\d+)", gres))


def seconds(text: str) -> float:
    """Read `30`, `30:00`, `2:30:00`, `7-00:00:00`, `infinite` (0)."""
    if text in _UNLIMITED:
        return 0.0
    days, _, clock = text.rpartition("-")
    try:
        parts = [int(part) for part in clock.split(":")]
        whole = int(days) if days else 0
    except ValueError:
        raise BatchUnreachable(f"Slurm says {text!r} for a time") from None
    if days:
        # D-HH, D-HH:MM or D-HH:MM:SS
        parts += [0] * (3 - len(parts))
    elif len(parts) == 1:
        parts = [0, parts[0], 0]
    elif len(parts) == 2:
        parts = [0, *parts]
    hours, minutes, rest = parts
    return whole * 86400.0 + hours * 3600.0 + minutes * 60.0 + rest


def clock(limit_s: float) -> str:
    """Return the limit for `--time`, never shorter: whole minutes and one for what happens around the command."""
    minutes = int(-(-limit_s // 60)) + 1
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def tasks(text: str) -> IndexSet:
    """Read `7`, `0-99`, `0-9,20`, `0-99%8`, `1-9:2`; empty for a job that is no array."""
    return IndexSet() if text in ("", "N/A", "None") else task_ranges.read(text.partition("%")[0], "Slurm")


@understood("Slurm")
def listing(squeue: str) -> tuple[list[Seen], int]:
    """Read `squeue -h -t all -o SQUEUE_FORMAT`: our tasks, and the processors they hold now."""
    found: list[Seen] = []
    holding = 0
    for line in squeue.splitlines():
        try:
            job, which, state, name, processors, why = line.split("|", 5)
            width = int(processors)
        except ValueError:
            raise BatchUnreachable(f"squeue says {line!r}") from None
        if not name.startswith(NAME_PREFIX):
            continue
        stage, some = stage_of(state), tasks(which)
        if stage is Stage.RUNNING:
            holding += width * len(some)
        token, said = name.removeprefix(NAME_PREFIX), why if stage is Stage.WAITING else state
        never = stage is Stage.WAITING and why in _NEVER
        found.append(Seen(job, token, some, stage, "" if said == "None" else said, never, fate_of(state)))
    return found, holding


_STARTS = re.compile(r"\bto start at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


@understood("Slurm")
def starts_in_s(sbatch: str, now_s: float) -> float | None:
    """Read `sbatch --test-only`, which tells a moment of this machine's clock. `now_s`: seconds since 1970."""
    found = _STARTS.search(sbatch)
    return max(0.0, datetime.fromisoformat(found[1]).timestamp() - now_s) if found else None


_PAST_JOB = re.compile(r"(\d+)_(?:\[(.+)\]|(\d+))$")


@understood("Slurm")
def past(sacct: str) -> list[Seen]:
    """Read `sacct -n -P -X -o SACCT_FORMAT`."""
    found = []
    for line in sacct.splitlines():
        name, _, state = line.partition("|")
        match = _PAST_JOB.match(name)
        if match:
            found.append(_past(match[1], match[2] or match[3], state.strip()))
    return found


_COMPLETED_JOB = re.compile(r"\bJobId=(\d+)\b.*\bJobState=(\S+)")
_ARRAY = re.compile(r"\bArrayJobId=(\d+)\b.*\bArrayTaskId=(\d+)\b")


@understood("Slurm")
def completed(text: str, jobs: Iterable[str]) -> list[Seen]:
    """Read the file that `jobcomp/filetxt` writes. Not every release tells of arrays there: those lines are left
    out."""
    wanted = set(jobs)
    found = []
    for line in text.splitlines():
        state, array = _COMPLETED_JOB.search(line), _ARRAY.search(line)
        if state and array and array[1] in wanted:
            found.append(_past(array[1], array[2], state[2]))
    return found


def _past(job: str, which: str, state: str) -> Seen:
    return Seen(job, "", tasks(which), stage_of(state), state, fate=fate_of(state))
