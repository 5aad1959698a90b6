"""Renewal of a certificate for the same key: the request, and the proof that its asker holds the key. The proof stays
valid when a site passes it on to a signer."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from diana.wire.pb import enrol_pb2
from diana.wire.tls import identity_in
from diana.wire.unreadable import UNREADABLE

SIGN = "/diana.v1.Enrol/Sign"
_CONTEXT = b"diana renewal 1\0"


def prove(key: ec.EllipticCurvePrivateKey, request: bytes) -> bytes:
    return key.sign(_CONTEXT + request, ec.ECDSA(hashes.SHA256()))


def proven(key: ec.EllipticCurvePublicKey, request: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, _CONTEXT + request, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def is_due(chain: bytes, wall_s: float) -> bool:
    """True once half of the validity of a PEM chain's first certificate is over, while it is still valid. One of
    `UNREADABLE` for a text that is no certificate."""
    leaf = x509.load_pem_x509_certificate(chain)
    first, last = leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
    return first + last < 2.0 * wall_s and wall_s < last


def request_again(chain: bytes, key_pem: bytes, wall_s: float) -> enrol_pb2.SignRequest:
    """Make the request for the same name and key. One of `UNREADABLE` for files that are not a key and its
    certificate."""
    named = identity_in(x509.load_pem_x509_certificate(chain))
    key = load_pem_private_key(key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not named.kind:
        raise ValueError("not a key of ECDSA P-256 and its certificate")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, named.name[:64])])
    built = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = built.public_bytes(Encoding.PEM)
    return enrol_pb2.SignRequest(
        kind=named.kind,
        name=named.name,
        request=request,
        wall_s=wall_s,
        certificate=chain,
        signature=prove(key, request),
    )


def is_answer(old: bytes, new: bytes) -> bool:
    """True if `new` names the same identity as `old`, for the same key. TLS has verified the signer that answered."""
    try:
        before, after = x509.load_pem_x509_certificate(old), x509.load_pem_x509_certificate(new)
        return identity_in(before) == identity_in(after) and before.public_key() == after.public_key()
    except UNREADABLE:
        return False
