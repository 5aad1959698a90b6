"""Tells the inbox who came and went, in order and without loss, and hands it what peers say in between."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from diana.engine.journal.events import PeerDown, PeerUp, Received
from diana.engine.messages.messages import Message
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.ports import Emit

_log = logging.getLogger("diana.peers")


class Telling:
    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._untold: deque[PeerUp | PeerDown] = deque()
        self._stopped = False

    def stop(self) -> None:
        """Nothing that waits is told any more."""
        self._stopped = True

    def tell(self, event: PeerUp | PeerDown) -> None:
        """These must arrive, and in order: an overloaded inbox gets them later."""
        if isinstance(event, PeerUp):
            _log.info("%s is here: release %s, %s", event.hello.site, event.hello.release, event.hello.data_address)
        else:
            _log.info("%s is gone", event.site)
        self._untold.append(event)
        if len(self._untold) == 1:
            self._tell_waiting()

    def deliver(self, sender: SiteId, message: Message) -> None:
        """Overloaded while the inbox is, or while an earlier coming or going waits."""
        if self._untold:
            raise Overloaded("peer events wait", 0.1)
        self._emit(Received(sender, message))

    def _tell_waiting(self) -> None:
        while self._untold and not self._stopped:
            try:
                self._emit(self._untold[0])
            except Overloaded as error:
                asyncio.get_running_loop().call_later(max(error.retry_after_s, 0.01), self._tell_waiting)
                return
            self._untold.popleft()
