"""The groups of a workload entry with `trace`: jobs of a log as columns, those that a seed takes, who submits where.

Nothing here is an object per job: a log is the arrays of `swf.py`, read once per process, and a group is a slice of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.kernel import chance
from diana.sim.load import bursts, swf
from diana.sim.load import generators as gen
from diana.sim.load.usable import usable
from diana.sim.specs.capacity import allowed, capacity, largest, machines
from diana.sim.specs.names import as_site_name
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.trace_spec import TraceSpec
from diana.sim.specs.work_spec import WorkSpec, home_of

LOGS_KEPT = 8
"""Logs a process keeps in memory, 120 bytes a job."""
LEAST_S = 1e-6
"""Least work that is declared."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a log's jobs: `jobs` and those left out, by reason, are together all of them."""

    file: str
    jobs_in_trace: int
    jobs: int
    groups: int
    users: int
    from_s: float
    to_s: float
    """Times when the first and the last of them came, in seconds of the log."""
    load: float
    """Run time x processors over what the sites it may run at can do in the time it takes to come."""
    left_out: dict[str, int]
    noticed: dict[str, int]
    """Oddities of the file that did not hinder reading it."""


class Taken(NamedTuple):
    """A row per group, in order of submission, and the run times of all jobs, one group's after the other."""

    submit_s: gen.Floats
    begin: gen.Ints
    """Place in `run_s` where its jobs begin; one entry more for the end."""
    processors: gen.Ints
    work_s: gen.Floats
    user: gen.Ints
    """Place in `users`."""
    home: gen.Ints
    """Place in the scenario's sites."""
    run_s: gen.Floats
    users: tuple[str, ...]
    account: Account

    def __len__(self) -> int:
        return len(self.submit_s)


class TracedGroup(NamedTuple):
    work: WorkSpec
    first: int
    """The number of its first job among the entry's."""
    run_s: gen.Floats
    """Run time of each of its jobs, at speed 1.0."""


def taken(work: WorkSpec, spec: TraceSpec, scenario: Scenario, seed: int) -> Taken:
    """The jobs that a seed takes; they depend on the log, the seed and the entry alone. UsageError names the file and
    the mend."""
    log = _log(spec.file)
    jobs = log.jobs
    rows, left_out = usable(log, largest(work, scenario), spec.partition if spec.partition >= 0 else None)
    earlier = rows
    rows = _kept(rows, _within(jobs.submit_s[rows], spec), left_out, "outside_window")
    homes = _homes(work, spec, scenario, log, rows, seed)
    kept = homes >= 0
    homes, rows = homes[kept], _kept(rows, kept, left_out, "no_home")
    cut = _cut(jobs.submit_s[rows], spec, chance.columns(seed, f"{work.name}/cut"))
    left_out |= {"outside_cut": len(rows) - len(cut)} if len(cut) < len(rows) else {}
    rows, homes = rows[cut], homes[cut]
    if not len(rows):
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise UsageError(f"trace {spec.file}: none of its jobs is left ({why}); workload {work.name} wants some")
    submit_s, run_s = jobs.submit_s[rows], jobs.run_s[rows]
    width, user = jobs.processors[rows], jobs.user[rows]
    order, begin = bursts.grouped(submit_s, (user, homes, width), spec.bulk_gap_s, spec.bulk_span_s, spec.bulk_jobs)
    heads = order[begin[:-1]]
    times_s, load = _times(work, spec, scenario, submit_s, run_s * width)
    declared_s = _declared(spec, work, jobs, earlier, rows[order], begin)
    account = Account(
        file=Path(spec.file).name,
        jobs_in_trace=len(jobs),
        jobs=len(rows),
        groups=len(heads),
        users=len(np.unique(user)),
        from_s=float(submit_s[0]),
        to_s=float(submit_s[-1]),
        load=round(load, 6),
        left_out=left_out,
        noticed=log.noticed(),
    )
    people, who = np.unique(user[heads], return_inverse=True)
    names, came_s = _users(work, scenario, people.tolist()), work.submit_s + times_s[heads]
    return Taken(came_s, begin, width[heads], declared_s, who, homes[heads], run_s[order], names, account)


def account(work: WorkSpec, scenario: Scenario, seed: int = 0) -> Account | None:
    """The account of an entry's trace; None: it has none."""
    return taken(work, work.trace, scenario, seed).account if work.trace else None


