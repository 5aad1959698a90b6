"""The checkers can fail: engines that break one rule each are caught, by the invariant that names the rule.

Each mutant is the mistake of PROMISES section 2's model checks. The seeds are fixed.
"""

from __future__ import annotations

import msgspec
import pytest

from diana.engine import columns, execution, results
from diana.engine import effects as fx
from diana.engine import events as ev
from diana.engine import messages as ms
from diana.engine import records as r
from diana.engine.core import Engine
from diana.engine.timers import TimerKey
from diana.model.ids import SiteId, SubgroupId, group_of
from diana.model.indexset import FinishedSet, IndexSet
from diana.sim import scenario as sc
from diana.sim.driver import Boot
from diana.sim.main import failure
from diana.sim.runner import simulate

SCENARIO = sc.parse("""version = 1
report = ["faults"]
settings = {offer_wait_s = 3.0, resend_most_s = 3.0}
sites = [{name = "a", slots = 2}, {name = "b", slots = 3}, {name = "c", slots = 3}]
[[workload]]
name = "one"
site = "a"
jobs = 40
work_s = 2.0
submit_s = 3.0
moves = [{to = "b", at_s = 5.0}, {to = "c", at_s = 9.0, first = 20, jobs = 20}, {to = "a", at_s = 14.0}]
[[workload]]
name = "two"
site = "b"
jobs = 40
work_s = 2.0
submit_s = 5.0
on_crash = "rerun"
output_bytes = 1000
fail_fraction = 0.2
hold_s = 7.0
release_s = 25.0
retry_s = 60.0
[faults]
draw = true
until_s = 40.0
heal_s = 300.0
loss = 0.3
duplicate = 0.3
delay = 0.3
crash = 0.02
cut_every_s = 15.0
spawner_crash_every_s = 30.0
""")
SEEDS = range(40)


class RunsAtPrepare(Engine):
    """The copy at the destination is not inert."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, message)
        if isinstance(message, ms.Prepare):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            if custody is not None and not custody.runnable:
                self.core.persist(r.CustodyRunnable(subgroup=message.subgroup, epoch=message.epoch))
                self.core.requeue.add(custody.key)


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
        effects = super().handle(event, now)
        return [e for e in effects if not (isinstance(e, fx.Persist) and isinstance(e.record, r.ResultAccepted))]


class StartsBeforeItIsDurable(Engine):
    """STARTING is not written before the LRM gets the job."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        return [e for e in effects if not (isinstance(e, fx.Persist) and isinstance(e.record, r.RunsStarted))]


class TrustsNoInventory(Engine):
    """After a restart, what the LRM still runs is taken for lost and started again."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.LrmReady):
            event = msgspec.structs.replace(event, known=())
        return super().handle(event, now)


class RepeatsWhateverFails(Engine):
    """Jobs whose end is known are run again."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.JobsEnded):
            custody = self.core.state.custodies.get((event.subgroup, event.epoch))
            if custody is not None and custody.spec.on_crash == "rerun":
                facts = msgspec.structs.replace(event.facts, outcomes=[7] * len(event.facts.outcomes))
                event = msgspec.structs.replace(event, facts=facts)
        return super().handle(event, now)


class FillsTheLrmWithoutMeasure(Engine):
    """The claim-ahead is not bounded."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        runs = self.core.totals.runs
        for lane in runs.lanes.values():
            lane.load = 0
        runs.touched |= dict.fromkeys(runs.lanes)
        return super().handle(event, now)


class ForgetsToResend(Engine):
    """A lost result is never sent again."""

    def _due(self, key: TimerKey) -> None:
        if key[0] != "result":
            super()._due(key)


class AnswersBeforeItIsDurable(Engine):
    """The user gets an id for a group that was not written."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        return [e for e in effects if not (isinstance(e, fx.Persist) and isinstance(e.record, r.GroupSubmitted))]


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


class RetriesWhatIsDone(Engine):
    """A retry takes all jobs of the group."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        group = self.core.state.groups.get(event.group) if isinstance(event, ev.RetryJobs) else None
        if group is not None:
            group.failed.add_set(IndexSet.of(group.done))
        return super().handle(event, now)


class TakesBackWhatItRecalls(Engine):
    """The origin has recalled jobs again before their site gave them back."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        core = self.core
        for effect in effects:
            if isinstance(effect, fx.Persist) and isinstance(issued := effect.record, r.ControlIssued):
                group = core.state.groups[group_of(issued.subgroup)]
                subgroup = group.subgroups[issued.subgroup]
                back = group.open_of(issued.recall & subgroup.indices)
                if back and subgroup.site != core.site:
                    batch = 1000 + issued.control_seq
                    core.persist(
                        r.ResultAccepted(subgroup=issued.subgroup, epoch=issued.epoch, batch=batch, revoked=back)
                    )
                    core.to_place.add(group.group)
        return effects


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
    """What was given back is forgotten to be so."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        super()._received(sender, message)
        if isinstance(message, ms.Control):
            custody = self.core.state.custodies.get((message.subgroup, message.epoch))
            for batch in custody.outgoing.values() if custody is not None else ():
                if custody is not None and batch.revoked:
                    custody.pending = custody.pending | batch.revoked
                    self.core.requeue.add(custody.key)


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        (RunsAtPrepare, "I1 I4"),
        (TakesBackWhatItCommitted, "I1 I4"),
        (AcceptsResultsTwice, "I2"),
        (AcknowledgesBeforeItIsDurable, "I3 I9"),
        (StartsBeforeItIsDurable, "I1"),
        (TrustsNoInventory, "I1"),
        (RepeatsWhateverFails, "I1"),
        (FillsTheLrmWithoutMeasure, "I7"),
        (ForgetsToResend, "I8"),
        (AnswersBeforeItIsDurable, "I3"),
        (StartsWhatIsHeld, "I7"),
        (RetriesWhatIsDone, "I1"),
        (TakesBackWhatItRecalls, "I4"),
        (GivesBackWhatRuns, "I4"),
        (StartsWhatItGaveBack, "I4"),
    ],
    ids=lambda p: p.__name__ if isinstance(p, type) else "",
)
def test_an_engine_that_breaks_a_rule_is_caught(mutant: type[Engine], rules: str) -> None:
    boot = Boot(mutant)
    for seed in SEEDS:
        report = simulate(SCENARIO, seed, boot=boot)
        found = {v.rule for v in report.violations} & set(rules.split())
        if found:
            text = failure(SCENARIO, report, boot)
            assert f"seed {seed} fails" in text and "loss=" in text and "story of" in text
            return
    pytest.fail(f"{mutant.__name__} was not caught in seeds {SEEDS}")


def test_the_unbroken_engine_passes_the_same_seeds() -> None:
    for seed in SEEDS:
        report = simulate(SCENARIO, seed)
        assert report.good(), failure(SCENARIO, report)
