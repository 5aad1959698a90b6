"""What one submission, one quote for a peer and one summary cost with so many groups waiting (PERFORMANCE P4, P3).

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
from diana.engine import events as ev
from diana.engine import gossip
from diana.engine import messages as ms
from diana.model.ids import SiteId

GROUPS = (10, 1000, 8000)
USERS = 100
PEER = SiteId("peer")


def measure(groups: int, steps: int) -> dict[str, float]:
    """Medians in microseconds: `submit_us`, `quote_us`, `summary_us`."""
    driver = Driver(0, 0, "default")
    driver.engine.core.view.peers.clear()
    hello = ms.Hello(
        site=PEER,
        protocol=1,
        release="0",
        capabilities=(),
        db_uuid="p",
        generation=1,
        boot_nonce="p",
        seq=0,
        term=0,
        data_address="",
    )
    for n in range(groups):
        driver.submit(n % USERS, 1 + n % 3, 100)
    driver.handle(ev.PeerUp(hello))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {f"{SITE}_{groups}": measure(groups, options.steps) for groups in GROUPS}
    for name, figures in found.items():
        print(name, "  ".join(f"{what} {value:,.0f}" for what, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