def groups(work: WorkSpec, scenario: Scenario, some: Taken) -> Iterator[TracedGroup]:
    """Groups, each as an entry of its own, named NAME, NAME-2, ..., in order of submission."""
    plain, sites = replace(work, trace=None), [site.name for site in scenario.sites]
    begin = some.begin.tolist()
    columns = (some.submit_s, some.processors, some.work_s, some.user, some.home)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for number, (submit_s, processors, work_s, user, home) in enumerate(rows):
        first, end = begin[number], begin[number + 1]
        one = replace(
            plain,
            name=work.name if number == 0 else f"{work.name}-{number + 1}",
            site=sites[home],
            jobs=end - first,
            user=some.users[user],
            work_s=work_s,
            processors=processors,
            submit_s=submit_s,
        )
        yield TracedGroup(one, first, some.run_s[first:end])


def _users(work: WorkSpec, scenario: Scenario, numbers: list[int]) -> tuple[str, ...]:
    """Users of two logs are not the same ones, whatever their numbers."""
    vo, prefix = scenario.users[0].name.partition("@")[2], as_site_name(work.name) or "trace"
    return tuple(f"{prefix}-u{number if number >= 0 else 'nknown'}@{vo}" for number in numbers)


# --- which jobs --------------------------------------------------------------------------------------


def _log(file: str) -> swf.SwfLog:
    """The log as it is on disk now."""
    try:
        about = Path(file).stat()
    except OSError as error:
        raise UsageError(f"trace {file}: {(error.strerror or str(error)).lower()}; name a readable SWF file") from None
    return _read(file, about.st_mtime_ns, about.st_size)


@lru_cache(LOGS_KEPT)
def _read(file: str, changed_ns: int, size_bytes: int) -> swf.SwfLog:
    return swf.read(Path(file))


def _within(submit_s: swf.Real, spec: TraceSpec) -> bursts.Mask:
    inside: bursts.Mask = submit_s >= spec.from_s
    return inside & (submit_s < spec.to_s) if spec.to_s else inside


def _kept(rows: swf.Whole, which: bursts.Mask, left_out: dict[str, int], reason: str) -> swf.Whole:
    if gone := int((~which).sum()):
        left_out[reason] = gone
    return rows[which]


def _cut(submit_s: swf.Real, spec: TraceSpec, rng: np.random.Generator) -> swf.Whole:
    """Places of what is taken; `submit_s` rises."""
    count = len(submit_s)
    if spec.span_s and count:
        # It begins with a job, so that there is one, and early enough to be whole.
        some = max(1, int(np.searchsorted(submit_s, submit_s[-1] - spec.span_s, side="right")))
        begin = int(rng.integers(some))
        return np.arange(begin, int(np.searchsorted(submit_s, submit_s[begin] + spec.span_s)))
    wanted = min(spec.first or count, count)
    begin = int(rng.integers(count - wanted + 1)) if spec.cut else 0
    return np.arange(begin, begin + wanted)


def _times(
    work: WorkSpec, spec: TraceSpec, scenario: Scenario, submit_s: swf.Real, work_s: swf.Real
) -> tuple[swf.Real, float]:
    """Time of each job, from 0, and the load that they bring. A gap for the last one is added to the time they take."""
    times_s = (submit_s - submit_s[0]) * spec.time_scale
    span_s = float(times_s[-1]) * len(times_s) / max(1, len(times_s) - 1)
    offered_s, can = float(work_s.sum()), capacity(work, scenario)
    if not spec.load:
        return times_s, offered_s / (can * span_s) if can * span_s > 0 else 0.0
    if span_s <= 0:
        raise UsageError(
            f"workload {work.name}: trace: load = {spec.load:g}: all of its jobs come at one time; take more of them"
        )
    return gen.scaled_to_load(times_s, span_s, offered_s, can, spec.load), spec.load


# --- from where --------------------------------------------------------------------------------------


