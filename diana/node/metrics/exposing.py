"""One scrape: the readers are asked, then the text is made. The library comes in with the first one, so that a node
nobody watches pays nothing for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from diana.node.metrics.samples import Calls, Reader, Samples
from diana.threads import in_thread

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from diana.node.metrics.names import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATIENCE_S = 5.5
"""Seconds for each reader, all of which look at once: a little more than the engine's reader has with the engine."""
FRESH_S = 1.0
"""Seconds for which a scrape's text is given again: servers, sidecars and people may all be looking."""


class Metrics:
    """Belongs to the event loop; what blocks is done beside it."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self.calls: Calls = Calls()
        """Counts of the client API's calls, kept by whoever answers them."""
        self._turn = asyncio.Lock()
        self._made: dict[bool, tuple[float, bytes, str]] = {}

    async def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The text and its content type: OpenMetrics where `accept`, an HTTP header, asks for that, else Prometheus's
        own. Within about PATIENCE_S, whatever hangs: what it would have told is left out."""
        open_metrics = "application/openmetrics-text" in accept
        async with self._turn:
            made_s, text, kind = self._made.get(open_metrics, (-FRESH_S, b"", ""))
            if monotonic() - made_s < FRESH_S:
                return text, kind
            samples = Samples()
            for (call, decision), count in sorted(self.calls.items()):
                samples.put("diana_client_calls_total", count, call, decision)
            for found in await asyncio.gather(*map(_asked, self._readers)):
                samples.take(found)
            text, kind = await in_thread(lambda: _text(samples, open_metrics))
            self._made[open_metrics] = (monotonic(), text, kind)
            return text, kind


async def _asked(read: Reader) -> Samples:
    """The samples that a reader put down before its time was over."""
    samples = Samples()
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await read(samples)
    return samples


def _text(samples: Samples, open_metrics: bool) -> tuple[bytes, str]:
    from prometheus_client.exposition import generate_latest
    from prometheus_client.openmetrics import exposition as openmetrics
    from prometheus_client.registry import CollectorRegistry

    from diana.node.metrics.names import METRICS

    class Found:
        def collect(self) -> list[Family]:
            return [
                _family(METRICS[name], samples) for name in METRICS if name in samples.values or name in samples.timings
            ]

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Found())
    if open_metrics:
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return text, openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(registry), CONTENT_TYPE


def _family(metric: Metric, samples: Samples) -> Family:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if metric.kind == "histogram":
        timings = samples.timings[metric.name]
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels, unit=metric.unit)
        histogram.add_metric((), timings.cumulated(), timings.sum_s)
        return histogram
    kind = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels, unit="" if metric.kind == "counter" else metric.unit)
    for labels, value in samples.values[metric.name]:
        family.add_metric(labels, value)
    return family
