"""The leader: which effects may leave, for how long, and which copy it counts on.

`both` means that an entry counts only on both disks and under a lease. It may be set at any time without the witness,
since it is the stricter rule; only a register that names this copy alone clears it.
"""

from __future__ import annotations

import msgspec

from diana.model.trust.register import Copy, Register, in_order, term_of
from diana.replica.base import NEVER, Base
from diana.replica.messages import (
    Ack,
    Append,
    Appended,
    Beat,
    HandedOver,
    HoldIntake,
    Lead,
    Log,
    Refused,
    ReleaseUpTo,
    Seed,
    Ship,
    StepDown,
    TermRose,
    begins,
)


class Leading(Base):
    """Events of a replica in role "leader"."""

    __slots__ = ()

    # --- beginning and end of a term -------------------------------------------------------------------

    def lead(self, register: Register) -> None:
        """Begin to lead: the register names this copy as leader of the term it asked for."""
        self.role = "leader"
        self.released = self.log.last  # an earlier leader may have acted upon any of it
        self.shipped = 0
        self.in_step = self.seeding = self.handed = False
        self.handing = self.force = 0
        self.peer_seen, self.lease_until_s = None, NEVER
        self.holds = self.log.last
        self.heard_s = self.now
        self.answered = NEVER
        self._enter(register)
        self.do(Lead(register.term, register.forced, self.saved.taken_by_force))
        self._beat()

    def _enter(self, register: Register) -> None:
        """Begin the term of `register` as its leader."""
        self.register = register
        self.save(msgspec.structs.replace(self.promised(register.term), led=register.term))
        self.peer = register.other(self.me.machine)
        self.both = self.peer is not None
        self.peer_fsynced = 0
        self.pending, self.unsure, self.fallen = None, False, -1

    def _rise(self, register: Register) -> None:
        """Go on under the higher term of another register that names this leader."""
        self._enter(register)
        self.handing, self.handed = self._not_handing(), False
        self.do(TermRose(register.term))
        if self.removing and not self.both:
            self.answer(self.removing)
            self.removing = -1
        self._beat()

    def step_down(self, reason: str) -> None:
        self.role = "over"
        self.answer(max(0, self.removing), f"{self.me.machine} leads no more: {reason}; ask {self.other}")
        self.do(StepDown(reason))

    def leader_read(self, register: Register | None) -> None:
        """Handle the witness's answer to a leader."""
        if term_of(register) <= self.term or register is None:
            self.unsure = self.pending is not None
            self.fallen = term_of(register) if term_of(register) < self.term else -1
            if self.fallen >= 0:
                self.next_ask_s = min(self.next_ask_s, self.now + self.settings.ask_every_s)
            return
        self.know(register)
        if register.leader == self.me.machine and register.counts(self.me):
            self._rise(register)
        elif self.handing and register.leader == self.other:
            self.say(HandedOver(register))
            self.answer(self.handing)
            self.step_down(f"handed over to {self.other}")
        else:
            self.step_down(f"{register.leader} leads in term {register.term}")

    def _makes_again(self) -> bool:
        """True if this leader should record its register anew, because the witness lost it or has an older one. The
        witness might have lost a later leader's register too, but while this leader's lease stands, no other replica
        asked for a term. A leader alone has no lease, and the other may have been forced to lead meanwhile; so it waits
        for the other's lease, or for an operator."""
        return self.witness and self.fallen >= 0 and not self.handed and self._lease_stands()

    def _lease_stands(self) -> bool:
        return self.both and self._leased(self.now)

    # --- what may leave --------------------------------------------------------------------------------

    def _durable(self) -> int:
        """Return the seq up to which entries are on every disk that counts."""
        if not self._needs_both():
            return self.fsynced
        return min(self.fsynced, self.peer_fsynced) if self._counts_on(self.peer_seen) else 0

    def _needs_both(self) -> bool:
        """True from the moment the register may count on the other, not only once it does."""
        return self.both

    def _counts_on(self, copy: Copy | None) -> bool:
        return copy is not None and copy == self.peer

    def _leased(self, now: float) -> bool:
        """True while the leader is protected: by its lease or, alone, by the register, since only an operator can then
        make another leader."""
        return not self._needs_both() or (self._counts_on(self.peer_seen) and now < self.lease_until_s)

    def allows(self, now: float, seq: int) -> bool:
        return self.role == "leader" and seq <= self._durable() and self._leased(now)

    def _release(self) -> None:
        if not self._leased(self.now) or self._durable() < self.answered:
            # Reset also when the other counts again and lacks entries, so that its catching up is told anew.
            self.answered = NEVER
            return
        seq = max(self.released, self._durable())
        if seq > self.answered and self.allows(self.now, seq):
            self.released = seq
            self.answered = seq
            self.do(ReleaseUpTo(seq))

    # --- the log ---------------------------------------------------------------------------------------

    def appended(self, event: Appended) -> None:
        assert self.role == "leader", "only a leader's engine writes"
        assert self.log.last < event.first <= event.seq, "entries are told in order"
        self.log = self.log.grown(event.first, event.seq, self.term)
        if self.in_step and not self.handed:
            self._ship(self.shipped)

    def _ship(self, after: int) -> None:
        copy = self.peer_seen
        if copy is not None and self.linked and after < self.log.last:
            self.do(Ship(self.term, copy.replica_uuid, after, self.log.last))
        self.shipped = self.log.last

    def _beat(self) -> None:
        self.next_beat_s = self.now + self.settings.beat_s
        if not self.handed and self.register is not None:
            to = self.peer_seen.replica_uuid if self.peer_seen is not None else ""
            self.say(Beat(self.term, to, self.now, self.log, self.register))

    def acked(self, ack: Ack) -> None:
        if ack.term != self.term or ack.copy.machine != self.other:
            if ack.term > self.term:
                self.refused(Refused(ack.term))
            return
        if ack.copy != self.peer_seen:
            self.peer_seen, self.peer_fsynced, self.lease_until_s = ack.copy, 0, NEVER
            self.in_step = False
            self._beat()
        self.heard_s = self.now
        self.peer_log = ack.log
        follows = self._follows(ack.log)
        if follows:
            self.peer_fsynced = max(self.peer_fsynced, min(ack.fsynced, ack.log.last))
        if ack.granted_s is not None:
            self.lease_until_s = max(self.lease_until_s, ack.granted_s + self.settings.lease_s)
        if not self.handed:
            self._supply(ack, follows)

    def _just_seeded(self, ack: Ack) -> bool:
        """True if the ack may have been sent before the seeded copy arrived."""
        return ack.copy == self.seed_to and (ack.granted_s is None or ack.granted_s <= self.seeded_s)

    def seed_ended(self) -> None:
        self.seeding, self.seeded_s = False, self.now

    def _follows(self, log: Log) -> bool:
        """True if the follower's log is a beginning of this one."""
        return begins(log, self.log)

    def _supply(self, ack: Ack, follows: bool) -> None:
        """Send the follower the entries it lacks after its last, or a copy of the whole journal."""
        if not follows or ack.log.last < self.holds:
            self.in_step = False
            if not self.seeding and self.linked and not self._just_seeded(ack):
                self.seeding, self.seed_to = True, ack.copy
                self.do(Seed(self.term, ack.copy))
        elif not self.in_step or (ack.granted_s is not None and ack.log.last < ack.beat_last):
            self.in_step = True
            self._ship(ack.log.last)

    def refused(self, message: Refused) -> None:
        """Ask the witness: the other promised a higher term and may lead by now."""
        if message.term > self.term and self.witness:
            self.ask(0, None)

    # --- whom it counts on -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Settle after every event of a leader: go on alone, take the other back, hand over, release."""
        if self.role == "leader":
            self._choose_mode()
        if self.role == "leader":
            self._hand_over()
        if self.role == "leader":
            self._release()

    def _lost(self) -> bool:
        return not self.linked or self.now - self.heard_s >= self.settings.lost_after_s

    def _gone(self) -> bool:
        """True if the copy counted on does not follow: it is cut off, or another disk is in its place, or it has
        another history."""
        other_disk = self.peer_seen is not None and self.peer_seen != self.peer
        return self._lost() or other_disk or (self.peer_seen is not None and not self._follows(self.peer_log))

    def _recorded(self) -> bool:
        """True if the register counts, or may by now count, on the other."""
        named = self.register is not None and self.register.other(self.me.machine) is not None
        return named or self.unsure

    def _choose_mode(self) -> None:
        if self.handed:
            return
        if self.both and (self.removing > 0 or self._gone()):
            if self._recorded():
                self._wish(in_order(self.me))
            else:
                self.both, self.peer = False, None
        elif self.both:
            self._take_back()
        elif self._near():
            self.both, self.peer = True, self.peer_seen
            self._take_back()
        if self.removing > 0 and not self.both:
            self.answer(self.removing)
            self.removing = -1

    def _near(self) -> bool:
        """True if the other is close enough to be waited for from now on."""
        lag = self.log.last - self.peer_fsynced
        leased = self.now < self.lease_until_s
        return not self.removing and self.peer_seen is not None and leased and not self._lost() and self._close(lag)

    def _close(self, lag: int) -> bool:
        return self.in_step and lag <= self.settings.near

    def _take_back(self) -> None:
        """Ask to record the other as in sync, once it has all entries ever acted upon; both are needed from now on."""
        peer, register = self.peer, self.register
        assert register is not None
        if peer is None or register.counts(peer):
            if self.pending is not None:
                self.pending = None  # to go on alone: not needed any more; what came of it is read
            return
        if self._counts_on(self.peer_seen) and self.peer_fsynced >= self.released:
            self._wish(in_order(self.me, peer))

    def _wish(self, in_sync: tuple[Copy, ...]) -> None:
        register = self.register
        assert register is not None
        wish = Register(self.term + 1, self.me.machine, in_sync, register.forced)
        if wish != self.pending:
            self.pending = wish
            self.ask(self.term, wish)

    # --- operators -------------------------------------------------------------------------------------

    def promote(self, request: int) -> None:
        peer, register = self.peer, self.register
        if not self.both or peer is None or register is None or not register.counts(peer) or self._gone():
            self.answer(request, f"{self.other} is not in sync; wait until status says durability 2")
        elif self.handing or self.pending is not None:
            self.answer(request, "a change of roles is under way; try again in some seconds")
        else:
            self.handing, self.hand_due_s = request, self.now + self.settings.wait_s
            self.do(HoldIntake(True))

    def _hand_over(self) -> None:
        """Ask that the register name the other as leader, once all entries are released; no lease is asked for from
        then on."""
        if not self.handing:
            return
        if self.now >= self.hand_due_s:
            self.handing, self.handed = self._not_handing(), False
            self.pending = None
            self.heard_s = self.now
            self._beat()
            return
        done = self._leased(self.now) and self.released == self.log.last == self._durable()
        if not self.handed and done and self.peer is not None and self.register is not None:
            self.handed = True
            both = in_order(self.me, self.peer)
            self.pending = Register(self.term + 1, self.other, both, self.register.forced)
            self.ask(self.term, self.pending)

    def _not_handing(self) -> int:
        """Tell the operator that the hand-over failed, take new work again, and return 0 in place of the request."""
        if self.handing:
            self.answer(self.handing, f"{self.other} was not made leader in time; {self.me.machine} goes on")
            self.do(HoldIntake(False))
        return 0

    def remove(self, request: int) -> None:
        self.removing = request

    # --- time ------------------------------------------------------------------------------------------

    def leader_tick(self) -> None:
        if self.now >= self.next_beat_s:
            self._beat()
        if self.now >= self.next_ask_s:
            wish = self.pending
            if self._makes_again() and self.register is not None:
                self.ask(self.fallen, msgspec.structs.replace(self.register, term=self.term + 1))
            elif wish is None:
                self.ask(0, None)
            else:
                self.ask(self.term, wish)
            if not self.unsure:
                self.next_ask_s = self.now + self.settings.lease_s

    def leader_deadline(self) -> float:
        due = [self.next_beat_s, self.next_ask_s]
        if self.both and not self._lost():
            due.append(self.heard_s + self.settings.lost_after_s)
        if self.handing:
            due.append(self.hand_due_s)
        return min(due)

    def misdirected(self, message: Beat | Append) -> None:
        """Handle another's claim to lead: step down if its term is higher, else refuse it."""
        if message.term > self.term:
            self.step_down(f"{self.other} leads in term {message.term}")
        else:
            self.say(Refused(self.term))
