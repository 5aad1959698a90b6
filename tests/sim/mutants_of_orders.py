"""Engines that break one sentence each about standing orders, ends of jobs, outputs, limits and exports."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.ids import SiteId, group_of
from diana.model.indexset import FinishedSet, IndexSet
from tests.sim.mutants import Described, without


class OrdersBeforeItIsDurable(Engine):
    """The user hears "accepted", and the order is not written."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.ControlIssued)


class ObeysBeforeItIsDurable(Engine):
    """The order is acknowledged and forgotten with the next crash."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.ControlTaken)


class ObeysWhateverComesLast(Engine):
    """The number of an order counts for nothing."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Control):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            if custody is not None:
                custody.control_seq = -1
        super()._received(sender, message)


class OrdersUnderOneNumber(Engine):
    """Every order has the number of the last one."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.HoldJobs | ev.ReleaseJobs | ev.CancelJobs):
            for group in self.core.state.groups.values():
                for subgroup in group.subgroups.values():
                    subgroup.control_seq = 0
        return super().handle(event, now)


class CancelsMoreThanItIsTold(Engine):
    """An order speaks of all jobs of its placement."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Control) and message.hold:
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            if custody is not None:
                message = replace(message, cancel=custody.indices)
        super()._received(sender, message)


class AcknowledgesWhatItDidNotHear(Engine):
    """An acknowledgement does not say of which order."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return [_of_any_order(e) for e in super().handle(event, now)]


def _of_any_order(effect: fx.Effect) -> fx.Effect:
    if isinstance(effect, fx.Send) and isinstance(effect.message, ms.ControlAck):
        return replace(effect, message=replace(effect.message, control_seq=10**6))
    return effect


class StartsWhatIsHeld(Engine):
    """The order is journaled and not obeyed."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for custody in self.core.state.custodies.values():
            custody.held = IndexSet()
        effects = super().handle(event, now)
        for custody in self.core.state.custodies.values():
            if custody.held and custody.runnable:
                custody.held = IndexSet()
                self.core.requeue.add(custody.key)
        return effects


class StartsWhatIsCancelled(Engine):
    """No trace stays of what was cancelled before it started."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, message)
        if isinstance(message, ms.Control):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            for batch in custody.outgoing.values() if custody is not None else ():
                if custody is not None and batch.cancelled:
                    custody.pending = custody.pending | batch.cancelled
                    self.core.requeue.add(custody.key)


class ShowsCancelledAtOnce(Engine):
    """A job is CANCELLED before its site has said so."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        core = self.core
        for effect in effects:
            if isinstance(effect, fx.Persist) and isinstance(issued := effect.record, r.ControlIssued):
                group = core.state.groups[group_of(issued.subgroup)]
                subgroup = group.subgroups.get(issued.subgroup)
                over = group.open_of(issued.cancel & subgroup.indices) if subgroup is not None else IndexSet()
                if over and subgroup is not None and subgroup.site != core.site:
                    batch = 1000 + issued.control_seq
                    core.persist(
                        r.ResultAccepted(subgroup=issued.subgroup, epoch=issued.epoch, batch=batch, cancelled=over)
                    )
        return effects


class LosesResultsToCancels(Engine):
    """A job that ran to its end is shown CANCELLED because its user had asked for that."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Result):
            group = self.core.state.groups.get(group_of(message.subgroup))
            part = group.subgroups.get(message.subgroup) if group is not None else None
            if part is not None and part.cancelling:
                outcomes = [
                    int(Outcome.CANCELLED) if index in part.cancelling else outcome
                    for index, outcome in zip(message.facts.indices, message.facts.outcomes, strict=True)
                ]
                message = replace(message, facts=replace(message.facts, outcomes=outcomes))
        super()._received(sender, message)


class CountsWhatCameBackAsDone(Engine):
    """REVOKED is taken for a result."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return [_done_instead(e) for e in super().handle(event, now)]


def _done_instead(effect: fx.Effect) -> fx.Effect:
    if isinstance(effect, fx.Persist) and isinstance(record := effect.record, r.ResultAccepted) and record.revoked:
        return fx.Persist(replace(record, done=record.revoked, revoked=IndexSet()))
    return effect


class CountsEndsTwice(Engine):
    """An end that is told again is another end."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.JobsEnded):
            custody = self.core.state.custodies.get((event.subgroup, event.epoch))
            if custody is not None:
                for index, attempt in zip(event.facts.indices, event.facts.attempts, strict=True):
                    if index in custody.indices and index not in custody.pending:
                        custody.running.setdefault(index, attempt)
        return super().handle(event, now)


class RepeatsWhateverFails(Engine):
    """Jobs whose end is known are run again."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.JobsEnded):
            custody = self.core.state.custodies.get((event.subgroup, event.epoch))
            if custody is not None and custody.spec.on_crash == "rerun":
                facts = replace(event.facts, outcomes=[7] * len(event.facts.outcomes))
                event = replace(event, facts=facts)
        return super().handle(event, now)


