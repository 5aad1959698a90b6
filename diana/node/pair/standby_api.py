"""The answers of a standby on its control socket: who leads, its own state, and an operator's orders to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from diana import __version__
from diana.errors import Denied, Overloaded, Unreachable, UsageError
from diana.model.durations import seconds
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal
from diana.model.views.group import GroupStatus
from diana.node.api.watch import exposed
from diana.node.config.site_file import SiteConfig
from diana.node.metrics.of_node import of_standby
from diana.node.pair.electing import note_operators
from diana.node.pair.pair import now_s
from diana.node.pair.replication import Replication
from diana.policy.trust.authorise import Action, authorise
from diana.replica import messages as ms
from diana.wire.client import messages as wire
from diana.wire.client.peers import CheckResult, DoctorResponse

if TYPE_CHECKING:
    from diana.node.api.desk import Desk

STOP_AFTER_S = 0.05
SILENT_S = 4.0
"""A leader says something each second; one that is silent for so long counts as away."""


class StandbyApi:
    """`node/api` of a machine that follows, or that is to lead and does not serve yet. Everything but the calls below
    is answered with who leads, or what is waited for. Without a `replication` it has not met the other machine yet."""

    def __init__(
        self,
        config: SiteConfig,
        data: DataDir,
        address: str,
        replication: Replication | None,
        says: Callable[[], str],
        stop: Callable[[], None],
    ) -> None:
        self._config = config
        self._data = data
        self._address = address
        self._replication = replication
        self._says = says
        self._stop = stop
        self._metrics = of_standby(config, data, replication)

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
                if self._replication is None:
                    raise UsageError(self._says())
                return await promote(self._replication, request, self._says)
            case "Doctor":
                _check(caller, Action.DIAGNOSE)
                return DoctorResponse(checks=(self._row(),))
            case "Metrics":
                _check(caller, Action.READ_SITES)
                return await exposed(self._metrics)
        raise Unreachable(self._says())

    async def stream(
        self, caller: Principal, method: str, request: Any, where: str = ""
    ) -> AsyncGenerator[msgspec.Struct, None]:
        if says := self._says():
            raise Unreachable(says)
        yield wire.Empty()

    def _info(self, caller: Principal) -> wire.InfoResponse:
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
            durability=0,
            standing=self._stands(),
        )

    def _stands(self) -> str:
        pair = self._replication
        return self._says() if pair is None or pair.leading.done() else standing(pair)

    def _row(self) -> CheckResult:
        """The standby's row in `diana doctor`."""
        found, _, mend = self._says().partition("; ")
        pair = self._replication
        if pair is not None and not pair.leading.done() and not is_away(pair):
            return CheckResult(name="standby", state="ok", found=standing(pair))
        return CheckResult(name="standby", state="warn", found=found, mend=mend)


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
    elif replication.leading.done() and replication.offered and not replication.pair.witness:
        raise UsageError(
            f"{replication.offered.partition('@')[0]} is being made the witness; try again in some seconds"
        )
    elif replication.leading.done():
        error = await replication.operate(ms.Promote)
        done = f"{replication.pair.other} leads {replication.site} now"
    else:
        why = says()
        hint = "" if "--force" in why else "; ask that machine to hand over, or take over from a dead one with --force"
        raise UsageError(f"{why}{hint}")
    if error:
        raise UsageError(error)
    return wire.PromoteResponse(text=done)


async def promote_here(desk: Desk, caller: Principal, request: wire.PromoteRequest) -> wire.PromoteResponse:
    """The call to a node that leads."""
    if desk.pair is None:
        raise UsageError(f"site {desk.about.site} has no standby; give it one with: diana invite --standby")
    if request.remove or request.force:
        return await promote(desk.pair, request, lambda: "")
    # A disk without room must not keep an operator from handing over.
    with suppress(Overloaded):
        await note_operators(desk.pair, desk.door, desk.pair.pair.other)
    try:
        return await promote(desk.pair, request, lambda: "")
    except BaseException:
        with suppress(Overloaded):
            await asyncio.shield(note_operators(desk.pair, desk.door, ""))
        raise


def standing(replication: Replication) -> str:
    """One line: what this machine is to its site, and how the pair is."""
    replica, other = replication.replica, replication.pair.other
    if replica.durability == 0:
        return f"standby; {replica.leads() or 'nobody'} leads"
    beside = f"standby {other} in sync" if replica.durability == 2 else f"alone, standby {other} does not count"
    witness = replication.pair.witness.partition("@")[0]
    return f"RootGrid in term {replica.term}; {beside}; {f'witness {witness}' if witness else 'no witness'}"


def who_leads(replication: Replication, root: Path, where: str) -> str:
    """One line of a machine that follows, to whoever wants something of the site: whom to ask instead, or what is to
    happen before anybody can be asked. `where`: at which addresses the other machine was; `root`: this directory.
    """
    site, here, replica = replication.site, replication.machine, replication.replica
    leader, register = replica.leads(), replica.register
    if replication.leading.done():
        return (
            f"{here} leads {site} in term {replica.term} and waits for its standby {replication.pair.other} to have "
            f"what it did last; start the node of {replication.pair.other}; if that is dead for good: "
            f"diana site promote --remove --data {root}"
        )
    if leader == here and register is not None and not register.counts(replica.me):
        other = replication.pair.other
        return (
            f"{here} of {site} lost the end of its journal, and does not lead with what is left; start the node of "
            f"{other}; if that is dead for good: diana site promote --force --data {root}"
        )
    if leader in ("", here):
        return f"{site} has no RootGrid just now, {here} is its standby; try again in some seconds"
    if not is_away(replication):
        return f"{site}'s RootGrid is {leader} at {where}; this is its standby"
    away = f"the leader {leader} of {site} has not answered for {seconds(round(_unheard_s(replication)))}"
    witness = replication.pair.witness.partition("@")[0]
    by_force = f"if {leader} is dead for good: diana site promote --force --data {root}"
    if register is None or not register.counts(replica.me):
        return f"{away}, and {here} lacks what it did last; start the node of {leader}; {by_force}"
    if not witness:
        return f"{away}, and no witness can let {here} take over; start the node of {leader}; {by_force}"
    return f"{away}; {here} takes over within 20 s once the witness {witness} agrees; {by_force}"


def is_away(replication: Replication) -> bool:
    """True if the machine that is to lead the site does not answer."""
    return _unheard_s(replication) >= SILENT_S


def _unheard_s(replication: Replication) -> float:
    """Seconds since the leader last asked this machine for its lease, which it does each second; at least since the
    start."""
    replica = replication.replica
    return now_s() - (replica.grant_until_s - replica.settings.wait_s)


def told(answer: msgspec.Struct, replication: Replication | None, machine: str) -> msgspec.Struct:
    """Add to a leading node's answer what the pair knows."""
    durability = 1 if replication is None else replication.durability
    if isinstance(answer, wire.InfoResponse):
        stands = "" if replication is None else standing(replication)
        return msgspec.structs.replace(answer, machine=machine, durability=durability, standing=stands)
    if durability > 1 and isinstance(answer, GroupStatus):
        return msgspec.structs.replace(answer, durability=durability)
    if durability > 1 and isinstance(answer, wire.StatusResponse):
        groups = tuple(msgspec.structs.replace(group, durability=durability) for group in answer.groups)
        return msgspec.structs.replace(answer, groups=groups)
    return answer


def _check(caller: Principal, action: Action) -> None:
    refused = authorise(caller, action, owner=caller.name)
    if refused:
        raise Denied(refused)
