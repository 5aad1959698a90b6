"""Engines that break one sentence each about gangs: components that are claimed together, let go together, and ended
together (SPEC K5, K7; `tests/protocol/claiming.py`)."""

from __future__ import annotations

from diana.engine.engine import Engine
from diana.engine.handover.gangs.attempt_book import GangAttempts, key_of
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import Step
from diana.engine.messages import messages as ms
from diana.engine.site.timers import TimerKey
from diana.model.ids import SiteId, SubgroupId, group_of
from tests.sim.mutants import Described, without


def _begun(order: fx.Start) -> fx.Go:
    return fx.Go(
        worker=order.worker,
        subgroup=order.subgroup,
        epoch=order.epoch,
        indices=order.indices,
        environment=(),
        size=order.spec.gang_size,
    )


def _of_gang(engine: Engine, key: TimerKey) -> bool:
    return engine.core.state.groups[group_of(SubgroupId(key[1]))].spec.is_gang


class LetsGoWithTheFirstClaim(Engine):
    """One component has its processors, and all are let go."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.GangClaimed):
            group = self.core.state.groups.get(group_of(message.subgroup))
            subgroup = group.subgroups.get(message.subgroup) if group is not None else None
            if group is not None and subgroup is not None and subgroup.indices:
                book = self.core.book(GangAttempts)
                for part in book.parts.get(key_of(group, subgroup), ()):
                    claim = book.claim(part)
                    claim.host = claim.host or "somewhere"
        super()._received(sender, message)


class LetsGoBeforeItIsDurable(Engine):
    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.GangGo)


class BeginsAtItsClaim(Engine):
    """A component waits for nobody: its machine lets it go as soon as it has it."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        return [*effects, *(_begun(one) for one in effects if isinstance(one, fx.Start) and one.barrier_s)]


class BeginsBeforeItsReleaseIsDurable(Engine):
    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.CustodyRunnable)


class SaysClaimedBeforeItIsDurable(Engine):
    """The processors are held by nobody's record."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.RunsStarted)


class TakesBackWhatItLetGo(Engine):
    """Who does not answer the word that lets it go is given up."""

    def _due(self, key: TimerKey) -> None:
        if key[0] != "commit" or not _of_gang(self, key):
            super()._due(key)
            return
        part = SubgroupId(key[1])
        group = self.core.state.groups[group_of(part)]
        self.core.persist(r.TakenBack(subgroup=part, epoch=group.subgroups[part].epoch, reason="impatience"))
        self.core.to_place.add(group.group)


class FreesAClaimWithoutATombstone(Engine):
    """What lapsed is forgotten, and may be let go all the same."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        return without(super().handle(event, now), r.CustodyDropped)


class LetsTheOthersRunOn(Engine):
    """A component that never began leaves the others to wait for it."""

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Aborted):
            group = self.core.state.groups.get(group_of(message.subgroup))
            subgroup = group.subgroups.get(message.subgroup) if group is not None else None
            if group is not None and group.spec.is_gang and subgroup is not None and subgroup.step is Step.COMMITTED:
                return
        super()._received(sender, message)


DESCRIBED = tuple(
    Described(mutant, rules, scenario="together")
    for mutant, rules in (
        (LetsGoWithTheFirstClaim, "I4"),
        (LetsGoBeforeItIsDurable, "I4"),
        (BeginsAtItsClaim, "I4"),
        (BeginsBeforeItsReleaseIsDurable, "I4"),
        (SaysClaimedBeforeItIsDurable, "I1 I4"),
        (TakesBackWhatItLetGo, "I4"),
        (FreesAClaimWithoutATombstone, "I4 I5"),
        (LetsTheOthersRunOn, "I8"),
    )
)
