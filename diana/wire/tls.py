"""Mutual TLS as Python's gRPC allows it: who a certificate names, credentials, and channels to a named site.

A gRPC client checks a DNS name only and cannot read the server's certificate; the server can. So each certificate
carries `spiffe://VO/site/SITE` for the server to read and `SITE.VO.diana` for the client to check. Channels
cannot reload certificates: whoever wants the new ones builds a new channel.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, Literal, NamedTuple

import grpc
from cryptography import x509

from diana.errors import UsageError
from diana.model.ids import SiteId, site_id

MAX_GRPC_BYTES = 4 << 20
"""Largest gRPC message either way."""

LEARN_WAIT_S = 5.0

KEEPALIVE_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 3_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # The time-out that in fact ends a dead connection; 60 s unless set.
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_GRPC_BYTES),
    ("grpc.max_send_message_length", MAX_GRPC_BYTES),
]
"""Set on both sides alike, else one side counts the other's pings as abuse."""

Kind = Literal["site", "user", ""]


class Identity(NamedTuple):
    """Whom a certificate names. All empty: nobody."""

    kind: Kind
    name: str
    vo: str


NOBODY = Identity("", "", "")


class Credentials(NamedTuple):
    """PEM texts: our private key, our certificate chain, the VO's trust root."""

    key: bytes
    certificate: bytes
    root: bytes

    def identity(self) -> Identity:
        return identity_in(x509.load_pem_x509_certificate(self.certificate))


def load_credentials(keys: Path, name: str = "site") -> Credentials:
    """`NAME.key`, `NAME.pem` and `vo.pem` below `keys`. UsageError names the file that cannot be used."""
    texts = []
    for file in (keys / f"{name}.key", keys / f"{name}.pem", keys / "vo.pem"):
        try:
            texts.append(file.read_bytes())
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}; make the keys with diana init") from None
    out = Credentials(*texts)
    try:
        named = out.identity()
    except ValueError:
        raise UsageError(f"{keys / name}.pem: not a PEM certificate; make the keys with diana init") from None
    if named == NOBODY:
        raise UsageError(f"{keys / name}.pem: names neither a site nor a user of a VO; make the keys with diana init")
    return out


def parse_identity(uris: list[str]) -> Identity:
    """From the URI names of a certificate; NOBODY unless exactly one is ours."""
    ours = [u for u in uris if u.startswith("spiffe://")]
    if len(ours) != 1:
        return NOBODY
    vo, _, path = ours[0].removeprefix("spiffe://").partition("/")
    kind, _, name = path.partition("/")
    if not vo or not name or "/" in name:
        return NOBODY
    if kind == "site":
        try:
            return Identity("site", site_id(name), vo)
        except ValueError:
            return NOBODY
    return Identity("user", name, vo) if kind == "user" else NOBODY


def identity_in(certificate: x509.Certificate) -> Identity:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return NOBODY
    return parse_identity(names.get_values_for_type(x509.UniformResourceIdentifier))


def peer_identity(context: Any) -> Identity:
    """Whom the caller of a served RPC proved to be: the TLS layer has verified the chain, this reads the name."""
    names = context.auth_context().get("x509_subject_alternative_name", ())
    return parse_identity([n.decode("utf-8", "replace") for n in names])


def server_name(site: str, vo: str) -> str:
    """The DNS name in a site's certificate."""
    return f"{site}.{vo}.diana"


def server_credentials(credentials: Credentials) -> grpc.ServerCredentials:
    """Every caller must show a certificate of the VO."""
    return grpc.ssl_server_credentials(
        [(credentials.key, credentials.certificate)],
        root_certificates=credentials.root,
        require_client_auth=True,
    )


def open_channel(address: str, site: str, vo: str, credentials: Credentials) -> grpc.aio.Channel:
    """A channel to host:port that only the holder of this site's certificate can answer. Connects when used."""
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(credentials.root, credentials.key, credentials.certificate),
        options=[
            *KEEPALIVE_OPTIONS,
            ("grpc.ssl_target_name_override", server_name(site, vo)),
            # A channel of its own connection: else a redial meets the back-off of the channel before it.
            ("grpc.use_local_subchannel_pool", 1),
        ],
    )


async def learn_site(address: str, vo: str) -> SiteId:
    """Which site claims to listen at host:port. Trusts and reveals nothing: the answer only says under which name
    to dial with full verification. OSError when it cannot be asked or claims no site of this VO."""
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
        claimed = identity_in(x509.load_der_x509_certificate(der or b""))
    except ValueError:
        claimed = NOBODY
    if claimed.kind != "site" or claimed.vo != vo:
        raise OSError(f"its certificate names no site of {vo}")
    return SiteId(claimed.name)
