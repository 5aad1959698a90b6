"""One simulated site: the engine the node runs, a store, an LRM and a stager, under the virtual clock.

The records of one `handle` are one transaction; then the other effects go out in order. A crash can fall before the
transaction, after it, and before every effect. What the node's process held is lost then; store, LRM and files stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diana import ports
from diana.engine import columns, lines, records, registering
from diana.engine import effects as fx
from diana.engine.core import Engine
from diana.engine.events import Ask, Event, Tick
from diana.engine.messages import Hello, Result
from diana.engine.state import decode_state
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.principal import Principal, Role
from diana.model.settings import Settings
from diana.model.views import Answer
from diana.sim.checkers import Checkers
from diana.sim.clock import Clock
from diana.sim.driver import Boot
from diana.sim.faults import Faults
from diana.sim.machines import SimMachines
from diana.sim.network import Network
from diana.sim.stager import SimStager
from diana.sim.store import MemoryStore
from diana.sim.trace import Trace
from diana.sim.transport import SimTransport

SNAPSHOT_RECORDS = 256
_OPERATOR = Principal(Role.OPERATOR, "operator@sim")
_FactsRows = list[tuple[FactsKey, Facts]]
_READ = -1
"""Request number of the driver's own reads."""


class Site:
    def __init__(
        self,
        site: SiteId,
        settings: Settings,
        *,
        clock: Clock,
        network: Network,
        lrm: SimMachines,
        stager: SimStager,
        store: MemoryStore,
        keyring: ports.Keyring,
        faults: Faults,
        checkers: Checkers,
        trace: Trace,
        boot: Boot,
        answered: Callable[[SiteId, fx.Reply], None],
        fsync_s: float,
        handled: Callable[[SiteId, Engine], None] | None = None,
    ) -> None:
        self.site = site
        self.settings = settings
        self.address = "" if site in network.dial_only else f"{site}:7400"
        self.lrm = lrm
        self.stager = stager
        self.store = store
        self._clock = clock
        self._network = network
        self._keyring = keyring
        self._faults = faults
        self._check = checkers
        self._trace = trace
        self._make = boot
        self._answered = answered
        self.engine: Engine | None = None
        self._hello: Hello | None = None
        self.transport = SimTransport(network, site, self.handle, self._greeting)
        self.boots = 0
        self.warnings = 0
        self._armed_s = -1.0
        self._since_snapshot = 0
        self._fsync_s = fsync_s
        self._handled = handled
        self._committing = False
        self._waiting: list[Event] = []
        self._left: bytes | None = None
        """Snapshot of the engine that crashed, when all it knew was durable."""
        self._do: dict[type, Callable[[Any], None]] = {
            fx.Send: self._send,
            fx.SendResult: self._send_result,
            fx.Contact: self.transport.contact,
            fx.ForgetContact: self._forget_contact,
            fx.TrustChanged: self._trust_changed,
            fx.Reply: self._reply,
            fx.Notify: self._notify,
            fx.Start: lrm.start,
            fx.Kill: lrm.kill,
            fx.ForgetRuns: self._forget_runs,
            fx.StageIn: stager.stage_in,
            fx.LookUp: stager.look_up,
            fx.Gather: self._gather,
            fx.RegisterOutputs: self._register_outputs,
            fx.CancelStage: self._cancel_stage,
            fx.DropOutputs: self._drop_outputs,
            fx.DropSubgroup: self._drop_subgroup,
            fx.DropGroup: self._drop_group,
            fx.Warn: self._warn,
        }

    # --- life ------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.engine is not None:
            return
        self.boots += 1
        engine = self._make.restored(self.site, self.store, self._keyring, self._clock.now_s)
        effects = self._make.start(engine, self.settings, self.store, self.boots, self.address)
        self.engine = engine
        self._hello = self._make.hello(engine, self.site, self.store, self.boots, self.address)
        self._armed_s = -1.0
        self._trace.handled(self.site, self._clock.now_s, None, effects)
        # Opened is durable before the generation is said to anybody.
        self._durable(self.boots, *_sorted(effects))
        if not self.up():
            return
        self.lrm.attach(self.handle)
        self.stager.attach(self.handle)
        self._network.node_up(self.site)
        self._arm()

    def up(self) -> bool:
        return self.engine is not None

    def crash(self, durable: bool) -> None:
        """kill -9 of the node. `durable`: all that the engine knew is in the store."""
        engine = self.engine
        if engine is None:
            return
        self._left = engine.snapshot() if durable and not self._committing else None
        self._trace.note(self.site, self._clock.now_s, "crash")
        self.engine = None
        self._waiting.clear()
        self._committing = False
        self.lrm.detach()
        self.stager.detach()
        self.store.crash()
        self._network.node_down(self.site)
        self._clock.after(self._faults.restart_after_s(), self._restart)

    def _restart(self) -> None:
        if self.engine is None:
            self.recount()
            self.start()

    def recount(self) -> None:
        """What the store gives back must be what the engine knows (or knew when it crashed), and what the checkers
        saw become durable. Meaningless, and left out, while a commit is under way."""
        found = self._make.restored(self.site, self.store, self._keyring, self._clock.now_s).snapshot()
        known = self._left
        if self.engine is not None:
            known = None if self._committing else self.engine.snapshot()
        if known is not None and found != known:
            self._check.differs(self.site)
        self._check.recount(self.site, decode_state(found))

    def left_over(self) -> tuple[GroupId, str] | None:
        """What is still to be done here: a group it belongs to (`-`: unknown) and one line."""
        if self.engine is None:
            return GroupId("-"), "the node is not up again"
        state = decode_state(self.engine.snapshot())
        for subgroup, epoch in state.custodies:
            return group_of(subgroup), f"the custody of {subgroup} epoch {epoch} is open"
        for name, group in state.groups.items():
            if group.gathers:
                return name, f"{len(group.gathers)} batches of outputs are not gathered"
        if self.lrm.holds():
            return GroupId("-"), f"{self.lrm.holds()} runs are not forgotten"
        return None

    # --- events ----------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the engine an event, now or with the others that wait for the commit under way. Down: it is lost."""
        if self.engine is None:
            return
        self._waiting.append(event)
        if not self._committing:
            self._turn()

    def _turn(self) -> None:
        """All waiting events, one transaction (group commit)."""
        engine, now_s = self.engine, self._clock.now_s
        assert engine is not None
        events, self._waiting = self._waiting, []
        effects: list[fx.Effect] = []
        for event in events:
            made = engine.handle(event, now_s)
            self._trace.handled(self.site, now_s, event, made)
            effects += made
            if self._handled is not None:
                self._handled(self.site, engine)
        lines, facts, others = _sorted(effects)
        if not (lines or facts):
            self._let_out(others)
        elif self._fsync_s > 0:
            self._committing = True
            self._clock.after(self._fsync_s, self._durable, self.boots, lines, facts, others)
        else:
            self._durable(self.boots, lines, facts, others)
        self._arm()

    def _durable(self, boot: int, lines: list[records.Record], facts: _FactsRows, others: list[fx.Effect]) -> None:
        if boot != self.boots or self.engine is None:
            return
        if self._faults.crash_here(self.site):
            self.crash(durable=False)
            return
        self._committing = False
        self._commit(lines, facts)
        if self._let_out(others) and self._waiting:
            self._turn()

    def _let_out(self, effects: list[fx.Effect]) -> bool:
        """In order, with a crash possible before each. False: it fell."""
        boot = self.boots
        for effect in effects:
            if self._faults.crash_here(self.site):
                self.crash(durable=True)
                return False
            self._do[type(effect)](effect)
            if self.boots != boot or self.engine is None:
                return False
        return True

    def _commit(self, told: list[records.Record], facts: _FactsRows) -> None:
        encoded = tuple(lines.encode(record) for record in told)
        seq = self.store.commit(ports.Batch(at_s=self._clock.now_s, records=encoded, facts=tuple(facts)))
        for record in told:
            self._check.committed(self.site, record)
        self._since_snapshot += len(told)
        if self._since_snapshot >= SNAPSHOT_RECORDS and self.engine is not None:
            self._since_snapshot = 0
            self.store.snapshot(self.engine.snapshot(), seq)

    def _arm(self) -> None:
        engine = self.engine
        due_s = engine.deadline() if engine is not None else None
        if due_s is not None and (self._armed_s < 0 or due_s < self._armed_s):
            self._armed_s = max(due_s, self._clock.now_s)
            self._clock.at(self._armed_s, self._tick, self.boots, self._armed_s)

    def _tick(self, boot: int, armed_s: float) -> None:
        if boot != self.boots or armed_s != self._armed_s or self.engine is None:
            return
        self._armed_s = -1.0
        due_s = self.engine.deadline()
        if due_s is not None and due_s > self._clock.now_s:
            self._arm()
        else:
            self.handle(Tick())

    def ask(self, what: str, group: GroupId | None = None) -> Answer | fx.Refusal | None:
        """A read by the driver itself, past the faults; None: the node is down."""
        if self.engine is None:
            return None
        event = Ask(request=_READ, principal=_OPERATOR, what=what, group=group)
        for effect in self.engine.handle(event, self._clock.now_s):
            if isinstance(effect, fx.Reply) and effect.request == _READ:
                return effect.body  # type: ignore[return-value]
        return None

    def _greeting(self) -> Hello | None:
        return None if self.engine is None else self._hello

    # --- effects ---------------------------------------------------------------------------------------

    def _send(self, effect: fx.Send) -> None:
        self.transport.send(effect.to, effect.message)

    def _send_result(self, effect: fx.SendResult) -> None:
        key = effect.key
        facts = self.store.facts_chunk(key) or columns.empty(self.site)
        message = Result(
            subgroup=key.subgroup,
            epoch=key.epoch,
            batch=key.batch,
            facts=facts,
            cancelled=effect.cancelled,
            bytes_staged=effect.bytes_staged,
            revoked=effect.revoked,
        )
        self.transport.send(effect.to, message)

    def _forget_contact(self, effect: fx.ForgetContact) -> None:
        self.transport.forget_contact(effect.site)

    def _trust_changed(self, effect: fx.TrustChanged) -> None:
        banned = (who.removeprefix("site:") for who, _, _ in effect.revoked if who.startswith("site:"))
        self.transport.refuse(frozenset(map(SiteId, banned)))

    def _reply(self, effect: fx.Reply) -> None:
        self._answered(self.site, effect)

    def _notify(self, effect: fx.Notify) -> None:
        """Nobody watches: the runner looks by itself."""

    def _forget_runs(self, effect: fx.ForgetRuns) -> None:
        self.lrm.forget(effect.runs)

    def _gather(self, effect: fx.Gather) -> None:
        facts = self.store.facts_chunk(effect.key)
        if facts is None:
            self._check.missing(self.site, effect.key)
            return
        self.stager.gather(effect, facts)

    def _register_outputs(self, effect: fx.RegisterOutputs) -> None:
        self.stager.register_outputs(effect, lambda: registering.named(effect, self.store.facts(effect.group)))

    def _cancel_stage(self, effect: fx.CancelStage) -> None:
        self.stager.cancel(effect.ticket)

    def _drop_outputs(self, effect: fx.DropOutputs) -> None:
        facts = self.store.facts_chunk(effect.key)
        if facts is not None:
            self.stager.drop_outputs(effect.key, facts, effect.dataset)

    def _drop_subgroup(self, effect: fx.DropSubgroup) -> None:
        self.stager.drop_subgroup(effect.subgroup)

    def _drop_group(self, effect: fx.DropGroup) -> None:
        self.stager.drop_group(effect.group)
        self.store.drop_group(effect.group)

    def _warn(self, effect: fx.Warn) -> None:
        self.warnings += 1


def _sorted(effects: list[fx.Effect]) -> tuple[list[records.Record], _FactsRows, list[fx.Effect]]:
    """Records, facts, and what leaves after them."""
    lines: list[records.Record] = []
    facts: _FactsRows = []
    others: list[fx.Effect] = []
    for effect in effects:
        if type(effect) is fx.Persist:
            lines.append(effect.record)
        elif type(effect) is fx.KeepFacts:
            facts.append((effect.key, effect.facts))
        else:
            others.append(effect)
    return lines, facts, others
