"""`plan --look-ahead`: each way to place a group is played forward, in this process and not in the node, which answers
others meanwhile. All it rests on is the plan that the node told."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.policy.allocation import ahead

if TYPE_CHECKING:
    from diana.policy.allocation.ahead import Lookout, Outlook
    from diana.wire.client.decisions import Decision

SHARE = 0.5
"""Share of a core that the rolls take at most: the node's jobs may run on the same machine."""
NICE = 10


def show_outlook(lookout: Lookout, rolls: int) -> None:
    """Play each way and print what came out. UsageError: a single roll is too long."""
    began_s = time.monotonic()
    outlook = _looked(lookout, rolls)
    took_s = time.monotonic() - began_s
    if not outlook.rows[0].turnarounds_s:
        raise UsageError("--look-ahead: a single roll would take more events than are allowed; plan a smaller group")
    done, chosen = len(outlook.rows[0].turnarounds_s), outlook.chosen()
    print("\nlooking ahead, mean turnaround of a job:")
    output.print_table(
        ("WAY", ">MEAN", ">SPREAD", ">LEAST", ">MOST", ""),
        [
            (
                row.name,
                output.seconds(row.mean_s),
                output.seconds(row.spread_s),
                output.seconds(min(row.turnarounds_s)),
                output.seconds(max(row.turnarounds_s)),
                " ".join((["planned"] if not at else []) + (["best"] if at == chosen else [])),
            )
            for at, row in enumerate(outlook.rows)
        ],
    )
    fewer = f" of {rolls}, where the bound on events ended it" if done < rolls else ""
    output.say(
        f"{output.counted(done, 'roll')} of each way{fewer}, {outlook.events:,} events, {output.seconds(took_s)}"
    )


def lookout_of(decision: Decision, home: str) -> Lookout:
    """The snapshot of a plan. UsageError: it tells of nothing that could be played, or of one way only."""
    if decision.gang is not None:
        raise UsageError("--look-ahead: gangs are not played; leave it out")
    jobs, processors = sum(part.jobs for part in decision.parts), decision.processors
    if not processors:
        raise UsageError("--look-ahead: the node is of an older release, and does not tell what a plan rests on")
    if jobs > ahead.MOST_JOBS:
        raise UsageError(f"--look-ahead: {jobs:,} jobs, and at most {ahead.MOST_JOBS} are played; plan a smaller group")
    rows, shares = decision.candidates, tuple((SiteId(part.site), part.jobs) for part in decision.parts)
    ways = ahead.alternatives(rows, shares, jobs, waits=decision.waits)
    if len(ways) < 2:
        raise UsageError("--look-ahead: there is one way to place the group, and nothing to compare it with")
    return ahead.Lookout(
        home=SiteId(home),
        jobs=jobs,
        processors=processors,
        sites=ahead.sites(rows, jobs, processors),
        alternatives=ways,
        spread=ahead.spread(rows),
        settings={"cost_model": decision.model} if decision.model else {},
    )


def _looked(lookout: Lookout, rolls: int) -> Outlook:
    """Look by one roll of each way at a time, with pauses, so that `SHARE` holds."""
    from diana.sim.world.ahead import MOST_EVENTS, look

    os.nice(NICE)
    events, found = 0, [list[float]() for _ in lookout.alternatives]
    for number in range(rolls):
        began_s = time.process_time()
        one = look(lookout, 1, number, MOST_EVENTS - events)
        events += one.events
        if not one.complete:
            break
        for some, row in zip(found, one.rows, strict=True):
            some.extend(row.turnarounds_s)
        if number + 1 < rolls:
            time.sleep((time.process_time() - began_s) * (1 / SHARE - 1))
    named = zip(lookout.alternatives, found, strict=True)
    rows = tuple(ahead.Rolls(way.name, tuple(some)) for way, some in named)
    return ahead.Outlook(rows, events, complete=len(found[0]) == rolls)
