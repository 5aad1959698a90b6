"""The products of an invitation's secret: a key, its public half as a trust root of the inviter's server for as long as
the invitation is open, and the newcomer's certificate under it.

The seed travels in the token and nowhere else; the inviter forgets it and keeps the public half. Whoever holds the
token can make any certificate under that root, so it opens one call (Enrol/Join), whatever the certificate says
(`adapters/trust/admission.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from diana import errors
from diana.adapters.trust import making
from diana.adapters.trust.authority import name_in
from diana.model.trust.identity import VO, Identity, uri_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

SEED_BYTES = 16

_ALWAYS = (0.0, 4_102_444_800.0)
"""From 1970 to 2100: a newcomer's clock may be wrong, and the inviter keeps the invitation's own end."""


def invite_id(seed: bytes) -> str:
    """Return the invitation's name in lists and logs; it tells nothing of the seed."""
    return hashlib.sha256(b"diana invitation\0" + _checked(seed)).hexdigest()[:16]


def derive_invite_key(seed: bytes) -> EllipticCurvePrivateKey:
    """Derive the same key from the same seed, at both ends: HKDF (RFC 5869) to 48 bytes, reduced as in FIPS 186-5
    A.2.1."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    drawn = HKDF(hashes.SHA256(), 48, salt=None, info=b"diana invitation key 1").derive(_checked(seed))
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    return ec.derive_private_key(int.from_bytes(drawn, "big") % (order - 1) + 1, ec.SECP256R1())


def invite_root(seed: bytes, vo: str, *, until_wall_s: float) -> bytes:
    """Return the PEM of the certificate that the inviter keeps: the key's public half, a CA by its own signature."""
    key = derive_invite_key(seed)
    identity = _identity(seed, vo)
    subject = making.distinguished("invite", identity.name)
    return making.pem_of(
        making.authority_certificate(
            subject,
            uri_of(identity),
            key.public_key(),
            (subject, key),
            path_length=0,
            dates=(_ALWAYS[0], until_wall_s),
        )
    )


def invite_leaf(seed: bytes, vo: str) -> tuple[bytes, bytes]:
    """Return (private key, certificate) as PEM that the newcomer shows: a fresh key, signed by the invitation's."""
    identity = _identity(seed, vo)
    key, above = making.new_key(), derive_invite_key(seed)
    subject = making.distinguished("invite", identity.name)
    certificate = making.leaf_certificate(identity, key.public_key(), (subject, above), dates=_ALWAYS)
    return making.key_bytes(key), making.pem_of(certificate)


def invited_by(leaf_pem: bytes, roots: Iterable[bytes]) -> str:
    """Return the ID of the invitation (of those given by their certificates) that this certificate is under and
    names; empty: none. Whoever keeps the invitation knows whether it is still open."""
    from cryptography import x509

    from diana.wire.unreadable import UNREADABLE

    try:
        leaf = x509.load_pem_x509_certificate(leaf_pem)
        named = name_in(leaf)
        for pem in roots:
            root = x509.load_pem_x509_certificate(pem)
            if named.kind == "invite" and name_in(root) == named:
                leaf.verify_directly_issued_by(root)
                return named.name
    except UNREADABLE:
        pass
    return ""


def _identity(seed: bytes, vo: str) -> Identity:
    if not VO.match(vo):
        raise errors.UsageError(f"VO name {vo!r}: want 1 to 40 lower-case letters, digits and inner hyphens")
    return Identity("invite", invite_id(seed), vo)


def _checked(seed: bytes) -> bytes:
    if len(seed) != SEED_BYTES:
        raise errors.UsageError(f"invitation: its secret has {len(seed)} bytes, want {SEED_BYTES}")
    return seed
