"""Mutual TLS as Python's gRPC allows it: identities in certificates, credentials, and channels to a named site.

A gRPC client checks a DNS name only and cannot read the server's certificate; the server can. So each certificate
carries `spiffe://VO/site/SITE` for the server to read and `SITE.VO.diana` for the client to check. A server looks at
its files again at each handshake; channels cannot reload certificates, so new certificates need a new channel.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from diana.bounds import MOST_KEY_BYTES, content_of
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.trust.identity import NOBODY, Identity, dns_names, parse_uri
from diana.wire.unreadable import UNREADABLE

MAX_GRPC_BYTES = 4 << 20
"""Largest gRPC message either way."""

LEARN_WAIT_S = 5.0

UNUSED_S = 60.0
"""Seconds without a call after which a channel closes its connection; the next call makes another."""

KEEPALIVE_OPTIONS: list[tuple[str, Any]] = [
    # Peers say something every 3 s, which spares the ping. A connection that no longer acknowledges what was written
    # ends by the kernel's timer, which gRPC sets to the time-out below.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # The time-out that in fact ends a dead connection; 60 s unless set.
    ("grpc.http2.ping_timeout_ms", 3_000),
    # The next call deals with a connection that broke without calls.
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_GRPC_BYTES),
    ("grpc.max_send_message_length", MAX_GRPC_BYTES),
]
"""Options set on both sides alike, else one side counts the other's pings as abuse."""

_MESSAGE_OPTIONS: list[tuple[str, Any]] = [
    # Without bulk data there is no bandwidth to measure; the probe would cost a ping for every few messages.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1 << 20),
]


class Credentials(NamedTuple):
    """PEM texts: our private key, our certificate chain, the VO's trust root."""

    key: bytes
    certificate: bytes
    root: bytes

    def identity(self) -> Identity:
        return identity_in(x509.load_pem_x509_certificate(self.certificate))


def load_credentials(keys: Path, name: str = "site") -> Credentials:
    """Load `NAME.key`, `NAME.pem` and `vo.pem` below `keys`. UsageError names the file that cannot be used."""
    mend = f"put it back from a backup, or see: diana doctor --data {keys.parent}"
    texts = []
    for file in (keys / f"{name}.key", keys / f"{name}.pem", keys / "vo.pem"):
        try:
            texts.append(content_of(file, MOST_KEY_BYTES))
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}; {mend}") from None
        except ValueError as error:
            raise UsageError(f"{file}: {error}; {mend}") from None
    out = Credentials(*texts)
    try:
        named = out.identity()
    except ValueError:
        raise UsageError(f"{keys / name}.pem: not a PEM certificate; {mend}") from None
    if named == NOBODY:
        raise UsageError(f"{keys / name}.pem: names neither a site nor a user of a VO; {mend}")
    if not _belong(out):
        raise UsageError(f"{keys / name}.key: not the key of {name}.pem; {mend}")
    return out


def _belong(credentials: Credentials) -> bool:
    """True if the key is the certificate's; it may not be while a renewal replaces the two files one after the
    other."""
    try:
        key = load_pem_private_key(credentials.key, password=None)
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
        return bool(key.public_key() == certificate.public_key())
    except UNREADABLE:
        return False


def parse_identity(uris: list[str]) -> Identity:
    """Return the identity among the URI names of a certificate; NOBODY unless exactly one is ours. A signer's
    certificate is for signing: on a connection it names nobody."""
    ours = [u for u in uris if u.startswith("spiffe://")]
    found = parse_uri(ours[0]) if len(ours) == 1 else NOBODY
    return NOBODY if found.kind == "signer" else found


def identity_in(certificate: x509.Certificate) -> Identity:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except UNREADABLE:
        return NOBODY
    return parse_identity(names.get_values_for_type(x509.UniformResourceIdentifier))


def peer_identity(context: Any) -> Identity:
    """Return the identity that the caller of a served RPC proved: `Admission` has verified the chain, this reads the
    name."""
    names = context.auth_context().get("x509_subject_alternative_name", ())
    return parse_identity([n.decode("utf-8", "replace") for n in names])


def peer_chain(context: Any) -> bytes:
    """Return the PEM chain that the caller of a served RPC showed, leaf first; empty: none."""
    shown = context.auth_context()
    leaf = b"".join(bytes(one) for one in shown.get("x509_pem_cert", ()))
    above = b"".join(bytes(one) for one in shown.get("x509_pem_cert_chain", ()))
    # Some releases of gRPC repeat the leaf in the chain.
    return above if leaf and above.startswith(leaf) else leaf + above


def server_name(site: str, vo: str, machine: str = "") -> str:
    """The DNS name in the certificate of a site, or of a member machine of it."""
    return dns_names(Identity("member", f"{site}/{machine}", vo) if machine else Identity("site", site, vo))[0]


