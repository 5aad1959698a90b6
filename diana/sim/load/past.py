"""The groups of a workload entry with `history`: a site's own past, as `diana history export` wrote it.

A history is a log in the Standard Workload Format whose comments say what the format has no field for. A line
`; Group: N {...}` stands before the jobs whose field 14 is N, and `; PartitionSpeed: N X` gives the speed of the site
of field 16, which turns a run time there into work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from diana.errors import UsageError, one_line
from diana.model.indexset import IndexSet
from diana.model.job.components import components_of
from diana.sim.kernel import chance
from diana.sim.load import generators as gen
from diana.sim.load import swf
from diana.sim.specs.resources_spec import ResourcesSpec, check_resources
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.trace_spec import HistorySpec
from diana.sim.specs.work_spec import WorkSpec

DAY_S = 86_400.0
MOST_JOBS = 10_000_000
"""Jobs of one group."""
FORMAT = 1
"""Version of the comments."""
GROUP, SPEED, PARTITION, QUEUE, USER, VERSION = "Group", "PartitionSpeed", "Partition", "Queue", "User", "Diana"
"""Keys of the comments."""


class OrderNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order of a user about jobs of a group."""

    after_s: float
    """Seconds after the submission."""
    kind: str
    """cancel, hold, release, move or retry."""
    jobs: str = ""
    """Jobs it was about, as ranges from 0; empty: the whole group."""
    to: str = ""
    """The site of a move; empty: wherever it was best."""


class GroupNote(ResourcesSpec, frozen=True, kw_only=True, omit_defaults=True):
    """The comment before the jobs of a group."""

    name: str
    user: str = ""
    submit_s: float = 0.0
    """Seconds after the start of the log."""
    jobs: int = 0
    """Jobs it was submitted with, also those that never ran."""
    over: bool = True
    """False: it was not over when this was written."""
    work_s: float = 0.0
    """Declared; 0: nothing was."""
    processors: int = 1
    components: str = ""
    memory_bytes: int = 0
    datasets: tuple[str, ...] = ()
    file_per_job: bool = False
    output_bytes: int = 0
    """Mean of its jobs that wrote any."""
    bytes_in: int = 0
    sites: tuple[str, ...] = ()
    max_subgroup: int = 0
    max_parallel: int = 0
    on_crash: str = ""
    on_site_lost: str = ""
    retried: int = 0
    ran: str = ""
    """Jobs that the log has lines of, as ranges from 0; empty: all of them."""
    orders: tuple[OrderNote, ...] = ()
    earlier: tuple[tuple[float, ...], ...] = ()
    """Jobs that were tried again: (job, seconds at speed 1.0 of each attempt that failed)."""
    foretold_after_s: float = 0.0
    """Seconds after the submission when its end was foretold first."""
    foretold_s: float = 0.0
    """The end as it was foretold then, in seconds from then; 0: it was not."""
    low_s: float = 0.0
    """`low_s` and `high_s`: the range told with it."""
    high_s: float = 0.0


class PastJobs(NamedTuple):
    """The jobs of one group that ran, in order of their index."""

    note: GroupNote
    submit_s: float
    wait_s: swf.Real
    run_s: swf.Real
    """At the site where it ran."""
    work_s: swf.Real
    """`run_s` times the speed of that site."""
    status: swf.Whole
    partition: swf.Whole

    def end_s(self) -> float:
        """Seconds after submission until its last job ended."""
        return float((self.wait_s + self.run_s).max(initial=0.0))


class History(NamedTuple):
    """One site's past."""

    file: str
    groups: tuple[PastJobs, ...]
    """Groups of which some job ran, in order of submission."""
    never_ran: int
    """Groups of which none did."""
    site_of: dict[int, str]
    """Number of field 16 -> site."""
    start_wall_s: float
    """Start of the log, in seconds since 1970; 0: not said."""


