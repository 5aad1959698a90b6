"""The inviter's side of enrolment: answers those who come with an invitation, and signs what members of the VO renew.

Whatever is refused changes nothing, is told in one line to the one who asked, and stands in the audit trail.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from diana import errors
from diana.adapters.grpc.server import peer_identity
from diana.adapters.trust.authority import name_in, request_key
from diana.adapters.trust.invites import invited_by
from diana.adapters.trust.reading import bytes_in
from diana.errors import Denied, DianaError, UsageError
from diana.model.trust.identity import Identity
from diana.model.trust.invitation import Invitation
from diana.model.trust.principal import Principal, Role
from diana.node.enrol.invitations import InvitationBook
from diana.node.enrol.inviting import Inviting, check_address
from diana.node.enrol.names import AskName, NameRegistry
from diana.node.enrol.signing import NO_PROOF, Proof, Signing
from diana.node.ways_in.call_rates import CallRates
from diana.policy.trust.enrolment import becomes_signer, may_be_signed
from diana.wire import renewal
from diana.wire.pb import enrol_pb2, enrol_pb2_grpc
from diana.wire.unreadable import UNREADABLE

MOST_SKEW_S = 240.0
"""Clocks further apart cannot use each other's certificates, which hold from 300 s before they were made."""
MOST_TOLD = 8
"""Addresses of other sites that a newcomer is told."""

SIGNED_PER_S, SIGNED_AT_ONCE = 5.0, 2000.0
"""Per caller: a site of two thousand machines that were all off may renew them at once."""
MOST_FIELD = 300
"""Characters of a name or address in a request: an invitation is no way to fill a disk."""

_log = logging.getLogger(__name__)

Note = Callable[[str, str, str, str, str], None]
"""(who, action, target, decision, reason) for the audit trail."""


