"""The answers of a member machine on its control socket: its state, and an operator's order to stop. All else is asked
of the site it works for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import msgspec

from diana import __version__
from diana.errors import Denied, Unreachable
from diana.model.durations import seconds
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal
from diana.model.words import counted
from diana.node.api.watch import exposed
from diana.node.config.site_file import SiteConfig
from diana.node.metrics.exposing import Metrics
from diana.node.metrics.of_machine import Lrm, machine
from diana.node.metrics.samples import Samples
from diana.policy.trust.authorise import Action, authorise
from diana.wire.client import messages as wire
from diana.wire.client.peers import CheckResult, DoctorResponse

STOP_AFTER_S = 0.05


class Attachment(Protocol):
    """The attachment to whoever leads the site."""

    address: str
    """Address of the leading machine; empty: attached to nobody."""
    since_s: float
    """Time at which that began, by the node's clock."""
    why_not: str


class MemberJobs(Protocol):
    slots: int

    def given(self) -> int:
        """Jobs claimed here that have not ended."""
        ...

    def staging(self) -> int:
        """Jobs whose inputs are on their way."""
        ...


class MemberApi:
    """`node/api` of a member machine."""

    def __init__(
        self,
        config: SiteConfig,
        data: DataDir,
        attachment: Attachment,
        jobs: MemberJobs,
        clock: Callable[[], float],
        stop: Callable[[], None],
        lrm: Lrm,
    ) -> None:
        self._metrics = Metrics((machine(config, data, lrm), self._measure))
        self._config = config
        self._data = data
        self._attachment = attachment
        self._jobs = jobs
        self._clock = clock
        self._stop = stop

    async def call(self, caller: Principal, method: str, request: Any, where: str = "") -> msgspec.Struct:
        match method:
            case "Info":
                _check(caller, Action.READ_INFO)
                return self._info(caller)
            case "Status" if not request.groups:
                _check(caller, Action.LIST_GROUPS)
                return wire.StatusResponse()
            case "Doctor":
                _check(caller, Action.DIAGNOSE)
                return DoctorResponse(checks=(self._attached(),))
            case "Metrics":
                _check(caller, Action.READ_SITES)
                return await exposed(self._metrics)
            case "Stop":
                _check(caller, Action.STOP)
                asyncio.get_running_loop().call_later(STOP_AFTER_S, self._stop)
                return wire.Empty()
        raise Unreachable(self._elsewhere())

    async def stream(
        self, caller: Principal, method: str, request: Any, where: str = ""
    ) -> AsyncGenerator[msgspec.Struct, None]:
        if elsewhere := self._elsewhere():
            raise Unreachable(elsewhere)
        yield wire.Empty()

    async def _measure(self, samples: Samples) -> None:
        samples.put("diana_member_attached", bool(self._attachment.address))
        samples.put("diana_member_slots", self._jobs.slots)
        samples.put("diana_member_jobs", self._jobs.given(), "given")
        samples.put("diana_member_jobs", self._jobs.staging(), "staging")

    def _info(self, caller: Principal) -> wire.InfoResponse:
        return wire.InfoResponse(
            site=self._config.site,
            vo=self._config.vo,
            release=__version__,
            data=str(self._data.root),
            pid=os.getpid(),
            queued_jobs=self._jobs.staging(),
            running_jobs=self._jobs.given(),
            principal=caller.name,
            role=caller.role.value,
            machine=self._config.machine,
            standing=self._standing(),
        )

    def _standing(self) -> str:
        """The machine's standing in one line."""
        jobs = self._jobs
        here = (
            f"{counted(jobs.slots, 'slot')}, {counted(jobs.given(), 'job')} given, {jobs.staging():,} fetching inputs"
        )
        return f"machine {self._config.machine} of site {self._config.site}: {self._to_whom()}; {here}"

    def _to_whom(self) -> str:
        attachment = self._attachment
        for_s = seconds(max(0.0, self._clock() - attachment.since_s))
        if attachment.address:
            return f"attached to {attachment.address} for {for_s}"
        return f"attached to nobody for {for_s}" + (f" ({attachment.why_not})" if attachment.why_not else "")

    def _attached(self) -> CheckResult:
        if self._attachment.address:
            return CheckResult(name="RootGrid", state="ok", found=self._to_whom())
        mend = "start the site's node; check root in site.toml"
        return CheckResult(name="RootGrid", state="fail", found=self._to_whom(), mend=mend)

    def _elsewhere(self) -> str:
        known = self._attachment.address or next(iter(self._config.root), "")
        where = f"at {known}" if known else "which leads it"
        return f"{self._config.machine} only runs jobs for {self._config.site}; ask the machine {where}"


def _check(caller: Principal, action: Action) -> None:
    refused = authorise(caller, action, owner=caller.name)
    if refused:
        raise Denied(refused)
