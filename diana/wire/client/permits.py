"""Messages about a user's signature for a submission (PROMISES 5.6)."""

from __future__ import annotations

from diana.wire.client.base import Message


class Permit(Message, frozen=True):
    """A user's signed statement: the owner asks for this spec at this site, once (`policy/trust/statement.py`)."""

    spec_sha256: str = ""
    submission: str = ""
    """The submission and the group's place in it."""
    audience: str = ""
    """The site it is submitted at."""
    signed_wall_s: float = 0.0
    expires_wall_s: float = 0.0
    certificate: bytes = b""
    signature: bytes = b""


class ToSign(Message, frozen=True):
    spec: bytes = b""
    """Canonical bytes of the group's spec."""
    submission: str = ""
    owner: str = ""
    audience: str = ""
