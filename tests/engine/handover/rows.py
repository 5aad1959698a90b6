"""How a row of a state table is named, and what an engine did of what a row may say."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from diana.engine.handover import origin as at_origin
from diana.engine.handover.table import Row
from diana.engine.journal import effects as fx
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.engine.messages.orders import OriginOrder
from diana.model.ids import SiteId

ORDERS: tuple[type, ...] = (ms.Prepare, *OriginOrder.__subclasses__())
REPORTS: tuple[type, ...] = get_args(at_origin.Report)
LEASES: tuple[type, ...] = (lm.Renew, lm.Renewed)
MESSAGES = frozenset((*ORDERS, *REPORTS, *LEASES))


def named(value: object) -> str:
    if isinstance(value, Row):
        return f"{value.side.__name__}-{value.state}-{value.when or 'always'}".replace(" ", "_")
    return value.__name__ if isinstance(value, type) else str(value)


def told_records(effects: list[fx.Effect], also: Collection[type]) -> tuple[type, ...]:
    """Records of a transfer or its jobs, and those that some row names; others of the group and of peers are left
    out."""
    kinds = [(type(e.record), hasattr(e.record, "subgroup")) for e in effects if isinstance(e, fx.Persist)]
    return tuple(kind for kind, of_transfer in kinds if of_transfer or kind in also)


def told_messages(effects: list[fx.Effect]) -> list[tuple[SiteId, type]]:
    """Messages of the hand-over, each with its receiver."""
    found: list[tuple[SiteId, type]] = []
    for effect in effects:
        if isinstance(effect, fx.SendResult):
            found.append((effect.to, ms.Result))
        elif isinstance(effect, fx.Send) and type(effect.message) in MESSAGES:
            found.append((effect.to, type(effect.message)))
    return found
