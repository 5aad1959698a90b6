"""Messages of the client service about invitations into the VO."""

from __future__ import annotations

from diana.wire.client.base import Message


class InviteRequest(Message, frozen=True):
    kind: str = ""
    """site, member, standby or user; empty: site."""
    name: str = ""
    """The only name the invitation is good for; empty: any that is free. A user's must be given."""
    for_s: float = 0.0
    """Seconds the invitation holds; 0: one hour."""
    address: str = ""
    """host:port at which the newcomer reaches this site; empty: where this site says it is reached."""
    again: bool = False
    """True for a site or machine of the VO whose certificate ran out or was lost."""
    order: str = ""
    """Order. Empty: make an invitation; list: show the open ones; withdraw: withdraw the one of this id."""
    id: str = ""


class OpenInvitation(Message, frozen=True):
    id: str
    kind: str = ""
    name: str = ""
    made_by: str = ""
    expires_wall_s: float = 0.0


class InviteResponse(Message, frozen=True):
    token: str = ""
    """The invitation itself, a secret: whoever has it may join."""
    kind: str = ""
    name: str = ""
    vo: str = ""
    site: str = ""
    addresses: tuple[str, ...] = ()
    expires_wall_s: float = 0.0
    open: tuple[OpenInvitation, ...] = ()
    """Open invitations. After list: all, the soonest to run out first; after withdraw: the one withdrawn."""
