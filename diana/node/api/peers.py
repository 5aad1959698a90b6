"""The calls behind `diana peers` and `diana doctor`: the engine's view, and what the node's links add to it."""

from __future__ import annotations

from diana.errors import UsageError
from diana.model.trust.principal import Principal
from diana.model.views.peers import Peers
from diana.node.api.desk import Desk
from diana.node.ways_in.door import Insight
from diana.wire.client import messages as wire


async def peers(desk: Desk, caller: Principal, request: wire.Empty) -> wire.PeersResponse:
    return _insight(desk).describe(await desk.ask(Peers, caller, "peers"))


async def doctor(desk: Desk, caller: Principal, request: wire.Empty) -> wire.DoctorResponse:
    """Answers within about 3 s, whatever hangs."""
    found = await desk.ask(Peers, caller, "peers")
    return wire.DoctorResponse(checks=await _insight(desk).examine(found))


def _insight(desk: Desk) -> Insight:
    if desk.insight is None:
        raise UsageError("this node has no links to other sites to tell of")
    return desk.insight
