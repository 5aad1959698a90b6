"""A simulated site with a standby: two halves, the link between them, their witness, and their faults.

Seen from the rest of the simulation it is a `SimulatedSite`: peers, LRM and stager meet whichever half leads. The judge
of I3 and I6 is here, apart from the machine it judges: what one half let out must stand in the journal of every later
leader, and nothing leaves a half once the other has begun a higher term.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal.events import Event, RegisterAsked
from diana.model.ids import GroupId, SiteId
from diana.model.settings import Settings
from diana.model.trust.register import Register
from diana.model.views.views import Answer
from diana.ports import Batch
from diana.replica import messages as ms
from diana.replica.settings import ReplicaSettings
from diana.sim.kernel import chance
from diana.sim.sites.half import Half, KeptEntry
from diana.sim.sites.site import SimulatedSite
from diana.sim.twins.store import MemoryStore

MACHINES = ("main", "standby")
LATENCY_S = 0.002
REDIAL_S = 0.5
KEEPALIVE_S = 3.0
WITNESS_TIMEOUT_S = 2.0
SEED_S = 0.4
TAKEOVER_MOST_S = 20.0
"""Promise 8: with a witness the standby takes over in less."""
STOPS_S = (5.0, 30.0, 120.0)
_REQUESTS = 3_000_000_000
"""Request numbers from here on are the replicas' questions to their witness."""


