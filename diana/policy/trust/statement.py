"""Statements of authorisation: their canonical bytes, and who may sign them. Shared by every keyring, real or
simulated."""

from __future__ import annotations

import hashlib
import json

DEFAULT_VALID_S = 30 * 86400.0
"""Wall-clock seconds an authorisation holds: as long as a finished group is kept."""

MOST_VALID_S = 30 * 86400.0
"""Longest time an authorisation may claim to hold, because its certificate is judged as of the signing."""

CLOCK_SKEW_S = 300.0
"""Seconds the signer's clock may be ahead."""


def spec_hash(spec: bytes) -> str:
    return hashlib.sha256(spec).hexdigest()


def statement(
    owner: str,
    spec_sha256: str,
    group: str,
    expires_wall_s: float,
    signer: str,
    signed_wall_s: float = 0.0,
    audience: str = "",
    submission: str = "",
) -> bytes:
    """Return the canonical bytes that are signed: a JSON array. No two different statements share their bytes, and the
    leading text keeps the signature from meaning anything elsewhere. `signed_wall_s` 0: the first form, without it.
    With an `audience` a user signs before the group has a name, and `submission` stands for the name."""
    parts = ["diana-authorisation-1", owner, spec_sha256, group, repr(float(expires_wall_s)), signer]
    if signed_wall_s:
        parts = ["diana-authorisation-2", *parts[1:], repr(float(signed_wall_s))]
    if audience:
        signed = repr(float(signed_wall_s))
        parts = ["diana-authorisation-3", owner, spec_sha256, submission, parts[4], signer, signed, audience]
    return json.dumps(parts, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def site_signer(site: str) -> str:
    return f"site:{site}"


def user_signer(name: str, vo: str) -> str:
    return f"user:{name}@{vo}"


def submission_of(key: str, place: int) -> str:
    """Name one group of a submission before it has an id: `place` from 0, in the order of the job file."""
    return f"{key}#{place}"


def misdirected(audience: str, group: str, signed_wall_s: float) -> str:
    """Return a complaint if a user signed for another site than the one that named the group, or gave no date; else
    empty."""
    if not audience:
        return ""
    if group.rpartition("-")[0] != audience:
        return f"the authorisation is for work submitted at site {audience}, not for {group}; submit it there"
    return "" if signed_wall_s else "the authorisation does not say when it was signed; submit again"


def speaks_for(signer: str, owner: str, vo: str) -> str:
    """Return the empty text if `signer` may speak for `owner` in this VO, else one line why not. A site speaks for
    every user of its VO, a user only for itself."""
    name, at, owner_vo = owner.rpartition("@")
    if not name or not at:
        return f"owner {owner!r} is not a VO principal; want name@{vo}"
    if owner_vo != vo:
        return f"owner {owner!r} is of another VO; this one is {vo}"
    if signer.startswith("site:") or signer == f"user:{owner}":
        return ""
    return f"{signer} may not speak for {owner}"


def outdated(expires_wall_s: float, now_wall_s: float) -> str:
    """Return the empty text while the statement holds, else a complaint."""
    if now_wall_s < expires_wall_s:
        return ""
    return f"the authorisation expired {now_wall_s - expires_wall_s:.0f} s ago; submit the group again"


def misdated(signed_wall_s: float, expires_wall_s: float, now_wall_s: float) -> str:
    """Return a complaint if the statement is dated ahead, or claims to hold longer than allowed; else empty.
    `signed_wall_s` 0: it has no date of signing, and its certificate must be in date now."""
    if not signed_wall_s:
        return ""
    if not signed_wall_s <= now_wall_s + CLOCK_SKEW_S:
        return f"the authorisation is dated {signed_wall_s - now_wall_s:.0f} s ahead; check this machine's clock"
    if not expires_wall_s <= signed_wall_s + MOST_VALID_S:
        return f"the authorisation claims to hold longer than {MOST_VALID_S / 86400.0:.0f} days; submit the group again"
    return ""