class RepeatsUnderTheOldNumber(Engine):
    """An attempt that is made again has the number of the last one."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for custody in self.core.state.custodies.values():
            custody.attempts, custody.attempt_base = {}, 0
        return super().handle(event, now)


class NumbersBatchesAnew(Engine):
    """Two batches of one placement have one number."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for custody in self.core.state.custodies.values():
            custody.next_batch = 0
        return super().handle(event, now)


class BootsUnderTheOldNumber(Engine):
    """A boot cannot be told from the one before it."""

    def start(self, *arguments: Any, **options: Any) -> list[fx.Effect]:
        self.core.state.generation = max(0, self.core.state.generation - 1)
        return super().start(*arguments, **options)


class RetriesWhatIsDone(Engine):
    """A retry takes all jobs of the group."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        group = self.core.state.groups.get(event.group) if isinstance(event, ev.RetryJobs) else None
        if group is not None:
            group.failed.add_set(IndexSet.of(group.done))
        return super().handle(event, now)


class ClosesEarly(Engine):
    """A group is done with its first job."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for name, group in sorted(self.core.state.groups.items()):
            if len(group.done) and not group.state:
                self.core.persist(r.GroupClosed(group=name, state="done", at_s=now))
        return super().handle(event, now)


class CallsDoneWhatFailed(Engine):
    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return [_closed_as_done(e) for e in super().handle(event, now)]


def _closed_as_done(effect: fx.Effect) -> fx.Effect:
    if isinstance(effect, fx.Persist) and isinstance(effect.record, r.GroupClosed):
        return fx.Persist(replace(effect.record, state="done"))
    return effect


class SaysOutputsAreHome(Engine):
    """The executing site may drop outputs that the origin has not gathered."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return [_outputs_home(e) for e in super().handle(event, now)]


def _outputs_home(effect: fx.Effect) -> fx.Effect:
    if isinstance(effect, fx.Send) and isinstance(effect.message, ms.ResultAck):
        return replace(effect, message=replace(effect.message, outputs_taken=True))
    return effect


class FillsTheLrmWithoutMeasure(Engine):
    """The claim-ahead is not bounded."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        runs = self.core.totals.runs
        for lane in runs.lanes.values():
            lane.load = 0
        runs.touched |= dict.fromkeys(runs.lanes)
        return super().handle(event, now)


class ForgetsMaxParallel(Engine):
    """A group runs as many jobs as there are slots."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for custody in self.core.state.custodies.values():
            custody.max_parallel = 0
        return super().handle(event, now)


class ForgetsTheUsersLimit(Engine):
    """A user runs as many jobs as there are slots."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        state = self.core.state
        state.settings = msgspec.structs.replace(state.settings, user_max_running=0)
        return super().handle(event, now)


class ForgetsThatItExported(Engine):
    """Neither origin nor receiver remembers that jobs were exported."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        for group in self.core.state.groups.values():
            group.exported = IndexSet()
            for subgroup in group.subgroups.values():
                subgroup.exported = False
        for custody in self.core.state.custodies.values():
            custody.exported = False
        return super().handle(event, now)


class ForgetsWhatItAccepted(Engine):
    """A group's count is not the sum of its members'."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        for group in self.core.state.groups.values():
            if group.jobs < 1000 and not group.state:
                group.failed = FinishedSet()
        return effects


DESCRIBED = (
    Described(OrdersBeforeItIsDurable, "I7", "control.persisted_at_origin moves.recalling_kept_first"),
    Described(ObeysBeforeItIsDurable, "I3", "control.seq_durable"),
    Described(ObeysWhateverComesLast, "I5", "control.highest_seq_wins"),
    Described(OrdersUnderOneNumber, "I5", "control.highest_seq_wins"),
    Described(CancelsMoreThanItIsTold, "I7", "control.names_indices"),
    Described(AcknowledgesWhatItDidNotHear, "I3", "control.ack_names_seq"),
    Described(StartsWhatIsHeld, "I7"),
    Described(StartsWhatIsCancelled, "I2 I7", "control.tombstone"),
    Described(ShowsCancelledAtOnce, "I2 I8", "control.cancelling_until_acknowledged"),
    Described(LosesResultsToCancels, "I2", "control.first_result_wins"),
    Described(CountsWhatCameBackAsDone, "I2 I9"),
    Described(CountsEndsTwice, "I2"),
    Described(RepeatsWhateverFails, "I1"),
    Described(RepeatsUnderTheOldNumber, "I1 I5"),
    Described(NumbersBatchesAnew, "I5"),
    Described(BootsUnderTheOldNumber, "I5"),
    Described(RetriesWhatIsDone, "I1"),
    Described(ClosesEarly, "I9"),
    Described(CallsDoneWhatFailed, "I9"),
    Described(SaysOutputsAreHome, "I3"),
    Described(FillsTheLrmWithoutMeasure, "I7"),
    Described(ForgetsMaxParallel, "I7", scenario="few at once"),
    Described(ForgetsTheUsersLimit, "I7", scenario="user limit"),
    Described(ForgetsThatItExported, "D7", "moves.mark_travels moves.mark_outlives_pull_back", scenario="congested"),
    Described(ForgetsWhatItAccepted, "I2 I3 I9"),
)
