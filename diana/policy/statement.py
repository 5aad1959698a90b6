"""What an authorisation says, byte for byte, and who may say it. Shared by every keyring, real or simulated."""

from __future__ import annotations

import hashlib
import json

DEFAULT_VALID_S = 30 * 86400.0
"""How long an authorisation holds, wall-clock seconds: as long as a finished group is kept."""

MOST_VALID_S = 30 * 86400.0
"""No authorisation may claim to hold longer: its certificate is judged by when it was signed."""

CLOCK_SKEW_S = 300.0
"""How far ahead the clock of whoever signed may be."""


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
    """The canonical bytes that are signed. A JSON array: no two different statements share their bytes, and the
    leading text keeps the signature from meaning anything elsewhere. `signed_wall_s` 0: the first form, without it.
    With an `audience` a user signs before the group has a name: `submission` stands for it."""
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
    """Names one group of a submission before it has an id: `place` from 0, in the order of the job file."""
    return f"{key}#{place}"


def misdirected(audience: str, group: str, signed_wall_s: float) -> str:
    """Empty unless a user signed for another site than the one that named the group."""
    if not audience:
        return ""
    if group.rpartition("-")[0] != audience:
        return f"the authorisation is for work submitted at site {audience}, not for {group}; submit it there"
    return "" if signed_wall_s else "the authorisation does not say when it was signed; submit again"


def speaks_for(signer: str, owner: str, vo: str) -> str:
    """Empty if `signer` may speak for `owner` in this VO, else one line why not: a site speaks for every user of
    its VO, a user for nobody else."""
    name, at, owner_vo = owner.rpartition("@")
    if not name or not at:
        return f"owner {owner!r} is not a VO principal; want name@{vo}"
    if owner_vo != vo:
        return f"owner {owner!r} is of another VO; this one is {vo}"
    if signer.startswith("site:") or signer == f"user:{owner}":
        return ""
    return f"{signer} may not speak for {owner}"


def outdated(expires_wall_s: float, now_wall_s: float) -> str:
    """Empty while the statement holds."""
    if now_wall_s < expires_wall_s:
        return ""
    return f"the authorisation expired {now_wall_s - expires_wall_s:.0f} s ago; submit the group again"


def misdated(signed_wall_s: float, expires_wall_s: float, now_wall_s: float) -> str:
    """Empty unless the statement claims to be of the future, or to hold longer than any may. 0: it says no date of
    signing, and its certificate must be in date now."""
    if not signed_wall_s:
        return ""
    if not signed_wall_s <= now_wall_s + CLOCK_SKEW_S:
        return f"the authorisation is dated {signed_wall_s - now_wall_s:.0f} s ahead; check this machine's clock"
    if not expires_wall_s <= signed_wall_s + MOST_VALID_S:
        return f"the authorisation claims to hold longer than {MOST_VALID_S / 86400.0:.0f} days; submit the group again"
    return ""
