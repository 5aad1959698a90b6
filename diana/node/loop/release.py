"""Durable effects meet the world here: each kind goes to its adapter, an answer to the caller that waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

import msgspec

from diana.engine.data import output_datasets
from diana.engine.handover import results
from diana.engine.journal import columns
from diana.engine.journal import effects as fx
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from diana.node.loop.callers import Callers
from diana.node.loop.store_thread import StoreThread
from diana.ports import LocalResourceManager, Stager, Transport

KEPT_CHUNKS = 256
"""Facts just written that are likely to be sent or gathered now, kept so that they need not be read back."""

_log = logging.getLogger("diana.node")

Passage = Callable[[], Awaitable[None]]
"""Returns when an effect may leave, at that very moment. Only at a site with a standby."""


class Merges(Protocol):
    """Merge commands where two machines keep the journal: their inputs may have to be brought from the other one."""

    def begin(self, order: fx.Start, start: Callable[[], None], passage: Passage | None) -> None:
        """`start` it when they are here and it may leave."""
        ...

    def kill(self, order: fx.KillRuns) -> bool:
        """End that merge if it was not started yet; True if there was one."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapters:
    """Receivers of a node's effects."""

    transport: Transport
    lrm: LocalResourceManager
    stager: Stager
    heed: Callable[[fx.StageIn | fx.DropSubgroup], None]
    """Told before the stager: what the site's other machines have to know of its inputs."""
    trust: Callable[[tuple[tuple[str, float, str], ...]], None]
    """Told whom the VO has revoked: the keyring's to refuse."""
    start_anew: Callable[[str], None]
    """Told the name under which the store is to be known from the next start on."""
    distrusted: Callable[[SiteId, str], None]
    """Told of each peer whose word was not believed, and why."""
    distrusted_machine: Callable[[str, str], None]
    """Told of each machine of this site whose word was not believed, and why."""
    hand_over: Callable[[fx.HandOver], None]
    """Told to have the standby lead."""
    reach: Callable[[fx.MeetHosts], None]
    """Told to look for the hosts of a gang's other components."""
    merges: Merges | None = None
    """Present where two machines keep the journal."""
    left: Callable[[list[fx.Effect]], None] | None = None
    """Told of effects that have left, where somebody follows groups over sites."""


