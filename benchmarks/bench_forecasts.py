"""Ranges of forecasts in several ways, judged on groups that come later than those learned from.

    python -m benchmarks.bench_forecasts [--seeds 4] [--first-seed 0] [--times 4] [--loads 0.6,0.8]
                                        [--binding late,early] [--plot FILE.png] FILE...

Each scenario is simulated once for each seed; nothing is decided by forecasts, so their ranges are told again in each
way from the same outcomes, in the order in which the origins learned of them. The groups of its second half by
submission are judged: the share whose end lay in the range that was told (80 % is meant), the same at the site with the
worst share, the median width of the ranges (upper end over lower end), the median error of the end told, and the groups
for which no range was told. `--plot` draws the share held over the share meant, and the widths, for ranges of 50 to
95 %. FILE is a scenario, whose workload may be a log; `kth` is the log of KTH on three sites, `scenarios/lcg.toml`
that of LCG on 25 (`--loads 0.5 --binding early kth` takes a minute, late binding many).
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from diana.model import past_ends
from diana.model.history import program_key
from diana.model.ids import GroupId, SiteId
from diana.model.views.decision import Basis
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.variants import under
from diana.sim.sites.driver import Boot
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world import runner
from diana.sim.world.world import World

NO_CLASS = 10**9
"""Scores of one class that are never reached."""
PACE, LEAST, LEAST_OF_SITE = past_ends.PACE, past_ends.LEAST_OF_CLASS, past_ends.LEAST_OF_SITE
WAYS = {
    "fixed, one for all": (NO_CLASS, NO_CLASS, 0.0),
    "adaptive, for all": (NO_CLASS, NO_CLASS, PACE),
    "by user and program": (LEAST, NO_CLASS, PACE),
    "and by site": (LEAST, LEAST_OF_SITE, PACE),
}
"""Way -> scores from which a class has a range of its own, those of a class of one site, and the pace at which ranges
follow what came."""
MEANT = 0.8
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHARED = Path(__file__).parents[2] / "shared" / "data"
KTH = """version = 1
name = "kth"
about = "KTH-SP2-1996 on three sites; each user is at home at one of them, and declares what a job of theirs took."
limit_s = 1e8
users = [{ name = "nobody@kth" }]
sites = [
    { name = "alpha", slots = 100 },
    { name = "beta", slots = 60, speed = 1.5 },
    { name = "gamma", slots = 100, speed = 0.7 },
]
settings = { summary_every_s = 300, suspect_after_s = 1200, ping_every_s = 600, resend_most_s = 300 }
[default_link]
latency_s = 0.02
bytes_per_s = 12.5e6
[[workload]]
name = "log"
work_s = 3600.0
trace = { file = "KTH-SP2-1996-2.swf.gz", home = "user", first = 1000, load = 1.0, estimate = "history" }
"""
LEAST_JUDGED = 30
"""Groups of a site below which its share says nothing."""


class Outcome(NamedTuple):
    submitted_s: float
    at_s: float
    """When its end was foretold."""
    ended_s: float
    origin: SiteId
    name: GroupId
    owner: str
    program: str
    site: str
    basis: Basis
    slowest_s: float
    scored: bool


class Foreseen(NamedTuple):
    submitted_s: float
    achieved_s: float
    told_s: float
    low_s: float
    high_s: float
    site: str


def outcomes(scenario: Scenario, seed: int) -> list[Outcome]:
    """Groups that were done, by submission."""
    world, found = World(scenario, seed, Boot()), dict[GroupId, Outcome]()

    def look(world: World) -> None:
        for origin, site in world.sites.items():
            for name, group in site.engine.core.state.groups.items():
                if name in found or group.state != "done" or group.foretold is None or group.last_end_s < 0:
                    continue
                said, begun_s = group.foretold, group.submitted_s
                found[name] = Outcome(
                    begun_s,
                    said.at_s,
                    begun_s + group.ended_s(),
                    origin,
                    name,
                    group.owner,
                    program_key(group.spec),
                    said.site,
                    said.basis,
                    said.slowest_s,
                    not (group.was_held or group.retried),
                )

    report = runner.run(world, look)
    look(world)
    assert report.good, report
    return sorted(found.values())


def foreseen(some: list[Outcome], way: str, meant: float = MEANT) -> Iterator[Foreseen]:
    """Tell the range of each group again, from what had ended at its origin by then."""
    kept = past_ends.LEAST_OF_CLASS, past_ends.LEAST_OF_SITE, past_ends.PACE, past_ends.PART
    past_ends.LEAST_OF_CLASS, past_ends.LEAST_OF_SITE, past_ends.PACE = WAYS[way]
    past_ends.PART = meant
    try:
        learned = defaultdict[SiteId, past_ends.PastEnds](lambda: past_ends.PastEnds(tail=1.0 - meant))
        going: list[tuple[float, GroupId, Outcome, Foreseen]] = []
        for one in sorted(some, key=lambda each: (each.at_s, each.name)):
            while going and going[0][0] <= one.at_s:
                _score(learned, *heapq.heappop(going)[2:])
            past = learned[one.origin].correction(one.basis, one.owner, one.program, one.site)
            told_s, low_s, high_s = one.slowest_s * past.middle, -1.0, -1.0
            if past.groups:
                low_s, high_s = one.slowest_s * past.low, one.slowest_s * past.high
            said = Foreseen(one.submitted_s, one.ended_s - one.at_s, told_s, low_s, high_s, one.site)
            heapq.heappush(going, (one.ended_s, one.name, one, said))
            yield said
    finally:
        past_ends.LEAST_OF_CLASS, past_ends.LEAST_OF_SITE, past_ends.PACE, past_ends.PART = kept


def _score(learned: dict[SiteId, past_ends.PastEnds], one: Outcome, said: Foreseen) -> None:
    if not one.scored:
        return
    learned[one.origin].add(
        one.basis,
        one.slowest_s,
        said.told_s,
        said.achieved_s,
        bounds_s=(said.low_s, said.high_s),
        owner=one.owner,
        program=one.program,
        site=one.site,
    )


def second_half(some: list[list[Outcome]], way: str, meant: float = MEANT) -> list[Foreseen]:
    rows: list[Foreseen] = []
    for run in some:
        told = sorted(foreseen(run, way, meant))
        rows += told[len(told) // 2 :]
    return rows


def _held(rows: list[Foreseen]) -> float:
    return sum(row.low_s <= row.achieved_s <= row.high_s for row in rows) / max(1, len(rows))


def _ranged(rows: list[Foreseen]) -> list[Foreseen]:
    return [row for row in rows if row.told_s > 0 and 0 <= row.low_s <= row.high_s]


def _width(rows: list[Foreseen]) -> float:
    return median(row.high_s / max(row.low_s, 1e-3) for row in rows) if rows else 0.0


def judged(rows: list[Foreseen]) -> str:
    told = [row for row in rows if row.told_s > 0]
    ranged, at = _ranged(rows), defaultdict[str, list[Foreseen]](list)
    for row in ranged:
        at[row.site].append(row)
    shares = [_held(some) for some in at.values() if len(some) >= LEAST_JUDGED]
    worst = f"{max(shares, key=lambda share: abs(share - MEANT)):6.1%}" if shares else "     -"
    off = median(abs(row.achieved_s / row.told_s - 1.0) for row in told) if told else 0.0
    return (
        f"held {_held(ranged):6.1%}   at the worst site {worst}   width {_width(ranged):5.2f}   error {off:6.1%}   "
        f"without a range {len(rows) - len(ranged):4}"
    )


def drawn(runs: dict[str, list[list[Outcome]]], file: Path) -> None:
    """Draw a row of two plots for each scenario."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(runs), 2, figsize=(9, 4 * len(runs)), squeeze=False, layout="constrained")
    for (name, some), (left, right) in zip(runs.items(), axes, strict=True):
        for way, style in zip(WAYS, ("k:", "C7--", "C0o-", "C1s-"), strict=True):
            rows = [_ranged(second_half(some, way, meant)) for meant in LEVELS]
            left.plot(LEVELS, [_held(each) for each in rows], style, label=way, markersize=4)
            right.plot(LEVELS, [_width(each) for each in rows], style, label=way, markersize=4)
        left.plot((0.45, 1), (0.45, 1), "C2", linewidth=0.8, label="as meant")
        left.fill_between((0.45, 1), (0.40, 0.95), (0.50, 1.05), color="C2", alpha=0.12)
        left.set(xlim=(0.45, 1), ylim=(0.3, 1), title=f"{name}: later half", xlabel="meant to hold", ylabel="held")
        right.set(xlim=(0.45, 1), yscale="log", title="median width", xlabel="meant to hold", ylabel="high / low")
        left.legend(fontsize=8)
    figure.savefig(file, dpi=90, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--times", type=int, default=1, help="so many times as many groups, over as much longer a time")
    parser.add_argument("--loads", default="0.6,0.8", help="empty: as the scenario has it")
    parser.add_argument("--binding", default="late,early")
    parser.add_argument("--plot", type=Path, help="picture to draw")
    args = parser.parse_args()
    print(f"{args.seeds} seeds from {args.first_seed}, groups of the second half of each run")
    plots: dict[str, list[list[Outcome]]] = {}
    for path in args.files:
        written = sc.parse(KTH, "kth", SHARED) if path == Path("kth") else sc.load(path)
        for load in map(float, args.loads.split(",")) if args.loads else (0.0,):
            for binding in args.binding.split(","):
                longer = replace(
                    written, workload=tuple(replace(one, repeat=one.repeat * args.times) for one in written.workload)
                )
                scenario = under(longer, PolicySpec("diana", settings={"binding": binding}), load or 1.0)
                some = [outcomes(scenario, seed) for seed in range(args.first_seed, args.first_seed + args.seeds)]
                label = f"{path.stem} load {load:g} {binding}" if load else f"{path.stem} {binding}"
                plots[label] = some
                for way in WAYS:
                    rows = second_half(some, way)
                    print(f"{label:26}  {way:20}  {len(rows):5} groups   {judged(rows)}", flush=True)
    if args.plot is not None:
        drawn(plots, args.plot)


if __name__ == "__main__":
    main()
