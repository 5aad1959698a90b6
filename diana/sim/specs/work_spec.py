"""The work of a scenario: one entry of `[[workload]]`, and the moves its user asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from diana.model.job.spec import OnCrash, OnSiteLost
from diana.sim.specs.data_spec import DataSpec
from diana.sim.specs.demand_spec import GenerateSpec
from diana.sim.specs.machine_spec import check_wanted
from diana.sim.specs.names import known
from diana.sim.specs.trace_spec import TraceSpec

if TYPE_CHECKING:
    from diana.sim.scenario.scenario import Scenario


class MoveSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An order of the user that waiting jobs run elsewhere."""

    to: str
    """The site they go to."""
    at_s: float
    """Time when it is asked for."""
    first: int = 0
    """The first job that moves, counted from 0."""
    jobs: int = 0
    """Number of jobs, from the first on; 0: all."""


class WorkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bulk group."""

    name: str
    """Name for the report, and for `after`."""
    site: str = ""
    """Site where it is submitted."""
    jobs: int = 0
    """Jobs of each group; with `trace` the log says it."""
    user: str = ""
    """User who submits; empty: the first user."""
    work_s: float = 1.0
    """Run time at speed 1.0, as declared in the job file."""
    true_work_s: float = 0.0
    """True run time of its jobs where the declaration is wrong; 0: as declared."""
    spread: float = 0.0
    """True run times lie evenly in w * (1 - spread) .. w * (1 + spread), w being true_work_s or else work_s."""
    fail_fraction: float = 0.0
    """Share of jobs that exit 1."""
    processors: int = 1
    """Processors per job."""
    gpus: int = 0
    """GPUs per job."""
    container: str = ""
    """The image its jobs run in; empty: none."""
    modules: tuple[str, ...] = ()
    """Modules that are made ready before each job, by name."""
    inputs: tuple[str, ...] = ()
    """Datasets; with `file_per_job`, job k reads file k of their files laid end to end, else all of them."""
    file_per_job: bool = False
    """True: each job reads one file of its inputs, see there."""
    output_bytes: int = 0
    """Bytes of output per job, gathered at the submitter's site; 0: none."""
    merge: bool = False
    """True: a command is run once in the end, in the folder of the gathered outputs."""
    after: tuple[str, ...] = ()
    """Entries to wait for, beside those that produce its `inputs`. Entries that hang together are one submission, made
    when the first of them is due."""
    produces: str = ""
    """Name of the dataset that the outputs become, its files `0.out`, `1.out`, ..."""
    sites: tuple[str, ...] = ()
    """Sites it may run at; none named: any."""
    forced: dict[str, int] = {}
    """Site -> jobs: this plan instead of the planner's, as one group per site that may run nowhere else. Jobs, with
    their files, are dealt out in the order written. Reported as one entry."""
    max_subgroup: int = 0
    """Largest part given to one site, in jobs; 0: as the settings say."""
    max_parallel: int = 0
    """Jobs running at once over all sites; 0: no limit."""
    on_crash: OnCrash = "hold"
    """A job whose machine went down while it ran: held, or run again."""
    on_site_lost: OnSiteLost = "hold"
    """Jobs at a site that fell silent: they wait for it, or run again elsewhere."""
    submit_s: float = 0.0
    """Time when it comes."""
    cancel_s: float = -1.0
    """Site time of a cancel; negative: never."""
    hold_s: float = -1.0
    """Time when it is held; negative: never."""
    release_s: float = -1.0
    """Time when it is released, after the hold was answered; negative: never."""
    retry_s: float = -1.0
    """Time when the jobs that have failed by then are tried again, with another luck; negative: never."""
    moves: tuple[MoveSpec, ...] = ()
    repeat: int = 1
    """This many such groups, `every_s` apart, named NAME, NAME-2, ..."""
    every_s: float = 0.0
    """Seconds between two of them."""
    generate: GenerateSpec | None = None
    """Model that its groups are drawn from."""
    trace: TraceSpec | None = None
    """Log whose jobs its groups are."""
    data: DataSpec | None = None
    """Draw of a dataset for each of its groups to read."""


def check_numbered(workload: tuple[WorkSpec, ...]) -> None:
    """ValueError: an entry has no name, or that of a group of another one, which are numbered from the second on."""
    repeats = {work.name: work.repeat if work.trace is None else 10**12 for work in workload}
    for place, work in enumerate(workload):
        if not work.name:
            raise ValueError(f"workload[{place}]: name is empty; give the entry one")
        name, _, number = work.name.rpartition("-")
        if number.isdecimal() and str(int(number)) == number and 2 <= int(number) <= repeats.get(name, 1):
            raise ValueError(f"workload {work.name}: group {number} of {name!r} has this name; names must differ")


