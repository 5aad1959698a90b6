"""What all orders of an origin have in common."""

from __future__ import annotations

import msgspec

from diana.model.ids import SubgroupId


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What an origin says of a transfer; `Context.send` writes in whose journal it stands.

    A destination that acted on it knows from then on how long that journal was, as an origin knows it from answers: an
    older copy of either is told so when it comes back (`recovery.judge`).
    """

    subgroup: SubgroupId
    epoch: int
    origin_db_uuid: str = ""
    origin_seq: int = 0
    """Records in the origin's journal when it was said."""
