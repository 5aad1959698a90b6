"""Surroundings that an engine is given at birth: its journal's content, and a keyring to sign and check with.

They are ports too; `ports.py` names them with the others.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from diana.engine.messages.messages import Authorisation
from diana.model.ids import GroupId


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a journal, as `Store.load` finds it."""

    snapshot: bytes | None
    seq: int
    """Sequence number of the last durable record; 0: a new store."""
    at_s: float
    """Site time of the last transaction."""
    records: list[bytes]
    """Records after the snapshot, in order."""
    release: str = ""
    """The release that wrote to it last; empty: not known, as with 0.1.0."""


class Keyring(Protocol):
    """Signs and checks authorisations, and statements of the VO's signers. Pure computation over keys read at start."""

    def authorise(self, owner: str, group: GroupId, spec: bytes) -> Authorisation: ...

    def check(self, authorisation: Authorisation, spec: bytes) -> str:
        """Return why it is not good, in one line: wrong hash, expired, unknown signer, signer may not speak for owner.
        Empty: it is good."""
        ...

    def sign_statement(self, payload: bytes) -> tuple[bytes, bytes]:
        """Return (chain, signature) by this site's signer key. `errors.UsageError` where this site is no signer."""
        ...

    def check_statement(
        self, payload: bytes, chain_pem: bytes, signature: bytes, signer: str = "", said_s: float = 0.0
    ) -> str:
        """Return why it is not good, in one line; empty: it is good. It is if it comes from a signer of this VO that is
        not revoked (from that of site `signer` where one is named), and was said at a time (`said_s`, seconds since
        1970) that is not ahead of this site's clock by more than `model.ledger.MOST_AHEAD_S`."""
        ...