def read(path: str) -> History:
    """Read a history. UsageError names the file, the comment and the mend."""
    try:
        about = Path(path).stat()
    except OSError as error:
        raise UsageError(f"history {path}: {(error.strerror or str(error)).lower()}; name a readable file") from None
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(4)
def _read(path: str, changed_ns: int, size_bytes: int) -> History:
    # A site without a job of its own in the span tells of itself alone, as a part of a grid's history.
    log = swf.read(Path(path), may_be_empty=True)
    version = log.header.get(VERSION, ("",))[0].split(" ")[0]
    if version != str(FORMAT):
        said = f"says {version!r}" if version else "has no comment `; Diana: 1`"
        raise UsageError(f"history {path}: it {said}, and this release reads version {FORMAT}: export it again")
    notes = dict(_note(path, text) for text in log.header.get(GROUP, ()))
    speeds = {number: _speed(path, text) for number, text in _numbered(log, SPEED).items()}
    jobs = log.jobs
    ran = np.flatnonzero((jobs.run_s > 0) & (jobs.wait_s >= 0))
    ran = ran[np.argsort(jobs.executable[ran], kind="stable")]
    numbers, begins = np.unique(jobs.executable[ran], return_index=True)
    ends = [*begins.tolist()[1:], len(ran)]
    groups = []
    for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=False):
        if number not in notes:
            raise UsageError(
                f"history {path}: jobs of group {number} without a comment `; Group: {number}`: export it again"
            )
        rows, note = ran[begin:end], notes[number]
        partition, run = jobs.partition[rows], jobs.run_s[rows]
        pace = np.array([speeds.get(one, 1.0) for one in partition.tolist()])
        groups.append(
            PastJobs(
                note,
                note.submit_s,
                jobs.wait_s[rows],
                run,
                run * pace,
                jobs.status[rows],
                partition,
            )
        )
    start = swf.header_number(log.header.get("UnixStartTime", ("0",))[0]) or 0
    return History(
        file=path,
        groups=tuple(sorted(groups, key=lambda one: one.submit_s)),
        never_ran=len(notes) - len(groups),
        site_of=_numbered(log, PARTITION),
        start_wall_s=float(start),
    )


def _note(path: str, text: str) -> tuple[int, GroupNote]:
    number, _, rest = text.partition(" ")
    try:
        note = msgspec.json.decode(rest, type=GroupNote)
        if note.components:
            components_of(note.components)
        check_resources(note, "its jobs")
        for some in (note.ran, *(order.jobs for order in note.orders)):
            if some and IndexSet.parse(some).bounds[-1] > note.jobs:
                raise ValueError(f"jobs {some[:40]} of {note.jobs}")
        if not 0 <= note.jobs <= MOST_JOBS:
            raise ValueError(f"{note.jobs} jobs: want {MOST_JOBS:,} at most")
        return int(number[:18]), note
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"history {path}: comment `; Group: {number[:18]}`: {one_line(str(error))}; export it again"
        ) from None


def _numbered(log: swf.SwfLog, key: str) -> dict[int, str]:
    rows = (value.split(None, 1) for value in log.header.get(key, ()))
    named = ((swf.header_number(row[0]), row[1].strip()) for row in rows if len(row) == 2)
    return {number: text for number, text in named if number is not None}


