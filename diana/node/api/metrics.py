"""The call behind `diana metrics`: the text a Prometheus server would read here."""

from __future__ import annotations

from diana.errors import UsageError
from diana.model.trust.principal import Principal
from diana.node.api.desk import Desk
from diana.node.metrics import Metrics
from diana.wire.client import messages as wire


async def metrics(desk: Desk, caller: Principal, request: wire.Empty) -> wire.MetricsResponse:
    return await exposed(kept(desk))


def kept(desk: Desk) -> Metrics:
    if desk.metrics is None:
        raise UsageError("this node keeps no metrics")
    return desk.metrics


async def exposed(metrics: Metrics) -> wire.MetricsResponse:
    text, _ = await metrics.exposition()
    return wire.MetricsResponse(text=text.decode())
