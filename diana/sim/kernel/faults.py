"""The faults of a run, drawn from the one seed. Every rate and every draw is here, so that a failure can print them
all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import msgspec

from diana.sim.kernel import chance
from diana.sim.specs.fault_spec import FaultsSpec

_RATES = ("loss", "duplicate", "delay", "crash", "stage_error", "retell")
_STEADY = ("loss", "duplicate", "delay", "crash")
"""Kinds of these that strike all the time."""
_FEW = 20.0
"""Least number of faults to be expected of a run that none of `_STEADY` strikes."""
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
    "clog_every_s",
    "partition_every_s",
    "disk_slow_every_s",
    "disk_full_every_s",
    "disk_error_every_s",
    "clock_jump_every_s",
    "stall_every_s",
    "site_loss_every_s",
    "database_lost_every_s",
    "database_old_every_s",
    "backup_restored_every_s",
)
_LEAST_S = {"stall": 1.0, "site_loss": 5.0}
"""No machine boots faster."""
_SLOW_COMMIT_S = 0.1


Watch = Callable[[str, tuple[str, ...], object], None]
"""(what struck, which sites, which message, records or effect)."""


class Faults:
    """`rates` are this seed's. `heal()` ends all faults; `counts` says what was done.

    `crash_at` (site, boundary) makes exactly that boundary of that site a crash: the exhaustive search of
    PROMISES section 4 walks through them one by one.
    """

    __slots__ = (
        "_crash",
        "_disk",
        "_in",
        "_message",
        "_only",
        "_other",
        "counts",
        "crash_at",
        "drawn",
        "on",
        "passed",
        "rates",
        "watch",
    )

    def __init__(self, spec: FaultsSpec, seed: int, crash_at: tuple[str, int] | None = None) -> None:
        self.rates = drawn_rates(spec, seed)
        self._message = chance.stream(seed, "messages")
        self._crash = chance.stream(seed, "crashes")
        self._other = chance.stream(seed, "other faults")
        self._disk = chance.stream(seed, "slow disks")
        self.crash_at = crash_at
        self.passed: Counter[str] = Counter()
        """Boundaries passed, by site."""
        self.counts: Counter[str] = Counter()
        self.on = spec.until_s > 0 or crash_at is not None
        self._only = frozenset(spec.only)
        self.drawn = 0
        """Single faults this seed has drawn so far, those left out by `FaultsSpec.only` among them."""
        self.watch: Watch | None = None
        self._in = self._gap()

    def heal(self) -> None:
        self.on = False

    def total(self) -> int:
        return sum(self.counts.values())

    def strikes(self, kind: str, *sites: str, about: object = None, shown: str = "") -> bool:
        """The one door of every fault that was drawn: numbered, so that one can be left out, counted and told to
        `watch`. False: it is left out and must not happen. `about`: the message, records or effect it strikes; `shown`:
        what the coverage calls it, if not `kind`."""
        self.drawn += 1
        if self._only and self.drawn not in self._only:
            return False
        self.counts[kind] += 1
        if self.watch is not None:
            self.watch(shown or kind, sites, about)
        return True

    def options(self) -> dict[str, float | bool]:
        """Everything that shapes this run beside the seed."""
        return {key: value for key, value in msgspec.structs.asdict(self.rates).items() if key != "only"}

    # --- messages --------------------------------------------------------------------------------------

    def holds_up(self, kind: str, message: object) -> None:
        """A fault that struck before meets one more message."""
        if self.watch is not None:
            self.watch(kind, (), message)

    def extra_delays(self, message: object = None) -> tuple[float, ...]:
        """Extra delay of each copy of a message that arrives; empty: lost."""
        if not self.on:
            return (0.0,)
        rates, draw = self.rates, self._message.random
        if rates.loss and draw() < rates.loss and self.strikes("loss", about=message):
            return ()
        copies = 1
        if rates.duplicate and draw() < rates.duplicate and self.strikes("duplicate", about=message):
            copies = 2
        return tuple(self._delay(message) for _ in range(copies))

    def _delay(self, message: object) -> float:
        rates, draw = self.rates, self._message.random
        if rates.delay and draw() < rates.delay:
            late_s = draw() * rates.delay_s
            return late_s if self.strikes("delay", about=message) else 0.0
        return 0.0

    # --- crashes ---------------------------------------------------------------------------------------

    def crash_here(self, site: str, about: object = None, shown: str = "crash") -> bool:
        """Asked at every boundary. Draws the gap to the next crash, not one number per boundary."""
        if not self.on:
            return False
        if self.crash_at is not None:
            self.passed[site] += 1
            if self.crash_at == (site, self.passed[site]):
                return self.strikes("crash", site, about=about, shown=shown)
        self._in -= 1
        if self._in > 0:
            return False
        self._in = self._gap()
        return self.strikes("crash", site, about=about, shown=shown)

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

    def happens(self, kind: str, *sites: str, about: object = None) -> bool:
        """Tell whether a fault given as a probability (stage_error, retell) strikes now."""
        rate: float = getattr(self.rates, kind)
        drawn = self.on and rate > 0 and self._other.random() < rate
        return drawn and self.strikes(kind, *sites, about=about)

    def pick(self, count: int) -> int:
        return self._other.randrange(count)

    def cut_length_s(self) -> float:
        return self._other.random() * self.rates.cut_s

    def length_s(self, kind: str) -> float:
        """Length of a fault of `kind` (of a jump: its distance), drawn evenly up to the scenario's value."""
        most_s: float = getattr(self.rates, f"{kind}_s", 0.0)
        least_s = min(_LEAST_S.get(kind, 0.0), most_s)
        return least_s + self._other.random() * (most_s - least_s)

    def slow_commit_s(self) -> float:
        most_s = self.rates.disk_slow_commit_s
        return min(_SLOW_COMMIT_S, most_s) + self._disk.random() * max(0.0, most_s - _SLOW_COMMIT_S)

    def away_s(self) -> float:
        return self._other.random() * self.rates.machine_away_s


def drawn_rates(spec: FaultsSpec, seed: int) -> FaultsSpec:
    """This seed's rates, with nothing left to draw."""
    if not spec.draw:
        return spec
    rng = chance.stream(seed, "rates")
    drawn = {key: getattr(spec, key) * rng.random() for key in _RATES}
    # A longer interval is a rarer fault: dividing by the draw spreads the rate evenly between 0 and the given one.
    drawn |= {key: getattr(spec, key) / max(0.05, rng.random()) for key in _INTERVALS}
    kinds = chance.stream(seed, "kinds")
    drawn |= {key: 0.0 for key in (*_RATES, *_INTERVALS) if kinds.random() < spec.off}
    steady = [key for key in _STEADY if getattr(spec, key)]
    rare = sum(spec.until_s / drawn[key] for key in _INTERVALS if drawn[key])
    if steady and rare < _FEW and not any(drawn[key] for key in steady):
        # A run that next to nothing strikes teaches nothing.
        key = kinds.choice(steady)
        drawn[key] = getattr(spec, key)
    return msgspec.structs.replace(spec, draw=False, **drawn)
