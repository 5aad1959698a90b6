"""Engines that break one sentence of the hand-over each, on purpose: the test-only hook of PROMISES section 2.

`DESCRIBED` says which sentences of the models of tests/protocol each of them leaves out, and by which invariants it has
to be caught. Mutants of standing orders, ends and outputs are in `mutants_of_orders.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from diana.engine.engine import Engine
from diana.engine.handover import execution, results
from diana.engine.journal import columns
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.site.timers import TimerKey
from diana.model.ids import SiteId, SubgroupId, group_of
from diana.model.indexset import FinishedSet, IndexSet


class Described(NamedTuple):
    mutant: type[Engine]
    rules: str
    """One of these invariants catches it."""
    sentences: str = ""
    """`MODEL.SWITCH` of the models it breaks; empty: a promise no model is about."""
    scenario: str = "moving"


def without(effects: list[fx.Effect], *kinds: type) -> list[fx.Effect]:
    """Effects that are done and said without being written."""
    return [e for e in effects if not (isinstance(e, fx.Persist) and isinstance(e.record, kinds))]


class RunsAtPrepare(Engine):
    """The copy at the destination is not inert."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, message)
        if isinstance(message, ms.Prepare):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            if custody is not None and not custody.runnable:
                self.core.persist(r.CustodyRunnable(subgroup=message.subgroup, epoch=message.epoch))
                self.core.requeue.add(custody.key)


class SaysPreparedBeforeItIsDurable(Engine):
    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.CustodyTaken)


class CommitsBeforeItIsDurable(Engine):
    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.TransferCommitted)


class TakesBackWhatItCommitted(Engine):
    """An unacknowledged COMMIT is taken back on a time-out, without a tombstone at the destination."""

    def _due(self, key: TimerKey) -> None:
        if key[0] == "commit":
            part = SubgroupId(key[1])
            group = self.core.state.groups[group_of(part)]
            epoch = group.subgroups[part].epoch
            self.core.persist(r.TakenBack(subgroup=part, epoch=epoch, reason="impatience"))
            self.core.to_place.add(group.group)
        else:
            super()._due(key)


class BelievesLateWords(Engine):
    """Words about an old placement count for the one that stands at that site now."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Prepared | ms.Committed | ms.Result | ms.Aborted):
            group = self.core.state.groups.get(group_of(message.subgroup))
            if group is not None and message.subgroup not in group.subgroups:
                now = next((s for _, s in sorted(group.subgroups.items()) if s.site == sender), None)
                if now is not None:
                    message = msgspec.structs.replace(message, subgroup=now.subgroup, epoch=now.epoch)
        super()._received(sender, message)


class NumbersOffersAnew(Engine):
    """The epoch does not rise, and the name of a placement that was taken back is used again."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for group in self.core.state.groups.values():
            past = max((int(part.rpartition("/")[2]) for part in group.past), default=-1)
            if past == group.next_number - 1:
                # Every offer so far was of one part, whose number and epoch rose together.
                group.next_number, group.epoch = past, min(group.epoch, past)
        return super().handle(event, now)


class LeavesNoTombstone(Engine):
    """Dropped placements are forgotten."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        tombstones = self.core.state.tombstones
        for key in [key for key, stone in tombstones.items() if not stone.done]:
            del tombstones[key]
        return super().handle(event, now)


class ForgetsWhatIsOver(Engine):
    """Acknowledged placements leave no tombstone."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        tombstones = self.core.state.tombstones
        for key in [key for key, stone in tombstones.items() if stone.done]:
            del tombstones[key]
        return super().handle(event, now)


class IgnoresAborts(Engine):
    """An offer that was taken back stays prepared."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if not isinstance(message, ms.Abort):
            super()._received(sender, message)


class DropsWhatItHasStarted(Engine):
    """A COMMIT that is said again meets a site that has changed its mind."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        key = (message.subgroup, message.epoch) if isinstance(message, ms.Commit) else None
        custody = self.core.state.custodies.get(key) if key is not None else None
        if custody is not None and custody.runnable and custody.running:
            self.core.queues.remove(custody.key)
            dropped = r.CustodyDropped(subgroup=custody.subgroup, epoch=custody.epoch, at_s=self.core.now)
            self.core.persist(dropped)
            self.core.send(sender, ms.Aborted(subgroup=custody.subgroup, epoch=custody.epoch))
        else:
            super()._received(sender, message)


class SaysEverythingOnce(Engine):
    """Nothing that was lost is said again."""

    def _due(self, key: TimerKey) -> None:
        if key[0] not in ("offer", "commit", "control", "result", "prepared"):
            super()._due(key)


class ForgetsToResend(Engine):
    """A lost result is never sent again."""

    def _due(self, key: TimerKey) -> None:
        if key[0] != "result":
            super()._due(key)


class StartsBeforeItIsDurable(Engine):
    """STARTING is not written before the LRM gets the job."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.RunsStarted)


class TrustsNoInventory(Engine):
    """After a restart, what the LRM still runs is taken for lost and started again."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.LrmReady):
            event = msgspec.structs.replace(event, known=())
        return super().handle(event, now)


