"""Puts together the metrics of a site's node: one that leads it, or one that follows."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig
from diana.node.loop.aside import Alone
from diana.node.metrics.exposing import Metrics
from diana.node.metrics.of_engine import engine
from diana.node.metrics.of_machine import Lrm, machine
from diana.node.metrics.samples import Reader, Samples

if TYPE_CHECKING:
    from diana.adapters.grpc_transport.transport import GrpcTransport
    from diana.adapters.staging.stager import FileStager
    from diana.node.loop.runner import Runner
    from diana.node.pair.replication import Replication

CACHE_EVERY_S = 60.0
"""Seconds between two sums: the cache's size is a sum over all that lies there."""
CACHE_WAIT_S = 1.0
"""Seconds for the sum; if it takes longer it goes on, and the last one is told until it is twice as old as it should
be."""


def of_site(
    config: SiteConfig,
    paths: DataDir,
    runner: Runner,
    transport: GrpcTransport,
    stager: FileStager,
    lrm: Lrm,
    replication: Replication | None,
) -> Metrics:
    """Metrics of a node that leads its site."""
    return Metrics(
        (
            machine(config, paths, lrm),
            _pair(replication),
            _runner(runner),
            _transport(transport),
            _stager(stager),
            engine(config.site, runner),
        )
    )


def of_standby(config: SiteConfig, paths: DataDir, replication: Replication | None) -> Metrics:
    """Metrics of a machine that follows. Without a `replication` it has not met the other machine yet."""
    return Metrics((machine(config, paths), _follows(replication)))


def _pair(replication: Replication | None) -> Reader:
    async def read(samples: Samples) -> None:
        samples.put("diana_durability", 1 if replication is None else replication.durability)
        samples.put("diana_leader_term", 0 if replication is None else replication.replica.term)

    return read


def _follows(replication: Replication | None) -> Reader:
    async def read(samples: Samples) -> None:
        samples.put("diana_durability", 0)
        samples.put("diana_leader_term", 0 if replication is None else replication.replica.term)

    return read


def _runner(runner: Runner) -> Reader:
    async def read(samples: Samples) -> None:
        events, rounds = runner.backlog()
        samples.put("diana_event_backlog", events)
        samples.put("diana_release_backlog", rounds)
        samples.timings["diana_journal_commit_seconds"] = runner.commits

    return read


def _transport(transport: GrpcTransport) -> Reader:
    async def read(samples: Samples) -> None:
        counted, put = transport.counters, samples.put
        put("diana_peer_messages_dropped_total", counted.dropped_unlinked, "unlinked")
        put("diana_peer_messages_dropped_total", counted.dropped_full, "full")
        put("diana_peer_messages_dropped_total", counted.dropped_unreached, "unreached")
        put("diana_peer_bad_messages_total", counted.bad_envelopes)
        put("diana_peer_retries_total", counted.retries_sent, "sent")
        put("diana_peer_retries_total", counted.retries_received, "received")
        put("diana_peers_refused_total", counted.refused_peers)
        put("diana_peer_dials_failed_total", counted.failed_dials)

    return read


def _stager(stager: FileStager) -> Reader:
    cached_bytes = Alone(stager.cached_bytes)

    def fresh(within_s: float) -> bool:
        return cached_bytes.last is not None and monotonic() < cached_bytes.last[0] + within_s

    async def read(samples: Samples) -> None:
        moved = stager.moved()
        samples.put("diana_received_bytes_total", moved.received)
        samples.put("diana_sent_bytes_total", moved.sent)
        samples.put("diana_url_bytes_total", moved.by_url)
        if not fresh(CACHE_EVERY_S):
            with suppress(TimeoutError):
                async with asyncio.timeout(CACHE_WAIT_S):
                    await cached_bytes()
        if cached_bytes.last is not None and fresh(2 * CACHE_EVERY_S):
            samples.put("diana_cache_bytes", cached_bytes.last[1])

    return read
