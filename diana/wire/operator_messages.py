"""What operators say of a site and of the VO, and what stands in the VO's ledger."""

from __future__ import annotations

from diana.wire.client_base import Base as _Message


class OperateRequest(_Message, frozen=True):
    order: str
    """drain, undrain, ban, unban, remove-machine, go-on or set-policy."""
    name: str = ""
    """Of a ban: `site:NAME`, `member:SITE/MACHINE`, `user:NAME@VO`, `serial:HEX`; of remove-machine: the machine."""
    reason: str = ""
    values_json: str = ""
    """Of set-policy: settings by name."""
    from_wall_s: float = 0.0
    to_wall_s: float = 0.0
    """Of drain: only from then to then; from 0: from now. Both 0: until it is told otherwise."""


class OperateResponse(_Message, frozen=True):
    text: str = ""
    """What was done, one line."""


class Banned(_Message, frozen=True):
    who: str
    since_wall_s: float = 0.0
    reason: str = ""
    by: str = ""


class LedgerResponse(_Message, frozen=True):
    values_json: str = ""
    """The VO's policy: settings by name; empty: none was set."""
    by: str = ""
    since_wall_s: float = 0.0
    here: tuple[str, ...] = ()
    """Of those, settings this site's operator set otherwise, which count here."""
    banned: tuple[Banned, ...] = ()
    drained: str = ""
    """Why this site takes no new work; empty: it does."""
