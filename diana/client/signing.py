"""Signs submissions with a user's own key, so that every site can see that the user, and not a site, asked (PROMISES
5.6). The bytes that are signed are those of `diana/policy/trust/statement.py`, which a client does not import; a test
holds the two together.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING

from diana.wire.client.permits import Permit, ToSign

if TYPE_CHECKING:
    from diana.client.credential import Credential

VALID_S = 30 * 86400.0


def permit(credential: Credential, what: ToSign, now_wall_s: float | None = None) -> Permit:
    """UsageError where the node asks to sign as somebody else or for another site than the credential's."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from diana.errors import UsageError
    from diana.wire.unreadable import UNREADABLE

    owner = f"{credential.user}@{credential.vo}"
    if what.owner != owner or what.audience != credential.site:
        raise UsageError(
            f"the node asks {owner} to sign as {what.owner} for site {what.audience}; "
            f"the credential is for site {credential.site}; ask its operator"
        )
    signed_wall_s = time.time() if now_wall_s is None else now_wall_s
    expires_wall_s = signed_wall_s + VALID_S
    digest = hashlib.sha256(what.spec).hexdigest()
    body = signed_bytes(owner, digest, what.submission, expires_wall_s, signed_wall_s, what.audience)
    try:
        key = load_pem_private_key(credential.key, None)
    except UNREADABLE:
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError(f"credential {credential.folder}: user.key is no readable key of ECDSA; have it made again")
    return Permit(
        spec_sha256=digest,
        submission=what.submission,
        audience=what.audience,
        signed_wall_s=signed_wall_s,
        expires_wall_s=expires_wall_s,
        certificate=credential.certificate,
        signature=key.sign(body, ec.ECDSA(hashes.SHA256())),
    )


def signed_bytes(
    owner: str, spec_sha256: str, submission: str, expires_wall_s: float, signed_wall_s: float, audience: str
) -> bytes:
    """A JSON array, so that no two statements share their bytes."""
    times = repr(float(expires_wall_s)), repr(float(signed_wall_s))
    parts = [
        "diana-authorisation-3",
        *(owner, spec_sha256, submission, times[0]),
        *(f"user:{owner}", times[1], audience),
    ]
    return json.dumps(parts, ensure_ascii=True, separators=(",", ":")).encode("ascii")
