"""The part of a scenario that real nodes can do, and its workload as the job files a user would write.

Every job holds its processors for the time that the simulator draws for it, and ends as it does there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from diana.errors import UsageError
from diana.model.ids import MAIN_MACHINE
from diana.model.settings import Settings
from diana.model.trust.identity import MACHINE
from diana.sim.faults.swarm import drawn
from diana.sim.kernel.clock import Clock
from diana.sim.load.workload import MERGE_RUN_S, Submission, Users
from diana.sim.specs.chains import before
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec

MOST_MACHINES = 100
"""Node processes on one computer; each takes about 100 MB."""
MOST_JOBS = 1_000_000
_SECTIONS = ("sweep", "resources", "inputs", "outputs")
ATTEMPTS = 6
"""Attempts of a job whose exit codes are drawn; later ones end as the last of them."""
WORK_SETTINGS = (
    "default_work_s",
    "time_threshold_s",
    "migration_window_s",
    "migration_gain_s",
    "guard_pause_s",
)
"""Settings that are about work, and run with the scenario's clock; those about the network run with the nodes' own."""
_LEAST_S = {"default_work_s": 1e-6, "migration_window_s": 1.0, "guard_pause_s": 1.0}

# $1: microseconds at speed 1, then exit codes by attempt. $2: bytes of output. Only sleep and truncate are forked.
_JOB = """case "$DIANA_SITE/$DIANA_MACHINE" in
{cases}*) milli=1000;;
esac
bytes=$2
set -- $1
us=$(($1 * 1000 / milli))
shift
last=$#
if [ "$DIANA_ATTEMPT" -lt "$last" ]; then last=$DIANA_ATTEMPT; fi
shift $((last - 1))
rest=$((1000000 + us % 1000000))
sleep "$((us / 1000000)).${rest#1}"
if [ "$bytes" -gt 0 ] && [ "$1" -eq 0 ]; then truncate -s "$bytes" "$DIANA_INDEX.out"; fi
exit "$1"
"""


def playable(scenario: Scenario, seed: int, where: str) -> Scenario:
    """The scenario as this seed draws it. UsageError names the first thing that real nodes cannot be made to do."""
    if scenario.faults != FaultsSpec():
        raise UsageError(f"{where}: faults: are drawn in the simulator alone; say what is to happen in [[events]]")
    if scenario.transfers:
        raise UsageError(f"{where}: transfers: real nodes move only what jobs want; leave [[transfers]] out")
    if any(event.kind == "load" for event in scenario.events):
        raise UsageError(f"{where}: events: load: real machines are loaded by real processes; use diana simulate")
    if any(event.kind == "slots" for event in scenario.events):
        raise UsageError(f"{where}: events: slots: real nodes read site.toml once; use diana simulate")
    machines = sum(1 + len(site.machines) + site.standby for site in scenario.sites)
    if machines > MOST_MACHINES:
        raise UsageError(f"{where}: {machines} machines: at most {MOST_MACHINES} real nodes; use diana simulate")
    for site in scenario.sites:
        if site.lrm != "slots":
            raise UsageError(f"{where}: sites {site.name}: lrm = {site.lrm!r}: there is none here; leave it out")
    for work in scenario.workload:
        if work.trace is not None:
            raise UsageError(f"{where}: workload {work.name}: trace: users of logs have no account; use diana simulate")
        if work.container:
            raise UsageError(f"{where}: workload {work.name}: container: there is no image here; use diana simulate")
    _check_names(scenario, where)
    jobs = sum(work.jobs * work.repeat for work in scenario.workload)
    if jobs > MOST_JOBS:
        raise UsageError(f"{where}: {jobs:,} jobs: at most {MOST_JOBS:,} on real nodes; use diana simulate")
    if all(site.dial_only for site in scenario.sites):
        raise UsageError(f"{where}: sites: nobody can dial any of them, so none can join; leave one dial_only out")
    return drawn(scenario, seed)


def _check_names(scenario: Scenario, where: str) -> None:
    """Check the names of machines, which have a folder and perhaps a host each."""
    taken = {site.name for site in scenario.sites}
    for site in scenario.sites:
        for machine in site.machines:
            if not MACHINE.fullmatch(machine.name):
                at = f"{where}: sites {site.name}: machines {machine.name!r}"
                raise UsageError(f"{at}: real machines want lower-case letters, digits, inner hyphens")
        for name in (*(machine.name for machine in site.machines), *(("standby",) if site.standby else ())):
            called = f"{site.name}-{name}"
            if called in taken:
                raise UsageError(
                    f"{where}: sites {site.name}: machines {name!r}: {called} is there already; rename one"
                )
            taken.add(called)


def submissions(scenario: Scenario, seed: int) -> list[Submission]:
    """The submissions of the simulator's users, chains put together, in the order written."""
    users = Users(Clock(), scenario, seed, lambda site, event: None)
    return list(users.in_order())


