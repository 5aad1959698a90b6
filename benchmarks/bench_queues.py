"""P4: one arrival (everything re-prioritised) and one dispatch with up to a million queued jobs.

    python -m benchmarks.bench_queues [--steps 300] [--json FILE]

Beside it, in the same run and in turns, the same on a row per job: numpy works out every job's priority anew at the
arrival and looks for the highest at the dispatch. Judged are the ratio and how the cost grows with the jobs. Times are
of the processor, so that being put aside for a neighbour does not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median

import numpy as np

from diana.engine.dispatch import quote_answer
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Service
from diana.engine.messages import messages as ms
from diana.engine.queue.entries import QueueEntry
from diana.engine.queue.queues import Queues
from diana.engine.site.surroundings import Journal
from diana.model.facts import Facts, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.job.resources import ResourceRequest
from diana.model.job.spec import Axis, GroupSpec, Resources, Sweep
from diana.model.settings import Settings
from diana.model.trust.principal import Principal, Role
from diana.sim.twins.keyring import SimKeyring

SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
SITE = SiteId("bench")
PER_CLASS = (1, 10, 100, 1000)
"""Jobs per class for the growth: 125 users x 8 sizes, so 10^3 to 10^6 jobs."""
STRANDED = 400
"""Groups that wait, before all others of their users, for a machine that is away."""
MACHINES = (20, 200)
KINDS = (1, 20, 300)
"""Numbers of kinds of jobs, each with needs of its own, at sites of so many machines whose slots are all taken."""
MOST_GROWTH = 10.0
"""Growth allowed in the cost of an event or a quote, for ten times the machines and 300 times the kinds."""
LONG_S = 500.0
"""Run time of jobs that are not given ahead of free slots."""
TURN, WARM = 25, 5
Step = Callable[[], tuple[float, float]]
"""One arrival and one dispatch; the seconds of each."""


def settings(users: int, mode: str = "paper") -> Settings:
    quotas = {f"u{k}": 100.0 + k for k in range(users)}
    return Settings(slots=2, quotas=quotas, priority_mode=mode)  # type: ignore[arg-type]


def filled(users: int, per_class: int, mode: str = "paper") -> Queues:
    queues = Queues(settings(users, mode), Service())
    for user in range(users):
        for size in SIZES:
            queues.put(_entry(f"u{user}-{size}", user, size, per_class), 0.0)
    queues.settle(0.0)
    return queues


def _entry(name: str, user: int, processors: int, jobs: int, now: float = 0.0) -> QueueEntry:
    return QueueEntry(
        (SubgroupId(name), 1),
        user=f"u{user}",
        origin=SITE,
        kind=ResourceRequest(processors),
        submitted_s=now,
        jobs=jobs,
        ready=jobs,
    )


def ours(users: int, per_class: int, mode: str = "paper") -> Step:
    queues, numbers, rng = filled(users, per_class, mode), count(1), np.random.default_rng(1)

    def step() -> tuple[float, float]:
        number, user, size = next(numbers), int(rng.integers(users)), int(rng.integers(8))
        new = _entry(f"n{number}", user, SIZES[size], 1, number * 1e-3)
        began = time.thread_time()
        queues.put(new, number * 1e-3)
        queues.settle(number * 1e-3)
        between = time.thread_time()
        entry, _ = next(queues.order(number * 1e-3))
        queues._service.give(entry.user, 1, entry.processors, 4000.0)
        queues.took(entry.key, 1)
        return between - began, time.thread_time() - between

    return step


def per_job(users: int, per_class: int) -> Step:
    """A row per job, everything in place, nothing allocated that need not be."""
    rng = np.random.default_rng(1)
    jobs, spare = users * len(SIZES) * per_class, 100_000
    user = np.repeat(np.arange(users), len(SIZES) * per_class)
    user = np.concatenate((user, np.zeros(spare, dtype=user.dtype)))
    processors = np.tile(np.repeat(np.array(SIZES, dtype=float), per_class), users)
    processors = np.concatenate((processors, np.ones(spare)))
    quota = 100.0 + np.arange(users)
    queued = np.full(users, float(len(SIZES) * per_class))
    gone = np.zeros(jobs + spare)
    state = {"jobs": jobs, "total": float(processors[:jobs].sum())}
    ratio, value = np.empty(jobs + spare), np.empty(jobs + spare)

    def step() -> tuple[float, float]:
        who, size = int(rng.integers(users)), float(SIZES[int(rng.integers(8))])
        began = time.thread_time()
        at = state["jobs"]
        user[at], processors[at] = who, size
        state["jobs"] += 1
        state["total"] += size
        queued[who] += 1.0
        rows = slice(0, state["jobs"])
        per_user = queued * quota[queued > 0].sum() / (quota * state["total"])
        np.take(per_user, user[rows], out=ratio[rows])
        np.multiply(ratio[rows], processors[rows], out=ratio[rows])
        np.maximum(ratio[rows], 1.0, out=value[rows])
        np.divide(1.0, value[rows], out=value[rows])
        np.minimum(ratio[rows], 1.0, out=ratio[rows])
        np.subtract(value[rows], ratio[rows], out=value[rows])
        np.subtract(value[rows], gone[rows], out=value[rows])
        between = time.thread_time()
        best = int(np.argmax(value[rows]))
        gone[best], value[best] = 10.0, -10.0
        queued[user[best]] -= 1.0
        state["total"] -= processors[best]
        return between - began, time.thread_time() - between

    return step


class Driver:
    """An engine with nothing around it: what it wants made durable or sent is dropped. Two slots, always busy."""

    def __init__(self, users: int, per_class: int, mode: str, **also: int) -> None:
        journal = Journal(snapshot=None, seq=0, at_s=0.0, records=[])
        self.engine = Engine.restore(
            journal, site=SITE, keyring=SimKeyring("site:bench", "vo", wall_clock=_wall_s), now=0.0
        )
        self.running: list[ev.Run] = []
        self.now, self.requests = 0.0, count(1)
        named = {f"u{k}@vo": 100.0 + k for k in range(users)}
        values = {"slots": 16, "claim_ahead": 1, "quotas": named, "priority_mode": mode, **also}
        its = Settings(**values)  # type: ignore[arg-type]
        self.take(self.engine.start(its, boot_nonce="bench", db_uuid="bench"))
        self.handle(ev.LrmReady(session=1, slots=16, known=()))
        self.submit(0, 1, 17)
        for user in range(users):
            for size in SIZES:
                self.submit(user, size, per_class)

    def handle(self, event: ev.Event) -> float:
        self.now += 1e-3
        began = time.thread_time()
        effects = self.engine.handle(event, self.now)
        passed = time.thread_time() - began
        self.take(effects)
        return passed

    def take(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.Start):
                attempts = dict(effect.attempts)
                self.running += [ev.Run(effect.subgroup, effect.epoch, i, attempts.get(i, 1)) for i in effect.indices]

    def strand(self, groups: int, users: int) -> None:
        """So many groups, of every user, wait first of all for what only a machine offers that is away just now."""
        self.handle(ev.LrmReady(worker="m2", session=1, slots=16, known=(), software=("module gcc",)))
        self.submit(0, 16, 1, modules=("gcc",))
        self.handle(ev.LrmLost(worker="m2"))
        for number in range(groups):
            self.submit(number % users, 1, 1, modules=("gcc",))

    def submit(
        self, user: int, processors: int, jobs: int, modules: tuple[str, ...] = (), work_s: float = 1.0
    ) -> float:
        number = next(self.requests)
        spec = GroupSpec(
            name=f"g{number}",
            argv=("true",),
            sweep=Sweep(axes=(Axis(name="n", start=0, stop=jobs),)),
            resources=Resources(processors=processors, work_s=work_s),
            modules=modules,
        )
        who = Principal(Role.USER, f"u{user}@vo")
        return self.handle(
            ev.SubmitGroup(request=number, principal=who, key="", spec=spec, jobs=jobs, refs=(), wall_s=0.0)
        )

    def end_one(self) -> float:
        run = self.running.pop(0)
        facts = Facts(
            site=SITE,
            indices=[run.index],
            attempts=[run.attempt],
            outcomes=[int(Outcome.DONE)],
            exit_codes=[0],
            started_s=[self.now],
            ended_s=[self.now],
            cpu_s=[0.0],
            max_rss_bytes=[0],
            log_segments=[""],
            log_offsets=[0],
            log_lengths=[0],
            log_truncated=[False],
            outputs=[],
            errors=[],
        )
        return self.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts))


def through_the_engine(users: int, per_class: int, mode: str, stranded: int = 0) -> Step:
    driver, rng = Driver(users, per_class, mode), np.random.default_rng(1)
    if stranded:
        driver.strand(stranded, users)

    def step() -> tuple[float, float]:
        return driver.submit(int(rng.integers(users)), 1, 1), driver.end_one()

    return step


def of_kinds(machines: int, kinds: int) -> dict[str, Step]:
    """All slots are taken for long, and of each of many kinds, which any machine offers, jobs wait: (a quote, an event
    that changes nothing), and (an arrival, an end that lets one start)."""
    driver, number = Driver(0, 0, "default", guard_jobs=0, claim_ahead=0), count(kinds)
    for one in range(machines):
        driver.handle(ev.LrmReady(worker=f"m{one:04}", session=1, slots=2, known=(), software=("module *",)))
    driver.handle(ev.LrmReady(worker="main", session=1, slots=16, known=(), software=("module *",)))
    # With the 17 of the driver all slots are taken.
    driver.submit(0, 1, 2 * machines - 1, work_s=LONG_S)
    for kind in range(kinds):
        driver.submit(kind, 1, 2, modules=(f"k{kind}",), work_s=LONG_S)
    core = driver.engine.core
    asked = ms.QuoteRequest(
        quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner="u1@vo", software=("module k1",)
    )
    nothing = ev.Ask(request=1, principal=Principal(Role.USER, "u0@vo"), what="group", group=GroupId("bench-1"))

    def still() -> tuple[float, float]:
        began = time.thread_time()
        quote_answer.quote(core, asked)
        return time.thread_time() - began, driver.handle(nothing)

    def moving() -> tuple[float, float]:
        return driver.submit(0, 1, 1, (f"k{next(number) % kinds}",), LONG_S), driver.end_one()

    return {"still": still, "moving": moving}


def kinds_of_jobs(rounds: int) -> dict[str, float]:
    """Cost of kinds by their number and by machines, in microseconds."""
    sites = {f"{one}_machines_{kinds}_kinds": of_kinds(one, kinds) for one in MACHINES for kinds in KINDS}
    steps = {f"{name}_{what}": step for name, some in sites.items() for what, step in some.items()}
    out: dict[str, float] = {}
    for name, times in timed(steps, rounds).items():
        names = ("quote", "nothing") if name.endswith("_still") else ("arrival", "end")
        for at, what in enumerate(names):
            out[f"{name.rpartition('_')[0]}_{what}_us"] = 1e6 * median(one[at] for one in times)
    least, most = (
        f"{some[0]}_machines_{some[1]}_kinds" for some in zip(MACHINES, KINDS[:: len(KINDS) - 1], strict=True)
    )
    for what in ("quote", "nothing", "arrival", "end"):
        out[f"kinds_growth_{what}"] = out[f"{most}_{what}_us"] / out[f"{least}_{what}_us"]
    return out


def _wall_s() -> float:
    return 1.75e9


def bytes_per_job(users: int, sizes: int, per_class: int) -> float:
    """Bytes the queues themselves hold per job, settings apart."""
    its, service = settings(users), Service()
    gc.collect()
    tracemalloc.start()
    queues = Queues(its, service)
    for user in range(users):
        for size in SIZES[:sizes]:
            queues.put(_entry(f"u{user}-{size}", user, size, per_class), 0.0)
    queues.settle(0.0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / (users * sizes * per_class)


def timed(steps: dict[str, Step], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Time the steps in turns of `TURN`, so that a neighbour's load falls on all. The first `WARM` of a turn do not
    count: they find the processor's caches full of another's rows. No garbage of the others is collected meanwhile."""
    for step in steps.values():
        for _ in range(5):
            step()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    gc.collect()
    gc.freeze()
    for _ in range(max(1, rounds // TURN)):
        for name, step in steps.items():
            found[name] += [step() for _ in range(WARM + TURN)][WARM:]
    gc.unfreeze()
    return found


def _p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


def measure(steps: int = 300) -> dict[str, float]:
    """1,000,000 jobs of 1,000 users x 8 sizes; through the engine 125 users x 8 sizes x 1,000 jobs, in 1,000 groups,
    also with groups before them that wait for what no machine in touch offers. And what kinds of jobs cost."""
    found = timed(
        {"paper": ours(1000, 125), "default": ours(1000, 125, "default"), "per_job": per_job(1000, 125)}, steps
    )
    engines = {
        "engine": through_the_engine(125, 1000, "default"),
        "engine_stranded": through_the_engine(125, 1000, "default", STRANDED),
        "engine_stranded_10x": through_the_engine(125, 1000, "default", 10 * STRANDED),
    }
    found |= timed(engines, min(steps, 100))
    out: dict[str, float] = {}
    for name, times in found.items():
        both = [a + b for a, b in times]
        out[f"{name}_arrival_us"] = 1e6 * median(a for a, _ in times)
        out[f"{name}_dispatch_us"] = 1e6 * median(b for _, b in times)
        out[f"{name}_both_us"] = 1e6 * median(both)
        out[f"{name}_both_p99_us"] = 1e6 * _p99(both)
    for name in ("paper", "default"):
        out[f"ratio_{name}_median"] = out["per_job_both_us"] / out[f"{name}_both_us"]
        out[f"ratio_{name}_p99"] = out["per_job_both_p99_us"] / out[f"{name}_both_p99_us"]
    growth = {f"{1000 * jobs}": ours(125, jobs) for jobs in PER_CLASS}
    growth |= {f"{1000 * jobs}_default": ours(125, jobs, "default") for jobs in PER_CLASS}
    for name, times in timed(growth, steps).items():
        out[f"jobs_{name}_us"] = 1e6 * median(a + b for a, b in times)
    out |= kinds_of_jobs(min(steps, 50))
    out["bytes_per_job_8000_groups"] = bytes_per_job(1000, 8, 125)
    out["bytes_per_job_one_group"] = bytes_per_job(1, 1, 1_000_000)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.steps)
    for name, value in found.items():
        print(f"{name:<40} {value:>12,.3f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if worst := [name for name, value in found.items() if name.startswith("kinds_growth_") and value > MOST_GROWTH]:
        raise SystemExit(f"{', '.join(worst)}: want at most {MOST_GROWTH:g}")


if __name__ == "__main__":
    main()
