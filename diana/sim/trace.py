"""The digest over everything every engine decided, and a job's story when one was asked for.

A run is its seed, so a story costs nothing until it is wanted: the run is simply done again with `follow` set.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from diana.engine import effects as fx
from diana.engine.events import Event
from diana.model.ids import GroupId, SiteId

STORY_LINES = 200
_LINE = 300


class Trace:
    """`digest()` is SHA-256 over (site, time, effects) of every handled event, in order."""

    __slots__ = ("_encode", "_follow", "_hash", "_mentions", "handled_events", "lines")

    def __init__(self, follow: GroupId | None = None) -> None:
        self._hash = hashlib.sha256()
        self._encode = msgspec.msgpack.Encoder().encode
        self._follow = follow
        self._mentions = re.compile(rf"\b{re.escape(follow)}\b(?!-)") if follow else None
        self.handled_events = 0
        self.lines: list[str] = []
        """The story: the last STORY_LINES events and effects that name the followed group."""

    def handled(self, site: SiteId, now_s: float, event: Event | None, effects: list[fx.Effect]) -> None:
        self.handled_events += 1
        if effects:
            named = [(type(e).__name__, type(e.message).__name__ if type(e) is fx.Send else "", e) for e in effects]
            self._hash.update(self._encode((site, now_s, named)))
        if self._mentions is not None:
            self._tell(site, now_s, "<-", event)
            for effect in effects:
                self._tell(site, now_s, "->", effect)

    def note(self, site: SiteId, what: str, text: str) -> None:
        """Something the driver did to a site."""
        self._hash.update(self._encode((site, what, text)))
        if self._mentions is not None:
            self._add(f"{site:>10} ** {what} {text}".rstrip())

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _tell(self, site: SiteId, now_s: float, arrow: str, what: object) -> None:
        if what is None or self._mentions is None:
            return
        text = repr(what)
        if self._mentions.search(text):
            self._add(f"{now_s:12.6f} {site:>10} {arrow} {text if len(text) <= _LINE else text[:_LINE] + ' ...'}")

    def _add(self, line: str) -> None:
        self.lines.append(line)
        if len(self.lines) > STORY_LINES:
            del self.lines[0]
