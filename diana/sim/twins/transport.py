"""The Transport's twin: one site's end of the simulated network, as events and a `send`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from diana.engine.journal.effects import Contact, MeetHosts
from diana.engine.journal.events import HostsMet, LinkMeasured, PeerDown, PeerUp, Received
from diana.engine.messages.messages import Hello, Message
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.ports import Emit
from diana.sim.twins.network import Network


class SimTransport:
    """`greeting` gives the Hello of the living node, None while it is down. With `probing` each new stream is
    followed by a measurement of its link, as the node's probe makes one."""

    __slots__ = ("_emit", "_greeting", "_network", "_probing", "refused", "site")

    def __init__(
        self, network: Network, site: SiteId, emit: Emit, greeting: Callable[[], Hello | None], *, probing: bool = True
    ) -> None:
        self.site = site
        self._network = network
        self._emit = emit
        self._greeting = greeting
        self._probing = probing
        self.refused = 0
        """Messages that a full inbox turned away."""
        network.attach(self)

    # --- port ------------------------------------------------------------------------------------------

    def send(self, to: SiteId, message: Message) -> None:
        self._network.send(self.site, to, message)

    def contact(self, order: Contact) -> None:
        self._network.contact(self.site, order)

    def forget_contact(self, site: SiteId) -> None:
        self._network.contacts.forget(self.site, site)

    def refuse(self, sites: frozenset[SiteId]) -> None:
        self._network.refuse(self.site, sites)

    def hello(self) -> Hello:
        hello = self._greeting()
        assert hello is not None, "a node that is down says nothing"
        return hello

    def reach(self, order: MeetHosts) -> None:
        """Look for the hosts, which are named as their sites."""
        told = partial(HostsMet, subgroup=order.subgroup, epoch=order.epoch, hosts=order.hosts)
        self._network.look(self.site, order.hosts, lambda lost: self._emit(told(out_of_reach=lost)))

    # --- the network's side ----------------------------------------------------------------------------

    def greeting(self) -> Hello | None:
        return self._greeting()

    def peer_up(self, hello: Hello, rtt_s: float, bytes_per_s: float) -> None:
        self._emit(PeerUp(hello))
        if self._probing:
            self._emit(LinkMeasured(site=hello.site, rtt_s=rtt_s, bytes_per_s=bytes_per_s, sent=1))

    def measured(self, site: SiteId, rtt_s: float | None, bytes_per_s: float | None, lost: int) -> None:
        if self._probing:
            self._emit(LinkMeasured(site=site, rtt_s=rtt_s, bytes_per_s=bytes_per_s, sent=1, lost=lost))

    def peer_down(self, site: SiteId) -> None:
        self._emit(PeerDown(site))

    def received(self, sender: SiteId, message: Message) -> None:
        try:
            self._emit(Received(sender, message))
        except Overloaded:
            self.refused += 1
