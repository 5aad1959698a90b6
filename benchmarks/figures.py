"""The figures that `make bench` measures: each figure of PERFORMANCE by the name it has there, and a few more."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import bench_catalogue, bench_handover, bench_placement, bench_queues, bench_stream
from benchmarks.bench_alternatives import alternatives
from benchmarks.bench_calls import calls
from benchmarks.calibration import timed, xargs_jobs_per_s
from benchmarks.history import finish_at_random
from benchmarks.site import BenchSite, cpu_s, resident_bytes
from diana.model.ids import GroupId, SiteId
from diana.model.settings import Settings

MILLION = 1_000_000
SITTING = ["sleep", "86400"]
"""A job that keeps its slot, so that the million behind it stay queued while something else is measured."""


def million() -> dict[str, Any]:
    return {"group": {"command": SITTING}, "sweep": {"array": f"0-{MILLION - 1}"}}


def p1_submit(folder: Path, rounds: int) -> dict[str, float]:
    """Durable submit of 1,000,000 jobs: from the command line to the id, and one call on an open connection."""
    explicit = folder / "explicit.json"
    rows = [{"a": f"value-{number}"} for number in range(10_000)]
    explicit.write_text(json.dumps({"group": {"command": ["echo", "{a}"]}, "sweep": {"rows": rows}}))
    with BenchSite(folder / "p1", slots=1) as site:
        words = ("submit", "--array", f"0-{MILLION - 1}", "--", *SITTING)
        site.command(*words)
        command = [site.command(*words)[1] for _ in range(rounds)]
        call = timed(lambda: site.client.submit(million()), rounds)
        rowwise = [site.command("submit", str(explicit))[1] for _ in range(rounds)]
        help_s = [site.command("submit", "--help")[1] for _ in range(rounds)]
        for group in site.client.status():
            site.client.cancel(group.group)
    return {
        "submit_command_ms": 1000 * median(command),
        "submit_call_ms": 1000 * call,
        "submit_10k_explicit_ms": 1000 * median(rowwise),
        "help_ms": 1000 * median(help_s),
    }


def p2_throughput(folder: Path, rounds: int, jobs: int = 10_000) -> dict[str, float]:
    """`/bin/true`, durable, one site, 2 slots, against `xargs -P2` in turns: with the default claim-ahead, then 256."""
    out: dict[str, float] = {"jobs": jobs}
    for ahead in (0, 256):
        ours, bare = [], []
        with BenchSite(folder / f"p2-{ahead}", slots=2, claim_ahead=ahead) as site:
            job = {"group": {"command": ["/bin/true"]}, "sweep": {"array": f"0-{jobs - 1}"}}
            for _ in range(rounds):
                bare.append(xargs_jobs_per_s(jobs))
                began = time.perf_counter()
                ended = site.client.wait(site.client.submit(job).group)
                ours.append(jobs / (time.perf_counter() - began))
                assert ended.done == jobs, ended
        name = f"ahead_{Settings(slots=2, claim_ahead=ahead).feed() - 2}"
        out[f"{name}_jobs_per_s"] = median(ours)
        out[f"{name}_xargs_jobs_per_s"] = median(bare)
        out[f"{name}_ratio"] = median(a / b for a, b in zip(ours, bare, strict=True))
    return out


def p3_placement(folder: Path, rounds: int) -> dict[str, float]:
    """One placement over 1,000 and 10,000 sites, a split over 1,000, and `plan` with a quote of a peer on loopback."""
    place = folder / "p3"
    place.mkdir()
    return bench_placement.measure(place, rounds)


def p4_queues(folder: Path, rounds: int) -> dict[str, float]:
    """One arrival and one dispatch with 1,000,000 queued jobs, against numpy over a row per job."""
    return bench_queues.measure(100 * rounds)


def p7_idle(folder: Path, rounds: int) -> dict[str, float]:
    """Memory (proportional, node and spawner) and processor time of a node at rest, then with a million jobs queued."""
    with BenchSite(folder / "p7", slots=1) as site:
        time.sleep(3.0)
        began, before_s = time.perf_counter(), cpu_s(site.pid)
        time.sleep(10.0)
        core = (cpu_s(site.pid) - before_s) / (time.perf_counter() - began)
        idle = resident_bytes(site.pid)
        group = site.client.submit(million()).group
        time.sleep(3.0)
        queued = resident_bytes(site.pid)
        site.client.cancel(group)
    return {
        "idle_mib": idle / (1 << 20),
        "idle_core_percent": 100 * core,
        "bytes_per_queued_job": max(0, queued - idle) / MILLION,
    }


def p8_restart(folder: Path, rounds: int) -> dict[str, float]:
    """From starting the process to its first answer, a million jobs known, half of them ended in random order."""
    with BenchSite(folder / "p8", slots=1) as site:
        group = GroupId(site.client.submit(million()).group)
        time.sleep(1.0)
        site.kill()
        ended = finish_at_random(site.data, SiteId("bench"), group, MILLION)
        first = site.start()
        [status] = site.client.status([group])
        assert status.done + status.failed == ended, status
        later = []
        for _ in range(rounds):
            site.kill()
            later.append(site.start())
        site.client.cancel(group)
        size = os.path.getsize(site.data / "journal.db")
    return {"first_restart_s": first, "restart_s": median(later), "journal_mib": size / (1 << 20)}


def p10_stream(folder: Path, rounds: int) -> dict[str, float]:
    """A file from node to node over TLS, verified, against a plain Python TLS + sha256 loop; and 2,000 small files."""
    place = folder / "p10"
    place.mkdir()
    return asyncio.run(bench_stream.measure(place, 256, min(rounds, 3)))


def handover(folder: Path, rounds: int) -> dict[str, float]:
    """A subgroup of 10 to 1,000,000 jobs to another site and back: engines alone, then two real nodes on loopback."""
    return bench_handover.measure(rounds)


def catalogue(folder: Path, rounds: int) -> dict[str, float]:
    """Look-ups in a catalogue of 10^4, 10^5 and 10^6 files (10^7: bench_catalogue --full), its size and growth."""
    place = folder / "catalogue"
    place.mkdir()
    return bench_catalogue.measure(place, [10**4, 10**5, 10**6])


FIGURES = {
    "p1": p1_submit,
    "p2": p2_throughput,
    "p3": p3_placement,
    "p4": p4_queues,
    "p7": p7_idle,
    "p8": p8_restart,
    "p10": p10_stream,
    "catalogue": catalogue,
    "handover": handover,
    "alternatives": alternatives,
    "calls": calls,
}
