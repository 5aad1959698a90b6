"""Messages of the client service about who comes into the VO."""

from __future__ import annotations

from diana.wire.client_base import Base as _Message


class InviteRequest(_Message, frozen=True):
    kind: str = ""
    """site, member, standby or user; empty: site."""
    name: str = ""
    """The only name the invitation is good for; empty: any that is free. A user's must be given."""
    for_s: float = 0.0
    """How long it holds, seconds; 0: one hour."""
    address: str = ""
    """host:port at which the newcomer reaches this site; empty: where this site says it is reached."""
    again: bool = False
    """For a site or machine of the VO whose certificate ran out or was lost."""
    order: str = ""
    """Empty: make an invitation; list: those that are open; withdraw: the one of this id."""
    id: str = ""


class OpenInvitation(_Message, frozen=True):
    id: str
    kind: str = ""
    name: str = ""
    made_by: str = ""
    expires_wall_s: float = 0.0


class InviteResponse(_Message, frozen=True):
    token: str = ""
    """Secret: who has it may join."""
    kind: str = ""
    name: str = ""
    vo: str = ""
    site: str = ""
    addresses: tuple[str, ...] = ()
    expires_wall_s: float = 0.0
    open: tuple[OpenInvitation, ...] = ()
    """Of list, the soonest to run out first; of withdraw, the one."""
