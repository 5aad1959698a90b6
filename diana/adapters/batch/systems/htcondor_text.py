"""Readers of what HTCondor's commands print. Pure; anything that is not as expected is `BatchUnreachable`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from diana.adapters.batch.systems.htcondor_job import TASK, TOKEN
from diana.adapters.batch.systems.system import BatchUnreachable, ClusterCapacity, Fate, Seen, Stage
from diana.adapters.batch.systems.understood import understood
from diana.bounds import json_of
from diana.errors import one_line
from diana.model.indexset import IndexSet

WHO = "HTCondor"
JOB_ATTRIBUTES = (
    *("ClusterId", TOKEN, TASK, "JobStatus", "NumJobStarts", "RequestCpus"),
    *("HoldReason", "HoldReasonCode", "LastRemoteHost", "ExitBySignal", "ExitSignal", "ExitCode"),
)
PAST_ATTRIBUTES = (*JOB_ATTRIBUTES, "LastJobStatus", "LastHoldReason", "LastHoldReasonCode", "RemoveReason")
SLOT_ATTRIBUTES = (
    *("Name", "SlotType", "State", "Offline", "FileSystemDomain", "Cpus", "TotalSlotCpus"),
    *("Memory", "TotalSlotMemory", "GPUs", "TotalSlotGPUs"),
)
NOT_DYNAMIC = 'SlotType =!= "Dynamic"'
"""Constraint that leaves out dynamic slots: they are parts of partitionable ones."""
LIMITS = ("MAX_JOBS_PER_SUBMISSION", "MAX_JOBS_PER_OWNER", "MAX_JOBS_SUBMITTED")
_MOST_PER_SUBMISSION = 20_000
_NO_LIMIT = 2**31 - 1
_IDLE, _RUNNING, _REMOVED, _COMPLETED, _HELD, _TRANSFERRING, _SUSPENDED = range(1, 8)
_RUNS = (_RUNNING, _REMOVED, _TRANSFERRING, _SUSPENDED)
"""States that count as running; a removed job that is still in the queue is being ended."""
_BY_HAND = (1, 15, 16)
"""HoldReasonCodes of jobs that somebody holds, or has yet to send files for."""
_FATES = {46: Fate.TIME_LIMIT, 47: Fate.TIME_LIMIT, **dict.fromkeys((3, 21, 26, 34), Fate.LIMIT)}
"""Fates by HoldReasonCode: durations; policies of job, machine and schedd; resources used up."""
_MOST_TASKS = 10**9
Ad = dict[str, object]


def ads(text: str) -> list[Ad]:
    """Read the output of `-json`; no output is no ad."""
    try:
        found = json_of(text) if text.strip() else []
    except ValueError:
        raise BatchUnreachable(f"{WHO} says {text.strip()[:100]!r}") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BatchUnreachable(f"{WHO} says {text.strip()[:100]!r}")
    return found


@understood(WHO, lines=False)
def listing(text: str) -> tuple[list[Seen], int, str]:
    """Read `condor_q -json` with JOB_ATTRIBUTES: our tasks, the processors they hold now, and what is odd about
    other jobs that carry a token. A user may have copied a description; one such job must not hide all that are
    ours."""
    found: dict[Seen, list[int]] = {}
    holding, odd = 0, ""
    for ad in _with_token(text):
        if why := _foreign(ad):
            odd = odd or why
            continue
        seen = _shown(ad)
        found.setdefault(seen, []).append(_number(ad, TASK))
        holding += _number(ad, "RequestCpus", 1) if seen.stage is Stage.RUNNING else 0
    return _together(found), holding, odd


@understood(WHO, lines=False)
def past(text: str) -> list[Seen]:
    """Read `condor_history -json` with PAST_ATTRIBUTES."""
    found: dict[Seen, list[int]] = {}
    for ad in _with_token(text):
        if not _foreign(ad) and _number(ad, "JobStatus", 0) in (_REMOVED, _COMPLETED):
            why, fate = _ended(ad)
            seen = Seen(str(_number(ad, "ClusterId")), "", IndexSet(), Stage.OVER, why, fate=fate)
            found.setdefault(seen, []).append(_number(ad, TASK))
    return _together(found)


def _with_token(text: str) -> Iterator[Ad]:
    return (ad for ad in ads(text) if isinstance(ad.get(TOKEN), str))


def _foreign(ad: Ad) -> str:
    """Return what shows that a job is none of ours; empty: nothing does."""
    for name in ("ClusterId", TASK):
        try:
            _number(ad, name)
        except BatchUnreachable as oddity:
            return f"{oddity} with {TOKEN} = {one_line(str(ad[TOKEN]))[:60]!r}"
    return ""


def _together(found: dict[Seen, list[int]]) -> list[Seen]:
    return [Seen(e.job, e.token, IndexSet.of(tasks), e.stage, e.why, e.never, e.fate) for e, tasks in found.items()]


def _shown(ad: Ad) -> Seen:
    """Return what an ad shows, without its tasks."""
    job, token = str(_number(ad, "ClusterId")), str(ad[TOKEN])
    status, starts = _number(ad, "JobStatus"), _number(ad, "NumJobStarts", 0)
    code, why = _number(ad, "HoldReasonCode", 0), _words(ad, "HoldReason")
    if status in _RUNS:
        return Seen(job, token, IndexSet(), Stage.RUNNING)
    if status == _IDLE and not starts:
        return Seen(job, token, IndexSet(), Stage.WAITING)
    if status == _HELD and code in _BY_HAND and not starts:
        return Seen(job, token, IndexSet(), Stage.WAITING, f"on hold: {why}" if why else "on hold")
    if status == _HELD:
        return Seen(job, token, IndexSet(), Stage.OVER, why or f"held, HoldReasonCode {code}", fate=_FATES.get(code))
    if status == _IDLE:
        return Seen(job, token, IndexSet(), Stage.OVER, _evicted(ad), fate=Fate.MACHINE_LOST)
    if status == _COMPLETED:
        why, fate = _ended(ad)
        return Seen(job, token, IndexSet(), Stage.OVER, why, fate=fate)
    raise BatchUnreachable(f"{WHO} shows the JobStatus {status}")


def _ended(ad: Ad) -> tuple[str, Fate | None]:
    """Return why, and by which fate, a job ended that is completed or removed."""
    before, starts = _number(ad, "LastJobStatus", 0), _number(ad, "NumJobStarts", 0)
    if _number(ad, "JobStatus") == _REMOVED:
        code = _number(ad, "LastHoldReasonCode", _number(ad, "HoldReasonCode", 0))
        if before == _HELD:
            held = _words(ad, "LastHoldReason") or _words(ad, "HoldReason")
            return held or f"held, HoldReasonCode {code}", _FATES.get(code)
        if before == _IDLE and starts:
            return _evicted(ad), Fate.MACHINE_LOST
        return _words(ad, "RemoveReason") or "removed", None
    if starts > 1:
        # The second time it found its gate taken.
        return _evicted(ad), Fate.MACHINE_LOST
    if ad.get("ExitBySignal") is True:
        return f"signal {_number(ad, 'ExitSignal', 0)}", None
    return f"exit code {_number(ad, 'ExitCode', 0)}", None


def _evicted(ad: Ad) -> str:
    host = _words(ad, "LastRemoteHost")
    return f"evicted from {host}" if host else "evicted"


@understood(WHO, lines=False)
def capacity(slots: str, version: str, limits: str, domain: str, ours: int) -> ClusterCapacity:
    """Read the capacity from `condor_status -json` with SLOT_ATTRIBUTES and NOT_DYNAMIC, and `condor_config_val` of
    LIMITS. `domain`: only machines of this FILESYSTEM_DOMAIN count; empty: all do. `ours`: processors our own jobs
    hold."""
    total = used = widest = memory = gpus = all_gpus = 0
    for ad in ads(slots):
        if ad.get("Offline") is True or not _shares(ad, domain):
            continue
        state, free = ad.get("State"), _number(ad, "Cpus", 0)
        partitionable = ad.get("SlotType") == "Partitionable"
        has = max(free, _number(ad, "TotalSlotCpus", 0)) if partitionable else free
        busy = has - free if partitionable else has if state in ("Claimed", "Matched", "Preempting") else 0
        if state in ("Owner", "Drained", "Delete", "Backfill"):
            # Jobs that run there still end.
            total, used = total + busy, used + busy
            continue
        devices = max(_number(ad, "TotalSlotGPUs", 0), _number(ad, "GPUs", 0))
        total, used = total + has, used + busy
        widest = max(widest, has)
        memory = max(memory, _number(ad, "TotalSlotMemory" if partitionable else "Memory", 0) << 20)
        gpus, all_gpus = max(gpus, devices), all_gpus + devices
    each, owner, everybody = _limits(limits)
    return ClusterCapacity(
        version=version,
        slots=total,
        others=max(0, used - ours),
        memory_bytes=memory,
        widest=widest,
        gpus=gpus,
        all_gpus=all_gpus,
        most_tasks=max(1, min(each or _MOST_PER_SUBMISSION, owner or _NO_LIMIT, everybody or _NO_LIMIT)),
        most_jobs=min(owner or _NO_LIMIT, everybody or _NO_LIMIT) % _NO_LIMIT,
    )


@understood(WHO, lines=False)
def strangers(slots: str, domain: str) -> bool:
    """True if there are machines, all of them of other FILESYSTEM_DOMAINs."""
    found = ads(slots)
    return bool(found) and not any(_shares(ad, domain) for ad in found)


def _shares(ad: Ad, domain: str) -> bool:
    return not domain or str(ad.get("FileSystemDomain", "")).lower() == domain.lower()


def _limits(text: str) -> list[int]:
    """Read the values of LIMITS; 0 where there is none."""
    said = [int(line) if line.strip().isdecimal() else 0 for line in text.splitlines()]
    return [*said, 0, 0, 0][: len(LIMITS)]


@understood(WHO)
def version(text: str) -> str:
    """Read the version from `$CondorVersion: 23.9.6 2024-08-08 ... $`."""
    found = re.search(r"\$CondorVersion: (\d+\.\d+\S*)", text)
    if found is None:
        raise BatchUnreachable(f"condor_version says {text.strip()[:100]!r}")
    return found[1]


def _number(ad: Ad, name: str, default: int | None = None) -> int:
    value = ad.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TASKS * 10:
        return value
    if default is None:
        raise BatchUnreachable(f"{WHO} tells {name} = {str(value)[:60]!r} of a job")
    return default


def _words(ad: Ad, name: str) -> str:
    """Return a text on one line; empty where the ad says nothing."""
    value = ad.get(name)
    return " ".join(value.split())[:300] if isinstance(value, str) else ""
