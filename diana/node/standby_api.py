"""What a standby answers on its control socket: who leads, how it is itself, and an operator's orders to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from diana import __version__
from diana.errors import Denied, Unreachable, UsageError
from diana.model.layout import DataDir
from diana.model.principal import Principal
from diana.node.config import SiteConfig
from diana.node.replication import Replication
from diana.policy.authorise import Action, authorise
from diana.replica import messages as ms
from diana.wire import client_messages as wire

if TYPE_CHECKING:
    from diana.node.api.desk import Desk

STOP_AFTER_S = 0.05


class StandbyApi:
    """`node/api` of a machine that follows. Everything but the calls below is answered with who leads."""

    def __init__(
        self,
        config: SiteConfig,
        data: DataDir,
        address: str,
        replication: Replication,
        says: Callable[[], str],
        stop: Callable[[], None],
    ) -> None:
        self._config = config
        self._data = data
        self._address = address
        self._replication = replication
        self._says = says
        self._stop = stop

    async def call(self, caller: Principal, method: str, request: Any, where: str = "") -> msgspec.Struct:
        match method:
            case "Info":
                _check(caller, Action.READ_INFO)
                return self._info(caller)
            case "Stop":
                _check(caller, Action.STOP)
                asyncio.get_running_loop().call_later(STOP_AFTER_S, self._stop)
                return wire.Empty()
            case "Promote":
                _check(caller, Action.PROMOTE)
                return await promote(self._replication, request, self._says)
        raise Unreachable(self._says())

    async def stream(
        self, caller: Principal, method: str, request: Any, where: str = ""
    ) -> AsyncGenerator[msgspec.Struct, None]:
        if says := self._says():
            raise Unreachable(says)
        yield wire.Empty()

    def _info(self, caller: Principal) -> wire.InfoResponse:
        replica = self._replication.replica
        return wire.InfoResponse(
            site=self._config.site,
            vo=self._config.vo,
            release=__version__,
            data=str(self._data.root),
            address=self._address,
            pid=os.getpid(),
            principal=caller.name,
            role=caller.role.value,
            machine=self._config.machine,
            durability=replica.durability,
            standing=standing(self._replication),
        )


async def promote(
    replication: Replication, request: wire.PromoteRequest, says: Callable[[], str]
) -> wire.PromoteResponse:
    """Carry out an operator's order to the machine of a pair that was asked."""
    if request.remove:
        error = await replication.operate(ms.RemoveStandby)
        done = f"{replication.machine} is alone now; {replication.pair.other} counts no more"
    elif request.force:
        error = await replication.operate(ms.ForceTakeover)
        done = f"{replication.machine} leads {replication.site}"
    elif replication.leading.done():
        error = await replication.operate(ms.Promote)
        done = f"{replication.pair.other} leads {replication.site} now"
    else:
        raise UsageError(f"{says()}; ask that machine to hand over, or take over from a dead one with --force")
    if error:
        raise UsageError(error)
    return wire.PromoteResponse(text=done)


async def promote_here(desk: Desk, caller: Principal, request: wire.PromoteRequest) -> wire.PromoteResponse:
    """The call to a node that leads."""
    if desk.pair is None:
        raise UsageError(f"site {desk.about.site} has no standby; give it one with: diana invite --standby")
    return await promote(desk.pair, request, lambda: "")


def standing(replication: Replication) -> str:
    """One line: what this machine is to its site, and how the pair is."""
    replica, other = replication.replica, replication.pair.other
    if replica.durability == 0:
        return f"standby; {replica.leads() or 'nobody'} leads"
    beside = f"standby {other} in sync" if replica.durability == 2 else f"alone, standby {other} does not count"
    return f"RootGrid in term {replica.term}; {beside}"


def told(answer: msgspec.Struct, replication: Replication | None, machine: str) -> msgspec.Struct:
    """A leading node's answer, with what the pair adds to it."""
    durability = 1 if replication is None else replication.durability
    if isinstance(answer, wire.InfoResponse):
        stands = "" if replication is None else standing(replication)
        return msgspec.structs.replace(answer, machine=machine, durability=durability, standing=stands)
    if durability > 1 and isinstance(answer, wire.GroupStatus):
        return msgspec.structs.replace(answer, durability=durability)
    if durability > 1 and isinstance(answer, wire.StatusResponse):
        groups = tuple(msgspec.structs.replace(group, durability=durability) for group in answer.groups)
        return msgspec.structs.replace(answer, groups=groups)
    return answer


def _check(caller: Principal, action: Action) -> None:
    refused = authorise(caller, action, owner=caller.name)
    if refused:
        raise Denied(refused)
