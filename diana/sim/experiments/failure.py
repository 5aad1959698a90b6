"""The account of a seed that failed, for people: what broke, its story, and a smaller scenario that fails as well."""

from __future__ import annotations

from diana.sim.experiments.shrink import LIMIT_S, shrink
from diana.sim.kernel.trace import Trace
from diana.sim.report.report import Report
from diana.sim.scenario.text import written
from diana.sim.sites.driver import Boot
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate


def failure(scenario: Scenario, report: Report, boot: Boot | None = None) -> str:
    """Seed, options, what broke, and the story of the first broken group: a run is its seed, so it is run again."""
    lines = [
        f"seed {report.seed} fails: {len(report.violations)} violations, {report.lost} jobs lost, "
        f"{report.doubled} doubled, {report.stuck} stuck",
        f"again: diana simulate FILE --first-seed {report.seed} --seeds 1",
        *report.unmet,
        *(
            [f"limit_s = {scenario.limit_s:g} came first: raise it, or see below what did not end"]
            if report.network.simulated_s >= scenario.limit_s
            else []
        ),
        *(
            [f"heal_s = {scenario.faults.heal_s:g} after the faults the run was over: raise it, or see below"]
            if report.stuck and scenario.faults.until_s
            else []
        ),
        "options: " + ", ".join(f"{k}={v:g}" for k, v in report.options.items() if k != "only"),
        *(f"drawn: {line}" for line in report.drawn),
        "faults: " + (", ".join(f"{v} {k}" for k, v in report.fault_kinds.items()) or "none"),
        *(str(v) for v in report.violations[:10]),
    ]
    first = next((v for v in report.violations if v.group != "-"), None)
    if first is not None:
        trace = Trace(first.group, first.at_s)
        simulate(scenario, report.seed, boot=boot, trace=trace)
        lines += [f"story of {first.group} until then:", *trace.lines]
    return "\n".join(lines)


def smaller(scenario: Scenario, seed: int, limit_s: float = LIMIT_S, boot: Boot | None = None) -> str:
    """The smallest scenario found that fails as this seed does, ready to be run, and its story."""
    found = shrink(scenario, seed, boot=boot, limit_s=limit_s)
    if found is None:
        return f"seed {seed} is not made smaller: it breaks no invariant, only what the scenario expects"
    work, kept = found.scenario.workload, found.report
    how = "nothing more can be left out" if found.finished else f"the limit of {limit_s:g} s was reached"
    jobs, sites = sum(w.jobs for w in work), len(found.scenario.sites)
    return "\n".join(
        [
            f"smaller: {jobs} jobs of {len(work)} groups, {sites} sites, {kept.faults} faults of {found.faults_before} "
            f"still break {', '.join(found.rules)} ({found.runs} runs; {how})",
            f"# diana simulate FILE --first-seed {seed}, with this FILE:",
            written(found.scenario),
            failure(found.scenario, kept, boot),
        ]
    )
