"""Checks of an entry whose jobs are those of a log, or of a site's history."""

from __future__ import annotations

import math

import msgspec

from diana.sim.specs.capacity import capacity
from diana.sim.specs.gang_spec import CommunicationSpec
from diana.sim.specs.names import known
from diana.sim.specs.resources_spec import RESOURCE_KEYS
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.trace_spec import TraceSpec
from diana.sim.specs.work_spec import WorkSpec, home_of

_NEVER = {
    **dict.fromkeys(("user", "after", "produces"), "the trace says who submits, and nothing waits for anything"),
    **dict.fromkeys(("jobs", "repeat", "every_s", "processors"), "the trace says how many jobs come when, how wide"),
    **dict.fromkeys(("true_work_s", "spread"), "the trace says how long its jobs run"),
    **dict.fromkeys(("forced", "merge", "generate", "file_per_job"), "not both"),
    **dict.fromkeys(("cancel_s", "hold_s", "release_s", "retry_s", "moves"), "orders name one group"),
}
"""Keys of an entry that make no sense beside `trace`, with the reason."""
_TOLD = (
    "work_s", "fail_fraction", "components", *RESOURCE_KEYS, "inputs", "output_bytes", "sites", "max_subgroup", "trace",
)  # fmt: skip
"""More of them that make none beside `history`."""


def check_history(work: WorkSpec, scenario: Scenario) -> None:
    """ValueError names the key, the value and the mend. The file itself is not looked at."""
    spec, at = work.history, f"workload {work.name}: history"
    if spec is None:
        return
    if not work.site:
        raise ValueError(f"{at}: the entry has no site; name the one it is the history of with `site`")
    if scenario.communication != CommunicationSpec():
        raise ValueError(f"{at}: its run times are those over the sites of then; leave out [communication], or it")
    fields = {field.name: field.default for field in msgspec.structs.fields(work)}
    told = (*_NEVER, *_TOLD)
    for key in told:
        if getattr(work, key) and getattr(work, key) != fields[key]:
            raise ValueError(f"{at} and {key}: the history says that of each group; leave one of the two out")
    if not 1e-9 <= spec.time_scale <= 1e9:
        raise ValueError(f"{at}: time_scale = {spec.time_scale}: want 1e-09 to 1e+09")


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
