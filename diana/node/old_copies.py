"""A journal that lacks what it once held, for an older copy was put back or its end was lost: known by the marks, or by
groups that the audit trail says were accepted, before any peer is met; or by the word of a peer
(`engine/site/journal_doubt.py`). Either way the store takes another name, what is not over is held, and what is known
to be gone is said. What two machines keep is judged by their own rules (`replica`), and put back
by an operator alone."""

from __future__ import annotations

import logging
import time
import uuid

import msgspec

from diana.engine.site.journal_doubt import MEND_PAIR
from diana.model.layout import DataDir
from diana.model.words import counted
from diana.node.ways_in import audit
from diana.ports import Store, call_restored

_log = logging.getLogger("diana.node")

LOST = "lost"
"""Key in the store of the last `LostGroups`."""
NO_GROUP_GONE = "an older copy, or its end was lost; no group is known to be gone, what was not over is held"
SAID_LOST_S = 30 * 86400.0
"""What went with the end of a journal or of a claim log is said so long."""
_MOST_NAMED = 12


class LostGroups(msgspec.Struct, frozen=True):
    """Groups that were accepted here and went with the end of a journal."""

    wall_s: float
    count: int
    text: str


def is_newest(store: Store, paths: DataDir, site: str, next_group: int, paired: bool) -> bool:
    """Before the engine starts: whether the store surely has all it ever had. One that surely has not is renamed.
    `next_group`: the number of the next group, as the journal has it."""
    if paired:
        store.trust()
        return True
    older = store.standing() == "older"
    if not older and audit.last_accepted(paths.audit, site) >= next_group:
        # The trail is written after the journal is synced.
        _log.warning("%s names groups that %s does not have", paths.audit, paths.journal)
        older = True
    if older:
        call_restored(store, uuid.uuid4().hex)
        _log.warning("%s is an older copy; what is not over is held, see docs/operators.md", paths.journal)
        say_lost(store, paths, site, next_group)
    return not older and store.standing() == "newest"


def renamed(store: Store, db_uuid: str, paths: DataDir, site: str, next_group: int, paired: bool) -> bool:
    """At a peer's word: whether the node is to start anew."""
    if paired:
        _log.critical(
            "the journals of both machines are older copies: nothing is taken or started; %s, see docs/standby.md",
            MEND_PAIR,
        )
        return False
    call_restored(store, db_uuid)
    say_lost(store, paths, site, next_group)
    return True


def say_lost(store: Store, paths: DataDir, site: str, next_group: int) -> None:
    """Tell the operator which groups were accepted that the journal does not have, as far as the audit trail says."""
    names = sorted({name for name in audit.accepted(paths.audit) if _number(name, site) >= next_group}, key=_by_number)
    if not names:
        if last_lost(store.meta(LOST)) is None:
            keep_lost(store, 0, NO_GROUP_GONE)
        return
    listed = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if names[_MOST_NAMED:] else "")
    text = f"{counted(len(names), 'group')} accepted and gone with the end of the journal: {listed}"
    keep_lost(store, len(names), text)
    _log.warning("%s; those come back that a peer has jobs of, others must be submitted again", text)


def last_lost(kept: str) -> LostGroups | None:
    """Return what is still to be said; `kept`: as `LOST` has it."""
    lost = msgspec.json.decode(kept, type=LostGroups) if kept else None
    return lost if lost is not None and time.time() - lost.wall_s < SAID_LOST_S else None


def keep_lost(store: Store, count: int, text: str) -> None:
    """Keep it for `diana doctor`, durably."""
    store.set_meta(LOST, msgspec.json.encode(LostGroups(time.time(), count, text)).decode())


def _number(name: str, site: str) -> int:
    prefix, _, number = name.rpartition("-")
    return int(number) if prefix == site and number.isdecimal() else -1


def _by_number(name: str) -> int:
    return int(name.rpartition("-")[2])
