"""One simulated site: the engine the node runs, a store, an LRM and a stager, under the virtual clock.

The records of one `handle` are one transaction; then the other effects go out in order. A crash can fall before the
transaction, after it, and before every effect. The node's process loses all it held then; store, LRM and files stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from diana import ports
from diana.engine.engine import Engine
from diana.engine.journal import codec as lines
from diana.engine.journal import effects as fx
from diana.engine.journal import records
from diana.engine.journal.events import Ask, CalendarTold, Event, RoomChecked, SettingsLoaded, Tick
from diana.engine.journal.state import decode_state
from diana.engine.messages.messages import Hello
from diana.errors import StoreFailed
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.maintenance import Window
from diana.model.settings import Settings
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Answer
from diana.sim.checks.checkers import Checkers
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.kernel.trace import Trace
from diana.sim.sites.disk import Disk
from diana.sim.sites.driver import Boot
from diana.sim.sites.machines import SimMachines
from diana.sim.sites.outlet import Outlet
from diana.sim.twins.network import Network
from diana.sim.twins.stager import SimStager
from diana.sim.twins.store import MemoryStore
from diana.sim.twins.transport import SimTransport

SNAPSHOT_RECORDS = 256
"""Least number of records between two snapshots. They must also weigh as much as the last snapshot did: else the cost
of snapshots grows with the square of what a site remembers."""
ANEW_S = 0.5
"""Seconds until a node that starts anew is up."""
_OPERATOR = Principal(Role.OPERATOR, "operator@sim")
_FactsRows = list[tuple[FactsKey, Facts]]
_READ = -1
"""Request number of the driver's own reads."""


