"""Cost of knowing each other in a large VO (PERFORMANCE P9): traffic per site, the age of summaries, and how long until
all know of a join, a loss, a goodbye and a return; then churn.

    python -m benchmarks.bench_gossip [--sites 10,100,1000,5000] [--settle 30] [--seed 1] [--json FILE]

The real engine over the simulated network; times are simulated ones. A site costs one or two milliseconds of processor
per simulated second, so 5,000 sites keep a processor busy for a good half hour.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from diana.engine.membership.table import MembershipTable
from diana.policy.membership import State
from diana.sim.world.members import Members, MemberSite

WITHIN_S = 120.0
CHURN_S = 600.0
"""Each site is restarted about this often while churn lasts."""
TRAFFIC_S = 15.0


def measure(sites: int, settle_s: float, seed: int) -> dict[str, float]:
    """Seconds are simulated; `messages`, `bytes`, `entries` are per site and second."""
    began = time.monotonic()
    grid = Members(sites, seed)
    grid.acquaint()
    grid.run(settle_s)
    grid.counts.clear()
    grid.run(TRAFFIC_S)
    out: dict[str, float] = {what: grid.counts[what] / TRAFFIC_S / sites for what in ("messages", "bytes", "entries")}
    age = grid.ages()
    out |= {"age_median_s": age.median_s, "age_p95_s": age.p95_s, "age_most_s": age.most_s}
    out["streams"] = (
        sum(len(m.engine.core.book(MembershipTable).linked) for m in grid.up() if m.engine is not None) / sites
    )
    out |= _changes(grid)
    out |= _churn(grid, settle_s)
    out["peak_rss_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    out["processor_s"] = time.monotonic() - began
    return out


def _changes(grid: Members) -> dict[str, float]:
    """Until all others know."""
    new = grid.add()
    new.start()
    out = {"join_s": grid.until(new.site, State.ALIVE, within_s=WITHIN_S)}
    began_s = grid.clock.now_s
    while new.engine is not None and new.engine.core.book(MembershipTable).alive < len(grid.up()):
        if grid.clock.now_s - began_s > WITHIN_S:
            break
        grid.run(0.25)
    out["newcomer_knows_all_s"] = out["join_s"] + grid.clock.now_s - began_s
    lost, left = _one(grid), _one(grid)
    lost.stop(goodbye=False)
    suspected_s = grid.until(lost.site, State.SUSPECT, State.LOST, within_s=WITHIN_S)
    out["suspected_s"] = suspected_s
    out["lost_s"] = suspected_s + grid.until(lost.site, State.LOST, within_s=WITHIN_S)
    left.stop(goodbye=True)
    out["left_s"] = grid.until(left.site, State.LEFT, within_s=WITHIN_S)
    lost.start()
    out["return_s"] = grid.until(lost.site, State.ALIVE, within_s=WITHIN_S)
    left.start()
    return out


def _churn(grid: Members, seconds: float) -> dict[str, float]:
    """Sites crash and come back ten seconds later; then all is looked at once it is quiet again."""
    before = grid.counted("suspicions_refuted")
    end_s = grid.clock.now_s + seconds
    restarts = 0
    while grid.clock.now_s < end_s:
        grid.run(min(5.0, grid.rng.expovariate(len(grid.members) / CHURN_S)))
        victim = _one(grid)
        victim.stop(goodbye=False)
        grid.clock.after(10.0, _again, victim)
        restarts += 1
    grid.run(30.0)
    return {
        "restarts": restarts,
        "wrong_pairs_after": grid.wrong(),
        "refuted": grid.counted("suspicions_refuted") - before,
    }


def _again(member: MemberSite) -> None:
    if member.engine is None:
        member.start()


def _one(grid: Members) -> MemberSite:
    return grid.rng.choice(grid.up())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sites", default="10,100,1000")
    parser.add_argument("--settle", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    for sites in map(int, options.sites.split(",")):
        found[sites] = measure(sites, options.settle, options.seed)
        print(sites, "  ".join(f"{what} {value:,.2f}" for what, value in found[sites].items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
