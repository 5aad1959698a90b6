"""Messages of operators about a site and the VO, and the contents of the VO's ledger."""

from __future__ import annotations

from diana.model.views.ledger import Banned
from diana.wire.client.base import Message


class OperateRequest(Message, frozen=True):
    order: str
    """drain, undrain, ban, unban, give-up, remove-machine, go-on or set-policy."""
    name: str = ""
    """Target of a ban: `site:NAME`, `member:SITE/MACHINE`, `user:NAME@VO`, `serial:HEX`; or the machine of
    remove-machine."""
    reason: str = ""
    values_json: str = ""
    """Settings by name, for set-policy."""
    from_wall_s: float = 0.0
    to_wall_s: float = 0.0
    """Beginning and end of a drain, in seconds since 1970; beginning 0: now. Both 0: from now until an undrain."""


class OperateResponse(Message, frozen=True):
    text: str = ""
    """One line about the order's result."""


class LedgerResponse(Message, frozen=True):
    values_json: str = ""
    """The VO's policy, settings by name; empty: none was set."""
    by: str = ""
    since_wall_s: float = 0.0
    here: tuple[str, ...] = ()
    """Settings of the policy that this site's operator set otherwise; the operator's count here."""
    banned: tuple[Banned, ...] = ()
    drained: str = ""
    """Reason why this site takes no new work; empty: it does."""
