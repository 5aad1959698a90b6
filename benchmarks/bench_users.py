"""Who waits? A scenario's policies compared by user and by width of the jobs, which `diana simulate` does not tell.

    python -m benchmarks.bench_users scenarios/policies.toml --first-seed 823000 --seeds 10 diana "first start"

For each policy: mean turnaround and wait in seconds, in brackets the difference to the first policy named; the worst
user's mean turnaround over the median user's; the user whose mean, averaged over all seeds, grew most against the first
policy; the mean wait by processors. All over jobs that came between the first and the last tenth of the submissions,
with 95 % intervals over the seeds. Everything is drawn from the seeds, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from diana.sim.experiments.by_policy import named, ran
from diana.sim.report import figures as fg
from diana.sim.report.intervals import interval
from diana.sim.report.outcome import Floats, Ints, JobTimes
from diana.sim.scenario.scenario import load

WARM_UP = 0.1


class Seen(NamedTuple):
    """One run."""

    turnaround_s: float
    wait_s: float
    users_s: dict[str, float]
    """Mean turnaround of each user."""
    widths_s: dict[int, float]
    """Least processors of a class, a power of two -> mean wait of jobs with so many, and fewer than twice so many."""

    def worst_over_median(self) -> float:
        return max(self.users_s.values()) / median(self.users_s.values())


def seen(times: JobTimes) -> Seen:
    span = fg.window(times, WARM_UP)
    inside = (times.submit_s >= span.begin_s) & (times.submit_s <= span.end_s)
    took_s, wait_s = (times.end_s - times.submit_s)[inside], (times.start_s - times.submit_s)[inside]
    users = _means(times.user[inside], took_s)
    return Seen(
        turnaround_s=float(took_s.mean()),
        wait_s=float(wait_s.mean()),
        users_s={times.users[place]: mean_s for place, mean_s in users.items()},
        widths_s=_means(2 ** np.log2(times.processors[inside]).astype(np.int32), wait_s),
    )


def _means(keys: Ints, values: Floats) -> dict[int, float]:
    return {int(key): float(values[keys == key].mean()) for key in np.unique(keys)}


def said(values: Sequence[float]) -> str:
    its = interval(values)
    assert its is not None, "there is a seed"
    return f"{its.mean:.2f}" if its.high is None else f"{its.mean:.2f} +- {its.high - its.mean:.2f}"


def worst_change(runs: Sequence[Seen], base: Sequence[Seen]) -> tuple[str, float]:
    """(user, change of its mean turnaround against the other policy) of the user that lost most."""
    change = {
        user: fmean(one.users_s[user] for one in runs if user in one.users_s)
        / fmean(one.users_s[user] for one in base if user in one.users_s)
        - 1
        for user in sorted({user for one in runs for user in one.users_s})
    }
    return max(change.items(), key=lambda its: its[1])


def shown(name: str, runs: Sequence[Seen], base: Sequence[Seen]) -> str:
    widths: Mapping[int, list[float]] = {
        width: [one.widths_s[width] for one in runs if width in one.widths_s]
        for width in sorted({width for one in runs for width in one.widths_s})
    }
    user, change = worst_change(runs, base)
    against = [100 * (one.turnaround_s / other.turnaround_s - 1) for one, other in zip(runs, base, strict=True)]
    return "\n".join((
        f"{name}: turnaround {said([one.turnaround_s for one in runs])} ({said(against)} %),"
        f" wait {said([one.wait_s for one in runs])}",
        f"    worst user over median {said([one.worst_over_median() for one in runs])};"
        f" lost most: {user} {100 * change:+.1f} %",
        "    wait by processors: " + ", ".join(f"from {width}: {said(waits)}" for width, waits in widths.items()),
    ))  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_users")
    parser.add_argument("scenario", type=Path)
    parser.add_argument("policies", nargs="+", metavar="POLICY")
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    told = parser.parse_args(words)
    scenario = load(told.scenario)
    base: list[Seen] = []
    for name in told.policies:
        runs = []
        for seed in range(told.first_seed, told.first_seed + told.seeds):
            one = ran(scenario, named(scenario, name), seed, told.load)
            assert one.good(), f"{name}, seed {seed}: {one.unfinished} jobs are not done, or a rule was broken"
            runs.append(seen(one.times))
        base = base or runs
        print(shown(name, runs, base), flush=True)


if __name__ == "__main__":
    main()
