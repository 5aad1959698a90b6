"""The ways out of a simulated site: each effect that its engine wants goes to network, LRM, stager or store, as
`diana/node/loop/release.py` has it done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from diana.engine.data import output_datasets
from diana.engine.handover import results
from diana.engine.journal import columns
from diana.engine.journal import effects as fx
from diana.model.ids import SiteId
from diana.sim.checks.checkers import Checkers
from diana.sim.sites.machines import SimMachines
from diana.sim.twins.stager import SimStager
from diana.sim.twins.store import MemoryStore
from diana.sim.twins.transport import SimTransport


class Outlet:
    """The half of a `SimulatedSite` that carries effects out; the site fills in these fields."""

    site: SiteId
    lrm: SimMachines
    stager: SimStager
    store: MemoryStore
    transport: SimTransport
    warnings: int
    _ahead_s: float
    _answered: Callable[[SiteId, fx.Reply], None]
    _check: Checkers

    def _doers(self) -> dict[type, Callable[[Any], None]]:
        return {
            fx.Send: self._send,
            fx.SendResult: self._send_result,
            fx.Contact: self._contact,
            fx.ForgetContact: self._forget_contact,
            fx.TrustChanged: self._trust_changed,
            fx.Reply: self._reply,
            fx.Notify: self._notify,
            fx.Start: self._start,
            fx.Go: self.lrm.go,
            fx.RenewLease: self._lease,
            fx.KillRuns: self.lrm.kill,
            fx.RecallRuns: self.lrm.recall,
            fx.SaveRuns: self.lrm.save,
            fx.TellRoster: self.lrm.tell_roster,
            fx.ForgetRuns: self._forget_runs,
            fx.MeetHosts: self._reach,
            fx.StageIn: self.stager.stage_in,
            fx.LookUp: self.stager.look_up,
            fx.Gather: self._gather,
            fx.RegisterOutputs: self._register_outputs,
            fx.CancelStage: self._cancel_stage,
            fx.DropOutputs: self._drop_outputs,
            fx.DropSubgroup: self._drop_subgroup,
            fx.DropGroup: self._drop_group,
            fx.StartAnew: self._start_anew,
            fx.Confirmed: self._confirmed,
            fx.HandOver: self._hand_over,
            fx.Warn: self._warn,
        }

    def _reach(self, effect: fx.MeetHosts) -> None:
        self.transport.reach(effect)

    def _contact(self, effect: fx.Contact) -> None:
        self.transport.contact(effect)

    def _start_anew(self, effect: fx.StartAnew) -> None:
        """Start a new process over an older database; the site knows how its process ends."""

    def _hand_over(self, effect: fx.HandOver) -> None:
        """Do nothing: a site alone has nobody to hand over to, and of a pair the simulator does not tell the engine."""

    def _send(self, effect: fx.Send) -> None:
        self.transport.send(effect.to, effect.message)

    def _send_result(self, effect: fx.SendResult) -> None:
        facts = self.store.facts_chunk(effect.key) or columns.empty(self.site)
        self.transport.send(effect.to, results.told(effect, facts))

    def _forget_contact(self, effect: fx.ForgetContact) -> None:
        self.transport.forget_contact(effect.site)

    def _trust_changed(self, effect: fx.TrustChanged) -> None:
        banned = (who.removeprefix("site:") for who, _, _ in effect.revoked if who.startswith("site:"))
        self.transport.refuse(frozenset(map(SiteId, banned)))

    def _reply(self, effect: fx.Reply) -> None:
        self._answered(self.site, effect)

    def _notify(self, effect: fx.Notify) -> None:
        """Do nothing: nobody watches, for the runner looks by itself."""

    def _forget_runs(self, effect: fx.ForgetRuns) -> None:
        self.lrm.forget(effect.runs)

    def _start(self, effect: fx.Start) -> None:
        if effect.barrier_s:
            effect = msgspec.structs.replace(effect, barrier_s=effect.barrier_s - self._ahead_s)
        self.lrm.start(effect)

    def _lease(self, effect: fx.RenewLease) -> None:
        # By the simulation's clock, which no wall clock moves.
        self.lrm.lease(msgspec.structs.replace(effect, until_s=effect.until_s - self._ahead_s))

    def _gather(self, effect: fx.Gather) -> None:
        facts = self.store.facts_chunk(effect.key)
        if facts is None:
            self._check.missing(self.site, effect.key)
            return
        self.stager.gather(effect, facts)

    def _register_outputs(self, effect: fx.RegisterOutputs) -> None:
        self.stager.register_outputs(effect, lambda: output_datasets.named(effect, self.store.facts(effect.group)))

    def _cancel_stage(self, effect: fx.CancelStage) -> None:
        self.stager.cancel(effect.ticket)

    def _drop_outputs(self, effect: fx.DropOutputs) -> None:
        facts = self.store.facts_chunk(effect.key)
        if facts is not None:
            self.stager.drop_outputs(effect.key, facts, effect.dataset)

    def _drop_subgroup(self, effect: fx.DropSubgroup) -> None:
        self.stager.drop_subgroup(effect.subgroup)

    def _drop_group(self, effect: fx.DropGroup) -> None:
        self.stager.drop_group(effect.group, outputs=effect.outputs)
        self.store.drop_group(effect.group)

    def _confirmed(self, effect: fx.Confirmed) -> None:
        self.store.trust()

    def _warn(self, effect: fx.Warn) -> None:
        self.warnings += 1