def check_work(work: WorkSpec, scenario: Scenario, names: tuple[str, ...], users: tuple[str, ...]) -> None:
    """ValueError names the entry, the key, and the range or the nearest name."""
    at = f"workload {work.name}"
    home = (work.site,) if work.site or work.trace is None else ()
    moves = tuple(move.to for move in work.moves)
    for key, some in (("site", home), ("sites", work.sites), ("forced", tuple(work.forced)), ("moves: to", moves)):
        for site in some:
            known(site, names, f"{at}: {key}")
    if work.submit_s > scenario.limit_s:
        raise ValueError(f"{at}: submit_s = {work.submit_s:g}: all ends at limit_s = {scenario.limit_s:g}; raise it")
    _check_forced(work, at)
    if scenario.swarm == type(scenario.swarm)():
        # A seed that draws the workload also draws when held work goes on.
        _check_orders(work, at)
    check_wanted(work, at)
    if work.user:
        known(work.user, users, f"{at}: user")
    _check_inputs(work, scenario, at)
    for key, value, low, high in (
        ("jobs", work.jobs, 1 if work.trace is None else 0, 10**12),
        ("work_s", work.work_s, 1e-6, 1e9),
        ("true_work_s", work.true_work_s, 0, 1e9),
        ("spread", work.spread, 0, 1),
        ("fail_fraction", work.fail_fraction, 0, 1),
        ("processors", work.processors, 1, 10**6),
        ("gpus", work.gpus, 0, 10**6),
        ("output_bytes", work.output_bytes, 0, 10**15),
        ("submit_s", work.submit_s, 0, 1e9),
        ("max_subgroup", work.max_subgroup, 0, 10**12),
        ("max_parallel", work.max_parallel, 0, 10**12),
        ("repeat", work.repeat, 1, 10**6),
        ("every_s", work.every_s, 0, 1e9),
    ):
        if not low <= value <= high:
            raise ValueError(f"{at}: {key} = {value}: want {low:g} to {high:g}")
    if work.trace is None:
        _check_moves(work, at)


def _check_inputs(work: WorkSpec, scenario: Scenario, at: str) -> None:
    files = {dataset.name: dataset.files for dataset in scenario.datasets}
    files |= {other.produces: other.jobs for other in scenario.workload if other.produces}
    for name in work.inputs:
        known(name, tuple(files), f"{at}: inputs")
    count = sum(files[name] for name in work.inputs)
    if work.file_per_job and count < work.jobs:
        raise ValueError(f"{at}: file_per_job wants {work.jobs} files, inputs have {count}; add files or drop jobs")


def _check_forced(work: WorkSpec, at: str) -> None:
    if not work.forced:
        return
    if min(work.forced.values()) < 1 or sum(work.forced.values()) != work.jobs:
        shares = " + ".join(map(str, work.forced.values()))
        raise ValueError(f"{at}: forced = {shares} jobs: want shares of 1 and more that make up its {work.jobs} jobs")
    for key in ("sites", "merge", "after", "produces", "max_parallel"):
        if getattr(work, key):
            raise ValueError(f"{at}: forced makes a group per site, which cannot have {key}; leave one of the two out")


def _check_moves(work: WorkSpec, at: str) -> None:
    for move in work.moves:
        if not 0 <= move.at_s <= 1e9:
            raise ValueError(f"{at}: moves: at_s = {move.at_s:g}: want 0 to 1e+09")
        if not (0 <= move.first < work.jobs and 0 <= move.jobs <= 10**12):
            told = f"first = {move.first}, jobs = {move.jobs}"
            raise ValueError(f"{at}: moves: {told}: want some of its {work.jobs} jobs, the first is 0")


def _check_orders(work: WorkSpec, at: str) -> None:
    if work.hold_s >= 0 and max(work.release_s, work.cancel_s) < 0:
        raise ValueError(
            f"{at}: hold_s = {work.hold_s:g}: what it holds would never go on; give release_s or cancel_s too"
        )
    if work.release_s >= 0 > work.hold_s:
        raise ValueError(f"{at}: release_s = {work.release_s:g}: nothing holds it; give hold_s too")
    if 0 <= work.release_s < work.hold_s:
        raise ValueError(f"{at}: release_s = {work.release_s:g}: it is held later, hold_s = {work.hold_s:g}")
