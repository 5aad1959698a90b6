"""Checks of the workload: each entry by itself, and entries that wait for each other."""

from __future__ import annotations

import graphlib

from diana.model.job.software import plain
from diana.model.job.spec import GroupSpec
from diana.policy.requirements.group import GroupRequirements
from diana.sim.scenario.gang_checks import check_components
from diana.sim.specs.chains import before, together
from diana.sim.specs.names import known
from diana.sim.specs.resources_spec import check_resources
from diana.sim.specs.scenario_spec import Scenario, SwarmSpec
from diana.sim.specs.work_spec import WorkSpec


def check_numbered(workload: tuple[WorkSpec, ...]) -> None:
    """ValueError: an entry has no name, or that of a group of another one, which are numbered from the second on."""
    repeats = {work.name: 10**12 if work.trace is not None else work.repeat for work in workload}
    for place, work in enumerate(workload):
        if not work.name:
            raise ValueError(f"workload[{place}]: name is empty; give the entry one")
        name, _, number = work.name.rpartition("-")
        if number.isdecimal() and str(int(number)) == number and 2 <= int(number) <= repeats.get(name, 1):
            raise ValueError(f"workload {work.name}: group {number} of {name!r} has this name; names must differ")


def check_work(work: WorkSpec, scenario: Scenario, names: tuple[str, ...], users: tuple[str, ...]) -> None:
    """ValueError names the entry, the key, and the range or the nearest name."""
    at = f"workload {work.name}"
    logged = work.trace is not None or work.history is not None
    home = (work.site,) if work.site or work.trace is None else ()
    moves = tuple(move.to for move in work.moves if move.to or not work.checkpoint)
    for key, some in (("site", home), ("sites", work.sites), ("forced", tuple(work.forced)), ("moves: to", moves)):
        for site in some:
            known(site, names, f"{at}: {key}")
    if work.submit_s > scenario.limit_s:
        raise ValueError(f"{at}: submit_s = {work.submit_s:g}: all ends at limit_s = {scenario.limit_s:g}; raise it")
    _check_forced(work, at)
    if scenario.swarm == SwarmSpec():
        # A seed that draws the workload also draws when held work goes on.
        _check_orders(work, at)
    check_wanted(work, at)
    if work.user:
        known(work.user, users, f"{at}: user")
    _check_inputs(work, scenario, at)
    check_components(work, scenario, at)
    for key, value, low, high in (
        ("jobs", work.jobs, 0 if logged else 1, 10**12),
        ("work_s", work.work_s, 1e-6, 1e9),
        ("true_work_s", work.true_work_s, 0, 1e9),
        ("spread", work.spread, 0, 1),
        ("fail_fraction", work.fail_fraction, 0, 1),
        ("processors", work.processors, 1, 10**6),
        ("output_bytes", work.output_bytes, 0, 10**15),
        ("submit_s", work.submit_s, 0, 1e9),
        ("max_subgroup", work.max_subgroup, 0, 10**12),
        ("max_parallel", work.max_parallel, 0, 10**12),
        ("repeat", work.repeat, 1, 10**6),
        ("every_s", work.every_s, 0, 1e9),
    ):
        if not low <= value <= high:
            raise ValueError(f"{at}: {key} = {value}: want {low:g} to {high:g}")
    check_resources(work, at)
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


def check_wanted(work: WorkSpec, at: str) -> None:
    """ValueError: no site could offer a name like that, or an expression is none."""
    if not plain(GroupSpec(argv=("",), container=work.container, modules=work.modules)):
        text = f"container = {work.container!r}, modules = {list(work.modules)}"
        raise ValueError(f"{at}: {text}: want names as a job file may have them")
    asked = GroupSpec(
        requirements=work.requirements,
        link_requirements=work.link_requirements,
        set_requirements=work.set_requirements,
        rank=work.rank,
    )
    if asked.requires:
        try:
            GroupRequirements(asked)
        except ValueError as error:
            raise ValueError(f"{at}: {str(error).removeprefix('group.')}") from None


def check_chains(scenario: Scenario) -> None:
    """ValueError for what cannot be submitted together."""
    works = {work.name: work for work in scenario.workload}
    produced: set[str] = {dataset.name for dataset in scenario.datasets}
    for work in scenario.workload:
        at = f"workload {work.name}"
        for name in work.after:
            if name not in works:
                raise ValueError(f"{at}: after: no entry {name!r} in the workload; name one of it")
        if work.produces in produced:
            raise ValueError(f"{at}: produces = {work.produces!r} is made twice; use another name")
        if work.produces and work.output_bytes < 1:
            raise ValueError(f"{at}: produces wants outputs; set output_bytes to 1 or more")
        produced |= {work.produces} - {""}
    for names in together(scenario.workload):
        some = [works[name] for name in names]
        several = any(work.repeat != 1 or work.generate for work in some)
        if several or len({(work.site, work.user) for work in some}) > 1:
            raise ValueError(
                f"workload {', '.join(names)}: wait for each other, so want one site, one user, no repeat, no generate"
            )
    try:
        graphlib.TopologicalSorter({n: before(w, scenario.workload) for n, w in works.items()}).prepare()
    except graphlib.CycleError as error:
        raise ValueError(f"workload: entries wait for each other in a circle: {' -> '.join(error.args[1])}") from None