def server_credentials(
    keys: Path, name: str = "site", extra_roots: Callable[[], Iterable[bytes]] = tuple
) -> grpc.ServerCredentials:
    """Make a server's credentials: every caller must show a certificate below the VO's root, or below one of the
    `extra_roots` (PEM). Files and roots are looked at again at each handshake, so renewed files and added roots count
    for the next caller. gRPC calls `extra_roots` in its own threads. UsageError when the files cannot be used now;
    after later faults the earlier ones stay in use."""
    source = _ServerFiles(keys, name, extra_roots)
    return grpc.dynamic_ssl_server_credentials(source.first(), source.next, True)


class _ServerFiles:
    """Files of a server's credentials; gRPC's threads ask for them, one handshake at a time."""

    def __init__(self, keys: Path, name: str, extra_roots: Callable[[], Iterable[bytes]]) -> None:
        self._keys = keys
        self._name = name
        self._extra_roots = extra_roots
        self._credentials = load_credentials(keys, name)
        self._seen = self._stamp()
        self._roots = tuple(extra_roots())

    def first(self) -> Any:
        return self._configuration()

    def next(self) -> Any:
        """Return the configuration for the next handshake; None: unchanged."""
        try:
            roots, stamp = tuple(self._extra_roots()), self._stamp()
            if roots == self._roots and stamp == self._seen:
                return None
            if stamp != self._seen:
                self._credentials = load_credentials(self._keys, self._name)
            self._roots, self._seen = roots, stamp
            return self._configuration()
        except (UsageError, OSError, RuntimeError):
            # Between the two files of a renewal, say, or while invitations change: the next handshake looks again.
            return None

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        files = (self._keys / f"{self._name}.key", self._keys / f"{self._name}.pem", self._keys / "vo.pem")
        return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in (file.stat() for file in files))

    def _configuration(self) -> Any:
        key, chain, root = self._credentials
        roots = b"".join((root, *self._roots))
        return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=roots)


def open_channel(
    address: str, site: str, vo: str, credentials: Credentials, *, machine: str = "", messages: bool = False
) -> grpc.aio.Channel:
    """Make a channel to host:port that only the holder of this site's certificate can answer, or of this member
    machine's. It connects when used. `messages`: the channel is for small messages now and then, not for bulk data."""
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(credentials.root, credentials.key, credentials.certificate),
        options=[
            *KEEPALIVE_OPTIONS,
            *(_MESSAGE_OPTIONS if messages else ()),
            ("grpc.ssl_target_name_override", server_name(site, vo, machine)),
            # A channel of its own connection: else a redial meets the back-off of the channel before it.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.client_idle_timeout_ms", int(UNUSED_S * 1000)),
        ],
    )


async def learn_leaf(address: str) -> x509.Certificate:
    """Return the certificate shown at host:port, without trust: asking reveals nothing and the answer proves nothing.
    OSError or TimeoutError when none is shown."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    async with asyncio.timeout(LEARN_WAIT_S):
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
        try:
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
    try:
        return x509.load_der_x509_certificate(der or b"")
    except UNREADABLE:
        raise OSError("it shows no certificate") from None


async def learn_site(address: str, vo: str) -> SiteId:
    """Return the site that claims to listen at host:port. Trusts and reveals nothing: the answer only gives the name
    under which to dial with full verification. OSError when it cannot be asked or claims no site of this VO."""
    claimed = identity_in(await learn_leaf(address))
    if claimed.kind != "site" or claimed.vo != vo:
        raise OSError(f"its certificate names no site of {vo}")
    return SiteId(claimed.name)


async def why_no_handshake(address: str, site: str, credentials: Credentials, *, wall_s: float) -> str:
    """Explain a failed handshake from the certificates of both sides; empty: they do not explain it. gRPC tells only
    that the handshake failed. `wall_s`: this machine's clock."""
    own = x509.load_pem_x509_certificate(credentials.certificate)
    if why := out_of_date(own, "our certificate", wall_s):
        return why
    try:
        theirs = await learn_leaf(address)
    except (OSError, TimeoutError, ValueError):
        return ""
    claimed, vo = identity_in(theirs), credentials.identity().vo
    if claimed.vo != vo:
        return f"it shows a certificate of VO {claimed.vo or 'unknown'}, we are of {vo}"
    if claimed.site != site:
        return f"it shows the certificate of {claimed.kind or 'nobody'} {claimed.name}, not of site {site}"
    return out_of_date(theirs, f"the certificate of {site}", wall_s)


def out_of_date(certificate: x509.Certificate, whose: str, wall_s: float) -> str:
    """Return the empty text if the certificate holds at `wall_s` (seconds since 1970), else one line that begins with
    `whose`."""
    now = datetime.datetime.fromtimestamp(wall_s, tz=datetime.UTC)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > last:
        return f"{whose} expired on {last:%Y-%m-%d %H:%M} UTC; renew it, or check this machine's clock"
    if now < first:
        return (
            f"{whose} is not valid before {first:%Y-%m-%d %H:%M} UTC and it is {now:%H:%M} here; "
            "check this machine's clock"
        )
    return ""
