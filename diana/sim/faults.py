"""What goes wrong, drawn from the one seed. Every rate and every draw is here, so that a failure can print them all."""

from __future__ import annotations

import math
from collections import Counter

import msgspec

from diana.sim import chance
from diana.sim.scenario import FaultsSpec

_RATES = ("loss", "duplicate", "delay", "crash", "stage_error", "retell")
_INTERVALS = (
    "spawner_crash_every_s",
    "machine_crash_every_s",
    "cut_every_s",
    "machine_away_every_s",
    "machine_removed_every_s",
    "leader_kill_every_s",
    "leader_stop_every_s",
    "replica_disk_every_s",
    "replica_cut_every_s",
)


class Faults:
    """`rates` are this seed's. `heal()` ends all faults; `counts` says what was done.

    `crash_at` (site, boundary) makes exactly that boundary of that site a crash: the exhaustive search of
    PROMISES section 4 walks through them one by one.
    """

    __slots__ = ("_crash", "_in", "_message", "_other", "counts", "crash_at", "on", "passed", "rates")

    def __init__(self, spec: FaultsSpec, seed: int, crash_at: tuple[str, int] | None = None) -> None:
        self.rates = _drawn(spec, seed)
        self._message = chance.stream(seed, "messages")
        self._crash = chance.stream(seed, "crashes")
        self._other = chance.stream(seed, "other faults")
        self.crash_at = crash_at
        self.passed: Counter[str] = Counter()
        """Boundaries passed, by site."""
        self.counts: Counter[str] = Counter()
        self.on = spec.until_s > 0 or crash_at is not None
        self._in = self._gap()

    def heal(self) -> None:
        self.on = False

    def total(self) -> int:
        return sum(self.counts.values())

    def options(self) -> dict[str, float | bool]:
        """Everything that shapes this run beside the seed."""
        return msgspec.structs.asdict(self.rates)

    # --- messages --------------------------------------------------------------------------------------

    def extra_delays(self) -> tuple[float, ...]:
        """For one message: extra delay of each copy that arrives; empty: lost."""
        if not self.on:
            return (0.0,)
        rates, draw = self.rates, self._message.random
        if rates.loss and draw() < rates.loss:
            self.counts["loss"] += 1
            return ()
        copies = 1
        if rates.duplicate and draw() < rates.duplicate:
            self.counts["duplicate"] += 1
            copies = 2
        return tuple(self._delay() for _ in range(copies))

    def _delay(self) -> float:
        rates, draw = self.rates, self._message.random
        if rates.delay and draw() < rates.delay:
            self.counts["delay"] += 1
            return draw() * rates.delay_s
        return 0.0

    # --- crashes ---------------------------------------------------------------------------------------

    def crash_here(self, site: str) -> bool:
        """Asked at every boundary. Draws the gap to the next crash, not one number per boundary."""
        if not self.on:
            return False
        if self.crash_at is not None:
            self.passed[site] += 1
            if self.crash_at == (site, self.passed[site]):
                self.counts["crash"] += 1
                return True
        self._in -= 1
        if self._in > 0:
            return False
        self._in = self._gap()
        self.counts["crash"] += 1
        return True

    def _gap(self) -> float:
        p = self.rates.crash
        if p <= 0:
            return math.inf
        return 1.0 if p >= 1 else max(1.0, math.ceil(math.log(1.0 - self._crash.random()) / math.log(1.0 - p)))

    def restart_after_s(self) -> float:
        return self._crash.random() * self.rates.restart_s + 0.001

    # --- the rest --------------------------------------------------------------------------------------

    def next_s(self, kind: str) -> float:
        """Time to the next fault of `kind` (spawner_crash, machine_crash, cut, ...); infinite: never."""
        every_s: float = getattr(self.rates, f"{kind}_every_s")
        return self._other.expovariate(1.0 / every_s) if every_s > 0 else math.inf

    def happens(self, kind: str) -> bool:
        """Whether a fault given as a probability (stage_error, retell) strikes now."""
        rate: float = getattr(self.rates, kind)
        if self.on and rate and self._other.random() < rate:
            self.counts[kind] += 1
            return True
        return False

    def pick(self, count: int) -> int:
        return self._other.randrange(count)

    def cut_length_s(self) -> float:
        return self._other.random() * self.rates.cut_s

    def away_s(self) -> float:
        return self._other.random() * self.rates.machine_away_s


def _drawn(spec: FaultsSpec, seed: int) -> FaultsSpec:
    if not spec.draw:
        return spec
    rng = chance.stream(seed, "rates")
    drawn = {key: getattr(spec, key) * rng.random() for key in _RATES}
    # A longer interval is a rarer fault: dividing by the draw spreads the rate evenly between 0 and the given one.
    drawn |= {key: getattr(spec, key) / max(0.05, rng.random()) for key in _INTERVALS}
    return msgspec.structs.replace(spec, **drawn)