def settings_of(scenario: Scenario, site: SiteSpec, factor: float) -> Settings:
    """Settings of the site as the scenario says, with the times that are about work on a clock `factor` times as
    fast."""
    settings = scenario.site_settings(site)
    changed = {key: max(_LEAST_S.get(key, 0.0), getattr(settings, key) / factor) for key in WORK_SETTINGS}
    return msgspec.structs.replace(settings, **changed)


def job_file(submissions: Sequence[Submission], scenario: Scenario, factor: float) -> dict[str, Any]:
    """The job file of one group, or of those of a chain that are submitted together."""
    groups = [_group(one, scenario, factor) for one in submissions]
    if len(groups) == 1:
        (only,) = groups
        sections: dict[str, Any] = {key: only.pop(key) for key in _SECTIONS if key in only}
        return {"group": only} | sections
    names = {one.work.name: one.name for one in submissions}
    for group, one in zip(groups, submissions, strict=True):
        if after := [names[name] for name in before(one.work, scenario.workload) if name in names]:
            group["after"] = after
    return {"group": groups}


def _group(one: Submission, scenario: Scenario, factor: float) -> dict[str, Any]:
    work, spec = one.work, one.spec
    group: dict[str, Any] = {
        "name": one.name,
        "on_crash": work.on_crash,
        "on_site_lost": work.on_site_lost,
        "max_parallel": work.max_parallel,
        "max_subgroup": work.max_subgroup,
        "resources": {"processors": work.processors, **dict(work.amounts), "work": work.work_s / factor},
    }
    if spec.modules:
        group["modules"] = list(spec.modules)
    if spec.sites:
        group["sites"] = list(spec.sites)
    lives = _lives(one, factor)
    alike = len(set(lives)) == 1
    script = _JOB.replace("{cases}", _cases(scenario))
    life = lives[0] if alike else "{life}"
    group["command"] = ["sh", "-c", _literal(script), "job", life, str(work.output_bytes)]
    varying: dict[str, Sequence[Any]] = {} if alike else {"life": lives}
    if work.file_per_job:
        varying["file"] = spec.sweep.axes[0].values
        group["inputs"] = [{"url": "dataset:{file}", "path": "input"}]
    elif spec.inputs:
        group["inputs"] = [{"url": source.source, "path": source.path} for source in spec.inputs]
    if len(varying) == 1:
        group["sweep"] = {name: list(values) for name, values in varying.items()}
    elif varying:
        rows = zip(*varying.values(), strict=True)
        group["sweep"] = {"rows": [dict(zip(varying, row, strict=True)) for row in rows]}
    else:
        group["sweep"] = {"n": f"{one.first}-{one.first + one.jobs - 1}"}
    if work.output_bytes:
        group["outputs"] = {"collect": ["{index}.out"]}
        if work.merge:
            group["outputs"]["merge"] = ["sleep", f"{MERGE_RUN_S / factor:.6f}"]
        if work.produces:
            group["outputs"]["dataset"] = work.produces
    return group


def _lives(one: Submission, factor: float) -> list[str]:
    """The word for each job that the script takes as $1."""
    attempts = range(1, ATTEMPTS + 1) if one.work.fail_fraction > 0 else (1,)
    lives = [[one.life(index, attempt) for attempt in attempts] for index in range(one.jobs)]
    return [
        " ".join(map(str, (max(1, round(tries[0].run_s * 1e6 / factor)), *(life.exit_code for life in tries))))
        for tries in lives
    ]


def _cases(scenario: Scenario) -> str:
    """A machine's effect on a job, as cases of the script: its speed in thousandths, or an end in 10 ms where it is
    broken."""
    lines = []
    for site in scenario.sites:
        base = scenario.site_settings(site).speed
        rows = [(machine.name, machine.speed or base, site.fails or machine.fails) for machine in site.machines]
        for name, speed, fails in (*rows, (MAIN_MACHINE, base, site.fails), ("*", base, site.fails)):
            deed = "sleep 0.01; exit 1" if fails else f"milli={max(1, round(speed * 1000))}"
            lines.append(f"{site.name}/{name}) {deed};;\n")
    return "".join(lines)


def _literal(text: str) -> str:
    """The text as a job file's template has it."""
    return text.replace("{", "{{").replace("}", "}}")
