"""Makes invitations: a secret that leaves in the token and is forgotten here, and what is kept of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from diana.adapters.trust.invites import SEED_BYTES, invite_root
from diana.adapters.trust.reading import certificates_in
from diana.errors import UsageError
from diana.model.trust.invitation import TELL_S, Invitation
from diana.node.config.site_file import host_port
from diana.node.enrol import tokens
from diana.node.enrol.invitations import InvitationBook
from diana.node.enrol.names import NameRegistry
from diana.node.enrol.signing import Signing
from diana.wire.client.enrol import InviteRequest, InviteResponse, OpenInvitation

DEFAULT_FOR_S = 3600.0
MOST_FOR_S = 30 * 86_400.0


class Inviting:
    """`addresses`: where this node is reached."""

    def __init__(
        self,
        *,
        keys: Path,
        site: str,
        vo: str,
        invitations: InvitationBook,
        signing: Signing,
        names: NameRegistry,
        addresses: tuple[str, ...],
        others: Callable[[], list[str]] = list,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """`others`: where other machines are that may lead the site by the time the newcomer comes."""
        self._keys = keys
        self._site = site
        self._vo = vo
        self._invitations = invitations
        self._signing = signing
        self._names = names
        self._addresses = addresses
        self._others = others
        self._wall_s = wall_s

    async def invite(self, caller: str, request: InviteRequest) -> InviteResponse:
        """A token for one newcomer; or what is open, or withdrawn. UsageError for what cannot be invited, or not from
        here."""
        if request.order:
            return await self._manage(request)
        kind = request.kind or "site"
        if kind not in tokens.KINDS:
            raise UsageError(f"invite: {kind!r} is none of {', '.join(tokens.KINDS)}")
        if kind in ("site", "user") and not self._signing.is_signer:
            others = [one for one in self._signing.book.all() if one != self._site]
            signers = ", ".join(others) or "the first sites of the VO"
            raise UsageError(f"invite: site {self._site} cannot sign for another {kind}; invite at a signer: {signers}")
        await self._names.check(kind, request.name, request.again, "invite")
        if request.again and not request.name:
            raise UsageError(f"invite: --again wants the name of who comes back: diana invite --{kind} NAME --again")
        for_s = request.for_s or DEFAULT_FOR_S
        if not 1.0 <= for_s <= MOST_FOR_S:
            raise UsageError(f"invite: it is to hold for {for_s / 86_400.0:g} days; want 1 s to 30 days")
        addresses = self._addresses_for(request.address)
        seed, until_s = os.urandom(SEED_BYTES), self._wall_s() + for_s
        (root,) = certificates_in(self._keys / "vo.pem", most=1)
        token = tokens.Token(
            kind=kind,
            seed=seed,
            fingerprint=tokens.fingerprint_of(root),
            vo=self._vo,
            site=self._site,
            addresses=addresses,
        )
        invitation = Invitation(
            id=token.id,
            kind=kind,
            name=request.name,
            certificate=invite_root(seed, self._vo, until_wall_s=until_s + TELL_S).decode(),
            made_by=caller,
            expires_wall_s=until_s,
            again=request.again,
        )
        await self._invitations.add(invitation)
        return InviteResponse(
            token=tokens.encode(token),
            kind=kind,
            name=request.name,
            vo=self._vo,
            site=self._site,
            addresses=addresses,
            expires_wall_s=until_s,
        )

    async def _manage(self, request: InviteRequest) -> InviteResponse:
        if request.order == "withdraw":
            found = [await self._invitations.withdraw(request.id)]
        elif request.order == "list":
            found = self._invitations.unused()
        else:
            raise UsageError(f"invite: order {request.order!r}: want list or withdraw")
        told = tuple(
            OpenInvitation(
                id=one.id, kind=one.kind, name=one.name, made_by=one.made_by, expires_wall_s=one.expires_wall_s
            )
            for one in found
        )
        return InviteResponse(vo=self._vo, site=self._site, open=told)

    def _addresses_for(self, address: str) -> tuple[str, ...]:
        if not address and not self._addresses:
            raise UsageError("invite: nobody can dial this site; name a way in with --at HOST:PORT")
        check_address("invite", address)
        others = tuple(other for other in self._others() if other not in (address, *self._addresses))
        own = (address,) if address else self._addresses
        return (*own[: max(1, tokens.MOST_ADDRESSES - len(others))], *others)[: tokens.MOST_ADDRESSES]


def check_address(verb: str, address: str) -> None:
    """UsageError unless it is empty or host:port with a port that can be dialled."""
    try:
        good = not address or (address.isprintable() and host_port(address)[1] > 0)
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"{verb}: {address!r} is no address; write HOST:PORT")
