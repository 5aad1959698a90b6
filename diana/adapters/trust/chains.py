"""The judgement, by ourselves, whether a chain of certificates ends at the VO's root.

TLS judges too, but with more trust roots than this one (open invitations stand among them) and not what each name may
mean. So everything a node believes about a caller or a signature rests on these rules: at most two signers between leaf
and root, each one a CA by its own word, within the path length of all above it, named `signer`; a leaf that is no CA,
with exactly the names of its one identity.

Dates and revocations are the caller's question, at each use anew: a judged chain can be remembered.
"""

from __future__ import annotations

import datetime
import itertools
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from diana.adapters.trust.reading import MOST_CHAIN_BYTES
from diana.model.trust.identity import NOBODY, Identity, dns_names, parse_uri, vo_of_uri
from diana.wire.unreadable import UNREADABLE

MOST_SIGNERS = 2
_CRITICAL = {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE}
"""Extensions that may be critical; any other that claims to be is not understood, and so refused."""


class Untrusted(Exception):
    """The reason, on one line, why a chain is not trusted."""


class ChainLink(NamedTuple):
    """One certificate of a chain."""

    identity: Identity
    """Identity that the certificate names; NOBODY: the root."""
    serial: str
    """Serial number, hexadecimal, lower case."""
    from_s: float
    until_s: float


class CertificateChain(NamedTuple):
    """The content of a good chain. Times are seconds since 1970."""

    identity: Identity
    key: ec.EllipticCurvePublicKey
    links: tuple[ChainLink, ...]
    """Certificates, leaf first, root last."""

    def out_of_date(self, at_s: float) -> str:
        """Return why the chain does not hold at that time, on one line; empty: all of it does."""
        return next((why for link in self.links if (why := _out_of_date(link, at_s))), "")


def verify(chain: bytes, root: x509.Certificate, vo: str, *, signer: bool = False) -> CertificateChain:
    """Judge a PEM chain, leaf first and without the root. `signer`: the first certificate is a signer's own, else it
    must be one for connections. Untrusted says why not; anything an attacker may send ends so."""
    try:
        return _verify(chain, root, vo, signer)
    except UNREADABLE:
        raise Untrusted(f"the certificate is not one of VO {vo}") from None


def _verify(chain: bytes, root: x509.Certificate, vo: str, signer: bool) -> CertificateChain:
    if len(chain) > MOST_CHAIN_BYTES:
        raise Untrusted("the certificate is too large")
    given = x509.load_pem_x509_certificates(chain)
    authorities = given if signer else given[1:]
    if len(authorities) > MOST_SIGNERS:
        raise Untrusted(f"{len(authorities)} signers stand between the certificate and the root of VO {vo}")
    # Signatures from the root downwards: no certificate is believed before the one that signed it is.
    path = [root, *reversed(given)]
    for above, below in itertools.pairwise(path):
        below.verify_directly_issued_by(above)
    _check_root(root, len(authorities), vo)
    for depth, authority in enumerate(authorities):
        _check_signer(authority, depth, vo)
    first = given[0]
    identity = _name(first)
    if not signer:
        _check_leaf(first, identity, vo)
    links = (*(_link(one, _name(one)) for one in given), _link(root, NOBODY))
    return CertificateChain(identity, _key(first), links)


def _check_root(root: x509.Certificate, below: int, vo: str) -> None:
    limits = root.extensions.get_extension_for_class(x509.BasicConstraints).value
    if not limits.ca or limits.path_length is None or below > limits.path_length:
        raise Untrusted(f"the root of VO {vo} allows no signer there")
    names = root.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if [vo_of_uri(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)] != [vo]:
        raise Untrusted(f"the root is not that of VO {vo}")


def _check_signer(authority: x509.Certificate, below: int, vo: str) -> None:
    """Check a signer. `below`: number of signers that stand between it and the leaf."""
    _check_critical(authority)
    identity = _name(authority)
    limits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    if not limits.ca or not usage.key_cert_sign or identity.kind != "signer" or identity.vo != vo:
        raise Untrusted(f"the certificate was signed by {_called(identity)}, which is no signer of VO {vo}")
    if limits.path_length is None or below > limits.path_length:
        raise Untrusted(f"signer {identity.name} may not make signers")
    _key(authority)


def _check_leaf(leaf: x509.Certificate, identity: Identity, vo: str) -> None:
    _check_critical(leaf)
    limits = leaf.extensions.get_extension_for_class(x509.BasicConstraints).value
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    if limits.ca or usage.key_cert_sign or identity.kind not in ("site", "member", "user"):
        raise Untrusted("the certificate names no site, no member and no user")
    if identity.vo != vo:
        raise Untrusted(f"the certificate names {identity.kind} {identity.name} of VO {identity.vo}, not {vo}")
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    carried = tuple(names.get_values_for_type(x509.DNSName))
    if carried != dns_names(identity) or len(names) != 1 + len(carried):
        raise Untrusted(f"the certificate carries other names beside {identity.kind} {identity.name}")
    purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    if ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        raise Untrusted("the certificate is not for connections")


def _check_critical(certificate: x509.Certificate) -> None:
    if any(e.critical and e.oid not in _CRITICAL for e in certificate.extensions):
        raise Untrusted("the certificate carries a critical extension that is not understood")


def _key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Untrusted("the certificate's key is not one of ECDSA P-256")
    return key


def _name(certificate: x509.Certificate) -> Identity:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return parse_uri(uris[0]) if len(uris) == 1 else NOBODY


def _link(certificate: x509.Certificate, identity: Identity) -> ChainLink:
    return ChainLink(
        identity,
        f"{certificate.serial_number:x}",
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


def _called(identity: Identity) -> str:
    return f"{identity.kind} {identity.name}" if identity.kind else "somebody without a name"


def _out_of_date(link: ChainLink, at_s: float) -> str:
    whose = "the certificate" if link.identity.kind not in ("signer", "") else f"the certificate of its {_of(link)}"
    if at_s > link.until_s:
        return f"{whose} expired {_long(at_s - link.until_s)} ago"
    if at_s < link.from_s:
        early = f"{whose} is not valid before {_utc(link.from_s)}, in {_long(link.from_s - at_s)}"
        return f"{early}; check this machine's clock"
    return ""


def _of(link: ChainLink) -> str:
    return f"signer {link.identity.name}" if link.identity.kind else "VO"


def _long(seconds: float) -> str:
    return f"{seconds / 86400.0:.1f} days" if seconds >= 86400.0 else f"{seconds / 60.0:.0f} minutes"


def _utc(at_s: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC):%Y-%m-%d %H:%M} UTC"
