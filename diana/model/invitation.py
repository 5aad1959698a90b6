"""Invitations a site gave out: what its journal keeps of them, and for how long.

Of an invitation's key only the public half is kept, as a certificate; whoever reads a journal can join with none.
What was used or has run out stays for a while, so that the one who comes late with it hears why.
"""

from __future__ import annotations

import msgspec

TELL_S = 86_400.0
"""So long after it ran out an invitation's bearer still hears that it did."""
NAME_S = 30 * 86_400.0
"""So long a name given out counts as taken although its node was never seen."""


class Invitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    kind: str
    name: str
    """The only name it is good for; empty: any that is free."""
    certificate: str
    """PEM: the key's public half, which signs what the newcomer shows. Empty when nobody is told of it any more."""
    made_by: str
    expires_wall_s: float
    noted_wall_s: float = 0.0
    """When this was put down, in seconds since 1970."""
    again: bool = False
    """For a site or machine that has been in the VO and lost its certificate."""
    used_by: str = ""
    """SHA-256 of the public key that joined with it."""
    used_name: str = ""
    used_address: str = ""
    """host:port at which the newcomer is to be reached."""

    def expired(self, wall_s: float) -> bool:
        return wall_s >= self.expires_wall_s

    def told(self, wall_s: float) -> bool:
        """Whether its bearer still hears what became of it."""
        return wall_s < self.expires_wall_s + TELL_S

    def named(self, wall_s: float) -> bool:
        """Whether the name it gave out still counts as taken."""
        return wall_s < self.expires_wall_s + NAME_S


def noted(known: dict[str, Invitation], new: Invitation) -> dict[str, Invitation]:
    """With the new state of one. Those nobody asks for any more go; of those whose name alone counts, the rest goes."""
    now_s, out = new.noted_wall_s, dict[str, Invitation]()
    for name, one in known.items():
        if one.told(now_s):
            out[name] = one
        elif one.used_by and one.named(now_s):
            out[name] = msgspec.structs.replace(one, certificate="") if one.certificate else one
    out[new.id] = new
    return out
