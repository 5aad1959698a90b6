"""Errors with which `cryptography` refuses what others sent as a certificate, a request or a key, and a certificate
that its issuer did not sign. Several are no `ValueError`, so whoever reads such text catches all of them."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

UNREADABLE: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""TypeError: a key that wants a password."""
