"""Streams between sites under virtual time: the Transport's twin, with latency, loss, duplication, delay and cuts.

Messages are immutable and travel as they are, without encoding. Only messages of a stream that still stands arrive;
within it each may be lost, doubled or delayed. Where no seeds are given every site knows every other from the start and
streams stand between all; with seeds, streams are made to these and to the sites that the engines ask for
(`contacts.py`). Two sites that can only dial out meet through a third that both have streams to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from diana.engine.journal.effects import Contact
from diana.engine.messages.messages import Hello, Message, Summary
from diana.model.ids import SiteId
from diana.sim.kernel import chance
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.twins.contacts import IDLE_S, Contacts

KEEPALIVE_S = 3.0
"""A stream whose other end fell silent is given up after this."""
LOOK_WAIT_S = 3.0
"""A host that does not answer is given up after this, as by `adapters/reach.py`."""
REDIAL_S = 0.5
SEED_REDIAL_S = 3.0
"""Seconds until a seed that is down is dialled again: nobody tells when it is back."""
MEASURE_EVERY_S = 5.0
"""A link with noise or loss is measured again this often; one without has told all it will ever tell."""
THROUGHPUT_EVERY = 12
"""One of so many measurements tells the throughput."""


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
    """The link between two sites, both ways. `stream` names the standing stream; 0: none."""

    __slots__ = (
        "bytes_per_s",
        "clogged",
        "cut",
        "cut_by",
        "dialling",
        "idling",
        "latency_s",
        "loss",
        "noise",
        "one_way",
        "path_s",
        "relay",
        "stream",
        "used_s",
    )

    def __init__(self, latency_s: float, bytes_per_s: float, loss: float = 0.0, noise: float = 0.0) -> None:
        self.latency_s = latency_s
        self.bytes_per_s = bytes_per_s
        self.loss = loss
        """Share of packets lost. A stream sends them again, so that its messages come later; a ping of a probe is
        lost."""
        self.noise = noise
        """Measurements lie evenly in value * (1 - noise) .. value * (1 + noise)."""
        self.cut = 0
        """Number of cuts in force."""
        self.cut_by = "cut"
        """Kind of fault that the last of them belongs to."""
        self.one_way: SiteId | None = None
        """Messages from this site vanish though the stream still stands."""
        self.clogged: list[tuple[int, SiteId, SiteId, Message]] | None = None
        """Messages that have come and are not passed on yet; None: all pass."""
        self.stream = 0
        self.dialling = False
        self.idling = 0
        """The stream that is looked at when it may have been idle for too long."""
        self.relay: SiteId | None = None
        """Site through which the standing stream goes; None: it is direct."""
        self.path_s = latency_s
        """Latency one way over the standing stream."""
        self.used_s = 0.0
        """Time when a message other than a summary was sent last."""


class Network:
    """`rng` draws the losses of links and the errors of measurements, and nothing else. `figures`: latency, bandwidth,
    loss and noise between two sites; None: the same between all."""

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
        seeds: Mapping[SiteId, tuple[SiteId, ...]] | None = None,
        figures: Callable[[SiteId, SiteId], tuple[float, float, float, float]] | None = None,
    ) -> None:
        self._clock = clock
        self._faults = faults
        self._rng = rng or chance.stream(0, "links")
        self._figures = figures or (lambda a, b: (latency_s, bytes_per_s, loss, noise))
        self._links: dict[tuple[SiteId, SiteId], Link] = {}
        self._ends: dict[SiteId, Endpoint] = {}
        self._seeds = seeds
        self.contacts = Contacts()
        self.dial_only: set[SiteId] = set()
        """Sites that cannot be dialled."""
        self._refused: dict[SiteId, frozenset[SiteId]] = {}
        self._silent: dict[SiteId, int] = {}
        """Sites whose process is stopped -> how many were before."""
        self._silences = 0
        self._streams = 0
        self.sent = 0
        self.arrived = 0
        self.watch: Callable[[str, str, object], None] | None = None
        """Called with the sender, the recipient and the message, of every one sent over a stream."""

    def attach(self, end: Endpoint) -> None:
        self._ends[end.site] = end

    def link(self, a: SiteId, b: SiteId) -> Link:
        pair = _pair(a, b)
        link = self._links.get(pair)
        if link is None:
            link = self._links[pair] = Link(*self._figures(a, b))
        return link

    def reachable(self, a: SiteId, b: SiteId) -> bool:
        link = self.link(a, b)
        whole = not link.cut and link.one_way is None and (bool(link.stream) or not self._behind(a, b))
        return whole and self._ends[a].greeting() is not None and self._ends[b].greeting() is not None

    def look(self, site: SiteId, hosts: Sequence[str], tell: Callable[[str], None]) -> None:
        """Tell the first of the hosts that the site's machines do not reach, empty if there is none: after a round
        trip, or when nobody answered. A machine answers also where its node is down."""
        links = [self.link(site, SiteId(host)) for host in hosts if host in self._ends and host != site]
        lost = next((host for host in hosts if host in self._ends and self._is_lost(site, SiteId(host))), "")
        waits_s = LOOK_WAIT_S if lost else 2 * max((link.latency_s for link in links), default=0.0)
        self._clock.after(waits_s, tell, lost)

    def _is_lost(self, site: SiteId, host: SiteId) -> bool:
        link = self.link(site, host)
        return bool(link.cut) or link.one_way is not None or host in self.dial_only

    # --- streams ---------------------------------------------------------------------------------------

    def node_up(self, site: SiteId) -> None:
        contacts = self.contacts
        known = self._ends if self._seeds is None else (*self._seeds.get(site, ()), *contacts.kept(site))
        for other in dict.fromkeys((*known, *contacts.keepers(site))):
            if other != site and other in self._ends:
                self._dial(site, other)

    def node_down(self, site: SiteId, silent: bool = False) -> None:
        """The kernel of a crashed process closes its sockets: the others learn of it after one latency. `silent`: there
        is no kernel any more, and they learn of it when nobody answers."""
        self._silent.pop(site, None)
        for other in self._ends:
            link = self._links.get(_pair(site, other))
            if link is not None and link.stream:
                self._clock.after(KEEPALIVE_S if silent else link.path_s, self._tell_down, other, site)
                link.stream = 0
        self.contacts.restarted(site)
        self._break_relayed(site)

    def fell_silent(self, site: SiteId) -> None:
        """Its process is stopped: streams stand until pings were not answered for too long, new ones cannot be made."""
        self._silences += 1
        self._silent[site] = self._silences
        self._clock.after(KEEPALIVE_S, self._give_up_on, site, self._silences)

    def _give_up_on(self, site: SiteId, silence: int) -> None:
        if self._silent.get(site) != silence:
            return
        for other in self._ends:
            link = self._links.get(_pair(site, other))
            if link is not None and link.stream:
                link.stream = 0
                self._tell_down(other, site)
                self._tell_down(site, other)
        self._break_relayed(site)

    def speaks_again(self, site: SiteId) -> None:
        if self._silent.pop(site, None) is not None:
            self.node_up(site)

    def _tell_down(self, site: SiteId, lost: SiteId) -> None:
        """A node that is down hears nothing; one that is stopped hears it when it goes on."""
        if not self.link(site, lost).stream:
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
        relay = self._relay(a, b) if self._behind(a, b) else None
        apart = (
            link.cut
            or link.one_way
            or link.clogged is not None
            or (self._behind(a, b) and relay is None)
            or self._refuse_each_other(a, b)
        )
        if apart or hello_a is None or hello_b is None:
            self._again(a, b, hello_a is not None and hello_b is not None)
            return
        link.relay, link.used_s = relay, self._clock.now_s
        link.path_s = link.latency_s if relay is None else self.link(a, relay).path_s + self.link(relay, b).path_s
        self._streams += 1
        stream = link.stream = self._streams
        self._ends[a].peer_up(hello_b, self._read(2 * link.path_s, link), self._read(link.bytes_per_s, link))
        # The first end may have crashed in handling it, which closed this stream again.
        if link.stream == stream:
            self._ends[b].peer_up(hello_a, self._read(2 * link.path_s, link), self._read(link.bytes_per_s, link))
        if link.noise or link.loss:
            self._clock.after(MEASURE_EVERY_S, self._measure, a, b, link, stream, 1)
        for sender, to in ((a, b), (b, a)):
            for message in self.contacts.take(sender, to, self._clock.now_s):
                self.send(sender, to, message)
        self._let_go(a, b, link)

    def _again(self, a: SiteId, b: SiteId, both_up: bool) -> None:
        """Dial once more after a failure, where it may help. Sites that hold a stream to one that is down hear when it
        starts. Those that have it as a seed do not, for it knows nobody then: they dial it again."""
        seeds = self._seeds
        seeded = seeds is not None and (b in seeds.get(a, ()) or a in seeds.get(b, ()))
        if both_up and (seeds is None or seeded or self.contacts.wanted(a, b, self._clock.now_s)):
            self._clock.after(REDIAL_S, self._dial, a, b)
        elif seeded:
            self._clock.after(SEED_REDIAL_S, self._dial, a, b)

    def refuse(self, site: SiteId, others: frozenset[SiteId]) -> None:
        """End `site`'s talk with these: standing streams end, and none begins; with others it talks again."""
        lifted = self._refused.get(site, frozenset()) - others
        self._refused[site] = others
        for other in sorted(lifted & self._ends.keys()):
            self._dial(site, other)
        for other in sorted(others & self._ends.keys()):
            link = self._links.get(_pair(site, other))
            if link is not None and link.stream:
                link.stream = 0
                self._tell_down(site, other)
                self._tell_down(other, site)

    def _refuse_each_other(self, a: SiteId, b: SiteId) -> bool:
        return b in self._refused.get(a, ()) or a in self._refused.get(b, ())

    # --- contacts --------------------------------------------------------------------------------------

    def contact(self, site: SiteId, order: Contact) -> None:
        other = order.site
        if other == site or other not in self._ends:
            return
        self.contacts.told(site, order)
        if order.keep and self._ends[other].greeting() is not None:
            self._dial(site, other)
        link = self._links.get(_pair(site, other))
        if link is not None and link.stream:
            self._let_go(site, other, link)

    def _let_go(self, a: SiteId, b: SiteId, link: Link) -> None:
        if link.idling != link.stream and self.contacts.let_go(a, b):
            link.idling = link.stream
            left_s = link.used_s + IDLE_S - self._clock.now_s
            # Never at this very moment again, whatever rounding says.
            self._clock.after(max(1.0, left_s), self._idle, a, b, link, link.stream)

    def _idle(self, a: SiteId, b: SiteId, link: Link, stream: int) -> None:
        if link.idling == stream:
            link.idling = 0
        if link.stream != stream or not self.contacts.let_go(a, b):
            return
        if self._clock.now_s - link.used_s < IDLE_S:
            self._let_go(a, b, link)
            return
        link.stream = 0
        self._tell_down(a, b)
        self._tell_down(b, a)

    def _behind(self, a: SiteId, b: SiteId) -> bool:
        """True if neither can dial the other."""
        return a in self.dial_only and b in self.dial_only

    def _relay(self, a: SiteId, b: SiteId) -> SiteId | None:
        """A site that both have direct streams to, for one hop; None: there is none."""
        for site in self.contacts.via(a, b):
            if site in self._ends and site not in (a, b):
                there, on = self.link(a, site), self.link(site, b)
                if there.stream and on.stream and there.relay is None and on.relay is None:
                    return site
        return None

    def _break_relayed(self, relay: SiteId, end: SiteId | None = None) -> None:
        """Streams through `relay` end; with `end` only those of that site."""
        for (a, b), link in list(self._links.items()):
            if link.stream and link.relay == relay and (end is None or end in (a, b)):
                link.stream = 0
                self._tell_down(a, b)
                self._tell_down(b, a)
                self._dial(a, b)

    # --- measurements ----------------------------------------------------------------------------------

    def _read(self, true: float, link: Link) -> float:
        """A figure of this link as an instrument shows it."""
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
            self._ends[end].measured(other, self._read(2 * link.path_s, link), bytes_per_s, 0)
        self._clock.after(MEASURE_EVERY_S, self._measure, a, b, link, stream, number + 1)

    def _resent_s(self, link: Link) -> float:
        """Seconds that loss costs a message: a round trip for each time it is sent again."""
        again = 0
        while link.loss and self._rng.random() < link.loss:
            again += 1
        return 2 * link.path_s * again

    # --- messages --------------------------------------------------------------------------------------

    def send(self, sender: SiteId, to: SiteId, message: Message) -> None:
        if to not in self._ends or to == sender:
            return
        link = self.link(sender, to)
        if not link.stream:
            if self.contacts.wait(sender, to, message, self._clock.now_s):
                self._dial(sender, to)
            return
        if not isinstance(message, Summary):
            link.used_s = self._clock.now_s
        self.sent += 1
        if self.watch is not None:
            self.watch(sender, to, message)
        if link.cut or link.one_way == sender:
            self._faults.holds_up(link.cut_by if link.cut else "cut one way", message)
            return
        resent_s = self._resent_s(link)
        for extra_s in self._faults.extra_delays(message):
            self._clock.after(link.path_s + resent_s + extra_s, self._arrive, link, link.stream, sender, to, message)

    def _arrive(self, link: Link, stream: int, sender: SiteId, to: SiteId, message: Message) -> None:
        if link.stream == stream and not link.cut and link.one_way != sender:
            if link.clogged is not None:
                link.clogged.append((stream, sender, to, message))
                self._faults.holds_up("clog", message)
                return
            self.arrived += 1
            self._ends[to].received(sender, message)

    # --- cuts ------------------------------------------------------------------------------------------

    def cut(self, a: SiteId, b: SiteId, one_way: bool = False, kind: str = "cut") -> None:
        """Let nothing pass from now on (or nothing from `a`); the stream is given up after KEEPALIVE_S."""
        link = self.link(a, b)
        if one_way:
            link.one_way = a
        else:
            link.cut, link.cut_by = link.cut + 1, kind
        if link.stream:
            self._clock.after(KEEPALIVE_S, self._give_up, a, b, link, link.stream)

    def _give_up(self, a: SiteId, b: SiteId, link: Link, stream: int) -> None:
        if link.stream != stream or not (link.cut or link.one_way or link.clogged is not None):
            return
        link.stream = 0
        self._tell_down(a, b)
        self._tell_down(b, a)
        self._break_relayed(a, b)
        self._break_relayed(b, a)
        self._dial(a, b)

    def mend(self, a: SiteId, b: SiteId, one_way: bool = False) -> None:
        link = self.link(a, b)
        if one_way:
            link.one_way = None
        else:
            link.cut = max(0, link.cut - 1)

    def clog(self, a: SiteId, b: SiteId) -> bool:
        """Let nothing pass from now on; nothing of it is lost while the stream stands. False: it is clogged."""
        link = self.link(a, b)
        if link.clogged is not None:
            return False
        link.clogged = []
        if link.stream:
            self._clock.after(KEEPALIVE_S, self._give_up, a, b, link, link.stream)
        return True

    def unclog(self, a: SiteId, b: SiteId) -> None:
        """All that was held arrives at once, in the order it came."""
        link = self.link(a, b)
        held, link.clogged = link.clogged or [], None
        for stream, sender, to, message in held:
            self._arrive(link, stream, sender, to, message)

    def mend_all(self) -> None:
        for (a, b), link in list(self._links.items()):
            link.cut = 0
            link.one_way = None
            self.unclog(a, b)


def _pair(a: SiteId, b: SiteId) -> tuple[SiteId, SiteId]:
    return (a, b) if a <= b else (b, a)