class AcceptsResultsTwice(Engine):
    """The origin forgets which results it accepted."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Result):
            group = self.core.state.groups.get(group_of(message.subgroup))
            part = group.subgroups.get(message.subgroup) if group is not None else None
            if group is not None and part is not None:
                part.batches = IndexSet()
                group.done = FinishedSet()
        super()._received(sender, message)


class AcknowledgesBeforeItIsDurable(Engine):
    """Accepted results are acknowledged but never written."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.ResultAccepted)


class AnswersBeforeItIsDurable(Engine):
    """The user gets an id for a group that was not written."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.GroupSubmitted)


class MakesAGroupOfEachAsking(Engine):
    """A submission said again is another one."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.SubmitGroup):
            self.core.state.keys.clear()
        return super().handle(event, now)


class TakesBackWhatItRecalls(Engine):
    """The origin has recalled jobs again before their site gave them back."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        core = self.core
        for effect in effects:
            if isinstance(effect, fx.Persist) and isinstance(issued := effect.record, r.ControlIssued):
                group = core.state.groups[group_of(issued.subgroup)]
                subgroup = group.subgroups.get(issued.subgroup)
                if subgroup is None:
                    continue  # over within the same turn
                back = group.open_of(issued.recall & subgroup.indices)
                if back and subgroup.site != core.site:
                    batch = 1000 + issued.control_seq
                    core.persist(
                        r.ResultAccepted(subgroup=issued.subgroup, epoch=issued.epoch, batch=batch, revoked=back)
                    )
                    core.to_place.add(group.group)
        return effects


class TakesBackMoreThanItIsGiven(Engine):
    """REVOKED speaks of all that was recalled, whatever it names."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Result) and message.revoked:
            group = self.core.state.groups.get(group_of(message.subgroup))
            part = group.subgroups.get(message.subgroup) if group is not None else None
            if group is not None and part is not None:
                message = msgspec.structs.replace(message, revoked=group.open_of(part.recalled & part.indices))
        super()._received(sender, message)


class GivesBackBeforeItIsDurable(Engine):
    """REVOKED is said, and not written."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        return [
            e
            for e in effects
            if not (isinstance(e, fx.Persist) and isinstance(e.record, r.RunsEnded) and e.record.revoked)
        ]


class GivesBackWhatRuns(Engine):
    """A recall takes what a machine has been given."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, message)
        if isinstance(message, ms.Control):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            running = IndexSet.of(custody.running) & message.recall if custody is not None else IndexSet()
            if custody is not None and running:
                ends = results.Ends(columns.empty(self.core.site), revoked=running)
                execution._ended(self.core, custody, ends)


class StartsWhatItGaveBack(Engine):
    """A site forgets that it gave jobs back."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, message)
        if isinstance(message, ms.Control):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            for batch in custody.outgoing.values() if custody is not None else ():
                if custody is not None and batch.revoked:
                    custody.pending = custody.pending | batch.revoked
                    self.core.requeue.add(custody.key)


DESCRIBED = (
    Described(RunsAtPrepare, "I1 I4", "handover.inert"),
    Described(SaysPreparedBeforeItIsDurable, "I3 I4 I9", "handover.prepared_kept_first"),
    Described(CommitsBeforeItIsDurable, "I4", "handover.commit_kept_first"),
    Described(TakesBackWhatItCommitted, "I1 I4", "handover.aborts_offers_only"),
    Described(BelievesLateWords, "I2 I4 I5 I8", "handover.names_epoch recall.revoked_names_epoch", "wavering"),
    Described(NumbersOffersAnew, "I5", "handover.epoch_rises recall.recall_names_epoch control.names_epoch"),
    Described(LeavesNoTombstone, "I5", "handover.tombstone_when_dropped recall.tombstone_when_unknown"),
    Described(ForgetsWhatIsOver, "I1 I4 I5 I8", "handover.tombstone_when_over", "to and fro"),
    Described(IgnoresAborts, "I8"),
    Described(DropsWhatItHasStarted, "I4"),
    Described(SaysEverythingOnce, "I8", "handover.resent recall.resent control.resent"),
    Described(ForgetsToResend, "I8", "handover.resent"),
    Described(StartsBeforeItIsDurable, "I1", "handover.given_kept_first"),
    Described(TrustsNoInventory, "I1", "handover.void_asks_spawner handover.claim_before_exec"),
    Described(AcceptsResultsTwice, "I2", "handover.result_once"),
    Described(AcknowledgesBeforeItIsDurable, "I3 I9"),
    Described(AnswersBeforeItIsDurable, "I3"),
    Described(MakesAGroupOfEachAsking, "I3"),
    Described(TakesBackWhatItRecalls, "I4", "recall.local_only_on_revoked moves.recalls_first"),
    Described(TakesBackMoreThanItIsGiven, "I4", "recall.revoked_names_indices"),
    Described(GivesBackBeforeItIsDurable, "I4", "recall.persisted_before_reply"),
    Described(GivesBackWhatRuns, "I4", "recall.splits moves.splits handover.given_counts_as_started"),
    Described(StartsWhatItGaveBack, "I4"),
)
