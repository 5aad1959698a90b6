"""A journal that lacks what it once held, for an older copy was put back: known by the mark beside it before any peer
is met, or by the word of a peer (`engine/site/journal_doubt.py`). Either way the store takes another name, and what is
not over is held. What two machines keep is judged by their own rules (`replica`), and put back by an operator alone."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path

from diana.ports import Store, call_restored

_log = logging.getLogger("diana.node")


def is_newest(store: Store, journal: Path, paired: bool) -> bool:
    """Before the engine starts: whether the store surely has all it ever had. One that surely has not is renamed."""
    if paired:
        store.trust()
        return True
    if store.standing() == "older":
        call_restored(store, uuid.uuid4().hex)
        _log.warning("%s is an older copy; what is not over is held, see docs/operators.md", journal)
    return store.standing() == "newest"


def renamed(store: Store, db_uuid: str, paired: bool) -> bool:
    """At a peer's word: whether the node is to start anew."""
    if paired:
        _log.critical("the journals of both machines are older copies; restore a backup, see docs/operators.md")
        return False
    call_restored(store, db_uuid)
    return True