class SimulatedSite(Outlet):
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
        self.maintenance: tuple[Window, ...] = ()
        """Windows in simulated time, which is what wall clocks show here."""
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
        self._since_snapshot = self._since_snapshot_bytes = self._snapshot_bytes = 0
        self._fsync_s = fsync_s
        self.storage = Disk(fsync_s, faults.slow_commit_s)
        self._low = ""
        self.wall_off_s = 0.0
        """Seconds that its wall clock is ahead of the right time; negative: behind."""
        self._ahead_s = 0.0
        """Seconds that site time is ahead of simulated time; a wrong wall clock sets it at a start
        (`node/loop/clock.py`)."""
        self._falls = 0
        """Crashes and losses so far: only the last one's end starts the node again."""
        self.stalls = 0
        self._halted: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        """Calls that the stopped process will meet when it goes on; None: it is not stopped."""
        self._handled = handled
        self._committing = False
        self._waiting: list[Event] = []
        self._left: bytes | None = None
        """Snapshot of the engine that crashed, when all it knew was durable."""
        self._do = self._doers()

    # --- life ------------------------------------------------------------------------------------------

    def start(self, restored: Engine | None = None) -> None:
        """Start the node, unless it is up. `restored`: the engine that its store gives at this moment, if already
        made."""
        if self.engine is not None:
            return
        self.boots += 1
        if restored is None:
            self._look_at_the_clock()
        engine = restored or self._make.restored(self.site, self.store, self._keyring, self.site_s())
        effects = self._make.start(engine, self.settings, self.store, self.boots, self.address, self.lrm.software)
        self.engine = engine
        self._hello = self._make.hello(engine, self.site, self.store, self.boots, self.address)
        self._armed_s = -1.0
        self._trace.handled(self.site, self._clock.now_s, None, effects)
        # Opened is durable before the generation is said to anybody.
        self._durable(self.boots, *_sorted(effects))
        if not self.up():
            return
        if self.store.meta("restored_from"):
            self.store.set_meta("restored_from", "")
        if self.maintenance:
            self.handle(CalendarTold(windows=self.maintenance, wall_ahead_s=-self._ahead_s))
            if not self.up():
                return
        self.lrm.attach(self.handle)
        self.stager.attach(self.handle)
        self._network.node_up(self.site)
        self._arm()
        self._low = ""
        self.look_for_room()

    def up(self) -> bool:
        return self.engine is not None

    def _look_at_the_clock(self) -> None:
        """Set site time by the wall clock, as a process does when it starts."""
        now_s = self._clock.now_s
        last_s = self.store.load().at_s if self.wall_off_s or self._ahead_s else now_s
        self._ahead_s = max(last_s, now_s + self.wall_off_s) - now_s

    def site_s(self) -> float:
        """Site time: never runs backwards, also over restarts."""
        return self._clock.now_s + self._ahead_s

    def crash(self, durable: bool) -> None:
        """kill -9 of the node. `durable`: all that the engine knew is in the store."""
        if self.engine is None:
            return
        self._trace.note(self.site, self._clock.now_s, "crash")
        self._fall(durable)
        self._clock.after(self._faults.restart_after_s(), self._restart, self._falls)

    def lose(self, back_s: float) -> None:
        """Its machines lose power, so that nobody says goodbye for them; all are back `back_s` later, disks too."""
        self.power_off()
        self._clock.after(back_s, self._restart, self._falls)

    def power_off(self) -> None:
        """As `lose`, until `come_back`."""
        self._fall(durable=True, silent=True)
        for lrm in self.lrm.lrms.values():
            lrm.crash_machine()

    def end_node(self) -> None:
        """Its node ends, until `come_back`; jobs and spawners go on."""
        self._fall(durable=True)

    def stop_for(self, for_s: float) -> None:
        self.stall()
        self._clock.after(for_s, self.go_on, self.stalls)

    def _fall(self, durable: bool, silent: bool = False) -> None:
        engine = self.engine
        self._falls += 1
        if engine is None:
            return
        self._left = engine.snapshot() if durable and not self._committing else None
        self.engine = None
        self._halted = None
        self._waiting.clear()
        self._committing = False
        self.lrm.detach()
        self.stager.detach()
        self.store.crash()
        self._network.node_down(self.site, silent)

    def has_heard_of(self, site: SiteId) -> int:
        """The length of that site's journal as heard here; -1: it cannot say just now."""
        if self.engine is None or self._halted is not None:
            return -1
        return self.engine.length_heard(site)

    def come_back(self) -> None:
        """Start the node now, if it is down."""
        self._restart(self._falls)

    def _restart(self, falls: int) -> None:
        if self.engine is None and falls == self._falls:
            self._look_at_the_clock()
            restored = self._make.restored(self.site, self.store, self._keyring, self.site_s())
            self._compare(restored)
            self.start(restored)

    def put_back(self, kind: str, marked: bool = True) -> None:
        """The node stops, and starts again on the copy of its database that was kept (`marked`: the mark beside it is
        still that of the newer one), on a backup of it, or on none. Jobs and spawners go on."""
        self._fall(durable=True)
        self._left = None
        if kind == "database_lost":
            self.store.lose(f"{self.store.meta('db_uuid')}-anew-{self.boots}")
        else:
            self.store.put_back(marked=marked)
        if kind == "backup_restored":
            ports.call_restored(self.store, f"{self.store.meta('db_uuid')}-backup-{self.boots}")
        found = self._make.restored(self.site, self.store, self._keyring, self.site_s())
        self._check.put_back(self.site, decode_state(found.snapshot()))
        self._clock.after(self._faults.restart_after_s(), self._restart, self._falls)

    def stall(self) -> None:
        """SIGSTOP: the process handles nothing, its machines' jobs go on, what is sent to it waits at its door."""
        if self.engine is not None and self._halted is None:
            self.stalls += 1
            self._halted = []
            self._network.fell_silent(self.site)

    def go_on(self, stall: int) -> None:
        """SIGCONT: all that came meanwhile is met now, in order."""
        missed = self._halted
        if missed is None or stall != self.stalls:
            return
        boot, self._halted = self.boots, None
        for action, arguments in missed:
            if boot != self.boots or self.engine is None:
                return
            action(*arguments)
        self._network.speaks_again(self.site)

    def resize(self, slots: int) -> None:
        """Have its own machine offer so many slots from now on; what runs there runs on."""
        self.settings = replace(self.settings, slots=slots)
        self.lrm.resize(slots)
        self.handle(SettingsLoaded(settings=self.settings, software=self.lrm.software))

    def look_for_room(self) -> None:
        """Tell the engine that the disk is low or has room again, as the node does every few seconds."""
        low = self.storage.low(self._clock.now_s)
        if low != self._low and self.engine is not None:
            self._low = low
            self.handle(RoomChecked(low))

    def recount(self) -> None:
        """Check that the store gives back what the engine knows (or knew when it crashed) and what the checkers saw
        become durable. While a commit is under way the engine is left out: comparing it would mean nothing."""
        self._compare(self._make.restored(self.site, self.store, self._keyring, self.site_s()))

    def _compare(self, restored: Engine) -> None:
        found, known = restored.snapshot(), self._left
        if self.engine is not None:
            known = None if self._committing else self.engine.snapshot()
        if known is not None and found != known:
            self._check.differs(self.site)
        self._check.recount(self.site, decode_state(found))

    def left_over(self) -> tuple[GroupId, str] | None:
        """Work still to be done here, as the group it belongs to (`-`: unknown) and one line; None: all is done."""
        if self.engine is None:
            return GroupId("-"), "the node is not up again"
        state = self.engine.state
        touched, put_back = self._check.aftermath.touched, self.site in self._check.aftermath.sites
        for (subgroup, epoch), custody in state.custodies.items():
            if group_of(subgroup) in touched or (put_back and custody.on_hold):
                continue
            return group_of(subgroup), f"the custody of {subgroup} epoch {epoch} is open"
        for name, group in state.groups.items():
            if group.gathers and name not in touched:
                return name, f"{len(group.gathers)} batches of outputs are not gathered"
        if left := self.lrm.groups() - touched:
            return min(left), "its runs are not forgotten"
        return None

    # --- events ----------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the engine an event, now or with the others that wait for the commit under way. Down: it is lost."""
        if self.engine is None:
            return
        if self._halted is not None:
            self._halted.append((self.handle, (event,)))
            return
        self._waiting.append(event)
        if not self._committing:
            self._turn()

    def _turn(self) -> None:
        """Handle all waiting events in one transaction (group commit)."""
        engine, now_s, site_s = self.engine, self._clock.now_s, self.site_s()
        assert engine is not None
        events, self._waiting = self._waiting, []
        effects: list[fx.Effect] = []
        for event in events:
            made = engine.handle(event, site_s)
            self._trace.handled(self.site, now_s, event, made)
            effects += made
            if self._handled is not None:
                self._handled(self.site, engine)
        if not effects:
            self._arm()
            return
        lines, facts, others = _sorted(effects)
        if not (lines or facts):
            self._let_out(others)
        elif (commit_s := self.storage.commit_s(now_s)) > 0:
            self._committing = True
            self._clock.after(commit_s, self._durable, self.boots, lines, facts, others)
        else:
            self._durable(self.boots, lines, facts, others)
        self._arm()

    def _durable(self, boot: int, lines: list[records.Record], facts: _FactsRows, others: list[fx.Effect]) -> None:
        if boot != self.boots or self.engine is None:
            return
        if self._halted is not None:
            self._halted.append((self._durable, (boot, lines, facts, others)))
            return
        if self._faults.crash_here(self.site, lines, "crash before commit"):
            self.crash(durable=False)
            return
        try:
            self._commit(lines, facts)
        except StoreFailed:
            # As the real one does: it stops, and whoever looks after it starts it again.
            self.crash(durable=False)
            return
        self._committing = False
        if self._let_out(others) and self._waiting:
            self._turn()

    def _let_out(self, effects: list[fx.Effect]) -> bool:
        """Let the effects out in order; a crash may fall before each. False: the node fell."""
        boot = self.boots
        for at, effect in enumerate(effects):
            if self._faults.crash_here(self.site, effect, "crash between effects" if at else "crash after commit"):
                self.crash(durable=True)
                return False
            self._do[type(effect)](effect)
            if self.boots != boot or self.engine is None:
                return False
        return True

    def _commit(self, told: list[records.Record], facts: _FactsRows) -> None:
        encoded = tuple(lines.encode(record) for record in told)
        kept, self.storage.breaks = self.storage.breaks, None
        if kept is not None:
            self.store.fail_next_commit(kept=kept)
        try:
            seq = self.store.commit(ports.Batch(at_s=self.site_s(), records=encoded, facts=tuple(facts)))
        finally:
            for record in told if kept is not False else ():
                self._check.committed(self.site, record)
        self._since_snapshot += len(told)
        self._since_snapshot_bytes += sum(map(len, encoded))
        heavy = self._since_snapshot_bytes >= self._snapshot_bytes
        if heavy and self._since_snapshot >= SNAPSHOT_RECORDS and self.engine is not None:
            payload = self.engine.snapshot()
            self._since_snapshot, self._since_snapshot_bytes, self._snapshot_bytes = 0, 0, len(payload)
            self.store.snapshot(payload, seq)

    def _arm(self) -> None:
        engine = self.engine
        due_s = engine.deadline() if engine is not None else None
        if due_s is not None and (self._armed_s < 0 or due_s < self._armed_s):
            self._armed_s = max(due_s, self.site_s())
            # Never before it is due, whatever rounding says.
            due_s = self._armed_s - self._ahead_s + 1e-6 if self._ahead_s else self._armed_s
            self._clock.at(due_s, self._tick, self.boots, self._armed_s)

    def _tick(self, boot: int, armed_s: float) -> None:
        if boot != self.boots or armed_s != self._armed_s or self.engine is None:
            return
        if self._halted is not None:
            self._halted.append((self._tick, (boot, armed_s)))
            return
        self._armed_s = -1.0
        due_s = self.engine.deadline()
        if due_s is not None and due_s > self.site_s():
            self._arm()
        else:
            self.handle(Tick())

    def ask(self, what: str, group: GroupId | None = None) -> Answer | fx.Refusal | None:
        """A read by the driver itself, past the faults; None: the node is down."""
        if self.engine is None:
            return None
        event = Ask(request=_READ, principal=_OPERATOR, what=what, group=group)
        for effect in self.engine.look(event, self.site_s()):
            if isinstance(effect, fx.Reply) and effect.request == _READ:
                return effect.body  # type: ignore[return-value]
        return None

    def _greeting(self) -> Hello | None:
        return None if self.engine is None or self._halted is not None else self._hello

    def _start_anew(self, effect: fx.StartAnew) -> None:
        """Start a new process at once, as the node does."""
        ports.call_restored(self.store, effect.db_uuid)
        self._trace.note(self.site, self._clock.now_s, "starts anew")
        self._fall(durable=False)
        self._clock.after(ANEW_S, self._restart, self._falls)


def _sorted(effects: list[fx.Effect]) -> tuple[list[records.Record], _FactsRows, list[fx.Effect]]:
    """Split effects into records, facts, and those that go out after them."""
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
