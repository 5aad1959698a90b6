"""Hand-over of a subgroup of 10 to 1,000,000 jobs: offer until committed there, recall until back (SPEC J1).

    python -m benchmarks.bench_handover [--rounds 5] [--engines] [--json FILE]

Between two engines without anything around them: processor time at each side and the bytes of all messages. Between
two real nodes on loopback: from the order to the answer that shows it done, polled. What is judged is growth: a
subgroup of 100,000 jobs is to cost what one of 10 does. `holes` are sets of every second job, as random ends leave
them; they cost by their ranges.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from diana.client import Client
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from diana.wire import peer_codec
from tests.e2e import grid as real
from tests.engine import bench
from tests.engine.builders import spec

SIZES = (10, 1_000, 100_000, 1_000_000)
HOLES = (1_000, 10_000)
"""Sets of so many ranges, with a hole after each."""
BLOCKERS = 4
"""Jobs at each site that keep its one slot and what may be claimed ahead of it."""
_QUOTES = (ms.QuoteRequest, ms.Quote, ms.Summary, ms.Gossip, ms.Progress)


class _Bench(bench.Grid):
    """Two sites whose engines are timed and whose hand-over messages are weighed."""

    def __init__(self) -> None:
        self.taken_s = {"alpha": 0.0, "beta": 0.0}
        self.message_bytes = 0
        super().__init__(alpha=1, beta=1)
        for site in self.sites.values():
            site.engine.handle = self._timed(str(site.name), site.engine.handle)  # type: ignore[method-assign]
        for number, name in enumerate(("alpha", "beta")):
            self["alpha"].submit(spec(BLOCKERS, work_s=1e6, sites=(name,)), BLOCKERS, number)

    def _timed(self, name: str, handle: Callable[..., list[fx.Effect]]) -> Callable[..., list[fx.Effect]]:
        def timed(event: ev.Event, now: float) -> list[fx.Effect]:
            began_s = time.thread_time()
            effects = handle(event, now)
            self.taken_s[name] += time.thread_time() - began_s
            return effects

        return timed

    def post(self, sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if not isinstance(message, _QUOTES):
            self.message_bytes += len(peer_codec.encode_message(message))
        super().post(sender, to, message)

    def jobs_at(self, group: str, site: str) -> int:
        return sum(part.open_jobs() for part in self["alpha"].group(group).subgroups.values() if part.site == site)

    def moved(self, group: str, indices: IndexSet | None, to: str) -> tuple[float, float, float]:
        """Microseconds at each side and bytes of moving these jobs, answered and settled."""
        self.taken_s, self.message_bytes = {"alpha": 0.0, "beta": 0.0}, 0
        answer = self["alpha"].move(group, to, indices)
        assert isinstance(answer, Ok) and answer.count, answer
        assert self.jobs_at(group, to) >= answer.count
        return 1e6 * self.taken_s["alpha"], 1e6 * self.taken_s["beta"], float(self.message_bytes)


def engines(jobs: int, indices: IndexSet | None, rounds: int) -> dict[str, float]:
    """Medians: `offer_origin_us`, `offer_there_us`, `offer_bytes`, and the same of the recall."""
    grid = _Bench()
    grid["alpha"].submit(spec(jobs, work_s=1e6), jobs, 3)
    group = "alpha-3"
    if grid.jobs_at(group, "alpha") < jobs:
        grid.moved(group, None, "alpha")
    out: dict[str, list[float]] = {}
    for _ in range(rounds):
        for step, to in (("offer", "beta"), ("recall", "alpha")):
            values = grid.moved(group, indices, to)
            for what, value in zip(("origin_us", "there_us", "bytes"), values, strict=True):
                out.setdefault(f"{step}_{what}", []).append(value)
    return {name: median(values) for name, values in out.items()}


def holed(ranges: int) -> IndexSet:
    return IndexSet(tuple(range(2 * ranges)))


def nodes(rounds: int) -> dict[str, float]:
    """Medians in milliseconds between two real nodes: `SIZE_offer_ms`, `SIZE_recall_ms`."""
    grid = real.Grid()
    try:
        alpha, _ = grid.add("alpha", 1), grid.add("beta", 1)
        grid.join()
        grid.start()
        out: dict[str, float] = {}
        with alpha.client() as client:
            blockers = [client.submit(_job(BLOCKERS, [name])).group for name in ("alpha", "beta")]
            _until(lambda: all(client.status([name])[0].running for name in blockers))
            for size in SIZES:
                out |= _moves(client, size, rounds)
            for name in blockers:
                client.cancel(name)
        return out
    finally:
        grid.close()


def _job(jobs: int, sites: list[str]) -> dict[str, object]:
    group = {"command": ["sleep", "86400"], "sites": sites}
    return {"group": group, "sweep": {"array": f"0-{jobs - 1}"}, "resources": {"work": 86400}}


def _moves(client: Client, jobs: int, rounds: int) -> dict[str, float]:
    group = client.submit(_job(jobs, ["alpha", "beta"])).group
    _until(lambda: _settled(client, group))
    if _jobs_at(client, group, "alpha") < jobs:
        client.move(group, "alpha")
        _until(lambda: _jobs_at(client, group, "alpha") == jobs)
    taken: dict[str, list[float]] = {"offer": [], "recall": []}
    for _ in range(rounds):
        for step, to in (("offer", "beta"), ("recall", "alpha")):
            began_s = time.perf_counter()
            client.move(group, to)
            _until(lambda to=to: _jobs_at(client, group, to) == jobs)  # type: ignore[misc]
            taken[step].append(time.perf_counter() - began_s)
    client.cancel(group)
    _until(lambda: client.status([group])[0].final)
    return {f"{jobs}_{step}_ms": 1000 * median(values) for step, values in taken.items()}


def _settled(client: Client, group: str) -> bool:
    [status] = client.status([group])
    return not status.unplaced and {share.state for share in status.shares} <= {"local", "committed", "closed"}


def _jobs_at(client: Client, group: str, site: str) -> int:
    """Jobs that this site answers for: the origin has heard that they are runnable there."""
    [status] = client.status([group])
    return sum(share.jobs for share in status.shares if share.site == site and share.state in ("local", "committed"))


def _until(look: Callable[[], object]) -> None:
    real.until(look, "the hand-over is over", 60.0, 0.0005)


def measure(rounds: int, *, with_nodes: bool = True) -> dict[str, float]:
    cases: dict[str, tuple[int, IndexSet | None]] = {f"{size}": (size, None) for size in SIZES}
    cases |= {f"holes_{ranges}": (2 * ranges, holed(ranges)) for ranges in HOLES}
    out: dict[str, float] = {}
    for name, (jobs, indices) in cases.items():
        out |= {f"{name}_{what}": value for what, value in engines(jobs, indices, rounds).items()}
    if with_nodes:
        out |= nodes(rounds)
        out["growth_10_to_100000"] = out["100000_offer_ms"] / out["10_offer_ms"]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", action="store_true", help="without real nodes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.rounds, with_nodes=not options.engines)
    for name, value in found.items():
        print(f"{name:32} {value:14,.1f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