class Enrolment:
    """`ask_name` asks the engine; `addresses` are this node's own, `peer_addresses` of sites linked now."""

    def __init__(
        self,
        *,
        keys: Path,
        site: str,
        vo: str,
        invitations: InvitationBook,
        signing: Signing,
        addresses: tuple[str, ...],
        peer_addresses: Callable[[], list[str]],
        ask_name: AskName,
        distrust: Callable[[bytes], str],
        note: Note,
        wall_s: Callable[[], float] = time.time,
        machines: Callable[[], list[str]] = list,
        standby: Callable[[], str] = lambda: "",
    ) -> None:
        """`machines`: where this machine is reached, then others of the site that may lead it; `standby`: the name of
        the one that keeps its journal too, empty while none does."""
        self._keys = keys
        self._site = site
        self._vo = vo
        self._invitations = invitations
        self._signing = signing
        self._addresses = addresses
        self._peer_addresses = peer_addresses
        self._machines = machines
        self._names = NameRegistry(site, invitations, ask_name, standby)
        self.invite = Inviting(
            keys=keys,
            site=site,
            vo=vo,
            invitations=invitations,
            signing=signing,
            names=self._names,
            addresses=addresses,
            others=lambda: machines()[1:],
            wall_s=wall_s,
        ).invite
        self._distrust = distrust
        self._note = note
        self._wall_s = wall_s
        self._naming = asyncio.Lock()
        self._rates = CallRates(SIGNED_PER_S, SIGNED_AT_ONCE)
        self._admitting: dict[str, asyncio.Lock] = {}

    def attach(self, server: grpc.aio.Server) -> None:
        add: Any = enrol_pb2_grpc.add_EnrolServicer_to_server
        add(_Service(self), server)

    # --- a newcomer --------------------------------------------------------------------------------------

    def invited(self, leaf_pem: bytes) -> str:
        """ID of the invitation that a newcomer's certificate is under; empty: none, or one forgotten."""
        return invited_by(leaf_pem, self._invitations.roots())

    async def join(self, leaf_pem: bytes, request: enrol_pb2.JoinRequest, where: str) -> enrol_pb2.JoinResponse:
        """Denied or UsageError says why not, and nothing was changed."""
        invitation = self._invitations.get(self.invited(leaf_pem))
        who = f"invitation {invitation.id}" if invitation else "nobody"
        wanted = (invitation.kind, invitation.name or request.name[:MOST_FIELD]) if invitation else ()
        target = " ".join(filter(None, wanted))
        try:
            if invitation is None:
                raise Denied("join: this site knows no such invitation; ask for a new one")
            _check_fields(request)
            # One at a time: a use that came to nothing is taken back only while no other may have come of it.
            async with self._admitting.setdefault(invitation.id, asyncio.Lock()):
                answer = await self._admit(invitation, request)
        except DianaError as error:
            self._note(who, "join", target, "denied", f"{error} [{where}]")
            raise
        self._note(who, "join", f"{answer.kind} {answer.name or answer.site}", "allowed", where)
        return answer

    async def _admit(self, invitation: Invitation, request: enrol_pb2.JoinRequest) -> enrol_pb2.JoinResponse:
        self._check_time(invitation, request.wall_s)
        key = hashlib.sha256(request_key(request.leaf_request)).hexdigest()
        async with self._naming:
            invitation = self._invitations.get(invitation.id) or invitation
            if invitation.used_by not in ("", key):
                raise Denied("join: this invitation was used already; each is good for one, ask for a new one")
            name = invitation.used_name or invitation.name or request.name or request.suggestion
            if invitation.name and request.name not in ("", invitation.name):
                raise UsageError(
                    f"join: this invitation is for {invitation.kind} {invitation.name}, not {request.name}"
                )
            if not name:
                raise UsageError(f"join: the invitation names no {invitation.kind}; name it: diana join - NAME")
            fresh = not invitation.used_by
            if fresh:
                await self._names.check(invitation.kind, name, invitation.again, "join")
                await self._invitations.use(invitation.id, key, name, request.address)
        try:
            return await self._signed(invitation, name, request)
        except DianaError:
            if fresh:
                await self._invitations.free(invitation.id)
            raise

    def _check_time(self, invitation: Invitation, theirs_s: float) -> None:
        now_s = self._wall_s()
        if invitation.expired(now_s):
            ago = _long(now_s - invitation.expires_wall_s)
            raise Denied(f"join: this invitation expired {ago} ago; ask for a new one")
        if abs(theirs_s - now_s) > MOST_SKEW_S:
            side = "ahead of" if theirs_s > now_s else "behind"
            raise UsageError(
                f"join: this machine's clock is {_long(abs(theirs_s - now_s))} {side} that of site {self._site}; "
                "set the one that is wrong and join again, the invitation is still good"
            )

    async def _signed(
        self, invitation: Invitation, name: str, request: enrol_pb2.JoinRequest
    ) -> enrol_pb2.JoinResponse:
        kind = invitation.kind
        site = name if kind == "site" else self._site
        if kind == "user":
            wanted = Identity("user", name, self._vo)
        elif kind == "member":
            wanted = Identity("member", f"{self._site}/{name}", self._vo)
        else:
            wanted = Identity("site", site, self._vo)
        leaf = await self._signing.sign(wanted, request.leaf_request)
        signer = b""
        book = self._signing.book
        signers = 0
        if kind == "site":
            await self._signing.learn_signers()
            signers = await self._names.signers()
        promoted = becomes_signer(kind, signers) or (kind == "standby" and self._signing.is_signer)
        if promoted and request.signer_request:
            signer = await asyncio.to_thread(
                self._signing.make_signer, Identity("signer", site, self._vo), request.signer_request
            )
        if kind == "site":
            await self._names.give(site, invitation.again, bool(signer))
        if signer and kind == "site":
            await asyncio.to_thread(book.learn, {site: request.address})
        return enrol_pb2.JoinResponse(
            kind=kind,
            vo=self._vo,
            site=site,
            name="" if kind == "site" else name,
            root=bytes_in(self._keys / "vo.pem"),
            leaf=leaf,
            signer=signer,
            wall_s=self._wall_s(),
            addresses=self._told(kind, request.address),
            signers=signer_sites(book.all()),
        )

    def _told(self, kind: str, own: str) -> list[str]:
        more = self._peer_addresses() if kind == "site" else self._machines() + self._invitations.addresses("standby")
        found = dict.fromkeys((*self._addresses, *more))
        return [address for address in found if address != own][:MOST_TOLD]

    async def signers(self, caller: Identity) -> enrol_pb2.SignersResponse:
        if caller.kind != "site":
            raise Denied(f"{caller.kind or 'nobody'} {caller.name} may not ask for signers")
        return enrol_pb2.SignersResponse(signers=signer_sites(self._signing.book.all()))

    # --- renewals ----------------------------------------------------------------------------------------

    async def sign(self, caller: Identity, request: enrol_pb2.SignRequest) -> enrol_pb2.SignResponse:
        """Denied unless the caller may have it signed; Overloaded for one who asks for more than a large site needs."""
        self._rates.take(Principal(Role.PEER, caller.said), time.monotonic())
        wanted = Identity(request.kind, request.name, self._vo)  # type: ignore[arg-type]
        shown: Proof = (request.certificate, request.signature)
        proven = shown != NO_PROOF and proves_identity(wanted, request.request, shown, self._distrust)
        why = may_be_signed(caller, wanted, proven)
        # Who is no signer passes on what its own machines and users ask, and nothing for other sites.
        ours = caller.kind == "user" or caller.site == self._site
        if not why and not self._signing.is_signer and not ours:
            why = f"site {self._site} is no signer"
        target = f"{request.kind} {request.name}"
        who = f"{caller.kind}:{caller.name}"
        if why:
            self._note(who, "sign", target, "denied", why)
            raise Denied(why)
        chain = await self._signing.sign(wanted, request.request, shown)
        self._note(who, "sign", target, "allowed", "")
        return enrol_pb2.SignResponse(
            certificate=chain, wall_s=self._wall_s(), signers=signer_sites(self._signing.book.all())
        )


