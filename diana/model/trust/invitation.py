"""Invitations a site gave out, as its journal keeps them, and for how long it does.

The journal keeps only the public half of an invitation's key, as a certificate, so nobody can join with what a journal
holds. Invitations that were used or have run out stay for a while, so that a late bearer hears why.
"""

from __future__ import annotations

import msgspec

TELL_S = 86_400.0
"""Seconds after its end for which an invitation's bearer still hears what became of it."""
NAME_S = 30 * 86_400.0
"""Seconds after the invitation's end for which its name counts as taken although the node was never seen."""


class Invitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    kind: str
    name: str
    """The only name this invitation is good for; empty: any that is free."""
    certificate: str
    """PEM: the key's public half, which signs what the newcomer shows. Empty when nobody is told of it any more."""
    made_by: str
    expires_wall_s: float
    noted_wall_s: float = 0.0
    """Wall time at which this was recorded, in seconds since 1970."""
    again: bool = False
    """True for a site or machine that has been in the VO and lost its certificate."""
    used_by: str = ""
    """SHA-256 of the public key that joined with it."""
    used_name: str = ""
    used_address: str = ""
    """host:port at which the newcomer is to be reached."""

    def expired(self, wall_s: float) -> bool:
        return wall_s >= self.expires_wall_s

    def told(self, wall_s: float) -> bool:
        """True while the bearer still hears what became of it."""
        return wall_s < self.expires_wall_s + TELL_S

    def named(self, wall_s: float) -> bool:
        """True while the name it gave out counts as taken."""
        return wall_s < self.expires_wall_s + NAME_S


def noted(known: dict[str, Invitation], new: Invitation) -> dict[str, Invitation]:
    """Return `known` with the new state of one invitation. Drop those nobody asks for any more; where only the name
    still counts, drop the certificate."""
    now_s, out = new.noted_wall_s, dict[str, Invitation]()
    for name, one in known.items():
        if one.told(now_s):
            out[name] = one
        elif one.used_by and one.named(now_s):
            out[name] = msgspec.structs.replace(one, certificate="") if one.certificate else one
    out[new.id] = new
    return out
