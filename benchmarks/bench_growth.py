"""Cost of one submission, one quote for a peer and one summary with so many groups waiting (PERFORMANCE P4, P3), and of
a peer with so many peers (P9).

    python -m benchmarks.bench_growth [--steps 100] [--json FILE]

Everything goes through the engine's door; times are of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

from benchmarks.bench_queues import SITE, Driver
from diana.engine.journal import events as ev
from diana.engine.membership import gossip
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId

GROUPS = (10, 1000, 8000)
PEERS = (100, 1000, 10_000)
USERS = 100
PEER = SiteId("peer")


def measure(groups: int, steps: int) -> dict[str, float]:
    """Medians in microseconds: `submit_us`, `quote_us`, `summary_us`."""
    driver = Driver(0, 0, "default")
    driver.engine.core.view.peers.clear()
    for n in range(groups):
        driver.submit(n % USERS, 1 + n % 3, 100)
    driver.handle(ev.PeerUp(hello(PEER)))
    driver.handle(ev.PeerDown(PEER))
    asked = ms.QuoteRequest(
        quote=1, processors=1, memory_bytes=0, jobs=100, refs=(), owner="u1@vo", template="x", work_s=1.0
    )
    submits = [driver.submit(n % USERS, 1, 100) for n in range(steps)]
    quotes = [driver.handle(ev.Received(PEER, asked)) for _ in range(steps)]
    summaries = []
    for _ in range(steps):
        began = time.thread_time()
        gossip.summary(driver.engine.core)
        summaries.append(time.thread_time() - began)
    ends = [driver.end_one() for _ in range(min(steps, len(driver.running)))]
    figures = {"submit_us": submits, "quote_us": quotes, "summary_us": summaries, "end_us": ends}
    return {name: 1e6 * median(values) for name, values in figures.items() if values}


def hello(site: SiteId) -> ms.Hello:
    return ms.Hello(
        site=site,
        protocol=1,
        release="0",
        capabilities=(),
        db_uuid=site,
        generation=1,
        boot_nonce="p",
        seq=0,
        term=0,
        data_address="",
    )


def summary_of(site: SiteId, counter: int) -> ms.Summary:
    return ms.Summary(
        site=site,
        generation=1,
        counter=counter,
        seq=1,
        slots=10,
        free_slots=1,
        speed=1.0,
        queued_jobs=0,
        running_jobs=0,
        work_ahead_s=1.0,
        datasets=(),
        accepting=True,
    )


def with_peers(peers: int) -> dict[str, float]:
    """Microseconds per peer: coming up, a summary of it, a measured round trip, being told ours."""
    driver = Driver(0, 0, "default")
    sites = [SiteId(f"p{n:05}") for n in range(peers)]
    steps: dict[str, list[ev.Event]] = {
        "up_us": [ev.PeerUp(hello(site)) for site in sites],
        "summary_us": [ev.Received(site, summary_of(site, 1)) for site in sites],
        "measured_us": [ev.LinkMeasured(site=site, rtt_s=0.01, sent=1) for site in sites],
    }
    out = {name: 1e6 * sum(driver.handle(event) for event in some) / peers for name, some in steps.items()}
    began = time.thread_time()
    gossip.tell_all(driver.engine.core)
    out["told_us"] = 1e6 * (time.thread_time() - began) / peers
    driver.engine.core.effects.clear()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {f"{SITE}_{groups}": measure(groups, options.steps) for groups in GROUPS}
    found |= {f"peers_{peers}": with_peers(peers) for peers in PEERS}
    for name, figures in found.items():
        print(name, "  ".join(f"{what} {value:,.0f}" for what, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
