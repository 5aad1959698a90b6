"""A cluster never idles for want of jobs, and little more than it runs is bound to it (SPEC U7)."""

from __future__ import annotations

from collections import deque

import pytest

from diana.adapters.batch.feeding import Feeding

LOOK_S, SUBMIT_S, PAUSE_S, STEP_S = 1.0, 0.1, 1.0, 0.05
"""The last but one: what the batch system takes to start what waits."""


def fed(slots: int, run_s: float, lasts_s: float, idle_first_s: float = 0.0) -> tuple[float, int]:
    """(share of the slots' time that was used, most that waited with all slots taken), in the second half."""
    feeding = Feeding(LOOK_S)
    feeding.submitted(SUBMIT_S)
    running: list[float] = []
    waiting: deque[float] = deque()
    used, most, ended, held = 0.0, 0, 0, 0
    look_s = 0.0
    for step in range(int(lasts_s / STEP_S)):
        now_s = step * STEP_S
        ended += sum(end_s <= now_s for end_s in running)
        running = [end_s for end_s in running if end_s > now_s]
        while waiting and len(running) < slots and waiting[0] <= now_s:
            waiting.popleft()
            running.append(now_s + run_s)
        if now_s > lasts_s / 2:
            used += STEP_S * len(running) / slots
            most = max(most, len(waiting) if len(running) == slots else 0)
        if now_s < look_s:
            continue
        look_s += LOOK_S
        if not held:
            feeding.idle()
        feeding.ended([run_s] * ended, now_s)
        held, ended = held - ended, 0
        if now_s >= idle_first_s and held < slots + feeding.depth(slots):
            more = slots + feeding.depth(slots) - held
            waiting.extend([now_s + SUBMIT_S + PAUSE_S] * more)
            held += more
    return used / (lasts_s / 2), most


@pytest.mark.parametrize("slots", [1, 8, 200])
@pytest.mark.parametrize("run_s", [0.2, 3.0, 60.0])
def test_slots_are_used_however_long_jobs_run(slots: int, run_s: float) -> None:
    used, _ = fed(slots, run_s, max(60.0, 20 * run_s))
    assert used > 0.9


def test_of_long_jobs_hardly_any_wait_there() -> None:
    _, most = fed(20, 600.0, 12_000.0)
    assert most <= 2


def test_as_many_wait_as_run_until_it_is_known_how_long_they_do() -> None:
    assert Feeding(LOOK_S).depth(30) == 30


def test_time_without_jobs_teaches_nothing() -> None:
    used, _ = fed(8, 0.2, 120.0, idle_first_s=55.0)
    assert used > 0.85
