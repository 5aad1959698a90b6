"""The follower: keeps the leader's log, grants its lease, and asks for the next term once no lease can stand."""

from __future__ import annotations

import msgspec

from diana.model.trust.register import Register, in_order, term_of
from diana.replica.base import FORCED_TERMS, Base
from diana.replica.messages import Ack, Append, Beat, HandedOver, Log, Refused, StoreEntry, common


class Following(Base):
    """Events of a replica in role "follower" or "candidate"."""

    __slots__ = ()

    # --- the leader's log ------------------------------------------------------------------------------

    def beat(self, beat: Beat) -> None:
        """Follow a leader of the promised term or a higher one, and grant its lease."""
        if self._too_old(beat.term):
            self.say(Refused(self.term))
            return
        if self.force:
            self._refuse_force(f"{self.other} answers and leads in term {beat.term}; hand over there instead")
        if beat.term > self.term or self.role == "candidate":
            self.verified = 0
        self.role, self.pending, self.unsure = "follower", None, False
        self.know(beat.register)
        if beat.term > self.term or self._registers(beat):
            self.save(self.promised(beat.term))
        self.verified = max(self.verified, self._shared(beat.log))
        granted = self._mine(beat.to)
        if granted:
            self.grant_until_s = max(self.grant_until_s, self.now + self.settings.wait_s)
            self.grant_term = beat.term
        self._ack(beat.sent_s if granted else None, beat.log.last)

    def _too_old(self, term: int) -> bool:
        return term < self.term

    def _shared(self, leaders: Log) -> int:
        """Return the seq up to which this log is surely the leader's."""
        return common(self.log, leaders)

    def _registers(self, beat: Beat) -> bool:
        return self.saved.register != beat.register and self.register == beat.register

    def _mine(self, to: str) -> bool:
        """True if the message was for this very disk."""
        return to == self.me.replica_uuid

    def append(self, entry: Append) -> None:
        """Store an entry that follows on the part known to be the leader's log; answer any other with the end of this
        log."""
        if self._too_old(entry.term):
            self.say(Refused(self.term))
            return
        if entry.term != self.term or self.role != "follower" or not self._mine(entry.to):
            return
        log = self.log
        if entry.after == log.last == self.verified and log.term_at(entry.after) == entry.after_term:
            self.log = log.grown(entry.after + 1, entry.seq, entry.of_term)
            self.verified = entry.seq
            self.do(StoreEntry(entry))
        elif entry.seq > log.last:
            self._ack(None, 0)

    def dropped(self, after: int) -> None:
        """Cut the log as after a crash: entries that were not written are not there."""
        assert after >= self.fsynced, "what is durable is not dropped"
        self.log = self.log.cut(after)
        self.verified = min(self.verified, after)
        self.stored()

    def stored(self) -> None:
        """Tell the leader that more is on this disk."""
        if self.role == "follower" and self.verified:
            self._ack(None, 0)

    def _on_disk(self) -> int:
        """Return the seq up to which the leader's log is on this disk."""
        return min(self.fsynced, self.verified)

    def _ack(self, granted_s: float | None, beat_last: int) -> None:
        self.say(Ack(self.term, self.me, self._on_disk(), self.log, granted_s, beat_last))

    def introduce(self) -> None:
        """Send a follower's first message on a new link."""
        self.peer_term = -1
        register = self.saved.register
        if not self.witness and register is not None and register.leader == self.other:
            self.say(HandedOver(register))
        if self.role == "follower":
            self._ack(None, 0)

    def heard_follower(self, ack: Ack) -> None:
        """Note that the other follows too: so nobody leads."""
        self.peer_term = max(self.peer_term, ack.term)
        if not self.witness:
            self.early, self.next_ask_s = True, self.now

    def handed_over(self, message: HandedOver) -> None:
        """Note that the leader before `register.term` acts no more: the leases it was granted are void."""
        register = message.register
        if register.term <= self.term or register.leader != self.me.machine:
            return
        self.know(register)
        if not self.witness:
            self.save(msgspec.structs.replace(self.saved, register=register))
        if self.grant_term < register.term:
            self.grant_until_s = self.now
        self.next_ask_s = self.now

    def seeded(self, replica_uuid: str, log: Log) -> None:
        assert self.role == "follower", "ask may_seed first"
        self.me = msgspec.structs.replace(self.me, replica_uuid=replica_uuid)
        self.log = log
        self.fsynced = log.last
        self.verified = log.last
        self._ack(None, 0)

    # --- asking for a term -----------------------------------------------------------------------------

    def _waited(self) -> bool:
        """True if no lease granted by this replica, before a crash either, can still stand."""
        return self.now >= self.grant_until_s

    def _returns(self, register: Register | None) -> bool:
        """True if this replica led the register's term itself: then it has granted no lease since."""
        if register is None:
            return self.saved.founder
        return register.leader == self.me.machine and self.saved.led == register.term

    def follower_tick(self) -> None:
        """Read the register, at the start and whenever no lease stands."""
        if self.now < self.next_ask_s or self.role == "over":
            return
        if self.role == "candidate":
            self._ask_again()
        elif self.early or self._waited() or self.force:
            self.early = False
            self.ask(0, None)

    def follower_read(self, register: Register | None) -> None:
        """Handle the witness's answer to a follower: perhaps the next term can be asked for."""
        self.know(register)
        if self.fsynced != self.log.last or self.role != "follower":
            return
        if self._may_take(register):
            self.force = self._not_forced()
            self._ask_for(register, forced=register is not None and register.forced)
        elif self.force and self._may_force(register):
            self._ask_for(register, forced=True)

    def _may_take(self, register: Register | None) -> bool:
        """True if this copy may ask for the next term: it is recorded in sync, no lease is out, and the term is not
        below its promise."""
        if register is None:
            return self.saved.founder and self.saved.register is None
        if self._outdated(register):
            return False
        if not (self._waited() or self._returns(register)) or self.term > register.term + 1:
            return False
        return self._in_sync(register) and (self.witness or self._agreed(register))

    def _outdated(self, register: Register | None) -> bool:
        """True if the witness lost its register, or was restored: then its register does not tell which copies are in
        sync."""
        return term_of(register) < term_of(self.register)

    def _in_sync(self, register: Register) -> bool:
        return register.counts(self.me)

    def _agreed(self, register: Register) -> bool:
        """True, without a witness, if the register names this machine as leader and the other says on this link that it
        follows no higher term; the other might have been forced to lead meanwhile."""
        return register.leader == self.me.machine and 0 <= self.peer_term <= register.term

    def _may_force(self, register: Register | None) -> bool:
        """True if an operator's order may replace the register's word. It may not against a lease, nor against a leader
        made since the order was given, nor for an empty disk."""
        if register is not None and register.term > self.forced_at:
            led = f"{register.leader} was made leader in term {register.term}"
            self._refuse_force(f"{led}, which was not known here; if it is dead for good, say so again")
            return False
        if not self._waited():
            return False
        if not self.saved.term or not self.log.last:
            self._refuse_force(f"{self.me.machine} has no copy of the journal; restore a backup instead")
            return False
        return True

    def _refuse_force(self, why: str) -> None:
        self.answer(self.force, why)
        self.force = 0

    def _not_forced(self) -> int:
        """Answer a forced takeover that needs no force, and return 0 in its place."""
        self.answer(self.force)
        return 0

    def _ask_for(self, register: Register | None, forced: bool) -> None:
        """Promise the next term, durably, then ask for it. A leader that returns keeps its standby; a copy that takes
        over stands alone."""
        outdated = self._outdated(register)
        stays = register is not None and self._in_sync(register) and register.leader == self.me.machine and not outdated
        in_sync = register.in_sync if register is not None and stays else in_order(self.me)
        term = term_of(register) + 1
        if outdated or self.term > term:
            term = max(self.term, term_of(self.register)) + 1
        if self.force and (register is None or not self.witness):
            term = (max(term, self.term) // FORCED_TERMS + 1) * FORCED_TERMS
        wish = Register(term, self.me.machine, in_sync, forced)
        self._promise(term, by_force=bool(self.force))
        self.role = "candidate"
        self.verified = 0
        self.pending, self.expect = wish, term_of(register)
        self._ask_again()

    def _promise(self, term: int, by_force: bool) -> None:
        saved = self.promised(term)
        if by_force:
            saved = msgspec.structs.replace(saved, taken_by_force=term)
        self.save(saved)

    def _ask_again(self) -> None:
        wish = self.pending
        assert wish is not None, "a candidate wishes"
        if self.force and not self.witness:
            self.save(msgspec.structs.replace(self.saved, register=wish))
            self.said(wish)
            return
        self.ask(self.expect, wish)

    def candidate_read(self, register: Register | None) -> None:
        """Handle the witness's answer to a candidate: won, lost, or not yet known."""
        if term_of(register) < self.expect:
            # The witness lost its register, so this request will not be granted. The promise stands.
            self.role, self.pending, self.unsure = "follower", None, False
            return
        if register is None or register.term < self.term:
            return
        self.know(register)
        if register == self.pending:
            self.answer(self.force)
            self.elected(register)
            return
        self._refuse_force(f"{register.leader} was made leader in term {register.term}; try again")
        self.role, self.pending, self.unsure = "follower", None, False
        self.grant_until_s = max(self.grant_until_s, self.now + self.settings.wait_s)

    def elected(self, register: Register) -> None:
        raise NotImplementedError

    def follower_deadline(self) -> float:
        if self.role == "candidate" or self.early or self.force:
            return self.next_ask_s
        return max(self.next_ask_s, self.grant_until_s)
