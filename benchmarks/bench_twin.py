"""A grid of real nodes beside its twin: twenty minutes of mixed work, then again under a change that the twin foretold.

    sudo python -m benchmarks.bench_twin --keep DIR [--pair 0] [--minutes 20] [--on netns]
    python -m benchmarks.bench_twin --read DIR

Three sites with shaped links (by htb; latencies only where the kernel has netem), two users at two sites, data at two
sites, processes of 1 to 30 s, and a site that is drained in between. The history that the nodes export is replayed and
compared with what happened, and the second run with what the replay foretold. `--read` tells again what a run left in
DIR, without running anything.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import shutil
import sys
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from diana.cli.main import main as diana
from diana.sim.past.changes import Change, changed
from diana.sim.past.merging import load, merged
from diana.sim.past.replay import as_it_was, replayed
from diana.sim.past.text import of_twin
from diana.sim.past.twin import compared
from diana.sim.past.waits import observed
from diana.sim.past.whatif import Side, side
from diana.sim.scenario import scenario as sc
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec
from diana.trial import netns
from diana.trial.conduct import Conductor
from diana.trial.founding import Founding
from diana.trial.ground import Testbed
from diana.trial.plan import submissions
from diana.trial.processes import Processes

PAIRS: tuple[tuple[Change, ...], ...] = (
    (("site", "beta.slots+2"),),
    (("setting", "migration=off"),),
    (("site", "gamma.slots+2"), ("link", "alpha-gamma=80Mbit/s")),
)
SITES = (("alpha", 3, 1.0), ("beta", 2, 1.0), ("gamma", 2, 1.5))
LINKS = (("alpha", "beta", 4e6), ("alpha", "gamma", 2e6), ("beta", "gamma", 1e6))
LOAD = 0.85
"""Work over what all slots can do in the time in which it comes."""
MB = 1_000_000


def scenario(pair: int, minutes: float) -> Scenario:
    rng = random.Random(f"twin {pair}")
    end_s = 60.0 * minutes
    power = sum(slots * speed for _, slots, speed in SITES)
    work: list[WorkSpec] = []
    left_s = LOAD * power * end_s
    while left_s > 0:
        work_s = round(math.exp(rng.uniform(math.log(1.0), math.log(25.0))), 1)
        jobs = rng.choice((1, 1, 2, 3, 4, 6, 8, 12))
        at = rng.choice(("alpha", "beta"))
        data = rng.choice(("", "", "maps", "tracks"))
        left_s -= work_s * jobs
        work.append(
            WorkSpec(
                f"g{len(work)}",
                site=at,
                user="ann@lab" if at == "alpha" else "bob@lab",
                jobs=jobs,
                work_s=work_s,
                spread=0.2,
                inputs=(data,) if data else (),
                submit_s=round(rng.uniform(0.0, end_s), 2),
            )
        )
    spec = Scenario(
        version=1,
        name=f"twin {pair}",
        sites=tuple(SiteSpec(name, slots=slots, speed=speed) for name, slots, speed in SITES),
        links=tuple(LinkSpec((a, b), latency_s=0.0005, bytes_per_s=rate) for a, b, rate in LINKS),
        datasets=(
            DatasetSpec("maps", "alpha", files=4, file_bytes=2 * MB),
            DatasetSpec("tracks", "beta", files=4, file_bytes=2 * MB),
        ),
        users=(UserSpec("ann@lab"), UserSpec("bob@lab")),
        workload=tuple(sorted(work, key=lambda one: one.submit_s)),
        events=(EventSpec(round(0.4 * end_s, 1), "drain", ("beta",), for_s=round(0.15 * end_s, 1)),),
        limit_s=1e6,
    )
    return sc.parse(sc_text(spec), "twin")


def sc_text(spec: Scenario) -> str:
    from diana.sim.scenario.text import written

    return written(spec)


def played(spec: Scenario, folder: Path, on: str, number: int, within_s: float) -> Path:
    """The folder of the whole grid's history."""
    nodes = folder / "nodes"
    # Grids beside each other want networks of their own.
    netns.NETWORK = f"10.{91 + number}"
    ground: Testbed = (netns.Namespaces if on == "netns" else Processes)(nodes, spec, 1.0)
    some = submissions(spec, 0)

    def tell(line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

    try:
        ground.open()
        founding = Founding(ground, tell)
        founding.found()
        founding.register(spec.datasets)
        credentials = founding.credentials(one.principal.name for one in some)
        for user, folder_of in credentials.items():
            # It names the site that invited its user, who is at home elsewhere.
            home = next(one.site for one in some if one.principal.name == user)
            about = folder_of / "credential.toml"
            about.write_text(re.sub(r'^site = ".*"$', f'site = "{home}"', about.read_text(), flags=re.MULTILINE))
        conductor = Conductor(ground, spec, some, credentials, 1.0, tell)
        try:
            ended = conductor.run(within_s)
        finally:
            conductor.close()
        tell(f"over after {ended.took_s:.0f} s, in time: {ended.in_time}; {'; '.join(ground.unlike)}")
        for name in ("alpha", "beta"):
            code = diana(["history", "export", "--data", str(ground.main(name).data), "--out", str(folder / name)])
            assert code == 0, f"{name} exports nothing"
        merged([folder / "alpha", folder / "beta"], folder / "all")
    finally:
        ground.close()
    return folder / "all"


class PairFigures(msgspec.Struct, kw_only=True):
    pair: int
    changes: list[str]
    makespan_error: float
    median_turnaround_error: float
    sites_error: float
    truly: Side
    foretold: Side
    then: Side
    turnaround_error: float
    """Foretold over true mean turnaround of the second run, less 1."""
    makespan_after_error: float


def told(folder: Path, pair: int, seeds: range) -> PairFigures:
    base = observed(load(folder / "base" / "all"))
    as_was, ahead = replayed([base, changed(base, PAIRS[pair])], seeds, workers=1)
    found, foretold = compared(base, as_was), side(ahead)
    print(of_twin(found), flush=True)
    then = side([as_it_was(load(folder / "changed" / "all"))])
    figures = PairFigures(
        pair=pair,
        changes=[f"--{option} {word}" for option, word in PAIRS[pair]],
        makespan_error=found.makespan_error,
        median_turnaround_error=found.median_turnaround_error,
        sites_error=found.sites_error,
        truly=found.truly,
        foretold=foretold,
        then=then,
        turnaround_error=foretold.turnaround_mean_s / then.turnaround_mean_s - 1.0,
        makespan_after_error=foretold.makespan_s / then.makespan_s - 1.0,
    )
    (folder / "figures.json").write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    print(
        f"pair {pair}: replay: makespan {figures.makespan_error:+.1%}, median group's turnaround off by "
        f"{figures.median_turnaround_error:.1%}; {' '.join(figures.changes)}: mean turnaround was "
        f"{figures.truly.turnaround_mean_s:.1f} s, foretold {figures.foretold.turnaround_mean_s:.1f} s, "
        f"then {figures.then.turnaround_mean_s:.1f} s ({figures.turnaround_error:+.1%}), makespan "
        f"{figures.makespan_after_error:+.1%}",
        flush=True,
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", type=int, default=0, choices=range(len(PAIRS)))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--on", choices=("netns", "processes"), default="netns")
    parser.add_argument("--keep", type=Path, help="new folder for histories and figures")
    parser.add_argument("--read", type=Path, help="folder of an earlier run")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if args.read is not None:
        told(args.read, args.pair, range(args.seeds))
        return
    if args.keep is None:
        parser.error("name a new folder with --keep")
    args.keep.mkdir(parents=True)
    spec, within_s = scenario(args.pair, args.minutes), 120.0 * args.minutes
    for name, one in (("base", spec), ("changed", changed(spec, PAIRS[args.pair]))):
        # Settings stand in each site's own table too.
        folder = args.keep / name
        folder.mkdir()
        (folder / "asked.toml").write_text(sc_text(replace(one, name=name)))
        played(one, folder, args.on, args.pair + (os.getpid() % 50) * 3, within_s)
        shutil.rmtree(folder / "nodes", ignore_errors=True)
    told(args.keep, args.pair, range(args.seeds))


if __name__ == "__main__":
    main()
