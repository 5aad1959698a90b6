"""The VO's ledger, for its users."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.model.views.shown import Shown


class Banned(Shown, frozen=True):
    who: str
    since_wall_s: float = 0.0
    reason: str = ""
    by: str = ""
    """Site of the signer."""


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of the VO's signers, as this site knows them."""

    values: dict[str, Any] = {}
    """The policy's settings by name."""
    by: str = ""
    since_wall_s: float = 0.0
    here: tuple[str, ...] = ()
    """Settings of the policy that this site's operator set otherwise; the operator's count here."""
    banned: tuple[Banned, ...] = ()
    drained: str = ""