class Release:
    def __init__(self, site: SiteId, data: DataDir, store: StoreThread, callers: Callers, adapters: Adapters) -> None:
        self._site = site
        self._data = data
        self._store = store
        self._callers = callers
        self._to = adapters
        self._chunks: OrderedDict[FactsKey, Facts] = OrderedDict()
        self._earlier: tuple[object, dict[int, list[OutputFile]]] = None, {}
        """A group and which of its jobs were tried again; what those left before, by their index."""

    async def all(self, effects: list[fx.Effect], passage: Passage | None = None) -> None:
        """Release all effects in order; their records are durable. Each waits for the passage just before it leaves."""
        for effect in effects:
            if self._to.merges is not None and isinstance(effect, fx.Start) and effect.directory:
                self._to.merges.begin(effect, partial(self._to_lrm, effect), passage)
                continue
            if isinstance(effect, fx.SendResult | fx.Gather | fx.DropOutputs):
                await self._with_facts(effect, passage)
                continue
            if passage is not None and not isinstance(effect, fx.Persist | fx.KeepFacts):
                await passage()
            if isinstance(effect, fx.DropGroup):
                await self._store.once_there_is_room(self._store.store.drop_group, effect.group)
                self._to_stager(effect)
            elif isinstance(effect, fx.Confirmed):
                await self._store.call(self._store.store.trust)
            else:
                self._one(effect)
        if self._to.left is not None:
            self._to.left(effects)

    def _one(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Persist():
                pass
            case fx.KeepFacts(key, facts):
                self._keep(key, facts)
            case fx.Send(to, message):
                self._to.transport.send(to, message)
            case fx.Contact():
                self._to.transport.contact(effect)
            case fx.ForgetContact(site):
                self._to.transport.forget_contact(site)
            case fx.TrustChanged(revoked):
                self._to.trust(revoked)
            case fx.Reply(request, body):
                self._callers.answer(request, body)
            case fx.Notify(group):
                self._callers.changed(group)
            case fx.Start() | fx.Go() | fx.RenewLease() | fx.KillRuns() | fx.RecallRuns() | fx.SaveRuns():
                self._to_lrm(effect)
            case fx.ForgetRuns() | fx.TellRoster():
                self._to_lrm(effect)
            case fx.RegisterOutputs():
                self._to.stager.register_outputs(effect, partial(self._named, effect))
            case fx.StageIn() | fx.LookUp() | fx.CancelStage() | fx.DropSubgroup():
                self._to_stager(effect)
            case fx.StartAnew(db_uuid):
                self._to.start_anew(db_uuid)
            case fx.HandOver():
                self._to.hand_over(effect)
            case fx.MeetHosts():
                self._to.reach(effect)
            case fx.Warn(text, by, machine):
                _log.warning("%s", text)
                if by:
                    self._to.distrusted(by, text)
                if machine:
                    self._to.distrusted_machine(machine, text)
            case fx.SendResult() | fx.Gather() | fx.DropOutputs() | fx.DropGroup() | fx.Confirmed():
                raise AssertionError("waits for the store")
            case _:
                assert_never(effect)

    def _to_lrm(
        self,
        effect: fx.Start
        | fx.Go
        | fx.RenewLease
        | fx.KillRuns
        | fx.RecallRuns
        | fx.SaveRuns
        | fx.TellRoster
        | fx.ForgetRuns,
    ) -> None:
        match effect:
            case fx.Start():
                if effect.directory == fx.GATHERED:
                    folder = str(self._data.gathered(group_of(effect.subgroup)))
                    effect = msgspec.structs.replace(effect, directory=folder)
                self._to.lrm.start(effect)
            case fx.Go():
                self._to.lrm.go(effect)
            case fx.RenewLease():
                self._to.lrm.lease(effect)
            case fx.KillRuns():
                if self._to.merges is None or not self._to.merges.kill(effect):
                    self._to.lrm.kill(effect)
            case fx.RecallRuns():
                self._to.lrm.recall(effect)
            case fx.SaveRuns():
                self._to.lrm.save(effect)
            case fx.TellRoster():
                self._to.lrm.tell_roster(effect)
            case fx.ForgetRuns(runs, worker):
                self._to.lrm.forget(runs, worker)

    def _to_stager(self, effect: fx.StageIn | fx.LookUp | fx.CancelStage | fx.DropSubgroup | fx.DropGroup) -> None:
        if isinstance(effect, fx.StageIn | fx.DropSubgroup):
            self._to.heed(effect)
        match effect:
            case fx.StageIn():
                self._to.stager.stage_in(effect)
            case fx.LookUp():
                self._to.stager.look_up(effect)
            case fx.CancelStage(ticket):
                self._to.stager.cancel(ticket)
            case fx.DropSubgroup(subgroup):
                self._to.stager.drop_subgroup(subgroup)
            case fx.DropGroup(group, outputs):
                self._to.stager.drop_group(group, outputs=outputs)

    async def _with_facts(self, effect: fx.SendResult | fx.Gather | fx.DropOutputs, passage: Passage | None) -> None:
        facts = self._chunks.get(effect.key)
        if facts is None:
            facts = await asyncio.to_thread(self._store.store.facts_chunk, effect.key)
        if passage is not None:
            await passage()
        if isinstance(effect, fx.SendResult):
            result = results.told(effect, facts or columns.empty(self._site))
            self._to.transport.send(effect.to, result)
        elif facts is not None:
            if isinstance(effect, fx.Gather):
                self._to.stager.gather(effect, facts, await self._replaced(effect, facts))
            else:
                self._to.stager.drop_outputs(effect.key, facts, effect.dataset)

    async def _replaced(self, order: fx.Gather, facts: Facts) -> list[OutputFile]:
        """Return what earlier attempts of the batch's jobs left. One pass over a group's facts serves all its batches
        until more of its jobs are tried again."""
        indices = IndexSet.of(facts.indices)
        if not any(indices & some for _, some in order.replaces):
            return []
        key = (order.key.group, order.replaces)
        if self._earlier[0] != key:
            self._earlier = key, await asyncio.to_thread(self._left_before, order)
        return [output for index in facts.indices for output in self._earlier[1].get(index, ())]

    def _left_before(self, order: fx.Gather) -> dict[int, list[OutputFile]]:
        left: dict[int, list[OutputFile]] = {}
        parts = dict(order.replaces)
        for key, facts in self._store.store.facts(order.key.group):
            old = parts.get(key.subgroup, IndexSet())
            for output in facts.outputs if old else ():
                if output.index in old:
                    left.setdefault(output.index, []).append(output)
        return left

    def _named(self, order: fx.RegisterOutputs) -> Iterator[OutputFile]:
        return output_datasets.named(order, self._store.store.facts(order.group))

    def _keep(self, key: FactsKey, facts: Facts) -> None:
        self._chunks[key] = facts
        while len(self._chunks) > KEPT_CHUNKS:
            self._chunks.popitem(last=False)
