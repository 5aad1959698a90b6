"""The log of a scenario whose jobs are its workload: which of them, how fast, from where, in which groups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from diana.sim.specs.demand_spec import capacity
from diana.sim.specs.names import known

if TYPE_CHECKING:
    from diana.sim.scenario.scenario import Scenario, WorkSpec


class TraceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs of a log in the Standard Workload Format, with the run times it has for each of them (at speed 1.0).

    Usable are those of `docs/traces.md`; the first that is taken comes at the entry's `submit_s`. Their users are
    ENTRY-uNUMBER@VO."""

    file: str
    """Path from the scenario's folder; .swf or .swf.gz."""
    partition: int = -1
    """The partition whose jobs are taken (field 16); negative: all."""
    from_s: float = 0.0
    """Time in the log from which on jobs are taken, in seconds."""
    to_s: float = 0.0
    """Time in the log before which jobs are taken, in seconds; 0: to the end."""
    first: int = 0
    """Number of jobs taken, by submission; 0: all."""
    cut: Literal["", "drawn"] = ""
    """drawn: `first` jobs in succession, or those of `span_s` seconds, from a place in the log that the seed draws."""
    span_s: float = 0.0
    """Seconds of a drawn cut, all of whose jobs are taken; 0: `first` jobs."""
    time_scale: float = 1.0
    """Factor on all times between jobs."""
    load: float = 0.0
    """Load to scale to, instead of `time_scale`: run time x processors of the jobs taken, over what the sites they may
    run at can do in the time the jobs take to come. 0: not scaled."""
    home: dict[str, str] | Literal["", "site", "partition", "partition-most-used", "user"] = ""
    """Home of a job, where it is submitted. site: all at the entry's `site`; partition: where it ran;
    partition-most-used: where most of its user's jobs ran; user: each user at a site that the seed draws by slots; a
    table: user number -> site, others at `site`. Empty: `site` if the entry has one, else partition-most-used."""
    partitions: dict[str, str] = {}
    """Partition number -> site. Without it a site is found by the name that the header gives the partition (whatever
    a site's name cannot hold being a hyphen), or by its number."""
    elsewhere: Literal["refuse", "leave-out", "drawn"] = "refuse"
    """Treatment of jobs whose home is none of the sites. drawn: as `home = "user"` has it. With the latter two
    partition-most-used looks only among those that are sites, as long as a user has one."""
    bulk_gap_s: float = 0.0
    """Jobs of one user, home and number of processors, each at most so long after the one before, are one group, that
    comes with the first of them. 0: each job is a group."""
    bulk_span_s: float = 0.0
    """No job of a group came later than this after its first; 0: no limit."""
    bulk_jobs: int = 0
    """Most jobs of a group; 0: no limit."""
    estimate: Literal["requested", "history", "true-mean"] = "requested"
    """The work that is declared for each job of a group. requested: the mean of their requested times, where there is
    none as history; history: the mean run time of its user's earlier jobs that can have ended by then, or else of
    everybody's, or else the entry's `work_s`; true-mean: that of the group itself."""


_NEVER = {
    **dict.fromkeys(("user", "after", "produces"), "the trace says who submits, and nothing waits for anything"),
    **dict.fromkeys(("jobs", "repeat", "every_s", "processors"), "the trace says how many jobs come when, how wide"),
    **dict.fromkeys(("true_work_s", "spread"), "the trace says how long its jobs run"),
    **dict.fromkeys(("forced", "merge", "generate", "file_per_job"), "not both"),
    **dict.fromkeys(("cancel_s", "hold_s", "release_s", "retry_s", "moves"), "orders name one group"),
}
"""Keys of an entry that make no sense beside `trace`, with the reason."""


def placed(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with the logs' files as absolute paths, and with what was left out of them in the report."""
    if not any(work.trace for work in scenario.workload):
        return scenario
    workload = tuple(
        replace(work, trace=replace(work.trace, file=str((folder / work.trace.file).resolve()))) if work.trace else work
        for work in scenario.workload
    )
    report = scenario.report if "traces" in scenario.report else (*scenario.report, "traces")
    return replace(scenario, workload=workload, report=report)


def home_of(work: WorkSpec, spec: TraceSpec) -> dict[str, str] | str:
    return spec.home or ("site" if work.site else "partition-most-used")


def check_trace(work: WorkSpec, scenario: Scenario, sites: tuple[str, ...]) -> None:
    """ValueError names the key, the value and the mend. The file itself is not looked at."""
    spec, at = work.trace, f"workload {work.name}: trace"
    if spec is None:
        return
    fields = {field.name: field.default for field in msgspec.structs.fields(work)}
    for key, why in _NEVER.items():
        if getattr(work, key) and getattr(work, key) != fields[key]:
            raise ValueError(f"{at} and {key}: {why}; leave one of the two out")
    for key, low, high in (
        ("partition", -1, 2**53),
        ("from_s", 0, 1e12),
        ("to_s", 0, 1e12),
        ("first", 0, 10**12),
        ("span_s", 0, 1e12),
        ("time_scale", 1e-9, 1e9),
        ("load", 0, 1000),
        ("bulk_gap_s", 0, 1e9),
        ("bulk_span_s", 0, 1e9),
        ("bulk_jobs", 0, 10**9),
    ):
        value = getattr(spec, key)
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(f"{at}: {key} = {value}: want {low:g} to {high:g}")
    _check_cut(spec, at)
    _check_homes(work, spec, sites, at)
    if spec.load > 0 and spec.time_scale != 1.0:
        raise ValueError(f"{at}: load = {spec.load:g} sets the time between jobs, time_scale too; leave one out")
    if spec.load > 0 and capacity(work, scenario) <= 0:
        raise ValueError(f"{at}: load = {spec.load:g}: the sites it may run at have no slots; give them some")


def _check_cut(spec: TraceSpec, at: str) -> None:
    if spec.to_s and spec.to_s <= spec.from_s:
        raise ValueError(f"{at}: to_s = {spec.to_s:g}: want more than from_s = {spec.from_s:g}, or 0: to the end")
    if spec.cut and not (spec.first > 0) ^ (spec.span_s > 0):
        raise ValueError(f"{at}: cut = 'drawn': want either `first` jobs or those of `span_s` seconds; set one of them")
    if spec.span_s and not spec.cut:
        raise ValueError(f"{at}: span_s = {spec.span_s:g} is for cut = 'drawn'; set that, or from_s and to_s instead")
    for key in ("bulk_span_s", "bulk_jobs"):
        if getattr(spec, key) and not spec.bulk_gap_s:
            raise ValueError(f"{at}: {key} = {getattr(spec, key):g} limits groups that nothing makes; set bulk_gap_s")


def _check_homes(work: WorkSpec, spec: TraceSpec, sites: tuple[str, ...], at: str) -> None:
    home = home_of(work, spec)
    if not work.site and (home == "site" or isinstance(home, dict)):
        said = "a table" if isinstance(home, dict) else repr(home)
        raise ValueError(f"{at}: home = {said}: the entry has no site; name one with `site`")
    for key, table in (("home", home), ("partitions", spec.partitions)):
        for number, site in table.items() if isinstance(table, dict) else ():
            if not number.isdecimal():
                raise ValueError(f"{at}: {key}.{number}: want the number it has in the log, as 7")
            known(site, sites, f"{at}: {key}.{number}")
