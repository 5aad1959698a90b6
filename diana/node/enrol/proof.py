"""Judges whether the one who asks for a certificate holds the key of the one that runs out, also when another passes
the request on."""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from diana.adapters.trust.authority import name_in
from diana.model.trust.identity import Identity
from diana.wire.renewal import proven


def speaks_for(wanted: Identity, request: bytes, shown: tuple[bytes, bytes], distrust: Callable[[bytes], str]) -> bool:
    """True if `shown` (chain, signature) is a trusted certificate of `wanted` whose key signed the request."""
    chain, signature = shown
    if distrust(chain):
        return False
    try:
        leaf = x509.load_pem_x509_certificate(chain)
    except ValueError:
        return False
    key = leaf.public_key()
    return name_in(leaf) == wanted and isinstance(key, ec.EllipticCurvePublicKey) and proven(key, request, signature)