def _homes(
    work: WorkSpec, spec: TraceSpec, scenario: Scenario, log: swf.SwfLog, rows: swf.Whole, seed: int
) -> swf.Whole:
    """A place in the scenario's sites for each of the rows; -1: it has none."""
    home, places = home_of(work, spec), {site.name: at for at, site in enumerate(scenario.sites)}
    users, which = np.unique(log.jobs.user[rows], return_inverse=True)
    if isinstance(home, dict):
        of_user = [places[home.get(str(user), work.site)] for user in users.tolist()]
        return np.array(of_user, np.int64)[which]
    if home == "site":
        return np.full(len(rows), places[work.site])
    if home == "user":
        return _drawn_homes(work, scenario, users, seed)[which]
    partitions, part = np.unique(log.jobs.partition[rows], return_inverse=True)
    site_of = np.array([_site_of(number, spec, log, places) for number in partitions.tolist()], np.int64)
    if home == "partition-most-used":
        here = site_of >= 0 if spec.elsewhere != "refuse" else np.ones(len(partitions), np.bool_)
        chosen = bursts.most_used(which, part, here, len(users))[which]
    else:
        chosen = part
    found: swf.Whole = site_of[chosen]
    if spec.elsewhere == "drawn":
        return np.where(found >= 0, found, _drawn_homes(work, scenario, users, seed)[which])
    if spec.elsewhere == "refuse" and len(found) and found.min() < 0:
        raise UsageError(_homeless(work, log, int(partitions[chosen[found < 0][0]]), int((found < 0).sum())))
    return found


def _site_of(number: int, spec: TraceSpec, log: swf.SwfLog, places: dict[str, int]) -> int:
    said = partition_names(log).get(number, "")
    for name in (spec.partitions.get(str(number)), as_site_name(said), str(number)):
        if name in places:
            return places[name]
    return -1


def partition_names(log: swf.SwfLog) -> dict[int, str]:
    """Names that the header gives partitions, as in `; Partition: 40 lxgate13.cern.ch`."""
    rows = (value.split(None, 1) for value in log.header.get("Partition", ()))
    named = ((swf.header_number(row[0]), row[1].strip()) for row in rows if len(row) == 2)
    return {number: name for number, name in named if number is not None}


def _homeless(work: WorkSpec, log: swf.SwfLog, partition: int, jobs: int) -> str:
    at = f"trace {log.name}: workload {work.name}: home"
    if partition < 0:
        return f"{at}: {jobs} jobs name no partition; say another `home`, as 'site' or 'user'"
    name = partition_names(log).get(partition)
    called = f"{partition} ({name})" if name else f"{partition}"
    return (
        f"{at}: {jobs} jobs have a partition for home that is no site, the first {called}; add that site, name one "
        f"in `partitions`, or say elsewhere = 'leave-out' or 'drawn'"
    )


def _drawn_homes(work: WorkSpec, scenario: Scenario, users: swf.Whole, seed: int) -> swf.Whole:
    """A home for each user, drawn by slots; it depends on the user's number and the seed, not on who else is there."""
    names = {site.name for site in allowed(work, scenario)}
    slots = [sum(n for n, _ in machines(scenario, site)) * (site.name in names) for site in scenario.sites]
    upto, luck = np.cumsum(slots, dtype=np.float64), chance.text_seed(seed, f"{work.name}/homes")
    draws = np.array([chance.fraction(luck, user) for user in users.tolist()])
    places: swf.Whole = np.searchsorted(upto, draws * upto[-1], side="right").astype(np.int64)
    return places


# --- what is declared --------------------------------------------------------------------------------


def _declared(
    spec: TraceSpec, work: WorkSpec, jobs: swf.SwfColumns, earlier: swf.Whole, rows: swf.Whole, begin: gen.Ints
) -> gen.Floats:
    """Declared work of each group; `rows` are its jobs in the log, one group's after the other."""
    if spec.estimate == "true-mean":
        return np.maximum(LEAST_S, bursts.means(jobs.run_s[rows], np.ones(len(rows)), begin)[0])
    heads = rows[begin[:-1]]
    known_s = bursts.history(jobs, earlier, jobs.user[heads], jobs.submit_s[heads])
    known_s = np.where(np.isnan(known_s), work.work_s, known_s)
    if spec.estimate == "requested":
        requested_s = jobs.requested_s[rows]
        mean_s, count = bursts.means(requested_s, (requested_s > 0).astype(np.float64), begin)
        known_s = np.where(count > 0, mean_s, known_s)
    return np.maximum(LEAST_S, known_s)