def _speed(path: str, text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 < speed <= 1e6:
        raise UsageError(f"history {path}: comment `; {SPEED}`: {text[:40]!r}: want a speed above 0; export it again")
    return speed


class PastWork(NamedTuple):
    work: WorkSpec
    first: int
    """Number of its first job among the entry's."""
    run_s: gen.Floats
    """Run time of each of its jobs at speed 1.0; of a gang, of each of its components."""
    failed: frozenset[int] = frozenset()
    """Jobs whose last attempt failed."""
    earlier: Mapping[int, tuple[float, ...]] = MappingProxyType({})
    """Job -> seconds at speed 1.0 of its earlier attempts, which failed."""
    orders: tuple[OrderNote, ...] = ()


def groups(work: WorkSpec, spec: HistorySpec, scenario: Scenario, seed: int) -> Iterator[PastWork]:
    """The groups as entries of their own, by their names of then, in order of submission."""
    history, first = read(spec.file), 0
    plain = replace(work, history=None)
    known = {dataset.name for dataset in scenario.datasets}
    named = {site.name for site in scenario.sites}
    users = {user.name for user in scenario.users}
    for submit_s, past in _in_time(history.groups, spec, work, seed):
        note, failing, earlier = past.note, frozenset[int](), dict[int, tuple[float, ...]]()
        size = sum(each.count for each in components_of(note.components)) if note.components else 1
        run_s = past.work_s[: len(past.work_s) // size * size]
        if not len(run_s):
            continue
        failed = float(((past.status != 1) & (past.status != swf.CANCELLED)).mean())
        if not note.components:
            # Each job has its own fate; of gangs the share of components that failed is known.
            run_s, failing, earlier = _fates(history.file, past)
            failed = 0.0
        yield PastWork(
            replace(
                plain,
                name=note.name,
                jobs=len(run_s) // size,
                user=note.user if note.user in users else "",
                work_s=note.work_s,
                fail_fraction=failed,
                processors=note.processors,
                components=note.components,
                **note.said(),
                inputs=tuple(name for name in note.datasets if name in known),
                file_per_job=note.file_per_job and _enough(note, scenario, len(run_s)),
                output_bytes=note.output_bytes,
                sites=tuple(site for site in note.sites if site in named),
                max_subgroup=note.max_subgroup,
                max_parallel=note.max_parallel,
                on_crash="rerun" if note.on_crash == "rerun" else "hold",
                on_site_lost="rerun" if note.on_site_lost == "rerun" else "hold",
                submit_s=submit_s,
            ),
            first,
            run_s,
            failing,
            earlier,
            () if note.components else note.orders,
        )
        first += len(run_s)


def _fates(file: str, past: PastJobs) -> tuple[gen.Floats, frozenset[int], dict[int, tuple[float, ...]]]:
    """Run times at speed 1.0, jobs that failed, and earlier attempts, by job. Where users gave orders all jobs are
    there, those that never ran too: they are thought to be like the others."""
    note, work_s = past.note, past.work_s
    failed = (past.status != 1) & (past.status != swf.CANCELLED)
    indices = np.arange(len(work_s))
    if note.ran:
        ran = IndexSet.parse(note.ran)
        indices = np.array(list(ran) if len(ran) == len(work_s) else (), np.int64)
        if len(indices) != len(work_s):
            raise UsageError(
                f"history {file}: comment `; Group` of {note.name}: {len(ran)} jobs ran, and the log has "
                f"{len(work_s)} of them: export it again"
            )
    if note.orders and note.jobs >= len(work_s):
        whole = work_s[past.status == 1]
        usual_s = float(whole.mean()) if len(whole) else max(note.work_s, float(work_s.max()))
        all_s = np.full(note.jobs, usual_s)
        # What was cancelled while it ran would have run on.
        cut = past.status == swf.CANCELLED
        all_s[indices] = np.where(cut, np.maximum(work_s, usual_s), work_s)
        places, work_s = indices, all_s
    else:
        places = np.arange(len(work_s))
    place_of = dict(zip(indices.tolist(), places.tolist(), strict=True))
    earlier = {place_of[int(row[0])]: row[1:] for row in note.earlier if row and int(row[0]) in place_of}
    return work_s, frozenset(places[failed].tolist()), earlier


def _enough(note: GroupNote, scenario: Scenario, jobs: int) -> bool:
    """True if each job has a file of its own to read."""
    return sum(dataset.files for dataset in scenario.datasets if dataset.name in note.datasets) >= jobs


def _in_time(some: tuple[PastJobs, ...], spec: HistorySpec, work: WorkSpec, seed: int) -> list[tuple[float, PastJobs]]:
    times_s = [past.submit_s for past in some]
    if spec.shuffle_days and some:
        days = sorted({int(at_s // DAY_S) for at_s in times_s})
        order = chance.columns(seed, f"{work.name}/days").permutation(len(days)).tolist()
        moved = {day: days[order[place]] for place, day in enumerate(days)}
        times_s = [moved[int(at_s // DAY_S)] * DAY_S + at_s % DAY_S for at_s in times_s]
    rows = [(work.submit_s + at_s * spec.time_scale, past) for at_s, past in zip(times_s, some, strict=True)]
    return sorted(rows, key=lambda row: row[0])
