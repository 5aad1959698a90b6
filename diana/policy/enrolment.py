"""Who may have which certificate signed. Default deny; every request for a signature asks here (PROMISES 5.3)."""

from __future__ import annotations

from diana.model.identity import Identity

WANTED_SIGNERS = 3
"""The first sites of a VO become signers until there are so many: any two may be lost."""


def may_be_signed(caller: Identity, wanted: Identity, proven: bool = False) -> str:
    """Empty: whoever showed the certificate `caller` may have `wanted` signed. Else one line why not.

    A site speaks for its own name and its machines, a machine and a user for themselves. `proven`: whoever holds the
    key of a certificate of `wanted` that still holds asked the caller to.
    """
    own = wanted == caller and caller.kind in ("site", "member", "user")
    machine = caller.kind == "site" and wanted.kind == "member" and wanted.site == caller.name
    passed_on = caller.kind == "site" and wanted.kind == "user" and proven
    if caller.vo == wanted.vo and (own or machine or passed_on):
        return ""
    return f"{caller.kind or 'nobody'} {caller.name}".strip() + f" may not have {wanted.kind} {wanted.name} signed"


def becomes_signer(kind: str, signers: int) -> bool:
    """`signers`: how many there are, by the word of signers."""
    return kind == "site" and signers < WANTED_SIGNERS
