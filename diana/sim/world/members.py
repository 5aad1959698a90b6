"""Many sites that do nothing but know each other: the real engine over the simulated network, without stores, LRMs and
stagers, so that thousands fit one process. It counts the figures of PERFORMANCE P9."""

from __future__ import annotations

import gc
from collections import Counter
from random import Random

import msgspec
from msgspec.structs import replace

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal.events import Event, Leaving, PeerDown, PeerUp, Received, Tick
from diana.engine.journal.state import SiteState
from diana.engine.membership.sizes import message_bytes
from diana.engine.messages.messages import Gossip, Hello, Message, Summary
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.membership import State
from diana.sim.kernel import chance
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.twins.keyring import SimKeyring
from diana.sim.twins.network import Network

LATENCY_S = 0.02


class Age(msgspec.Struct, frozen=True):
    """Age of the entries that others hold, in seconds since their sites said them."""

    median_s: float
    p95_s: float
    most_s: float


class MemberSite:
    """One site: an engine and what its boots have in common."""

    __slots__ = ("_all", "_armed_s", "_hello", "boots", "engine", "site")

    def __init__(self, all_: Members, site: SiteId) -> None:
        self._all = all_
        self.site = site
        self.engine: Engine | None = None
        self.boots = 0
        self._hello: Hello | None = None
        self._armed_s = -1.0

    def start(self) -> None:
        self.boots += 1
        state = SiteState(generation=self.boots - 1)
        address = "" if self.site in self._all.network.dial_only else f"{self.site}:7400"
        self.engine = Engine(self.site, state, self._all.keyring, self._all.clock.now_s)
        nonce = f"{self.site}{self.boots}"
        effects = self.engine.start(self._all.settings, boot_nonce=nonce, db_uuid=self.site, address=address)
        self._hello = Hello(
            site=self.site,
            protocol=1,
            release="simulated",
            capabilities=(),
            db_uuid=self.site,
            generation=self.boots,
            boot_nonce=nonce,
            seq=0,
            term=0,
            data_address=address,
        )
        # Turns of different sites do not fall together.
        self.engine.begin_turns_in(self._all.rng.random() * self._all.settings.summary_every_s)
        self._armed_s = -1.0
        self._let_out(effects)
        self._all.network.node_up(self.site)

    def stop(self, *, goodbye: bool) -> None:
        if goodbye:
            self.handle(Leaving())
            self._all.clock.after(5 * LATENCY_S, self._end)
        else:
            self._end()

    def _end(self) -> None:
        self.engine = None
        self._all.network.node_down(self.site)

    def handle(self, event: Event) -> None:
        if self.engine is not None:
            self._let_out(self.engine.handle(event, self._all.clock.now_s))

    def _let_out(self, effects: list[fx.Effect]) -> None:
        every = self._all
        for effect in effects:
            if type(effect) is fx.Send:
                every.weigh(self.site, effect.message)
                every.network.send(self.site, effect.to, effect.message)
            elif type(effect) is fx.Contact:
                # Nothing is sent here without a stream: no book is kept of contacts that are not held.
                if effect.keep or every.network.contacts.keeps(self.site, effect.site):
                    every.network.contact(self.site, effect)
            elif type(effect) is fx.Warn:
                every.counts["warnings"] += 1
        engine = self.engine
        due_s = engine.deadline() if engine is not None else None
        if due_s is not None and (self._armed_s < 0 or due_s < self._armed_s):
            self._armed_s = max(due_s, every.clock.now_s)
            every.clock.at(self._armed_s, self._tick, self.boots, self._armed_s)

    def _tick(self, boot: int, armed_s: float) -> None:
        if boot == self.boots and armed_s == self._armed_s and self.engine is not None:
            self._armed_s = -1.0
            self.handle(Tick())

    # --- the network's side ----------------------------------------------------------------------------

    def greeting(self) -> Hello | None:
        return None if self.engine is None else self._hello

    def peer_up(self, hello: Hello, rtt_s: float, bytes_per_s: float) -> None:
        self.handle(PeerUp(hello))

    def measured(self, site: SiteId, rtt_s: float | None, bytes_per_s: float | None, lost: int) -> None:
        """Do nothing: links are not observed here."""

    def peer_down(self, site: SiteId) -> None:
        self.handle(PeerDown(site))

    def received(self, sender: SiteId, message: Message) -> None:
        self.handle(Received(sender, message))


