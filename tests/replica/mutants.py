"""The machine without one sentence of the protocol, as tests/protocol/standby_mutants.py has the model without it.

Each is a subclass that overrides what keeps the sentence, or a world whose witness or disk does not keep its own. The
sentences about workers are the engine's and the spawner's; the simulator asks for those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from diana.model.trust.register import Copy, Register, term_of
from diana.replica import messages as ms
from diana.replica.machine import Replica
from tests.replica.world import Bound, Question, State, Told, World


class OwnFsync(Replica):
    def _durable(self) -> int:
        if not self.both:
            return self.log.last
        return self.peer_fsynced if self._counts_on(self.peer_seen) else 0


class StandbyFsync(Replica):
    def _on_disk(self) -> int:
        return self.verified


class Lease(Replica):
    def _leased(self, now: float) -> bool:
        return not self.both or self._counts_on(self.peer_seen)


class GrantedOutlivesCrash(Replica):
    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self.grant_until_s = self.now


class AloneByRegister(Replica):
    def _recorded(self) -> bool:
        return False


class RejoinFromSending(Replica):
    def _needs_both(self) -> bool:
        return self.both and self.peer is not None and self.register is not None and self.register.counts(self.peer)


class TakeoverInSync(Replica):
    def _in_sync(self, register: Register) -> bool:
        return True


class ReplicaUuid(Replica):
    """A disk that was lost counts as the one that was recorded."""

    def _in_sync(self, register: Register) -> bool:
        return any(copy.machine == self.me.machine for copy in register.in_sync)


class Promised(Replica):
    """It asks without promising, goes on following, and finds itself leader."""

    def _promise(self, term: int, by_force: bool) -> None:
        pass

    def _ask_for(self, register: Register | None, forced: bool) -> None:
        super()._ask_for(register, forced)
        self.role = "follower"

    def follower_read(self, register: Register | None) -> None:
        if register is not None and register.leader == self.me.machine and register.term > self.term:
            self.lead(register)
        else:
            super().follower_read(register)


class FollowerRefusesOld(Replica):
    def _too_old(self, term: int) -> bool:
        return False

    def append(self, entry: ms.Append) -> None:
        super().append(msgspec.structs.replace(entry, term=self.term))

    def _ack(self, granted_s: float | None, beat_last: int) -> None:
        term = self.register.term if self.register is not None else self.term
        self.say(ms.Ack(term, self.me, self._on_disk(), self.log, granted_s, beat_last))
        self.say(ms.Ack(max(1, term - 1), self.me, self._on_disk(), self.log, granted_s, beat_last))


class FollowerTermDurable(Replica):
    def save(self, saved: ms.Saved) -> None:
        if self.role == "leader":
            super().save(saved)
        else:
            self.saved = saved


class LeaderCrashEndsTerm(Replica):
    def __init__(
        self, settings: Any, me: Copy, other: str, saved: ms.Saved, log: ms.Log, now: float, **more: Any
    ) -> None:
        if saved.led == saved.term and saved.register is not None and saved.register.leader == me.machine:
            more["won"] = saved.register
        super().__init__(settings, me, other, saved, log, now, **more)


class TruncateConflicts(Replica):
    """Logs that only reach equally far count as equal."""

    def _shared(self, leaders: ms.Log) -> int:
        return min(self.log.last, leaders.last)

    def _follows(self, log: ms.Log) -> bool:
        return log.last <= self.log.last


class MadeAgainUnleased(Replica):
    """It makes a register anew that it only thinks is its own term's."""

    def _lease_stands(self) -> bool:
        return True


class MadeAgainAlone(Replica):
    """It makes the register anew though it stands alone, with no lease that another would have to wait for."""

    def _lease_stands(self) -> bool:
        return self._leased(self.now)


class NoCompareAndSet(World):
    def witness_hears(self, s: State, question: Question) -> Iterator[tuple[str, State]]:
        now = s.register
        if now is not None and question.expect < now.term and question.wish.leader == now.leader:
            question = Question(question.asker, now.term, msgspec.structs.replace(question.wish, term=now.term + 1))
        yield from super().witness_hears(s, question)

    def normal(self, s: State) -> State:
        return super().normal(s)._replace(questions=s.questions)


class WitnessForgets(World):
    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        yield from super().moves(s)
        if s.before is not None:
            yield "the witness crashes", s._replace(register=s.before, before=None)

    def normal(self, s: State) -> State:
        kept = super().normal(s)
        return kept._replace(questions=frozenset(q for q in s.questions if q.expect + 1 >= term_of(s.register)))


class NothingIsTooOld(World):
    """For a follower that refuses nothing."""

    def can_matter(self, s: State, told: Told) -> bool:
        return True


class ForcedWhileTheOtherLives(World):
    def orders(self, s: State, i: int, replica: Replica) -> Iterator[tuple[str, State]]:
        spent = s._replace(orders_left=s.orders_left - 1)
        if replica.role == "follower":
            yield f"{i} is forced", self.given(spent, i, ms.ForceTakeover(2))


@dataclass(frozen=True)
class Mutant:
    """`without` is the sentence of `standby_setting.Rules`, or the code's own."""

    without: str
    machine: type[Replica] = Replica
    world: type[World] = World
    on: dict[str, Any] | None = None

    def made(self, **more: Any) -> World:
        bound: dict[str, Any] = {"terms": 6, "cuts": 2, "whats": ("x", "y"), **(self.on or {}), **more}
        return self.world(Bound(machine=self.machine, **bound))


MUTANTS = (
    Mutant("own_fsync", OwnFsync, on={"losses": 1}),
    Mutant("standby_fsync", StandbyFsync, on={"losses": 1}),
    Mutant("lease", Lease),
    Mutant("granted_outlives_crash", GrantedOutlivesCrash),
    Mutant("alone_by_register", AloneByRegister),
    Mutant("rejoin_from_sending", RejoinFromSending, on={"begins_alone": True}),
    Mutant("takeover_in_sync", TakeoverInSync),
    Mutant("db_uuid", ReplicaUuid, on={"losses": 1}),
    Mutant("promise", Promised),
    Mutant("follower_refuses_old", FollowerRefusesOld, NothingIsTooOld),
    Mutant("follower_term_durable", FollowerTermDurable),
    Mutant("leader_crash_ends_term", LeaderCrashEndsTerm),
    Mutant("truncate_conflicts", TruncateConflicts),
    Mutant("compare_and_set", world=NoCompareAndSet, on={"begins_alone": True}),
    Mutant("made_again_leased", MadeAgainUnleased, on={"register_losses": 1}),
    Mutant(
        "made_again_with_both",
        MadeAgainAlone,
        ForcedWhileTheOtherLives,
        on={"register_losses": 1, "orders": 1, "begins_alone": True},
    ),
    Mutant("witness_durable", world=WitnessForgets),
    Mutant("forced_when_other_stopped", world=ForcedWhileTheOtherLives, on={"orders": 2, "begins_alone": True}),
)
