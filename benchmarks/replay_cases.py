"""The worlds of `bench_replay`, each run in a process of its own.

    python -m benchmarks.replay_cases CASE '{"sites": 100, ...}'

prints one JSON row. What a world costs is all of it: making it, its engines, its checkers, its digest and its report.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from diana.model.trust.principal import Principal, Role
from diana.sim.kernel import chance
from diana.sim.load import swf
from diana.sim.load.usable import Work, choose
from diana.sim.load.workload import Coming, Submission
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world import runner
from diana.sim.world.world import World

LONG_TURNS = {"summary_every_s": 3600.0, "suspect_after_s": 86400.0}
"""A site alone has nobody to tell how it stands."""
HEAD = """
version = 1
name = "replay"
report = ["groups", "network", "digest"]
limit_s = 1e9
[default_link]
latency_s = 0.02
bytes_per_s = 12.5e6
[[users]]
name = "u@vo"
count = 20
"""


def sites_text(count: int, slots: int, settings: str = "") -> str:
    rows = [f'[[sites]]\nname = "s{n:05}"\nslots = {slots}\n{settings}' for n in range(count)]
    return "\n".join(rows)


def row(case: str, world: World, began_s: float, jobs: int) -> dict[str, float | str]:
    report = runner.run(world)
    spent_s = time.process_time() - began_s
    check(report, jobs)
    parts = sum(len(d.parts) for made in report.decisions.values() for d in made)
    return {
        "case": case,
        "sites": len(world.sites),
        "groups": sum(1 for _ in world.users.in_order()),
        "jobs": jobs,
        "seconds": spent_s,
        "jobs_per_s": jobs / spent_s,
        "us_per_job": 1e6 * spent_s / jobs,
        "mean_wait_s": max(g.wait_mean_s for g in report.groups.values()),
        "simulated_s": report.network.simulated_s,
        "ms_per_site_and_s": 1e3 * spent_s / (len(world.sites) * report.network.simulated_s),
        "parts": parts,
        "away": sum(n for g in report.groups.values() for site, n in g.sites.items()) - home(world, report),
        "messages": report.network.sent,
        "messages_per_job": report.network.sent / jobs,
        "messages_per_site_and_s": report.network.sent / (len(world.sites) * report.network.simulated_s),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "digest": report.digest[:16],
    }


def home(world: World, report: Report) -> int:
    """Jobs that ran where they were submitted."""
    at_home = 0
    for one in world.users.in_order():
        facts = world.sites[one.site].store.facts(one.group) if one.group else ()
        at_home += sum(len(f.indices) for _, f in facts if f.site == one.site)
    return at_home


def check(report: Report, jobs: int) -> None:
    done = sum(g.done for g in report.groups.values())
    if not report.good() or done != jobs:
        raise SystemExit(f"{done} of {jobs} jobs done; {report.violations[:3]}")


def site(trace: str, processors: int) -> dict[str, float | str]:
    """A group for each usable job of the trace, with the run time it had there; declared is what its user asked for."""
    work, _ = choose(swf.read(Path(trace)), processors)
    began_s = time.process_time()
    scenario = Scenario(
        1,
        (SiteSpec("replay", slots=processors),),
        users=(UserSpec("u@vo"),),
        settings=LONG_TURNS,
        limit_s=1e9,
        report=("groups", "network", "digest"),
    )
    world = World(scenario, 0, Boot())
    world.users.follow(Coming(of_trace(work, scenario), len(work)))
    return row("site", world, began_s, len(work))


def of_trace(work: Work, scenario: Scenario) -> Iterator[Submission]:
    who, luck = Principal(Role.USER, "u@vo"), chance.text_seed(0, "trace")
    columns = (work.submit_s, work.run_s, work.processors, work.estimate_s)
    for k, (submit_s, run_s, wide, estimate_s) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        one = WorkSpec(f"j{k}", "replay", 1, work_s=max(1.0, estimate_s), true_work_s=max(1e-6, run_s), processors=wide)
        yield Submission(one, "trace", submit_s, scenario, luck, who, name=one.name, first=k)


def grid(sites: int, slots: int, groups: int, jobs: int) -> dict[str, float | str]:
    """Groups of so many jobs of about 10 s, three times what the sites where they are submitted can do."""
    began_s = time.process_time()
    homes = "{ " + ", ".join(f"s{n:05} = 1.0" for n in range(0, sites, 4)) + " }"
    text = (
        HEAD.replace("limit_s", "seeds = 3\nlimit_s")
        + sites_text(sites, slots)
        + f"""
[[workload]]
name = "w"
site = "s00000"
jobs = {jobs}
repeat = {groups}
work_s = 10.0
spread = 0.5
generate = {{ arrivals = "poisson", load = 0.75, homes = {homes} }}
"""
    )
    return row("grid", World(sc.parse(text), 1, Boot()), began_s, jobs * groups)


def jobs(jobs: int, size: int) -> dict[str, float | str]:
    """At one site of 128 slots."""
    began_s = time.process_time()
    text = (
        HEAD
        + sites_text(1, 128)
        + f"""
settings = {{ summary_every_s = 3600.0, suspect_after_s = 86400.0 }}
[[workload]]
name = "w"
site = "s00000"
jobs = {size}
repeat = {jobs // size}
work_s = 600.0
spread = 0.9
generate = {{ arrivals = "poisson", load = 0.9 }}
"""
    )
    return row("jobs", World(sc.parse(text), 1, Boot()), began_s, jobs)


def sites(sites: int) -> dict[str, float | str]:
    """The same work for each site: two groups of 100 jobs of about 10 s per ten sites, within a minute."""
    began_s = time.process_time()
    text = (
        HEAD.replace("limit_s", "seeds = 3\nlimit_s")
        + sites_text(sites, 10)
        + f"""
[[workload]]
name = "w"
site = "s00000"
jobs = 100
repeat = {max(1, sites // 5)}
work_s = 10.0
spread = 0.5
every_s = {150.0 / sites}
submit_s = 10.0
generate = {{ arrivals = "poisson", homes = "equal" }}
"""
    )
    return row("sites", World(sc.parse(text), 1, Boot()), began_s, 100 * max(1, sites // 5))


CASES: dict[str, Callable[..., dict[str, float | str]]] = {"site": site, "grid": grid, "jobs": jobs, "sites": sites}


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](**json.loads(sys.argv[2]))))
