"""The word of a site that one of its users, with a role, asks for another site's history: signed, for one site, for a
few minutes. Pure: bytes in, a claim or a complaint out."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Literal

import msgspec

VALID_S = 300.0
"""Seconds that a claim holds, and that the asker's clock may be ahead."""
MOST_TOKEN_BYTES = 16_384
"""Bytes of a claim once it is unpacked."""
_MARK = "diana-history-1"


class PastClaim(msgspec.Struct, frozen=True, array_like=True):
    mark: str
    asker: str
    """The site whose user asks."""
    audience: str
    """The site that is asked."""
    owner: str
    role: Literal["user", "operator"]
    from_wall_s: float
    to_wall_s: float
    said_wall_s: float


class SignedClaim(msgspec.Struct, frozen=True, array_like=True):
    claim: bytes
    """A `PastClaim`, as its site signed it."""
    spec_sha256: str
    expires_wall_s: float
    signed_wall_s: float
    certificate: bytes
    signature: bytes


def payload(
    asker: str, audience: str, owner: str, role: Literal["user", "operator"], span: tuple[float, float], now_s: float
) -> bytes:
    """Return the bytes to be signed. They are no spec of a group: those are JSON objects."""
    return msgspec.json.encode(PastClaim(_MARK, asker, audience, owner, role, *span, now_s))


def token_of(signed: SignedClaim) -> str:
    packed = zlib.compress(msgspec.msgpack.encode(signed), 9)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def signed_of(token: str) -> tuple[SignedClaim, PastClaim]:
    """Inverse of `token_of`; ValueError in one line for anything else."""
    try:
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        # What is longer is cut, and no claim any more.
        data = zlib.decompressobj().decompress(packed, MOST_TOKEN_BYTES)
        signed = msgspec.msgpack.decode(data, type=SignedClaim)
        return signed, msgspec.json.decode(signed.claim, type=PastClaim)
    except (binascii.Error, zlib.error, msgspec.DecodeError, ValueError, RecursionError):
        raise ValueError("the claim cannot be read; ask again from a node of this release") from None


def wrong(claim: PastClaim, here: str, reader: str, now_wall_s: float) -> str:
    """Return why the claim does not hold for `reader` at site `here`, in one line; empty: it does."""
    if claim.mark != _MARK:
        return "the claim is of another kind"
    if claim.asker != reader:
        return f"the claim is that of site {claim.asker}, and site {reader} shows it"
    if claim.audience != here:
        return f"the claim is for site {claim.audience}, not for {here}"
    if not -VALID_S <= now_wall_s - claim.said_wall_s <= VALID_S:
        return f"the claim was made {now_wall_s - claim.said_wall_s:.0f} s ago; ask again, and look at both clocks"
    if not (0 <= claim.from_wall_s <= 1e12 and 0 <= claim.to_wall_s <= 1e12):
        return "the span of the claim is none"
    return ""


def refused(history_for: str, role: str) -> str:
    """Return why this role is told nothing, by the setting of the site; empty: it is told."""
    if history_for == "users" or (history_for == "operators" and role == "operator"):
        return ""
    asked = "nobody" if history_for == "nobody" else "operators alone"
    return f'tells its history to {asked}; its operator may set history_for = "{role}s"'
