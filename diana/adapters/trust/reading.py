"""Keys and certificates from files, each fault one line with its mend."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from diana import errors

MOST_CHAIN_BYTES = 16_384


def bytes_in(path: Path, missing: str = "restore the keys from a backup made with --keys") -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.UsageError(f"{path}: {error.strerror}; {missing}") from None


def certificates_in(path: Path, *, most: int = 3) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a PEM file, at least one."""
    return parse(bytes_in(path), str(path), most)


def parse(text: bytes, where: str, most: int = 3) -> tuple[x509.Certificate, ...]:
    try:
        found = tuple(x509.load_pem_x509_certificates(text)) if len(text) <= MOST_CHAIN_BYTES else ()
    except ValueError:
        found = ()
    if not 1 <= len(found) <= most:
        raise errors.UsageError(f"{where}: not a PEM certificate; restore it from a backup")
    return found


def key_of(path: Path, certificate: x509.Certificate, missing: str = "") -> ec.EllipticCurvePrivateKey:
    """Return the private key in a file, which must be that of `certificate`."""
    text = bytes_in(path, missing) if missing else bytes_in(path)
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        raise errors.UsageError(f"{path}: not a readable private key; restore it from a backup") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise errors.UsageError(f"{path}: not the key of the certificate beside it; restore both from a backup")
    return key
