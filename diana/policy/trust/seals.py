"""Seals: what a site once said of itself, shown to it again by others.

A seal is a keyed hash under a secret that the site's journal holds, and nobody else: peers keep it beside the word and
cannot read, make or change it. So the site that made it believes it of anybody, and only of what it said. A signature
by the key of its certificate was rejected: each machine of a pair has a key of its own, and a word about the length of
a journal goes with each answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

KEY_BYTES = 32
SEAL_BYTES = 16


def length(
    key: bytes, *, site: str, db_uuid: str, former: Iterable[str], generation: int, boot_nonce: str, seq: int
) -> bytes:
    """Seal the word of a boot of the site that its journal has `seq` records, has this name and had those before."""
    return _seal(key, "length", site, db_uuid, generation, boot_nonce, seq, *former)


def offer(key: bytes, *, site: str, subgroup: str, epoch: int, bounds: Iterable[int]) -> bytes:
    """Seal an offer of the jobs within these bounds to `site`."""
    return _seal(key, "offer", site, subgroup, epoch, *bounds)


def receipt(key: bytes, said: bytes) -> bytes:
    """Seal what the site keeps of a group that it has acknowledged."""
    return _seal(key, "receipt", said.hex())


def gang(key: bytes, *, group: str, gang: int, epoch: int) -> str:
    """Return a secret for the processes of a gang in one attempt, as text; 0 without a key."""
    return _seal(key, "gang", group, gang, epoch).hex() or "0"


def fits(made: bytes, shown: bytes) -> bool:
    return bool(made) and hmac.compare_digest(made, shown)


def _seal(key: bytes, *said: str | int) -> bytes:
    """Empty without a key: nothing fits that."""
    if not key:
        return b""
    # Each part with its length, so that no two words have one text.
    text = "".join(f"{len(part)}:{part}" for part in map(str, said))
    return hmac.digest(key, text.encode(), "sha256")[:SEAL_BYTES]
