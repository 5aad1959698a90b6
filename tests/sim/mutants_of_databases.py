"""Engines that break one sentence each about lost and old databases (`tests/protocol/dbloss.py`)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holdings, Met
from diana.model.ids import SiteId
from diana.model.settings import Settings


class HeedsNoWordThatItFell(Engine):
    """fallen_mints_anew"""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, replace(message, fell=False) if isinstance(message, Met) else message)


class BeginsAtOnce(Engine):
    """waits_for_origin: whatever the mark says."""

    def start(self, settings: Settings, **more: Any) -> list[fx.Effect]:
        return super().start(settings, **{**more, "newest": True})


class HoldsNothing(Engine):
    """restored_holds, marked_holds"""

    def start(self, settings: Settings, **more: Any) -> list[fx.Effect]:
        return super().start(settings, **{**more, "restored": False, "newest": True})


class TakesNoStock(Engine):
    """adopts, reports_done, epoch_above_reported: whoever was asked is done with."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, replace(message, rows=()) if isinstance(message, Holdings) else message)


DESCRIBED = {
    HeedsNoWordThatItFell: "database_old",
    BeginsAtOnce: "database_old",
    HoldsNothing: "backup_restored",
}
"""Mutant -> the fault under which it is caught."""
