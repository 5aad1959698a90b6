"""Puts enrolment together for a running site: its invitations, its signing, its own renewal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

from diana.engine.events import Ask
from diana.model import views
from diana.model.layout import DataDir
from diana.model.principal import Principal, Role
from diana.node.config import SiteConfig
from diana.node.door import EngineDoor
from diana.node.enrol.addresses import reached_at
from diana.node.enrol.invitations import Invitations
from diana.node.enrol.renewing import Note, Renewal, renew_before_start
from diana.node.enrol.service import Enrolment
from diana.node.enrol.signers import SignerBook
from diana.node.enrol.signing import Signing


class Enrolling:
    """Made before the server, whose handshakes ask `roots`; opened when the transport is there."""

    def __init__(self, paths: DataDir, config: SiteConfig) -> None:
        self._paths = paths
        self._config = config
        self._invitations = Invitations(paths.invitations)
        self._transport: Any = None
        self.signing = Signing(
            keys=paths.keys,
            site=config.site,
            trust=config.trust,
            book=SignerBook(paths.signers),
            channel_for=lambda site: self._transport.channel_for(site),
            peers=lambda: iter(self._transport.peers()),
        )
        self._enrolment: Enrolment | None = None
        renew_before_start(paths.keys, "site", self.signing, time.time())

    def roots(self) -> Iterable[bytes]:
        return tuple(self._invitations.roots())

    def why_not_invited(self, chain: bytes) -> str:
        """For `Admission`: empty for who comes with an invitation of ours."""
        if self._enrolment is not None and self._enrolment.invited(chain):
            return ""
        return "join: this site knows no such invitation; ask for a new one"

    async def open(
        self,
        stack: AsyncExitStack,
        server: Any,
        *,
        port: int,
        transport: Any,
        door: EngineDoor,
        keyring: Any,
        note: Note,
        machines: Callable[[], list[str]] = list,
    ) -> Enrolment:
        """Serve enrolment and renew from now on. Before the server is started."""
        self._transport = transport
        config = self._config
        addresses = reached_at(config.listen, port, config.advertise)
        if self.signing.is_signer:
            self.signing.book.learn({config.site: next(iter(addresses), "")})
        self._enrolment = Enrolment(
            keys=self._paths.keys,
            site=config.site,
            vo=config.vo,
            invitations=self._invitations,
            signing=self.signing,
            addresses=addresses,
            peer_addresses=lambda: [hello.data_address for hello in transport.peers().values() if hello.data_address],
            known_sites=_known(door, config),
            distrust=keyring.distrust,
            note=note,
            machines=machines,
        )
        self._enrolment.attach(server)
        renewal = Renewal(
            keys=self._paths.keys, kind="site", signing=self.signing, renewed=keyring.reload_keys, note=note
        )
        task = asyncio.create_task(renewal.run())
        stack.push_async_callback(_end, task)
        return self._enrolment


def _known(door: EngineDoor, config: SiteConfig) -> Callable[[], Any]:
    async def known() -> frozenset[str]:
        me = Principal(Role.OPERATOR, f"diana@{config.vo}")
        answer = await door.request(lambda number: Ask(request=number, principal=me, what="sites"))
        return frozenset(site.site for site in answer.sites) if isinstance(answer, views.Sites) else frozenset()

    return known


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