class Members:
    """`count` sites, each with a few seeds among those before it."""

    def __init__(
        self,
        count: int,
        seed: int,
        *,
        settings: Settings | None = None,
        seeds: int = 3,
        faults: FaultsSpec | None = None,
        dial_only: int = 0,
    ) -> None:
        """The last `dial_only` of them cannot be dialled."""
        self.clock = Clock()
        self.rng = chance.stream(seed, "members")
        self.settings = settings or Settings()
        self.keyring = SimKeyring("site:members", "sim", wall_clock=lambda: 0.0)
        self.seeds: dict[SiteId, tuple[SiteId, ...]] = {}
        self.counts: Counter[str] = Counter()
        self.said: dict[SiteId, dict[tuple[int, int], float]] = {}
        """Times when each site said its latest versions of itself, by (generation, counter)."""
        self._weighed: tuple[Message | None, int] = (None, 0)
        self.network = Network(
            self.clock, Faults(faults or FaultsSpec(), seed), LATENCY_S, 1e8, seeds=self.seeds, rng=Random(seed)
        )
        self.members: dict[SiteId, MemberSite] = {}
        for at in range(count):
            self.add(seeds, dial_only=at >= count - dial_only)

    def add(self, seeds: int = 3, *, dial_only: bool = False) -> MemberSite:
        """One more, not started."""
        site = SiteId(f"s{len(self.members):05}")
        known = [other for other in self.members if other not in self.network.dial_only]
        self.seeds[site] = tuple(self.rng.sample(known, min(seeds, len(known))))
        if dial_only:
            self.network.dial_only.add(site)
        member = self.members[site] = MemberSite(self, site)
        self.network.attach(member)
        return member

    def weigh(self, site: SiteId, message: Message) -> None:
        if message is not self._weighed[0]:
            # The same one goes to several.
            self._weighed = (message, message_bytes(message))
        self.counts["messages"] += 1
        self.counts["bytes"] += self._weighed[1]
        if isinstance(message, Summary):
            said = self.said.setdefault(site, {})
            said[message.generation, message.counter] = self.clock.now_s
            if len(said) > 1000:
                del said[next(iter(said))]
        elif isinstance(message, Gossip):
            self.counts["entries"] += len(message.entries)

    def start_all(self, over_s: float = 5.0) -> None:
        for member in self.members.values():
            self.clock.after(self.rng.random() * over_s, member.start)

    def acquaint(self) -> None:
        """All start now and know each other's first words, as after a long time together."""
        for member in self.members.values():
            member.start()
        first = {}
        for site, member in self.members.items():
            assert member.engine is not None
            first[site] = _first_words(member.engine)
            self.said.setdefault(site, {})[first[site].generation, first[site].counter] = self.clock.now_s
        gc.disable()
        for member in self.members.values():
            assert member.engine is not None
            member.engine.introduce(first.values(), self.clock.now_s)
        gc.enable()

    def run(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now_s + seconds)

    # --- what is so ------------------------------------------------------------------------------------

    def up(self) -> list[MemberSite]:
        return [member for member in self.members.values() if member.engine is not None]

    def knowing(self, site: SiteId, *states: State) -> int:
        """Number of the other sites that hold it to be in one of these states."""
        found = 0
        for member in self.up():
            peer = member.engine.peers.get(site) if member.engine else None
            found += member.site != site and peer is not None and peer.state in states
        return found

    def until(self, site: SiteId, *states: State, within_s: float, step_s: float = 0.25) -> float:
        """Seconds until all others hold it to be in one of these states; infinite: not within that time."""
        began_s = self.clock.now_s
        while self.clock.now_s - began_s < within_s:
            others = sum(member.site != site for member in self.up())
            if self.knowing(site, *states) == others:
                return self.clock.now_s - began_s
            self.run(step_s)
        return float("inf")

    def wrong(self) -> int:
        """Pairs in which a living site is held for lost or gone, or is not known."""
        up = self.up()
        found = 0
        for member in up:
            peers = member.engine.peers if member.engine else {}
            for other in up:
                peer = peers.get(other.site)
                found += other is not member and (peer is None or peer.state >= State.LOST)
        return found

    def ages(self, sample: int = 100) -> Age:
        ages: list[float] = []
        up = self.up()
        for member in self.rng.sample(up, min(sample, len(up))):
            assert member.engine is not None
            for other in up:
                peer = member.engine.peers.get(other.site)
                if peer is not None and peer.summary is not None:
                    at = (peer.summary.generation, peer.summary.counter)
                    said_s = self.said.get(other.site, {}).get(at)
                    if said_s is not None:
                        ages.append(self.clock.now_s - said_s)
        ages.sort()
        return Age(ages[len(ages) // 2], ages[int(len(ages) * 0.95)], ages[-1]) if ages else Age(0.0, 0.0, 0.0)

    def counted(self, what: str) -> int:
        return sum(member.engine.counters.get(what, 0) for member in self.up() if member.engine is not None)


def _first_words(engine: Engine) -> Summary:
    return replace(engine.summary(), known=0, members=0, complete=False)
