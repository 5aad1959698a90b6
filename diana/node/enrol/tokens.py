"""The text an invitation travels as: short enough to paste, and all a newcomer needs to know whom to trust.

It holds a secret seed, from which both sides derive one key, and the beginning of the SHA-256 of the VO's root
certificate. The owner of the token may join once; one who changed a bit of it or answers in the inviter's place is
found out.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING

import msgspec

from diana.adapters.trust.invites import SEED_BYTES, invite_id
from diana.errors import UsageError
from diana.model.ids import site_id
from diana.node.config.site_file import host_port

if TYPE_CHECKING:
    from cryptography import x509

KINDS = ("site", "member", "standby", "user")
FINGERPRINT_BYTES = 16
"""Bytes of the root's SHA-256: finding another root with the same ones takes 2^128 tries."""
MOST_ADDRESSES = 4

_VERSION = 1
_CHECK_BYTES = 3
"""Bytes of the SHA-256 over the rest: they tell a slip in pasting from an invitation that is not known."""
_LEAST_BYTES = 2 + SEED_BYTES + FINGERPRINT_BYTES + _CHECK_BYTES
_MOST_CHARACTERS = 1024
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+\Z")


class Token(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    """One of KINDS."""
    seed: bytes
    """Secret."""
    fingerprint: bytes
    vo: str
    site: str
    """The inviter."""
    addresses: tuple[str, ...]
    """host:port where the inviter is reached, in the order to try."""

    @property
    def id(self) -> str:
        """Names the invitation; tells nothing of the seed."""
        return invite_id(self.seed)


def fingerprint_of(root: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return hashlib.sha256(root.public_bytes(Encoding.DER)).digest()[:FINGERPRINT_BYTES]


def encode(token: Token) -> str:
    """About 100 characters. ValueError for what a token cannot carry."""
    if len(token.seed) != SEED_BYTES or len(token.fingerprint) != FINGERPRINT_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes and a fingerprint {FINGERPRINT_BYTES}")
    if not 1 <= len(token.addresses) <= MOST_ADDRESSES:
        raise ValueError(f"{len(token.addresses)} addresses: want 1 to {MOST_ADDRESSES}")
    words = "\0".join((token.vo, token.site, *token.addresses)).encode()
    body = bytes((_VERSION, KINDS.index(token.kind))) + token.seed + token.fingerprint + words
    return base64.urlsafe_b64encode(body + _check(body)).decode().rstrip("=")


def decode(text: str) -> Token:
    """Inverse of `encode`. UsageError says what is wrong with a text that is no token."""
    text = text.strip()
    if len(text) > _MOST_CHARACTERS or not _ALPHABET.match(text):
        raise UsageError("token: that is no token of diana's; paste what diana invite printed, whole")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        data = b""
    body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if len(data) < _LEAST_BYTES or check != _check(body):
        raise UsageError("token: incomplete or changed on the way; paste what diana invite printed, whole")
    if body[0] != _VERSION or body[1] >= len(KINDS):
        raise UsageError("token: made by a newer release of diana; upgrade this machine")
    seed_end = 2 + SEED_BYTES
    end = seed_end + FINGERPRINT_BYTES
    try:
        vo, site, *addresses = body[end:].decode().split("\0")
        site_id(vo)
        site_id(site)
        if not 1 <= len(addresses) <= MOST_ADDRESSES or not all(host_port(address)[1] for address in addresses):
            raise ValueError("addresses")
    except ValueError:
        raise UsageError("token: its names or addresses are none; ask for a new one") from None
    return Token(
        kind=KINDS[body[1]],
        seed=body[2:seed_end],
        fingerprint=body[seed_end:end],
        vo=vo,
        site=site,
        addresses=tuple(addresses),
    )


def _check(body: bytes) -> bytes:
    return hashlib.sha256(b"diana token\0" + body).digest()[:_CHECK_BYTES]
