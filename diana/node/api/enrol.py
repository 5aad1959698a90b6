"""Calls about who comes into the VO: invite."""

from __future__ import annotations

from diana.errors import DianaError
from diana.model.trust.principal import Principal
from diana.node.api.desk import Desk
from diana.wire.client import messages as wire


async def invite(desk: Desk, caller: Principal, request: wire.InviteRequest) -> wire.InviteResponse:
    """The token is nowhere kept: who lost it has another made."""
    if desk.inviter is None:
        raise DianaError("this node takes no part in enrolment")
    return await desk.inviter.invite(caller.name, request)
