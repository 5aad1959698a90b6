"""Keys and certificates from files, each fault one line with its mend."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from diana import errors
from diana.bounds import MOST_KEY_BYTES, content_of
from diana.wire.unreadable import UNREADABLE

MOST_CHAIN_BYTES = MOST_KEY_BYTES
MOST_READ_BYTES = 4 * MOST_KEY_BYTES
"""A chain of three with room: what is too long for a chain is told as no certificate."""


def bytes_in(path: Path, missing: str = "restore the keys from a backup made with --keys") -> bytes:
    try:
        return content_of(path, MOST_READ_BYTES)
    except OSError as error:
        raise errors.UsageError(f"{path}: {error.strerror}; {missing}") from None
    except ValueError as error:
        raise errors.UsageError(f"{path}: {error}; {missing}") from None


def certificates_in(path: Path, *, most: int = 3) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a PEM file, at least one."""
    return parse(bytes_in(path), str(path), most)


def parse(text: bytes, where: str, most: int = 3) -> tuple[x509.Certificate, ...]:
    try:
        found = tuple(x509.load_pem_x509_certificates(text)) if len(text) <= MOST_CHAIN_BYTES else ()
    except UNREADABLE:
        found = ()
    if not 1 <= len(found) <= most:
        raise errors.UsageError(f"{where}: not a PEM certificate; restore it from a backup")
    return found


def key_of(path: Path, certificate: x509.Certificate, missing: str = "") -> ec.EllipticCurvePrivateKey:
    """Return the private key in a file, which must be that of `certificate`."""
    text = bytes_in(path, missing) if missing else bytes_in(path)
    try:
        key = load_pem_private_key(text, password=None)
    except UNREADABLE:
        raise errors.UsageError(f"{path}: not a readable private key; restore it from a backup") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not _belong(key, certificate):
        raise errors.UsageError(f"{path}: not the key of the certificate beside it; restore both from a backup")
    return key


def _belong(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bool:
    try:
        return bool(key.public_key() == certificate.public_key())
    except UNREADABLE:
        return False
