"""The ways to each site, in the order in which they are tried.

A site's own address comes first; where that does not answer but a tunnel through a neighbour does, the tunnel comes
first from then on, until a look now and then finds that the address answers after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from diana.engine.journal.effects import Contact
from diana.model.ids import SiteId

LOOK_AGAIN_S = 180.0
"""Seconds between two looks at an address that did not answer."""

UNSPECIFIED = ("", "0.0.0.0", "[::]", "::")


class DialTarget(NamedTuple):
    """`where` is the target gRPC dials: `host:port` or `unix:PATH`."""

    where: str
    tunnel: bool


def is_dialable(address: str) -> bool:
    """True if a host and a port are named; `0.0.0.0:7400` names no host."""
    host, _, port = address.rpartition(":")
    return bool(port) and host not in UNSPECIFIED


class AddressBook:
    """`tunnel` gives the gRPC address of a tunnel to a site, empty where nobody could relay."""

    def __init__(self, tunnel: Callable[[SiteId], str]) -> None:
        self._tunnel = tunnel
        self._contacts: dict[SiteId, Contact] = {}
        self._told: dict[SiteId, str] = {}
        self._deaf: dict[SiteId, float] = {}
        """Sites whose address does not answer, and when to look again."""
        self.governed = False
        """True once anybody has told of contacts at all: before that, all streams are held."""

    def put(self, order: Contact) -> Contact | None:
        """Take a contact; return the one it replaces."""
        self.governed = True
        old = self._contacts.get(order.site)
        self._contacts[order.site] = order
        if old is not None and old.address != order.address:
            self._deaf.pop(order.site, None)
        return old

    def forget(self, site: SiteId) -> None:
        self.governed = True
        for table in (self._contacts, self._told, self._deaf):
            table.pop(site, None)

    def learn(self, site: SiteId, address: str) -> None:
        """Note the address that a linked site gives for itself, with the host we see it at where it names none."""
        if address not in self.addresses(site):
            self._deaf.pop(site, None)
        self._told[site] = address

    def contact(self, site: SiteId) -> Contact | None:
        return self._contacts.get(site)

    def via(self, site: SiteId) -> tuple[SiteId, ...]:
        order = self._contacts.get(site)
        return order.via if order else ()

    def addresses(self, site: SiteId) -> tuple[str, ...]:
        """Return those of the site's own addresses that can be dialled."""
        order = self._contacts.get(site)
        known = dict.fromkeys((order.address if order else "", self._told.get(site, "")))
        return tuple(address for address in known if is_dialable(address))

    def ways(self, site: SiteId) -> tuple[DialTarget, ...]:
        direct = tuple(DialTarget(address, tunnel=False) for address in self.addresses(site))
        through = self._tunnel(site)
        if not through:
            return direct
        tunnel = (DialTarget(through, tunnel=True),)
        return tunnel + direct if site in self._deaf else direct + tunnel

    # --- what was found out -----------------------------------------------------------------------

    def deaf(self, site: SiteId, now_s: float) -> None:
        """Note that the site's own address does not answer (and something else reaches it, or might)."""
        self._deaf[site] = now_s + LOOK_AGAIN_S

    def answers(self, site: SiteId) -> None:
        self._deaf.pop(site, None)

    def is_deaf(self, site: SiteId) -> bool:
        return site in self._deaf

    def to_look_at(self, now_s: float) -> list[SiteId]:
        """Return the deaf sites that are due for another look."""
        return sorted(site for site, due_s in self._deaf.items() if due_s <= now_s)
