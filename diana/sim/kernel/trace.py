"""The digest over everything every engine decided, and a job's story when one was asked for.

A run is its seed, so a story costs nothing until it is wanted: the run is simply done again with `follow` set.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import deque
from collections.abc import Callable

import msgspec

from diana.engine.journal import effects as fx
from diana.engine.journal.events import Event
from diana.model.ids import GroupId, SiteId

STORY_LINES = 80
_LINE = 300


class Trace:
    """`digest()` is SHA-256 over (site, time, effects) of every handled event, in order.

    With `follow`, `lines` is that group's story: the last STORY_LINES events and effects that name it, and what befell
    the sites, up to `until_s`."""

    __slots__ = ("_encode", "_hash", "_mentions", "_until_s", "handled_events", "lines", "watch")

    def __init__(self, follow: GroupId | None = None, until_s: float = math.inf) -> None:
        self._hash = hashlib.sha256()
        self._encode = msgspec.msgpack.Encoder().encode
        self._mentions = re.compile(rf"\b{re.escape(follow)}\b(?!-)") if follow else None
        self._until_s = until_s
        self.handled_events = 0
        self.watch: Callable[[SiteId, Event | None, list[fx.Effect]], None] | None = None
        self.lines: deque[str] = deque(maxlen=STORY_LINES)

    def handled(self, site: SiteId, now_s: float, event: Event | None, effects: list[fx.Effect]) -> None:
        self.handled_events += 1
        if self.watch is not None:
            self.watch(site, event, effects)
        if effects:
            self._hash.update(self._encode((site, now_s, self._named(effects))))
        if self._mentions is not None and now_s <= self._until_s:
            for arrow, what in (("<-", event), *(("->", e) for e in effects)):
                text = repr(what)
                if self._mentions.search(text):
                    self._add(site, now_s, arrow, text)

    def _named(self, effects: list[fx.Effect]) -> list[tuple[str, str, object]]:
        """Effects with their types. A message to several sites, one after the other, is written once: that is most of
        what a digest costs."""
        named: list[tuple[str, str, object]] = []
        last: object = None
        to: list[SiteId] = []
        for effect in effects:
            if type(effect) is fx.Send:
                if effect.message is last:
                    to.append(effect.to)
                    continue
                last, to = effect.message, [effect.to]
                named.append(("Send", type(last).__name__, (to, last)))
            else:
                last = None
                named.append((type(effect).__name__, "", effect))
        return named

    def note(self, site: SiteId, now_s: float, text: str) -> None:
        """Something the driver did to a site."""
        self._hash.update(self._encode((site, now_s, text)))
        if self._mentions is not None and now_s <= self._until_s:
            self._add(site, now_s, "**", text)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _add(self, site: SiteId, now_s: float, arrow: str, text: str) -> None:
        shown = text if len(text) <= _LINE else text[:_LINE] + " ..."
        self.lines.append(f"{now_s:12.6f} {site:>10} {arrow} {shown}")
