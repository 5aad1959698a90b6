"""Receipts: what an origin keeps of a group that it acknowledged, given along with each offer.

A destination keeps it unread. An origin whose journal lost its end is shown it again, and believes it by its own seal:
so a group that was submitted since its journal was copied comes back (`recovery/stocktaking.py`).
"""

from __future__ import annotations

import hashlib

import msgspec

from diana.engine.journal.records import GroupSubmitted
from diana.engine.journal.state import Group
from diana.policy.trust import seals

MOST_BYTES = 1 << 16
"""Bytes of a receipt without its seal; a group whose list of inputs takes more has none."""
MOST_SPEC_BYTES = 3 << 20
"""Bytes of a spec; a group with a larger one has no receipt, for both go in one message."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(GroupSubmitted)


def of(group: Group, key: bytes) -> bytes:
    """`key`: the secret of the site's seals. Empty: the group has none. The spec goes beside it, and who is told of
    its end stays with the origin."""
    if not key or len(group.spec_bytes) > MOST_SPEC_BYTES:
        return b""
    said = _encoder.encode(
        GroupSubmitted(
            group=group.group,
            owner=group.owner,
            key=group.key,
            spec=hashlib.sha256(group.spec_bytes).digest(),
            jobs=group.jobs,
            refs=group.refs,
            submitted_s=group.submitted_s,
            wall_s=group.wall_s,
            authorisation=group.authorisation,
        )
    )
    return seals.receipt(key, said) + said if len(said) <= MOST_BYTES else b""


def read(receipt: bytes, spec: bytes, key: bytes) -> GroupSubmitted | None:
    """Return the submission that this receipt is of; None: the site gave no such receipt for that spec."""
    seal, said = receipt[: seals.SEAL_BYTES], receipt[seals.SEAL_BYTES :]
    if not seals.fits(seals.receipt(key, said), seal):
        return None
    submitted = _decoder.decode(said)
    if submitted.spec != hashlib.sha256(spec).digest():
        return None
    return msgspec.structs.replace(submitted, spec=spec, returned=True)
