"""A site's enrolment with an engine that keeps what it is told, and no node around it, for tests of both."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from diana.adapters.trust import certificates
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from diana.errors import Denied
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust.identity import Identity
from diana.model.trust.invitation import Invitation
from diana.model.views.views import Invitations as KnownInvitations
from diana.model.views.views import Named
from diana.node.config.site_file import Trust
from diana.node.enrol import tokens
from diana.node.enrol.invitations import InvitationBook
from diana.node.enrol.service import Enrolment
from diana.node.enrol.signers import SignerBook
from diana.node.enrol.signing import Signing
from diana.sim.twins.keyring import SimKeyring
from diana.wire.client.enrol import InviteRequest
from diana.wire.pb import enrol_pb2

T = TypeVar("T")
NOW_S = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


class Desk:
    """A site's enrolment on files, without a node around it."""

    def __init__(self, folder: Path, site: str = "alpha", *, vo_from: Path | None = None, signer: bool = True) -> None:
        self.keys = folder / "keys"
        self.clock = Clock()
        if vo_from is None:
            certificates.make_vo("lab", self.keys, site=site, wall_s=NOW_S)
        elif signer:
            certificates.make_signer(vo_from, site, self.keys, wall_s=NOW_S)
        certificates.issue_site(vo_from or self.keys, site, self.keys, wall_s=NOW_S)
        self.root = (self.keys / "vo.pem").read_bytes()
        self.book = SignerBook(folder / "signers.json")
        if signer:
            self.book.learn({site: "h:1"})
        self.site = site
        self.kept = Journal(snapshot=None, seq=0, at_s=0.0, records=[])
        self.noted: list[tuple[str, ...]] = []
        self.standby = ""
        self.signing = Signing(
            keys=self.keys,
            site=site,
            trust=Trust(),
            book=self.book,
            channel_for=lambda site: None,
            peers=lambda: iter(()),
            wall_s=self.clock,
        )
        self.restart()

    def restart(self) -> None:
        """With what the journal has; whom the engine knew besides is forgotten."""
        ring = SimKeyring(f"site:{self.site}", "lab", wall_clock=self.clock)
        self.engine = Engine.restore(self.kept, site=SiteId(self.site), keyring=ring, now=0.0)
        self.engine.start(Settings(), boot_nonce="n", db_uuid="u")
        run(self.ask(SiteId(self.site), give=True, again=True))
        invitations = InvitationBook(self.clock)
        invitations.open(self.engine.core.state.invitations, self.keep)
        self.enrolment = Enrolment(
            keys=self.keys,
            site=self.site,
            vo="lab",
            invitations=invitations,
            signing=self.signing,
            addresses=("h:1",),
            peer_addresses=lambda: ["h:2"],
            ask_name=self.ask,
            distrust=self.distrust,
            note=lambda *words: self.noted.append(words),
            wall_s=self.clock,
            standby=lambda: self.standby,
        )

    async def ask(self, name: SiteId, **how: Any) -> Named:
        """As a node asks its engine: what is to be kept is in the journal before there is an answer."""
        done = self.engine.handle(ev.NameSite(request=1, name=name, wall_s=self.clock(), **how), 1.0)
        self.kept = Journal(snapshot=self.engine.snapshot(), seq=0, at_s=0.0, records=[])
        (answer,) = [one.body for one in done if isinstance(one, fx.Reply)]
        assert isinstance(answer, Named)
        return answer

    async def keep(self, changed: Invitation) -> dict[str, Invitation]:
        done = self.engine.handle(ev.NoteInvitation(request=1, invitation=changed), 1.0)
        self.kept = Journal(snapshot=self.engine.snapshot(), seq=0, at_s=0.0, records=[])
        (answer,) = [one.body for one in done if isinstance(one, fx.Reply)]
        assert isinstance(answer, KnownInvitations)
        return answer.known

    def hear(self, other: Desk) -> None:
        """The VO's ledger as the other's journal holds it."""
        told = ms.LedgerNews(statements=tuple(other.engine.core.state.ledger.values()))
        self.engine.handle(ev.Received(SiteId(other.site), told), 2.0)
        self.kept = Journal(snapshot=self.engine.snapshot(), seq=0, at_s=0.0, records=[])

    def distrust(self, chain: bytes) -> str:
        try:
            certificates.verify_chain(chain, self.root, at_s=self.clock())
        except Denied as error:
            return str(error)
        return ""

    def token(self, kind: str = "site", name: str = "", **more: Any) -> tokens.Token:
        made = run(self.enrolment.invite("ann@lab", InviteRequest(kind=kind, name=name, **more)))
        return tokens.decode(made.token)

    def join(self, token: tokens.Token, name: str = "", **more: Any) -> enrol_pb2.JoinResponse:
        request = newcomer(name, **({"wall_s": self.clock()} | more))
        leaf = certificates.invite_leaf(token.seed, token.vo)[1]
        return run(self.enrolment.join(leaf, request, "h:9"))


def run(doing: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(doing)


def newcomer(name: str, **more: Any) -> enrol_pb2.JoinRequest:
    _, leaf = certificates.new_key_and_request(Identity("site", "whoever", "lab"))
    _, signer = certificates.new_key_and_request(Identity("signer", "whoever", "lab"))
    return enrol_pb2.JoinRequest(**({"name": name, "leaf_request": leaf, "signer_request": signer} | more))
