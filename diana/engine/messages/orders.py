"""The base of all orders of an origin."""

from __future__ import annotations

import msgspec

from diana.model.ids import SubgroupId


class OriginOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An origin's order about a transfer; `Context.send` writes in whose journal it stands.

    A destination that acted on it knows from then on how long that journal was, as an origin knows it from answers. An
    older copy of either journal that comes back is told so (`recovery.judge`).
    """

    subgroup: SubgroupId
    epoch: int
    origin_db_uuid: str = ""
    origin_seq: int = 0
    """Records in the origin's journal when the order was given."""
    seal: bytes = b""
    """The origin's, of that length (`policy/trust/seals.py`)."""
