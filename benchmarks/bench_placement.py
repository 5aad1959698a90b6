"""P3: one placement over 1,000 and 10,000 sites, every term kept; a split over 1,000; `plan` with a peer's quote.

    python -m benchmarks.bench_placement [--rounds 5] [--json FILE] [--growth]

Beside the placement, in the same run and in turns, the least numpy could do: the same sum over bare arrays, nothing
kept, nothing divided by what a site cannot be. `--growth` prints what a split costs by sites, jobs and blocks
of data. Times are of the processor, so that being put aside for a neighbour does not count, but for `plan`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from benchmarks.site import BenchSite
from diana.client import Client
from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.node.config.setup import init_site
from diana.policy.allocation import heuristics
from diana.policy.allocation.splitting import decide
from diana.policy.pricing.cost import short_list
from diana.policy.pricing.demand import Candidate, Demand, LinkForecast, Need, blocks
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.sites import SiteTable
from diana.policy.pricing.turnaround import price

HOLDERS = 5
STEPS = 400
"""Per round."""


def site(n: int) -> SiteId:
    return SiteId(f"s{n:05}")


def candidates(sites: int) -> list[Candidate]:
    links = [
        {site(h): LinkForecast(bytes_per_s=1e6 * (1 + (n + h) % 5)) for h in range(HOLDERS)} for n in range(HOLDERS)
    ]
    return [
        Candidate(
            site=site(n),
            slots=1 + n % 97,
            speed=1.0 + n % 3,
            work_ahead_s=float(n % 1000),
            rtt_s=0.01,
            out_bytes_per_s=1e7,
            links=links[n % HOLDERS],
        )
        for n in range(sites)
    ]


def kept(sites: int) -> SiteTable:
    """As a view over all peers keeps it: grown row by row."""
    table = SiteTable(site(0))
    for candidate in candidates(sites):
        row = table.add(candidate)
        table.set_link(row, candidate.links[site(0)], site(0))
    return table


def demand(jobs: int, parts: int = 0, output_bytes: float = 0.0) -> Demand:
    """`parts` datasets, each read by its share of the jobs."""
    needs = tuple(
        Need(
            files=(DataFile(f"dataset:d{n}", 10**9 // parts, "0" * 64),),
            readers=IndexSet.span(n * jobs // parts, (n + 1) * jobs // parts),
            holders=frozenset({site(n % HOLDERS)}),
        )
        for n in range(parts)
    )
    whole = IndexSet.span(0, jobs)
    return Demand(indices=whole, processors=1, work_s=60.0, needs=needs, max_subgroup=10**6, output_bytes=output_bytes)


def bare(table: SiteTable) -> Callable[[], int]:
    slots, speed, wait, rtt = (x.copy() for x in (table.slots, table.speed, table.wait_s, table.rtt_s))
    s_per_byte = table.from_holder(site(0)).s_per_byte.copy()

    def step() -> int:
        total = np.maximum(wait, 1e9 * s_per_byte) + np.maximum(6e5 / (slots * speed), 60.0 / speed) + 2 * rtt
        return int(np.argmin(total))

    return step


def times_us(step: Callable[[], object], steps: int, clock: Callable[[], float] = time.thread_time) -> list[float]:
    out = []
    for _ in range(steps):
        began = clock()
        step()
        out.append(1e6 * (clock() - began))
    return out


def placement(sites: int, rounds: int) -> dict[str, float]:
    """A group that reads a dataset and writes outputs, priced at every site of a table that stands; the best taken."""
    table = kept(sites)
    asked = demand(10_000, 1, output_bytes=1e4)

    def step() -> int:
        return int(np.argmin(price(Grid(asked, table)).total_s))

    least, taken, base = bare(table), list[float](), list[float]()
    times_us(step, 50)
    gc.collect()
    for _ in range(rounds):
        taken += times_us(step, STEPS)
        base += times_us(least, STEPS)
    listed = times_us(lambda: short_list(table, asked, 16), STEPS)
    return {
        f"sites_{sites}_p50_us": median(taken),
        f"sites_{sites}_p99_us": float(np.percentile(taken, 99)),
        f"sites_{sites}_bare_p50_us": median(base),
        f"sites_{sites}_bare_p99_us": float(np.percentile(base, 99)),
        f"sites_{sites}_short_list_us": median(listed),
    }


def split(sites: int, jobs: int, parts: int, rounds: int) -> float:
    """Median milliseconds to deal a group out over the sites of a table that stands."""
    asked = demand(jobs, parts)
    table = SiteTable.of(candidates(sites), [site(h) for h in range(HOLDERS)])
    dealt = heuristics.split(Grid(asked, table), blocks(asked))
    assert dealt is not None and dealt.jobs.sum() == jobs
    return median(times_us(lambda: heuristics.split(Grid(asked, table), blocks(asked)), rounds)) / 1e3


class Pair:
    """Two sites of one VO on loopback; `client` speaks to the first, which asks the other for a quote at each plan."""

    def __init__(self, folder: Path) -> None:
        first, second = _free_port(), _free_port()
        alpha = _Member(folder / "alpha", "alpha", first, second, None)
        self.sites = [alpha, _Member(folder / "beta", "beta", second, first, alpha.data)]

    def __enter__(self) -> Client:
        try:
            return self._start()
        except BaseException:
            self.__exit__()
            raise

    def _start(self) -> Client:
        for one in self.sites:
            one.start()
        client, until = self.sites[0].client, time.monotonic() + 60.0
        while not any(s.state == "alive" for s in client.sites() if not s.home):
            if time.monotonic() > until:
                raise SystemExit("the two sites did not find each other within 60 s")
            time.sleep(0.05)
        return client

    def __exit__(self, *exc: object) -> None:
        for one in reversed(self.sites):
            one.__exit__(*exc)


class _Member(BenchSite):
    def __init__(self, data: Path, name: str, port: int, peer: int, vo_from: Path | None) -> None:
        self.data = data
        self._node = None
        self.client = Client(data=data)
        listen, peers, root_jobs = f"127.0.0.1:{port}", [f"127.0.0.1:{peer}"], os.getuid() == 0
        init_site(data, name, vo_from=vo_from, slots=2, listen=listen, peers=peers, root_jobs=root_jobs)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def plan(folder: Path, rounds: int) -> dict[str, float]:
    """`plan` through the client, quotes of a real peer included, beside a call that asks nobody."""
    job = {"group": {"command": ["/bin/true"]}, "sweep": {"array": "0-9999"}}
    with Pair(folder) as client:
        asked = client.plan(job)
        if sum(1 for row in asked.candidates if not row.rejected) != 2:
            raise SystemExit(f"the peer gave no quote: {asked.candidates}")
        taken, call = list[float](), list[float]()
        for _ in range(rounds):
            taken += times_us(lambda: client.plan(job), 40, time.perf_counter)
            call += times_us(client.info, 40, time.perf_counter)
    return {
        "plan_p50_ms": median(taken) / 1e3,
        "plan_p99_ms": float(np.percentile(taken, 99)) / 1e3,
        "bare_call_p50_ms": median(call) / 1e3,
    }


def measure(folder: Path, rounds: int) -> dict[str, float]:
    out = placement(1000, rounds) | placement(10_000, rounds)
    out["split_10k_jobs_1000_sites_ms"] = split(1000, 10_000, 0, 5 * rounds)
    out["split_10k_jobs_shared_data_ms"] = split(1000, 10_000, 1, 5 * rounds)
    quoted = candidates(16)
    out["decide_16_quotes_ms"] = median(times_us(lambda: decide(demand(10_000, 1), quoted, 0.0), 20 * rounds)) / 1e3
    return out | small(rounds) | plan(folder, rounds)


def small(rounds: int) -> dict[str, float]:
    """Milliseconds for what most submissions are: few jobs, few sites that answered."""
    quoted, out = candidates(5), {}
    for name, asked in {"1_job": demand(1), "20_jobs": demand(20), "20_jobs_data": demand(20, 1)}.items():
        step = partial(decide, asked, quoted, 0.0)
        step()
        out[f"decide_{name}_5_quotes_ms"] = median(times_us(step, 20 * rounds)) / 1e3
    return out


def scattered(sites: int, parts: int, copies: int) -> float:
    """Milliseconds to decide on a group whose `parts` files lie at so many sites each, all over the grid."""
    whole = [
        msgspec.structs.replace(c, links={site(h): LinkForecast(bytes_per_s=1e6 * (1 + h % 5)) for h in range(sites)})
        for c in candidates(sites)
    ]
    places = [frozenset(site((7 * n + 11 * n * c + c) % sites) for c in range(copies)) for n in range(parts)]
    asked = demand(100_000, parts)
    needs = tuple(msgspec.structs.replace(n, holders=p) for n, p in zip(asked.needs, places, strict=True))
    asked = msgspec.structs.replace(asked, needs=needs)
    return times_us(lambda: decide(asked, whole, 0.0), 1)[0] / 1e3


def growth(rounds: int) -> dict[str, float]:
    """Milliseconds per split, by sites, jobs and blocks of data."""
    out = {}
    for sites in (100, 1000, 10_000):
        for jobs in (10**3, 10**4, 10**5, 10**6):
            out[f"sites_{sites}_jobs_{jobs}_ms"] = split(sites, jobs, 0, rounds)
    for parts in (1, 4, 64, 1024, 4096):
        out[f"sites_100_blocks_{parts}_ms"] = split(100, 10**6, parts, 1)
    for sites in (100, 300):
        for copies in (1, 2):
            out[f"scattered_{sites}_blocks_4096_copies_{copies}_ms"] = scattered(sites, 4096, copies)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--growth", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="diana-bench-") as folder:
        figures = growth(args.rounds) if args.growth else measure(Path(folder), args.rounds)
    for name, value in figures.items():
        print(f"{name:34} {value:12.3f}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
