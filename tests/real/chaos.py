"""Faults drawn from one seed and struck at real machines, at their shares of a group's jobs; all of them printed with
their times, so that a run can be told and drawn again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.e2e.grid import until
from tests.real.ground import HOSTS, PATIENCE_S, Ground

LONGEST_WAIT_S = 4.0
"""For the jobs that are to end before a fault: it then strikes all the same."""
LONGEST_STOP_S = 30.0
SPAWNER_STOP_S = 10.0
"""A node that starts waits for its spawner for 15 s, then it ends and says so."""
BACK_S = 2.5
"""Drawn up to this: until a killed node is started again."""
EVERY = {"stop": 10, "cut": 7, "full": 20}
"""One fault of the kind for so many kills, at least one."""


class Fault(NamedTuple):
    kind: str
    machine: str
    other: str
    """The host that is not heard during a cut."""
    how: str
    for_s: float
    share: float
    """So many of the jobs have ended when it strikes."""

    def __str__(self) -> str:
        whom = f"{self.machine} - {self.other}" if self.other else self.machine
        return f"{self.kind} {whom}{f' ({self.how})' if self.how else ''} for {self.for_s:.1f} s"


def drawn(chance: random.Random, kills: int, longest_stop_s: float = LONGEST_STOP_S) -> list[Fault]:
    """So many kills, and other faults in proportion, in the order in which they strike."""
    kinds = ["kill"] * kills + [kind for kind, one_in in EVERY.items() for _ in range(max(1, kills // one_in))]
    chance.shuffle(kinds)
    shares = sorted(chance.uniform(0.0, 0.9) for _ in kinds)
    return [_fault(chance, kind, share, longest_stop_s) for kind, share in zip(kinds, shares, strict=True)]


def _fault(chance: random.Random, kind: str, share: float, longest_stop_s: float) -> Fault:
    machine, other, how = chance.choice(sorted(HOSTS)), "", ""
    match kind:
        case "kill":
            how = chance.choices(("node", "spawner", "both"), (7, 2, 1))[0]
            for_s = chance.uniform(0.0, BACK_S)
        case "stop":
            # As many of a second as of the longest: leases and suspicions have their limits in between.
            how, for_s = chance.choices(("node", "spawner"), (4, 1))[0], longest_stop_s ** chance.random()
            if how == "spawner":
                for_s = min(for_s, SPAWNER_STOP_S)
        case "cut":
            other = chance.choice([host for host in sorted(HOSTS) if host != machine])
            how, for_s = chance.choice(("one way", "both ways")), chance.uniform(1.0, 15.0)
        case _:
            machine, how, for_s = "gamma", chance.choice(("at once", "again and again")), chance.uniform(2.0, 8.0)
    return Fault(kind, machine, other, how, for_s, share)


class _Standing(NamedTuple):
    until_s: float
    what: frozenset[str]
    end: Callable[[], None]


class Striker:
    """`run` strikes the faults while `ended` says how many of `jobs` have; `struck` counts them by kind."""

    def __init__(self, ground: Ground, faults: list[Fault], jobs: int, ended: Callable[[], int]) -> None:
        self.struck: Counter[str] = Counter()
        self._ground = ground
        self._faults = faults
        self._jobs = jobs
        self._ended = ended
        self._standing: list[_Standing] = []
        self._begun_s = time.monotonic()
        self._filling = False
        """Also what a node gives up of the room it had kept."""

    def run(self) -> None:
        """All faults, and none of them stands afterwards; AssertionError for a node that ended by itself."""
        for fault in self._faults:
            self._wait(lambda fault=fault: self._ended() >= fault.share * self._jobs, LONGEST_WAIT_S)  # type: ignore[misc]
            self._wait(lambda fault=fault: self._can(fault), PATIENCE_S, str(fault))  # type: ignore[misc]
            self._strike(fault)
        self._wait(lambda: not self._standing, PATIENCE_S, "all faults are over")
        self._ground.heal()
        self._say("healed")

    def _wait(self, look: Callable[[], bool], within_s: float, needed: str = "") -> None:
        end_s = time.monotonic() + within_s
        while not look():
            if time.monotonic() > end_s:
                assert not needed, f"not within {within_s:g} s: {needed}\n{self._ground.grid.story()}"
                return
            self._look_after()
            time.sleep(0.05)

    def _look_after(self) -> None:
        """Faults that are over end; whoever ended for want of room is started again; nobody else may have ended."""
        now_s = time.monotonic()
        for standing in [one for one in self._standing if one.until_s <= now_s]:
            self._standing.remove(standing)
            standing.end()
        self._ground.look()
        if self._filling:
            self._ground.fill()
        busy = self._busy()
        for machine in self._ground.down():
            if machine in busy:
                continue
            host = self._ground.machines[machine]
            assert host.full_s, f"{machine} ended by itself: {host.process and host.process.poll()}\n{host.story()}"
            self._say(f"{machine} had ended on its full disk, starts again")
            self.struck["ended for want of room"] += 1
            self._ground.launch(machine)

    def _busy(self) -> frozenset[str]:
        return frozenset[str]().union(*(standing.what for standing in self._standing))

    def _can(self, fault: Fault) -> bool:
        """Whoever is to be killed must live; nobody meets two faults of a kind that cannot be told apart at once."""
        if self._touched(fault) & self._busy():
            return False
        if fault.kind == "cut":
            return True
        if fault.machine in self._ground.down():
            return False
        return fault.how not in ("spawner", "both") or bool(self._ground.machines[fault.machine].spawner_pid())

    def _touched(self, fault: Fault) -> frozenset[str]:
        if fault.kind == "cut":
            return frozenset({"-".join(sorted((fault.machine, fault.other)))})
        return frozenset({fault.machine})

    def _strike(self, fault: Fault) -> None:
        ground, machine = self._ground, fault.machine
        self._say(f"{fault}, {self._ended()} jobs ended")
        match fault.kind:
            case "kill":
                ground.kill(machine, node=fault.how != "spawner", spawner=fault.how != "node")
                if fault.how != "spawner":
                    self._stands(fault, lambda: ground.launch(machine))
                else:
                    # One that was killed is there for a moment more.
                    self._stands(fault._replace(for_s=fault.for_s + 0.3), lambda: None)
            case "stop":
                self._stands(fault, ground.stop(machine, spawner=fault.how == "spawner"))
            case "cut":
                ground.cut(machine, fault.other, both=fault.how == "both ways")
                self._stands(fault, lambda: ground.mend(machine, fault.other))
            case _:
                ground.fill()
                self._filling = fault.how == "again and again"
                self._stands(fault, self._freed)
        self.struck[fault.kind] += 1

    def _freed(self) -> None:
        self._filling = False
        self._ground.free()

    def _stands(self, fault: Fault, end: Callable[[], None]) -> None:
        self._standing.append(_Standing(time.monotonic() + fault.for_s, self._touched(fault), end))

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun_s:7.1f} s  {what}", flush=True)


def settled(ground: Ground, within_s: float = PATIENCE_S) -> None:
    """Until no site has anything left to do, by its journal; AssertionError with what is left."""
    left: list[str] = []

    def nothing_left() -> bool:
        left[:] = [said for history in ground.histories() if (said := history.left_over())]
        return not left

    until(nothing_left, lambda: f"nothing is left over: {left}\n{ground.grid.story()}", within_s, 0.5)
