"""Enrolment: which certificates a caller may have signed. Default deny; every request for a signature asks here
(PROMISES 5.3)."""

from __future__ import annotations

from diana.model.trust.identity import Identity

WANTED_SIGNERS = 3
"""Number of signers up to which the first sites of a VO become signers: any two may then be lost."""


def may_be_signed(caller: Identity, wanted: Identity, proven: bool = False) -> str:
    """Return the empty text if the holder of the certificate `caller` may have `wanted` signed, else one line why not.

    A site speaks for its own name and its machines, a machine and a user for themselves. `proven`: the request was made
    with the key of a still valid certificate of `wanted`, and the caller passes it on.
    """
    own = wanted == caller and caller.kind in ("site", "member", "user")
    machine = caller.kind == "site" and wanted.kind == "member" and wanted.site == caller.name
    passed_on = caller.kind == "site" and wanted.kind == "user" and proven
    if caller.vo == wanted.vo and (own or machine or passed_on):
        return ""
    return f"{caller.kind or 'nobody'} {caller.name}".strip() + f" may not have {wanted.kind} {wanted.name} signed"


def becomes_signer(kind: str, signers: int) -> bool:
    """True if a newcomer of this kind becomes a signer. `signers`: the number of signers, as the signers say."""
    return kind == "site" and signers < WANTED_SIGNERS
