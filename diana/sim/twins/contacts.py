"""The transport's address book, twin of the real one's: the sites that each simulated site may dial, and the messages
that wait for a stream that is being made."""

from __future__ import annotations

from diana.engine.journal.effects import Contact
from diana.engine.messages.messages import Message, Summary
from diana.model.ids import SiteId

SEND_WAIT_S = 5.0
"""Seconds that a message without a stream waits for one."""
MOST_WAITING = 64
"""Messages of one site for another."""
IDLE_S = 60.0
"""A stream nobody holds is closed after this long without a message."""


class Contacts:
    """The contacts of all sites. Whoever restarts a site calls `restarted`: the engine tells its contacts anew."""

    def __init__(self) -> None:
        self._told: dict[SiteId, dict[SiteId, Contact]] = {}
        self._waiting: dict[tuple[SiteId, SiteId], list[tuple[float, Message]]] = {}

    def told(self, site: SiteId, order: Contact) -> None:
        self._told.setdefault(site, {})[order.site] = order

    def forget(self, site: SiteId, other: SiteId) -> None:
        self._told.get(site, {}).pop(other, None)

    def restarted(self, site: SiteId) -> None:
        self._told.pop(site, None)
        for pair in [pair for pair in self._waiting if pair[0] == site]:
            del self._waiting[pair]

    def knows(self, site: SiteId, other: SiteId) -> bool:
        return other in self._told.get(site, {})

    def keeps(self, site: SiteId, other: SiteId) -> bool:
        order = self._told.get(site, {}).get(other)
        return order is not None and order.keep

    def let_go(self, a: SiteId, b: SiteId) -> bool:
        """True if neither holds the stream; sites that tell no contacts at all hold every one."""
        return (a in self._told or b in self._told) and not self.keeps(a, b) and not self.keeps(b, a)

    def keepers(self, site: SiteId) -> list[SiteId]:
        """Sites that hold a stream to it, in order."""
        return sorted(other for other in self._told if self.keeps(other, site))

    def kept(self, site: SiteId) -> list[SiteId]:
        return sorted(other for other, order in self._told.get(site, {}).items() if order.keep)

    def via(self, a: SiteId, b: SiteId) -> tuple[SiteId, ...]:
        """Sites that may relay between the two, as both have heard."""
        orders = (self._told.get(a, {}).get(b), self._told.get(b, {}).get(a))
        return tuple(dict.fromkeys(site for order in orders if order is not None for site in order.via))

    # --- until a stream stands -------------------------------------------------------------------------

    def wait(self, sender: SiteId, to: SiteId, message: Message, now_s: float) -> bool:
        """Keep a message for the stream that is about to be made. False: it is dropped."""
        if not self.knows(sender, to) or isinstance(message, Summary):
            return False
        waiting = self._waiting.setdefault((sender, to), [])
        if len(waiting) >= MOST_WAITING:
            return False
        waiting.append((now_s + SEND_WAIT_S, message))
        return True

    def wanted(self, a: SiteId, b: SiteId, now_s: float) -> bool:
        """True if one of the two still wants a stream to the other."""
        waits = any(until_s > now_s for pair in ((a, b), (b, a)) for until_s, _ in self._waiting.get(pair, ()))
        return waits or self.keeps(a, b) or self.keeps(b, a)

    def take(self, sender: SiteId, to: SiteId, now_s: float) -> list[Message]:
        return [message for until_s, message in self._waiting.pop((sender, to), ()) if until_s >= now_s]
