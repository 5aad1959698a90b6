"""The making of each kind of certificate, and the way of keys to the disk. Others decide for whom to sign.

ECDSA P-256 throughout, because gRPC's TLS takes it and Ed25519 not everywhere. `cryptography` takes 50 ms to import
and is imported where it is used, since `diana init` and the client read these modules.
"""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING

from diana.adapters.durable import replace_durably
from diana.model.trust.identity import Identity, dns_names, uri_of

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

CLOCK_SKEW_S = 300.0
"""Seconds before they are made from which certificates hold: clocks of sites differ."""


def new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def distinguished(kind: str, name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    # A common name holds 64 characters; the identity itself is the URI.
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "diana"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, kind),
            x509.NameAttribute(NameOID.COMMON_NAME, name[:64]),
        ]
    )


def authority_certificate(
    subject: x509.Name,
    uri: str,
    public: EllipticCurvePublicKey,
    signed_by: tuple[x509.Name, EllipticCurvePrivateKey],
    *,
    path_length: int,
    dates: tuple[float, float],
) -> x509.Certificate:
    """Make a root (signed by itself) or a signer. `dates`: from and until, seconds since 1970."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    issuer, key = signed_by
    return (
        _dated(x509.CertificateBuilder(), dates)
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False)
        .sign(key, hashes.SHA256())
    )


def leaf_certificate(
    identity: Identity,
    public: EllipticCurvePublicKey,
    signed_by: tuple[x509.Name, EllipticCurvePrivateKey],
    *,
    dates: tuple[float, float],
) -> x509.Certificate:
    """Make a certificate for connections: for a site or member also as a server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    issuer, key = signed_by
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri_of(identity))]
    names += [x509.DNSName(name) for name in dns_names(identity)]
    purposes = [Usage.CLIENT_AUTH, *([Usage.SERVER_AUTH] if dns_names(identity) else [])]
    return (
        _dated(x509.CertificateBuilder(), dates)
        .subject_name(distinguished(identity.kind, identity.name))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def dates_of(valid_days: float, wall_s: float | None) -> tuple[float, float]:
    """Return from and until of a certificate made at `wall_s` (None: now)."""
    now_s = time.time() if wall_s is None else wall_s
    return now_s - CLOCK_SKEW_S, now_s + valid_days * 86400.0


def key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())


def pem_of(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file durably, at once and whole: a reader sees the old file or the new one, and never for a moment one
    readable by others than `mode` says."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_durably(path, content, mode)


def _usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    # Signers also sign statements of the VO.
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _dated(builder: x509.CertificateBuilder, dates: tuple[float, float]) -> x509.CertificateBuilder:
    first, last = (datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC) for at_s in dates)
    return builder.not_valid_before(first).not_valid_after(last)
