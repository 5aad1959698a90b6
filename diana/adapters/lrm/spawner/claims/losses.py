"""A loss of the claim log, kept beside it: the log is written anew at the spawner's start and then looks whole."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import msgspec

from diana.bounds import MOST_NOTE_BYTES, content_of, decoded


class LostClaims(msgspec.Struct, frozen=True):
    """The last loss of a claim log. `text`: a line that says what lacks and what was ended for it."""

    wall_s: float
    text: str


_decode = msgspec.json.Decoder(LostClaims).decode


def beside(log: Path) -> Path:
    return log.with_suffix(".lost")


def keep(log: Path, text: str) -> None:
    """Note a loss, durably, before the log is written anew. A disk without room keeps no spawner from its start: then
    the node's log alone tells."""
    # Where a log lost nothing, which is nearly always, it is not loaded into the process that stays small.
    from diana.adapters.durable import replace_durably

    with contextlib.suppress(OSError):
        replace_durably(beside(log), msgspec.json.encode(LostClaims(time.time(), text)))


def last(log: Path) -> LostClaims | None:
    """Return the last loss that was kept; None where there is none that can be read."""
    try:
        return decoded(_decode, content_of(beside(log), MOST_NOTE_BYTES))
    except (OSError, ValueError):
        return None
