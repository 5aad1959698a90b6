"""One replica of a site's journal: the entry to its state machine (PROMISES section 2, "Standby").

    replica.handle(event, now) -> effects, in order        replica.deadline() -> when a Tick is due
    replica.may_act(now, seq) -> whether what rests on the entry `seq` may leave at this moment

`messages.py` lists events and effects and what a driver owes. Without a witness (`witness=False`) roles change by an
operator's command only: the leader goes on alone as soon as the other is lost, and comes back after a restart once the
other says that it follows (or by force).
"""

from __future__ import annotations

from typing import assert_never

from diana.model.trust.register import Copy, Register, term_of
from diana.replica import messages as ms
from diana.replica.base import Role
from diana.replica.following import Following
from diana.replica.leading import Leading
from diana.replica.settings import ReplicaSettings

__all__ = ["Replica", "Role"]


class Replica(Leading, Following):
    """`me` names this copy, `other` the other machine; `saved` and `log` are what the disk holds. `now`: seconds of the
    driver's monotonic clock. `won`: the register under which an earlier image of this process was told to `Lead` and
    did nothing yet; then the machine begins as leader (its first effects come with the first `handle`)."""

    __slots__ = ("_won",)

    def __init__(
        self,
        settings: ReplicaSettings,
        me: Copy,
        other: str,
        saved: ms.Saved,
        log: ms.Log,
        now: float,
        *,
        witness: bool,
        won: Register | None = None,
    ) -> None:
        super().__init__(settings, me, other, saved, log, now, witness=witness)
        self._won = won

    # --- what a driver asks ----------------------------------------------------------------------------

    def may_act(self, now: float, seq: int) -> bool:
        """True if effects that rest on entry `seq` may leave now. Ask at the moment of leaving, because after a sleep
        of the process the lease may be over."""
        return self.allows(max(now, self.now), seq)

    def may_seed(self, term: int) -> bool:
        """True if the journal may be replaced by the copy that the leader of `term` sends."""
        return self.role == "follower" and term == self.saved.term and self.fsynced == self.log.last

    @property
    def durability(self) -> int:
        """Number of disks that hold the entries told to users now: 2 both, 1 alone, 0 not leading."""
        return 0 if self.role != "leader" else 2 if self.both else 1

    def leads(self) -> str:
        """Return the machine that leads, as far as known here; empty: none known."""
        if self.role == "leader":
            return self.me.machine
        return "" if self.register is None else self.register.leader

    def deadline(self) -> float | None:
        """Return the latest time at which a `Tick` is needed; None: never again."""
        if self.role == "over":
            return None
        return self.leader_deadline() if self.role == "leader" else self.follower_deadline()

    # --- the door --------------------------------------------------------------------------------------

    def handle(self, event: ms.Event, now: float) -> tuple[ms.Effect, ...]:
        """Handle one event and return its effects; the only mutator. An earlier `now` counts as the latest seen."""
        self.now = max(self.now, now)
        self.effects = ()
        if self.role == "over":
            return ()
        if self._won is not None:
            won, self._won = self._won, None
            self.lead(won)
        self._take(event)
        if self.role == "leader":
            self.settle()
        effects, self.effects = self.effects, ()
        return effects

    def _take(self, event: ms.Event) -> None:
        leads = self.role == "leader"
        match event:
            case ms.Received():
                self._received(event.message, leads)
            case ms.Appended():
                self.appended(event)
            case ms.Fsynced():
                self.fsynced = max(self.fsynced, event.seq)
                if not leads:
                    self.stored()
            case ms.Tick():
                self.leader_tick() if leads else self.follower_tick()
            case ms.WitnessSaid():
                self.said(event.register)
            case ms.WitnessAway():
                if self.force and self.role == "follower":
                    self.answer(self.force, "the witness does not answer, so no role can change; try again later")
                    self.force = 0
            case ms.LinkUp():
                # A stream may take the place of another without a `LinkLost` for the old one.
                self.linked, self.in_step, self.seeding = True, False, False
                self._linked(leads)
            case ms.LinkLost():
                self.linked = self.in_step = self.seeding = False
                self.peer_term = -1
            case ms.Holds():
                self.holds = event.after
            case ms.Minted():
                self.log = ms.Log(self.log.last, self.log.starts, self.log.forgotten, event.history)
            case ms.SeedEnded():
                self.seed_ended()
            case ms.Seeded():
                self.seeded(event.replica_uuid, event.log)
            case ms.EntriesDropped():
                self.dropped(event.after)
            case ms.ForceTakeover() | ms.Promote() | ms.RemoveStandby():
                self._operator(event, leads)
            case _:
                assert_never(event)

    def _linked(self, leads: bool) -> None:
        if leads:
            self.heard_s = self.now
            self.peer_seen = None
            self._beat()
        else:
            self.introduce()

    def _operator(self, event: ms.ForceTakeover | ms.Promote | ms.RemoveStandby, leads: bool) -> None:
        if isinstance(event, ms.ForceTakeover):
            if leads:
                self.answer(event.request, f"{self.me.machine} leads already")
            elif not self._waited():
                self.answer(event.request, f"{self.other} was heard of just now; stop it first, then try again")
            else:
                self.force, self.forced_at, self.next_ask_s = event.request, term_of(self.register), self.now
                self.follower_tick()
        elif not leads:
            self.answer(event.request, f"{self.me.machine} does not lead; ask {self.leads() or self.other}")
        elif isinstance(event, ms.Promote):
            self.promote(event.request)
        else:
            self.remove(event.request)

    def _received(self, message: ms.Message, leads: bool) -> None:
        match message:
            case ms.Beat():
                self.misdirected(message) if leads else self.beat(message)
            case ms.Append():
                self.misdirected(message) if leads else self.append(message)
            case ms.Ack():
                self.acked(message) if leads else self.heard_follower(message)
            case ms.Refused():
                if leads:
                    self.refused(message)
            case ms.HandedOver():
                if not leads:
                    self.handed_over(message)
            case _:
                assert_never(message)

    def said(self, register: Register | None) -> None:
        if self.role == "leader":
            self.leader_read(register)
        elif self.role == "candidate":
            self.candidate_read(register)
        elif self.role == "follower":
            self.follower_read(register)

    def elected(self, register: Register) -> None:
        self.lead(register)
