"""Says why a run takes long, where the reason is only that its sites tell each other how they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from diana.sim.world.world import World

PATIENCE_S = 20.0
"""Seconds of real time until anything is said."""
TURNS_PER_GROUP = 200.0
"""Turns of sites that take about as long as all there is to a group of one job."""
SLOWER = 60.0
"""Factor of the settings that are proposed: in logs of hours and days news may be a minute old."""


def on_stderr() -> Callable[[World], None]:
    """A watch for one run that people wait for."""
    return Patience(lambda why: print(f"diana: {why}", file=sys.stderr)).look


class Patience:
    """Looks at a world now and then while it runs; `say` is told once at most, one line."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._began_s = clock()
        self._over = False

    def look(self, world: World) -> None:
        took_s = self._clock() - self._began_s
        if self._over or took_s < PATIENCE_S:
            return
        self._over = True
        days = world.clock.now_s / 86400.0
        settings = [world.scenario.site_settings(site) for site in world.scenario.sites]
        turns = sum(world.clock.now_s / one.summary_every_s for one in settings)
        groups = sum(one.group is not None for one in world.users.submissions.values())
        if turns < TURNS_PER_GROUP * (1 + groups):
            return
        often = min(settings, key=lambda one: one.summary_every_s)
        every_s, suspect_s = (SLOWER * s for s in (often.summary_every_s, often.suspect_after_s))
        self._say(
            f"after {took_s:.0f} s {days:.1f} days are simulated; most of it is that {len(settings)} sites speak every "
            f"{often.summary_every_s:g} s. For jobs of hours put into the scenario: settings = "
            f"{{ summary_every_s = {min(3600.0, every_s):g}, suspect_after_s = {min(86400.0, suspect_s):g} }}"
        )