class _Service:
    """The gRPC face of it."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment

    async def Join(self, request: enrol_pb2.JoinRequest, context: Any) -> Any:
        shown = context.auth_context().get("x509_pem_cert", ())
        leaf = bytes(shown[0]) if shown else b""
        return await _answered(context, self._enrolment.join(leaf, request, errors.one_line(str(context.peer()))))

    async def Signers(self, request: enrol_pb2.SignersRequest, context: Any) -> Any:
        return await _answered(context, self._enrolment.signers(peer_identity(context)))

    async def Sign(self, request: enrol_pb2.SignRequest, context: Any) -> Any:
        return await _answered(context, self._enrolment.sign(peer_identity(context), request))


async def _answered(context: Any, call: Awaitable[Any]) -> Any:
    try:
        return await call
    except Denied as error:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
    except DianaError as error:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
    except Exception:
        _log.exception("a call about enrolment failed")
        await context.abort(grpc.StatusCode.INTERNAL, "the call failed in the node; its log says more")


def signer_sites(known: dict[str, str]) -> list[enrol_pb2.SignerSite]:
    return [enrol_pb2.SignerSite(site=site, address=address) for site, address in known.items()]


def _check_fields(request: enrol_pb2.JoinRequest) -> None:
    if any(len(text) > MOST_FIELD for text in (request.name, request.suggestion, request.address)):
        raise UsageError(f"join: a name or address of more than {MOST_FIELD} characters is none")
    check_address("join", request.address)


def _long(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def proves_identity(
    wanted: Identity, request: bytes, shown: tuple[bytes, bytes], distrust: Callable[[bytes], str]
) -> bool:
    """True if `shown` (chain, signature) is a trusted certificate of `wanted` whose key signed the request."""
    chain, signature = shown
    if distrust(chain):
        return False
    try:
        leaf = x509.load_pem_x509_certificate(chain)
        key = leaf.public_key()
    except UNREADABLE:
        return False
    return (
        name_in(leaf) == wanted
        and isinstance(key, ec.EllipticCurvePublicKey)
        and renewal.proven(key, request, signature)
    )
