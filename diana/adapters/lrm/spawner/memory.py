"""Memory and processes of running jobs, of each with all its children: what it is now, what it was at most, and who
has too much.

It is sampled: the resident memory of all processes in a job's control group or, where it has none, of those that
descend from the job's, are of its session or bear its mark. Pages that several of them share are counted once before
anybody is ended for them. What a job takes and gives back between two samples is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress

from diana.adapters.lrm.cgroups.per_job import JobCgroups
from diana.adapters.lrm.spawner.behind.marks import mark_of
from diana.adapters.lrm.spawner.identity import boot_s, stat_fields
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.protocol import MOST_PROCESSES

LIMITED_S, OTHERS_S = 0.25, 2.0
"""Seconds between two samples while jobs with a limit run, and while others do."""
_SHARE = 25
"""Most of the spawner's time that samples take: one part of so many."""
_PARENT, _SESSION, _RESIDENT = 1, 3, 21
"""Positions in /proc/PID/stat, counted from the state letter."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_TO_GO = b"500"


def first_to_go(pid: int) -> None:
    """Have the kernel end this process before ours, and before those of other users, when the machine is out of
    memory."""
    with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
        file.write(_FIRST_TO_GO)


class MemoryWatch:
    def __init__(self, cgroups: JobCgroups) -> None:
        self._cgroups = cgroups
        self.most_processes = MOST_PROCESSES
        self._sampled_s = 0.0
        self._took_s = 0.0

    def over(self, running: Collection[Job]) -> list[Job]:
        """Sample, if it is time; return the jobs that have more than they may. It notes what each has."""
        began_s = boot_s()
        # A job with a limit that began a moment ago does not wait for the next sample of those without one.
        limited = any(job.claim.record.memory_bytes for job in running) or _machines_tasks() > self.most_processes
        every_s = LIMITED_S if limited else OTHERS_S
        if not running or began_s < self._sampled_s + max(every_s, _SHARE * self._took_s):
            return []
        over = []
        for job, (pids, resident) in families(running, self._cgroups).items():
            limit, used = job.claim.record.memory_bytes, resident
            if 0 < limit < used:
                used = sum(map(_own_bytes, pids))
                if used > limit:
                    job.over_bytes = used
                    over.append(job)
            job.peak_bytes = max(job.peak_bytes, used)
            if len(pids) > self.most_processes and job not in over:
                job.over_processes = len(pids)
                over.append(job)
        self._sampled_s = boot_s()
        self._took_s = self._sampled_s - began_s
        return over


def _machines_tasks() -> int:
    """Return how many processes and threads the machine has; 0: it does not tell. No job has more."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def families(jobs: Iterable[Job], cgroups: JobCgroups) -> dict[Job, tuple[list[int], int]]:
    """Return each job's processes, and their resident memory in bytes."""
    out, others = {}, []
    for job in jobs:
        pids = cgroups.pids(job.cgroup) if job.cgroup else []
        # Something else may have taken its leader out of its group, and then more than that.
        if job.pid in pids:
            out[job] = pids, sum(map(_resident_bytes, pids))
        else:
            others.append(job)
    return out | _by_parents(others) if others else out


def _by_parents(jobs: Iterable[Job]) -> dict[Job, tuple[list[int], int]]:
    by_leader = {job.pid: job for job in jobs if job.pid}
    by_mark = {job.mark: job for job in by_leader.values() if job.mark}
    # What an earlier spawner's job left has another parent than us.
    anywhere, mine = any(job.adopted for job in by_mark.values()), os.getpid()
    owner: dict[int, Job | None] = dict(by_leader)
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := stat_fields(int(name))) is not None:
            pid = int(name)
            parents[pid], resident[pid] = int(fields[_PARENT]), int(fields[_RESIDENT]) * _PAGE_BYTES
            leader = by_leader.get(int(fields[_SESSION]))
            if leader is None and by_mark and (anywhere or parents[pid] == mine):
                leader = by_mark.get(mark_of(pid))
            if leader is not None:
                owner[pid] = leader
    pids: dict[Job, list[int]] = {}
    for pid in resident:
        way = []
        at = pid
        while at and at not in owner:
            way.append(at)
            at = parents.get(at, 0)
        found = owner.get(at)
        owner.update(dict.fromkeys(way, found))
        if found is not None:
            pids.setdefault(found, []).append(pid)
    return {job: (each, sum(map(resident.__getitem__, each))) for job, each in pids.items()}


def _own_bytes(pid: int) -> int:
    """The process's memory, of pages that it shares its part; all of it where we may not look."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        pass
    return _resident_bytes(pid)


def _resident_bytes(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[_RESIDENT]) * _PAGE_BYTES if fields is not None else 0