class ReplicaPair:
    """`sites` are all there are, for the witness is one of them; `parts` is what every site is made of."""

    def __init__(
        self,
        site: SiteId,
        settings: Settings,
        witness: str,
        number: int,
        seed: int,
        sites: dict[SiteId, SimulatedSite | ReplicaPair],
        new_store: Callable[[], MemoryStore],
        parts: dict[str, Any],
    ) -> None:
        self.site = site
        self.settings = settings
        self.replica_settings = ReplicaSettings()
        self.witness = SiteId(witness)
        self.lrm, self.stager = parts["lrm"], parts["stager"]
        self._clock, self._network, self._faults = parts["clock"], parts["network"], parts["faults"]
        self._check = parts["checkers"]
        self._sites, self.empty_store = sites, new_store
        self._rng: Random = chance.stream(seed, f"replicas {site}")
        self._number = number
        self.halves: dict[str, Half] = {}
        for machine, other in (MACHINES, MACHINES[::-1]):
            speed = 1.0 + 0.04 * (2.0 * self._rng.random() - 1.0)
            saved = ms.Saved(founder=machine == MACHINES[0])
            self.halves[machine] = Half(self, machine, other, speed, saved, **{**parts, "store": new_store()})
        self.serving: Half | None = None
        self.boots_made = 0
        # The link
        self._link = 0
        self._links = 0
        self._cut = False
        self._arrive_s = dict.fromkeys(MACHINES, 0.0)
        self._batches: dict[tuple[int, int], Batch] = {}
        # The witness
        self._asked: dict[int, tuple[Half, int]] = {}
        self._questions = 0
        self._away: set[str] = set()
        """Halves that cannot reach the witness."""
        # The judge
        self._made: dict[int, dict[int, KeptEntry]] = {}
        self._told = 0
        self._history: list[tuple[int, bytes]] = []
        self.lost_s = -1.0
        self._counts_then: tuple[int, ...] | None = None
        self.takeovers: list[float] = []

    # --- as a site -------------------------------------------------------------------------------------

    def start(self) -> None:
        for half in self.halves.values():
            half.begin()

    def begin_faults(self) -> None:
        for kind in ("leader_kill", "leader_stop", "replica_disk", "replica_cut"):
            self._later(kind)

    @property
    def _main(self) -> Half:
        return self.serving or self.halves[MACHINES[0]]

    @property
    def engine(self) -> Engine | None:
        return None if self.serving is None else self.serving.engine

    @property
    def store(self) -> MemoryStore:
        return self._main.store

    @property
    def transport(self) -> Any:
        return self._main.transport

    @property
    def boots(self) -> int:
        return self.boots_made

    @property
    def warnings(self) -> int:
        return sum(half.warnings for half in self.halves.values())

    def up(self) -> bool:
        return self.engine is not None

    def handle(self, event: Event) -> None:
        """Pass an event of clients or operators to the half that serves, also if it sleeps."""
        if self.serving is not None:
            self.serving.handle(event)

    def crash(self, durable: bool) -> None:
        self._main.crash(durable)

    def power_off(self) -> None:
        """Kill the half that leads, until `come_back`."""
        self._main.fall("killed")

    def end_node(self) -> None:
        self._main.fall("ended")

    def come_back(self) -> None:
        for half in self.halves.values():
            half.begin()

    def stop_for(self, for_s: float) -> None:
        if (half := self._main).alive and not half.paused:
            half.pause()
            self._clock.after(for_s, self._resume, half, half.life)

    def recount(self) -> None:
        for half in self.halves.values():
            half.recount()

    def heal(self) -> None:
        """Both halves go on, everything between them is whole."""
        self._cut = False
        self._away.clear()
        for half in self.halves.values():
            half.resume()

    def ask(self, what: str, group: GroupId | None = None) -> Answer | fx.Refusal | None:
        return None if self.serving is None else self.serving.ask(what, group)

    def left_over(self) -> tuple[GroupId, str] | None:
        if self.serving is None or not self.serving.settled():
            return GroupId("-"), "no half leads, or what it did has not left yet"
        for half in self.halves.values():
            if half.replica is None or half.replica.durability != 2 * (half is self.serving):
                return GroupId("-"), f"{half.machine} is not one of two in sync"
        return self.serving.left_over()

    def next_boot(self) -> int:
        self.boots_made += 1
        return self.boots_made

    # --- lives -----------------------------------------------------------------------------------------

    def _other(self, half: Half) -> Half:
        return self.halves[half.other]

    def risen(self, half: Half) -> None:
        self._clock.after(REDIAL_S * self._rng.random(), self._dial)

    def fallen(self, half: Half) -> None:
        """A half has fallen: its kernel closes its sockets."""
        if self.serving is half:
            self.serving = None
            self._missing(half)
            self.lrm.detach()
            self.stager.detach()
            self._network.node_down(self.site)
        self._break_link()

    def serve(self, half: Half) -> None:
        """Make a half the site: what came to the other one's address finds it no more."""
        if self.serving is not None:
            self._network.node_down(self.site)
        self.serving = half
        if self.lost_s >= 0:
            took_s = self._clock.now_s - self.lost_s
            if self._counts_then == self._disturbances():
                self.takeovers.append(took_s)
                if took_s > TAKEOVER_MOST_S:
                    self._check.broken("I8", self.site, f"served again after {took_s:.1f} s, want {TAKEOVER_MOST_S:g}")
        self.lost_s = -1.0

    def _missing(self, half: Half) -> None:
        """Note that the half that served does so no more, and whether the other one has to take over."""
        self.lost_s = self._clock.now_s
        other, register = self._other(half), self._register()
        able = other.alive and not other.paused and register is not None and register.counts(other.copy_here)
        self._counts_then = self._disturbances() if able and self._witness_heard(other) else None

    def _register(self) -> Register | None:
        engine = self._sites[self.witness].engine if self.witness else None
        return None if engine is None else engine.state.registers.get(self.site)

    def _disturbances(self) -> tuple[int, ...]:
        counts, witness = self._faults.counts, self._sites[self.witness].boots if self.witness else 0
        return (
            counts["leader_kill"],
            counts["leader_stop"],
            counts["replica_cut"],
            counts["cut"],
            counts["crash"],
            witness,
        )

    # --- the link --------------------------------------------------------------------------------------

    def _dial(self) -> None:
        """Both must be awake to shake hands."""
        one, two = self.halves.values()
        if self._link or not (one.alive and two.alive):
            return
        if self._cut or one.paused or two.paused:
            self._clock.after(REDIAL_S, self._dial)
            return
        self._links += 1
        self._link = self._links
        for half in (one, two):
            half.awake(half.life, half.tell, ms.LinkUp())

    def _break_link(self) -> None:
        if self._link:
            self._link = 0
            for half in self.halves.values():
                self._clock.after(LATENCY_S, half.awake, half.life, half.tell, ms.LinkLost())
            self._clock.after(REDIAL_S, self._dial)

    def say(self, sender: Half, message: ms.Message, batch: Batch | None = None) -> None:
        """Send a message to the other half: in order, late by chance, or lost with the link."""
        if not self._link:
            return
        if isinstance(message, ms.Append) and batch is not None:
            self._batches[message.seq, message.of_term] = batch
        when_s = self._clock.now_s + LATENCY_S * (1.0 + 9.0 * self._rng.random() ** 4)
        self._arrive_s[sender.machine] = when_s = max(when_s, self._arrive_s[sender.machine])
        to = self._other(sender)
        self._watched(sender, f"{self.site}/{to.machine}", message)
        self._clock.at(when_s, self._arrive, self._link, to, to.life, message)

    def _watched(self, sender: Half, to: str, message: object) -> None:
        if self._network.watch is not None:
            self._network.watch(f"{self.site}/{sender.machine}", to, message)

    def _arrive(self, link: int, to: Half, life: int, message: ms.Message) -> None:
        if link == self._link and not self._cut:
            to.awake(life, self._heard, link, to, message)

    def _heard(self, link: int, to: Half, message: ms.Message) -> None:
        if link == self._link:
            to.tell(ms.Received(message))

    def batch(self, entry: ms.Append) -> Batch:
        return self._batches[entry.seq, entry.of_term]

    def seed(self, leader: Half, order: ms.Seed) -> None:
        store, history = leader.copied()
        self._clock.after(SEED_S, self._seeded, self._link, leader, leader.life, order, store, history)

    def _seeded(
        self, link: int, leader: Half, life: int, order: ms.Seed, store: MemoryStore, history: list[tuple[int, bytes]]
    ) -> None:
        to = self.halves[order.to.machine]
        fits = to.replica is not None and not to.paused and to.replica.may_seed(order.term)
        if link == self._link and not self._cut and fits and to.copy_here == order.to:
            to.install(store, history)
        leader.awake(life, leader.tell, ms.SeedEnded())

    # --- the witness -----------------------------------------------------------------------------------

    def _witness_heard(self, half: Half) -> bool:
        if not self.witness or half.machine in self._away:
            return False
        link = self._network.link(self.site, self.witness)
        return self._sites[self.witness].up() and not link.cut and link.one_way is None

    def ask_witness(self, half: Half, question: ms.AskWitness) -> None:
        self._questions += 1
        request = _REQUESTS + self._number * 100_000_000 + self._questions
        self._asked[request] = (half, half.life)
        self._watched(half, self.witness, question)
        if self._witness_heard(half) and (not self._faults.on or self._rng.random() > 0.05):
            event = RegisterAsked(
                request=request,
                by=self.site,
                site=self.site,
                expect_term=question.expect_term,
                register=question.register,
            )
            late_s = 0.01 if self._rng.random() < 0.9 else 3.0 * self._rng.random()
            self._clock.after(late_s, self._sites[self.witness].handle, event)
        self._clock.after(WITNESS_TIMEOUT_S, self._unanswered, request)

    def answered(self, reply: fx.Reply) -> bool:
        """Take note of a reply; True if the witness gave it to one of these halves."""
        asked = self._asked.pop(reply.request, None)
        if asked is None:
            return False
        half, life = asked
        if isinstance(reply.body, fx.RegisterIs) and half.machine not in self._away:
            self._clock.after(0.01, half.awake, life, half.tell, ms.WitnessSaid(reply.body.register))
        return True

    def _unanswered(self, request: int) -> None:
        asked = self._asked.pop(request, None)
        if asked is not None:
            asked[0].awake(asked[1], asked[0].tell, ms.WitnessAway())

    def told_operator(self, effect: ms.HoldIntake | ms.Answered) -> None:
        """Operators are not simulated here."""

    # --- the judge -------------------------------------------------------------------------------------

    def made(self, kept: KeptEntry) -> None:
        self._made.setdefault(kept.seq, {})[kept.batch.term] = kept

    def begins(self, half: Half) -> None:
        """I3: whoever leads has all that was ever let out, as it was."""
        missing = [entry for entry, found in zip(self._history, half.history, strict=False) if entry != found]
        if missing or len(half.history) < len(self._history):
            at = missing[0][0] if missing else half.history[-1][0] if half.history else 0
            text = f"{half.machine} begins term {half.begun_term} without what was let out behind seq {at}"
            self._check.broken("I3", self.site, text)

    def released(self, half: Half, seq: int) -> None:
        """Count the entries up to `seq`: effects that rest on them leave `half` now."""
        other = self._other(half)
        term = half.replica.term if half.replica is not None else 0
        if other.begun_term > term:
            text = f"{half.machine} acts in term {term}, {other.machine} began term {other.begun_term}"
            self._check.broken("I6", self.site, text)
        while self._told < seq:
            entry = half.history[len(self._history)] if len(self._history) < len(half.history) else (0, b"")
            kept = next((k for k in self._made.pop(entry[0], {}).values() if k.digest() == entry[1]), None)
            if kept is None or kept.after != self._told:
                self._check.broken("I3", self.site, f"{half.machine} lets out seq {seq}, which is not on its disk")
                return
            self._history.append(entry)
            self._told = kept.seq
            for line in kept.lines:
                self._check.committed(self.site, line)

    # --- faults ----------------------------------------------------------------------------------------

    def _later(self, kind: str) -> None:
        delay_s = self._faults.next_s(kind)
        if delay_s < 1e9:
            self._clock.after(delay_s, self._strike, kind)

    def _strike(self, kind: str) -> None:
        if self._faults.on:
            {
                "leader_kill": self._kill,
                "leader_stop": self._stop,
                "replica_disk": self._lose_disk,
                "replica_cut": self._cut_off,
            }[kind]()
            self._later(kind)

    def _victim(self) -> Half:
        """The half to strike, mostly the one that serves."""
        half = self._main
        return self._other(half) if self._rng.random() < 0.25 else half

    def _kill(self) -> None:
        half, away_s = self._victim(), 0.5 + 40.0 * self._rng.random() ** 2
        if half.alive and self._faults.strikes("leader_kill", self.site):
            half.fall("killed")
            self._clock.after(away_s, half._again, half.life)

    def _stop(self) -> None:
        half, stop_s = self._victim(), self._rng.choice(STOPS_S)
        if not half.alive or half.paused or not self._faults.strikes("leader_stop", self.site):
            return
        half.pause()
        if self.serving is half and stop_s > TAKEOVER_MOST_S:
            self._missing(half)
        self._clock.after(stop_s, self._resume, half, half.life)

    def _resume(self, half: Half, life: int) -> None:
        if life == half.life:
            half.resume()

    def _lose_disk(self) -> None:
        """Lose the disk of a half whose other has all that counts: no promise covers the loss of both."""
        half, register = self._victim(), self._register()
        other, away_s = self._other(half), 0.5 + 20.0 * self._rng.random()
        if register is None or not register.counts(other.copy_here) or not half.alive:
            return
        if self._faults.strikes("replica_disk", self.site):
            half.lose_disk(self.empty_store())
            self._clock.after(away_s, half._again, half.life)

    def _cut_off(self) -> None:
        """Cut the link between the halves, or between one of them and the witness."""
        victim = self._rng.choice(("link", *MACHINES))
        cut_s = 20.0 * self._rng.random()
        if (victim == "link" and self._cut) or not self._faults.strikes("replica_cut", self.site):
            return
        if victim == "link":
            self._cut = True
            self._clock.after(KEEPALIVE_S, self._give_up, self._link)
            self._clock.after(cut_s, self._mend)
        else:
            self._away.add(victim)
            self._clock.after(cut_s, partial(self._away.discard, victim))

    def _give_up(self, link: int) -> None:
        if self._cut and link == self._link:
            self._break_link()

    def _mend(self) -> None:
        self._cut = False
