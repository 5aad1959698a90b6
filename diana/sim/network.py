"""Streams between sites under virtual time: the Transport's twin, with latency, loss, duplication, delay and cuts.

Messages are immutable and travel as they are, without encoding. Only messages of a stream that still stands arrive;
within it each may be lost, doubled or delayed. A stream stands between every two living sites whose link is whole.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from diana.engine.messages import Hello, Message
from diana.model.ids import SiteId
from diana.sim import chance
from diana.sim.clock import Clock
from diana.sim.faults import Faults

KEEPALIVE_S = 3.0
"""A stream whose other end fell silent is given up after this."""
REDIAL_S = 0.5
MEASURE_EVERY_S = 5.0
"""A link with noise or loss is measured again this often; one without has told all it will ever tell."""
THROUGHPUT_EVERY = 12
"""Of so many measurements one tells the throughput."""


class Endpoint(Protocol):
    """One site as the network sees it."""

    site: SiteId

    def greeting(self) -> Hello | None:
        """Its Hello now; None: it is down."""
        ...

    def peer_up(self, hello: Hello, rtt_s: float, bytes_per_s: float) -> None: ...

    def measured(self, site: SiteId, rtt_s: float | None, bytes_per_s: float | None, lost: int) -> None:
        """One more ping of the link to `site`, `lost` or answered after `rtt_s`."""
        ...

    def peer_down(self, site: SiteId) -> None: ...

    def received(self, sender: SiteId, message: Message) -> None: ...


class Link:
    """Between two sites, both ways. `stream` names the standing stream; 0: none."""

    __slots__ = ("bytes_per_s", "cut", "dialling", "latency_s", "loss", "noise", "one_way", "stream")

    def __init__(self, latency_s: float, bytes_per_s: float, loss: float = 0.0, noise: float = 0.0) -> None:
        self.latency_s = latency_s
        self.bytes_per_s = bytes_per_s
        self.loss = loss
        """Share of packets. A stream sends them again: what it carries comes later, a ping of a probe is lost."""
        self.noise = noise
        """Measurements lie evenly in value * (1 - noise) .. value * (1 + noise)."""
        self.cut = 0
        """Number of cuts in force."""
        self.one_way: SiteId | None = None
        """Messages from this site vanish though the stream still stands."""
        self.stream = 0
        self.dialling = False


class Network:
    """`rng` draws what links lose and by how much measurements err, and nothing else."""

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        latency_s: float,
        bytes_per_s: float,
        *,
        loss: float = 0.0,
        noise: float = 0.0,
        rng: Random | None = None,
    ) -> None:
        self._clock = clock
        self._faults = faults
        self._rng = rng or chance.stream(0, "links")
        self._default = (latency_s, bytes_per_s, loss, noise)
        self._special: dict[tuple[SiteId, SiteId], tuple[float, float, float, float]] = {}
        self._links: dict[tuple[SiteId, SiteId], Link] = {}
        self._ends: dict[SiteId, Endpoint] = {}
        self._streams = 0
        self.sent = 0
        self.arrived = 0

    def describe(
        self, a: SiteId, b: SiteId, latency_s: float, bytes_per_s: float, loss: float = 0.0, noise: float = 0.0
    ) -> None:
        self._special[_pair(a, b)] = (latency_s, bytes_per_s, loss, noise)

    def attach(self, end: Endpoint) -> None:
        self._ends[end.site] = end

    def link(self, a: SiteId, b: SiteId) -> Link:
        pair = _pair(a, b)
        link = self._links.get(pair)
        if link is None:
            link = self._links[pair] = Link(*self._special.get(pair, self._default))
        return link

    def reachable(self, a: SiteId, b: SiteId) -> bool:
        link = self.link(a, b)
        whole = not link.cut and link.one_way is None
        return whole and self._ends[a].greeting() is not None and self._ends[b].greeting() is not None

    # --- streams ---------------------------------------------------------------------------------------

    def node_up(self, site: SiteId) -> None:
        for other in self._ends:
            if other != site:
                self._dial(site, other)

    def node_down(self, site: SiteId) -> None:
        """The kernel of a crashed process closes its sockets: the others learn of it after one latency."""
        for other in self._ends:
            if other == site:
                continue
            link = self.link(site, other)
            if link.stream:
                self._clock.after(link.latency_s, self._tell_down, other, site)
                link.stream = 0

    def _tell_down(self, site: SiteId, lost: SiteId) -> None:
        if not self.link(site, lost).stream and self._ends[site].greeting() is not None:
            self._ends[site].peer_down(lost)

    def _dial(self, a: SiteId, b: SiteId) -> None:
        link = self.link(a, b)
        if not (link.dialling or link.stream):
            link.dialling = True
            self._clock.after(3 * link.latency_s, self._stand, a, b, link)

    def _stand(self, a: SiteId, b: SiteId, link: Link) -> None:
        """Both hellos are those of the moment the stream stands, so none is stale."""
        link.dialling = False
        hello_a, hello_b = self._ends[a].greeting(), self._ends[b].greeting()
        if link.cut or link.one_way or hello_a is None or hello_b is None:
            if hello_a is not None and hello_b is not None:
                self._clock.after(REDIAL_S, self._dial, a, b)
            return
        self._streams += 1
        stream = link.stream = self._streams
        self._ends[a].peer_up(hello_b, self._read(2 * link.latency_s, link), self._read(link.bytes_per_s, link))
        # The first end may have crashed in handling it, which closed this stream again.
        if link.stream == stream:
            self._ends[b].peer_up(hello_a, self._read(2 * link.latency_s, link), self._read(link.bytes_per_s, link))
        if link.noise or link.loss:
            self._clock.after(MEASURE_EVERY_S, self._measure, a, b, link, stream, 1)

    # --- measurements ----------------------------------------------------------------------------------

    def _read(self, true: float, link: Link) -> float:
        """What an instrument shows of a figure of this link."""
        return true * (1.0 + link.noise * (2.0 * self._rng.random() - 1.0)) if link.noise else true

    def _measure(self, a: SiteId, b: SiteId, link: Link, stream: int, number: int) -> None:
        """Both ends measure while their stream stands."""
        if link.stream != stream:
            return
        for end, other in ((a, b), (b, a)):
            if link.stream != stream:
                return
            if link.loss and self._rng.random() < link.loss:
                self._ends[end].measured(other, None, None, 1)
                continue
            bytes_per_s = None if number % THROUGHPUT_EVERY else self._read(link.bytes_per_s, link)
            self._ends[end].measured(other, self._read(2 * link.latency_s, link), bytes_per_s, 0)
        self._clock.after(MEASURE_EVERY_S, self._measure, a, b, link, stream, number + 1)

    def _resent_s(self, link: Link) -> float:
        """What loss costs a message: a round trip for each time it is sent again."""
        again = 0
        while link.loss and self._rng.random() < link.loss:
            again += 1
        return 2 * link.latency_s * again

    # --- messages --------------------------------------------------------------------------------------

    def send(self, sender: SiteId, to: SiteId, message: Message) -> None:
        if to not in self._ends or to == sender:
            return
        link = self.link(sender, to)
        if not link.stream:
            return
        self.sent += 1
        if link.cut or link.one_way == sender:
            return
        resent_s = self._resent_s(link)
        for extra_s in self._faults.extra_delays():
            self._clock.after(link.latency_s + resent_s + extra_s, self._arrive, link, link.stream, sender, to, message)

    def _arrive(self, link: Link, stream: int, sender: SiteId, to: SiteId, message: Message) -> None:
        if link.stream == stream and not link.cut and link.one_way != sender:
            self.arrived += 1
            self._ends[to].received(sender, message)

    # --- cuts ------------------------------------------------------------------------------------------

    def cut(self, a: SiteId, b: SiteId, one_way: bool = False) -> None:
        """From now on nothing passes (or nothing from `a`); the stream is given up after KEEPALIVE_S."""
        link = self.link(a, b)
        if one_way:
            link.one_way = a
        else:
            link.cut += 1
        if link.stream:
            self._clock.after(KEEPALIVE_S, self._give_up, a, b, link, link.stream)

    def _give_up(self, a: SiteId, b: SiteId, link: Link, stream: int) -> None:
        if link.stream != stream or not (link.cut or link.one_way):
            return
        link.stream = 0
        self._tell_down(a, b)
        self._tell_down(b, a)
        self._dial(a, b)

    def mend(self, a: SiteId, b: SiteId, one_way: bool = False) -> None:
        link = self.link(a, b)
        if one_way:
            link.one_way = None
        else:
            link.cut = max(0, link.cut - 1)

    def mend_all(self) -> None:
        for link in self._links.values():
            link.cut = 0
            link.one_way = None


def _pair(a: SiteId, b: SiteId) -> tuple[SiteId, SiteId]:
    return (a, b) if a <= b else (b, a)
