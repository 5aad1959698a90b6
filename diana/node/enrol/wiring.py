"""Puts enrolment together for a running site: its invitations, its signing, its own renewal."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.effects import Refusal
from diana.engine.journal.events import NameSite, NoteInvitation
from diana.errors import DianaError, Overloaded, UsageError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.trust.invitation import Invitation
from diana.model.views import views
from diana.node.config.site_file import SiteConfig
from diana.node.enrol.addresses import reached_at
from diana.node.enrol.invitations import InvitationBook, Keep
from diana.node.enrol.names import AskName
from diana.node.enrol.renewing import Note, Renewal, renew_before_start
from diana.node.enrol.service import Enrolment
from diana.node.enrol.signers import SignerBook
from diana.node.enrol.signing import Signing
from diana.node.ways_in.door import EngineDoor

_log = logging.getLogger("diana.enrol")


class Enrolling:
    """Made before the server, whose handshakes ask `roots`; opened when the transport is there."""

    def __init__(self, paths: DataDir, config: SiteConfig) -> None:
        self._paths = paths
        self._config = config
        self._invitations = InvitationBook()
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
        known: Mapping[str, Invitation],
        keyring: Any,
        note: Note,
        machines: Callable[[], list[str]] = list,
        standby: Callable[[], str] = lambda: "",
    ) -> Enrolment:
        """Serve enrolment and renew from now on. Before the server is started. `known`: the invitations the journal
        has; `machines`: where this machine is reached, then others of the site that may lead it."""
        self._transport = transport
        self._invitations.open(known, _keeping(door))
        config = self._config
        addresses = reached_at(config.listen, port, config.advertise)
        if self.signing.is_signer:
            self.signing.book.learn({config.site: next(iter(addresses), "")})
        ask_name = _asking(door)
        if self.signing.is_signer:
            own = begin(_name_own(ask_name, config.site), "telling this site's name")
            stack.push_async_callback(end, own)
        self._enrolment = Enrolment(
            keys=self._paths.keys,
            site=config.site,
            vo=config.vo,
            invitations=self._invitations,
            signing=self.signing,
            addresses=addresses,
            peer_addresses=lambda: [hello.data_address for hello in transport.peers().values() if hello.data_address],
            ask_name=ask_name,
            distrust=keyring.distrust,
            note=note,
            machines=machines,
            standby=standby,
        )
        self._enrolment.attach(server)
        renewal = Renewal(
            keys=self._paths.keys, kind="site", signing=self.signing, renewed=keyring.reload_keys, note=note
        )
        task = keep_up(renewal.run, "renewing this site's certificate")
        stack.push_async_callback(end, task)
        return self._enrolment


def _keeping(door: EngineDoor) -> Keep:
    async def keep(changed: Invitation) -> Mapping[str, Invitation]:
        answer = await door.request(lambda number: NoteInvitation(request=number, invitation=changed))
        assert isinstance(answer, views.Invitations)
        return answer.known

    return keep


def _asking(door: EngineDoor) -> AskName:
    async def ask(name: SiteId, *, give: bool, again: bool = False, signer: bool = False) -> views.Named:
        def event(number: int) -> NameSite:
            return NameSite(request=number, name=name, give=give, again=again, signer=signer, wall_s=time.time())

        answer = await door.request(event)
        if isinstance(answer, views.Named):
            return answer
        raise UsageError(answer.text if isinstance(answer, Refusal) else f"site {name}: the node does not know")

    return ask


async def _name_own(ask: AskName, site: SiteId) -> None:
    """A signer's own name was given out by nobody, where it made the VO: it tells the others itself."""
    while True:
        try:
            await ask(site, give=True, again=True, signer=True)
            return
        except Overloaded as error:
            await asyncio.sleep(max(1.0, error.retry_after_s))
        except DianaError as error:
            _log.warning("the name %s is not told as given out: %s", site, error)
            return
