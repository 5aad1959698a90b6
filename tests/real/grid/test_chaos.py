"""PROMISES section 4 with real processes: three sites, one with a standby, under kill -9, SIGSTOP, cut links and a
full disk, judged by the simulator's checkers (SPEC D7, D8, J6). `make torture` runs it whole."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.real.chaos import EVERY, LONGEST_STOP_S, Striker, drawn, settled
from tests.real.errands import Errand, User, all_over
from tests.real.ground import SLOTS, Ground, ground
from tests.real.judging import Judge

KILLS = int(os.environ.get("DIANA_KILLS", "8"))
JOBS = int(os.environ.get("DIANA_JOBS", "500"))
FULL = KILLS > 50
PACE_S = 1.6
"""Between two faults, were the jobs never held up."""
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120 + 30 * KILLS)]


def test_whatever_strikes_three_sites_and_a_standby_no_job_is_lost_and_none_runs_twice(chance: random.Random) -> None:
    begun_s = time.monotonic()
    faults = drawn(chance, KILLS, LONGEST_STOP_S if FULL else LONGEST_STOP_S / 3)
    with ground() as there:
        there.make()
        user = User(there, random.Random(chance.random()))
        user.register()
        sweep = Errand(there, "alpha", "plain", JOBS, "sweep")
        job_s = PACE_S * len(faults) * sum(SLOTS.values()) / JOBS
        sweep.submit(there.marks.job(JOBS, ("sleep", f"{job_s:.2f}"), on_crash="rerun"))
        user.start()
        striker = Striker(there, faults, JOBS, lambda: there.marks.count(sweep.group))
        striker.run()
        user.stop()
        healed_s = time.monotonic()
        errands = [sweep, *user.errands]
        all_over(errands)
        settled(there)
        back_s = sorted(there.back_s) or [0.0]
        print(
            f"at rest {time.monotonic() - healed_s:.1f} s after healing; {len(back_s)} nodes were back after "
            f"{back_s[len(back_s) // 2]:.1f} s (median), {back_s[-1]:.1f} s (slowest)"
        )
        lost = sum(errand.lost() for errand in errands)
        amiss = [line for errand in errands for line in errand.amiss()]
        judge = judged(there)
        found = [*amiss, *judge.found()]
        struck = striker.struck
        jobs, retried = sum(errand.jobs for errand in errands), sum(errand.retried for errand in errands)
        print(
            f"chaos: {struck['kill']} kills, {struck['stop']} stops, {struck['cut']} cuts, {struck['full']} full "
            f"disks; {len(errands)} groups, {jobs} jobs, {judge.repeated} of unknown end repeated, "
            f"{retried} tried again by the user; "
            f"lost {lost}, doubled {judge.doubled()}, violations {len(found)}; "
            f"{time.monotonic() - begun_s:.0f} s"
        )
        assert not found, "\n".join([*found[:20], there.grid.story()])
        assert lost == 0 and judge.doubled() == 0
        assert struck["kill"] == KILLS and all(struck[kind] for kind in EVERY)


def judged(there: Ground) -> Judge:
    """After all nodes have ended in order: what each made durable, and what jobs marked."""
    for host in there.machines.values():
        assert host.terminate() == 0, host.story()
    there.marks.read()
    judge = Judge(there.marks, there.upsets)
    histories = there.histories()
    judge.feed(histories)
    judge.conclude(histories, there.told)
    differs = there.same_journals()
    if differs:
        judge.amiss.append(differs)
    return judge
