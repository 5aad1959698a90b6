"""The newcomer's talk with its inviter: nothing is trusted before the answer ends at the root the token names, and
nothing secret is sent."""

from __future__ import annotations

import datetime
import socket
import ssl
import time
from typing import NamedTuple

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from diana import errors
from diana.adapters.trust import certificates
from diana.errors import Denied, DianaError, Unreachable, UsageError
from diana.model.trust.identity import Identity
from diana.node.config.site_file import host_port
from diana.node.enrol.tokens import FINGERPRINT_BYTES, Token
from diana.wire.pb import enrol_pb2
from diana.wire.tls import KEEPALIVE_OPTIONS, identity_in, server_name
from diana.wire.unreadable import UNREADABLE

LOOK_S = 5.0
"""Seconds an address may take to show its certificate."""
JOIN_S = 60.0
TRIES = 3
"""Tries with the same key, should an answer get lost."""
_METHOD = "/diana.v1.Enrol/Join"
_NOT_DIANA = "{}: what answers there is not diana; ask for an invitation with the right address"


class InviterContact(NamedTuple):
    address: str
    leaf: bytes
    """PEM, as shown: not trusted."""
    here: str
    """Our own address on the way there."""


def find_inviter(token: Token) -> InviterContact:
    """The first of the token's addresses at which the inviter, or who claims to be it, answers. Unreachable or
    UsageError says of each address what is wrong there."""
    faults: list[DianaError] = []
    for address in token.addresses:
        try:
            return _look(address, token)
        except DianaError as error:
            faults.append(error)
    # Whoever answers wrongly says more than who does not answer.
    worst = min(faults, key=lambda fault: isinstance(fault, Unreachable))
    raise type(worst)("; ".join(str(fault) for fault in faults))


def greeting() -> ssl.SSLContext:
    """The TLS of a look at what answers, which trusts nothing it is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _look(address: str, token: Token) -> InviterContact:
    host, port = host_port(address)
    context = greeting()
    try:
        with socket.create_connection((host.strip("[]"), port), LOOK_S) as plain:
            here = str(plain.getsockname()[0])
            with context.wrap_socket(plain) as secure:
                der = secure.getpeercert(binary_form=True)
    except TimeoutError:
        raise Unreachable(
            f"{address}: no answer within {LOOK_S:g} s; check the address, and firewalls between"
        ) from None
    except (ssl.SSLError, ConnectionResetError):
        raise UsageError(_NOT_DIANA.format(address)) from None
    except ConnectionRefusedError:
        raise Unreachable(f"{address}: nothing listens there; is the node of site {token.site} running?") from None
    except OSError as error:
        raise Unreachable(f"{address}: {error.strerror or error}; check the address and the network") from None
    try:
        leaf = x509.load_der_x509_certificate(der or b"")
        shown = identity_in(leaf)
    except UNREADABLE:
        shown = Identity("", "", "")
    if not shown.name:
        raise UsageError(_NOT_DIANA.format(address))
    if shown.vo != token.vo:
        raise UsageError(
            f"{address}: a node of VO {shown.vo} answers, the invitation is to {token.vo}; ask for a new one"
        )
    if shown.kind != "site" or shown.name != token.site:
        raise UsageError(f"{address}: {shown.kind} {shown.name} answers, not site {token.site} that invited")
    _check_dates(leaf, token.site)
    return InviterContact(address, leaf.public_bytes(Encoding.PEM), here)


def _check_dates(leaf: x509.Certificate, site: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    first, last = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if not first <= now <= last:
        raise UsageError(
            f"clock: it is {now:%Y-%m-%d %H:%M} UTC here, and the certificate of site {site} holds from "
            f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}; set this machine's clock, or that of {site}"
        )


def ask(token: Token, inviter: InviterContact, request: enrol_pb2.JoinRequest) -> enrol_pb2.JoinResponse:
    """The inviter's answer, its root and chains verified. UsageError, Denied or Unreachable says why there is none."""
    key, leaf = certificates.invite_leaf(token.seed, token.vo)
    options = [*KEEPALIVE_OPTIONS, ("grpc.ssl_target_name_override", server_name(token.site, token.vo))]
    with grpc.secure_channel(
        inviter.address, grpc.ssl_channel_credentials(inviter.leaf, key, leaf), options=options
    ) as channel:
        call = channel.unary_unary(
            _METHOD,
            request_serializer=enrol_pb2.JoinRequest.SerializeToString,
            response_deserializer=enrol_pb2.JoinResponse.FromString,
        )
        for left in reversed(range(TRIES)):
            request.wall_s = time.time()
            try:
                answer: enrol_pb2.JoinResponse = call(request, timeout=JOIN_S)
                break
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or not left:
                    raise _refusal(error, token, inviter) from None
                time.sleep(0.5)
    check_answer(token, answer)
    return answer


def _refusal(error: grpc.RpcError, token: Token, inviter: InviterContact) -> DianaError:
    said = errors.one_line(str(error.details() or ""))
    if error.code() is grpc.StatusCode.PERMISSION_DENIED:
        return Denied(f"site {token.site}: {said}")
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        # The handshake failed: who knows no such invitation trusts no certificate under it.
        return Denied(
            f"{inviter.address}: site {token.site} of {token.vo} there knows no such invitation; it ran out long ago "
            "or is another VO's, ask for a new one"
        )
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(f"{inviter.address}: site {token.site} did not answer within {JOIN_S:g} s; try again")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return UsageError(f"{inviter.address}: site {token.site} runs an older release that cannot invite; upgrade it")
    return UsageError(f"site {token.site}: {said or error.code().name}")


def check_answer(token: Token, answer: enrol_pb2.JoinResponse) -> None:
    """Denied unless all of it is what this invitation can give: the very root, and chains that end there for the names
    that were promised."""
    try:
        genuine = certificates.fingerprint(answer.root)[:FINGERPRINT_BYTES] == token.fingerprint
    except UsageError:
        genuine = False
    if not genuine:
        raise Denied(
            f"who answered for site {token.site} is not of the VO that invited: its root certificate is another; "
            "nothing was made, ask whoever sent the token"
        )
    own = _promised(token, answer)
    now_s = time.time()
    named = certificates.verify_chain(answer.leaf, answer.root, at_s=now_s)
    if named != own or answer.kind != token.kind or answer.vo != token.vo:
        raise Denied(f"site {token.site} answered with a certificate of {named.kind} {named.name}; ask for a new token")
    if answer.signer:
        signer = certificates.verify_chain(answer.signer, answer.root, signer=True, at_s=now_s)
        if signer != Identity("signer", own.name, token.vo):
            raise Denied(f"site {token.site} answered with the signer of {signer.name}; ask for a new token")


def _promised(token: Token, answer: enrol_pb2.JoinResponse) -> Identity:
    if token.kind == "user":
        return Identity("user", answer.name, token.vo)
    if token.kind == "member":
        return Identity("member", f"{token.site}/{answer.name}", token.vo)
    return Identity("site", token.site if token.kind == "standby" else answer.site, token.vo)
