"""What an authorisation says, byte for byte, and who may say it. Shared by every keyring, real or simulated."""

from __future__ import annotations

import hashlib
import json

DEFAULT_VALID_S = 30 * 86400.0
"""How long an authorisation holds, wall-clock seconds: as long as a finished group is kept."""


def spec_hash(spec: bytes) -> str:
    return hashlib.sha256(spec).hexdigest()


def statement(owner: str, spec_sha256: str, group: str, expires_wall_s: float, signer: str) -> bytes:
    """The canonical bytes that are signed. A JSON array: no two different statements share their bytes, and the
    leading text keeps the signature from meaning anything elsewhere."""
    parts = ["diana-authorisation-1", owner, spec_sha256, group, repr(float(expires_wall_s)), signer]
    return json.dumps(parts, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def site_signer(site: str) -> str:
    return f"site:{site}"


def user_signer(name: str, vo: str) -> str:
    return f"user:{name}@{vo}"


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
