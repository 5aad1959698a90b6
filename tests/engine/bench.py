"""A bench for engines: several sites, an instant network, a store in memory and an LRM played by the test.

Not the simulator: no chance, no delays; each test moves time, ends jobs and decides the fate of each message itself.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice

from diana.engine.data import output_datasets
from diana.engine.engine import Engine
from diana.engine.handover import results
from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Group
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND, SPARES
from diana.model.job.spec import GroupSpec
from diana.model.settings import Settings
from diana.model.trust.principal import Principal
from tests.engine.builders import ALICE, OPERATOR, PlainKeyring, dataset, facts_of, looked_up, no_facts

Post = tuple[SiteId, SiteId, ms.Message]
Fate = Callable[["Grid", int, Post], str]
"""Given the number of a message: `deliver`, `lose`, `twice`, `later` (to the end of the queue) or `mute` (its
receiver makes its records durable, then crashes before anything else leaves)."""


class Site:
    def __init__(self, grid: Grid, name: str, slots: int, **settings: object) -> None:
        self.grid = grid
        self.name = SiteId(name)
        # Most of these tests are about placements as such: what waits for its turn is `test_late_binding.py`'s.
        self.settings = Settings(**{"slots": slots, "binding": "early", **settings})  # type: ignore[arg-type]
        self.db_uuid = f"db-{name}"
        self.keyring = PlainKeyring()
        self.stored: list[bytes] = []
        self.facts: dict[FactsKey, Facts] = {}
        self.replies: dict[int, object] = {}
        self.running: dict[ev.Run, fx.Start] = {}
        self.ended: dict[ev.Run, Outcome] = {}
        self.began: dict[ev.Run, float] = {}
        """Times at which runs got a slot: one each, in the order they were claimed."""
        self.held: dict[ev.Run, float] = {}
        """Runs at the barrier, and when each leaves it by itself."""
        self.has: tuple[tuple[str, int], ...] = ()
        """Resources that its operator declares of its machine, as it tells them when it is ready."""
        self.host = ""
        """Address that its machine tells; empty: its site's."""
        self.reached: list[ev.Run] = []
        """Those of them that the engine was not told of."""
        self.gone: dict[ev.Run, fx.Go] = {}
        self.out_of_reach: set[str] = set()
        """Hosts that its machines do not reach."""
        self.looks: list[fx.MeetHosts] = []
        """Runs that were let go, and what they were told."""
        self.started: list[ev.Run] = []
        self.staging: list[fx.StageIn] = []
        self.lookups: list[fx.LookUp] = []
        self.gathers: list[fx.Gather] = []
        self.registrations: list[fx.RegisterOutputs] = []
        self.kills: list[fx.KillRuns] = []
        self.warnings: list[str] = []
        self.trace: list[fx.Effect] = []
        """Every effect since the test last cleared it."""
        self.outputs: Sequence[str] = ()
        """Files that jobs leave, as far as their groups collect them."""
        self.collected: dict[str, Sequence[str]] = {}
        self.session = 0
        self.boots = 0
        self.seals = True
        """False: it is of a release that makes no seals."""
        self.term = 0
        self.anew = ""
        """The name under which it is to start again."""
        self.stage_at_once = self.gather_at_once = self.register_at_once = self.look_at_once = True
        self.barrier_told = True
        """False: its machine does not say what stands at its barrier."""
        self.boot()

    # --- life --------------------------------------------------------------------------------------

    def boot(self, *, restored: bool = False, newest: bool = True) -> None:
        """Start a new engine on what is durable; LRM and peers are not told yet."""
        self.boots += 1
        journal = Journal(snapshot=None, seq=len(self.stored), at_s=self.grid.now, records=list(self.stored))
        self.engine = Engine.restore(journal, site=self.name, keyring=self.keyring, now=self.grid.now)
        nonce = f"{self.name}{self.boots}"
        effects = self.engine.start(
            self.settings,
            boot_nonce=nonce,
            db_uuid=self.db_uuid,
            restored=restored,
            newest=newest,
            seal_key=f"key of {nonce}".encode() if self.seals else b"",
            term=self.term,
            software=(BARRIER, CHECKPOINT, SPARES, FOUND),
        )
        self.run(effects)

    def restart(self, *, restored: bool = False, newest: bool = True) -> None:
        """Crash now and come back: the LRM kept its runs, the peers see a new boot."""
        self.staging.clear()
        self.gathers.clear()
        self.registrations.clear()
        self.boot(restored=restored, newest=newest)
        self.lrm_ready()
        for peer in self.grid.sites.values():
            if peer is not self:
                self.grid.meet(self, peer)

    def lrm_ready(self) -> None:
        self.session += 1
        known, slots = (*self.running, *self.ended), self.settings.slots
        self.handle(ev.LrmReady(session=self.session, slots=slots, known=known, resources=self.has))
        for run, outcome in list(self.ended.items()):
            self.tell([run], outcome)
        self.reached = list(self.held)
        self._tell_reached()

    def hello(self) -> ms.Hello:
        return ms.Hello(
            site=self.name,
            protocol=1,
            release="t",
            capabilities=(),
            db_uuid=self.db_uuid,
            generation=self.engine.generation,
            boot_nonce=f"{self.name}{self.boots}",
            seq=self.engine.boot_seq,
            term=self.term,
            data_address="",
            former=self.engine.state.former,
            begun=self.engine.state.begun,
            seal=self.engine.boot_seal,
        )

    # --- events and effects --------------------------------------------------------------------------

    def handle(self, event: ev.Event) -> list[fx.Effect]:
        effects = self.engine.handle(event, self.grid.now)
        self.run(effects)
        return effects

    def run(self, effects: list[fx.Effect]) -> None:
        self.keep(effects)
        self.release(effects)

    def keep(self, effects: list[fx.Effect]) -> None:
        """One transaction."""
        self.trace += effects
        for effect in effects:
            match effect:
                case fx.Persist(record):
                    self.stored.append(codec.encode(record))
                case fx.KeepFacts(key, facts):
                    self.facts.setdefault(key, facts)

    def release(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            match effect:
                case fx.Send(to, message):
                    self.grid.post(self.name, to, message)
                case fx.SendResult():
                    self.grid.post(self.name, effect.to, self._result(effect))
                case fx.Reply(request, body):
                    self.replies[request] = body
                case fx.Start():
                    self._claim(effect)
                case fx.Go():
                    self._go(effect)
                case fx.MeetHosts():
                    self.looks.append(effect)
                case fx.ForgetRuns(runs):
                    for run in runs:
                        self.ended.pop(run, None)
                case fx.LookUp():
                    self.lookups.append(effect)
                case fx.StageIn():
                    self.staging.append(effect)
                case fx.Gather():
                    self.gathers.append(effect)
                case fx.RegisterOutputs():
                    self.registrations.append(effect)
                case fx.KillRuns():
                    self.kills.append(effect)
                case fx.Warn(text):
                    self.warnings.append(text)
                case fx.StartAnew(db_uuid):
                    self.anew = db_uuid
        if self.anew:
            self.db_uuid, self.anew = self.anew, ""
            self.restart(restored=True)
            return
        self._tell_reached()
        while self.look_at_once and self.looks:
            self.looked(self.looks.pop(0))
        while self.lookups:
            self.handle(looked_up(self.engine.core.state.datasets, self.lookups.pop(0)))
        while self.stage_at_once and self.staging:
            self.handle(ev.StageDone(ticket=self.staging.pop(0).ticket, bytes_moved=1))
        while self.register_at_once and self.registrations:
            self.register(self.registrations.pop(0))
        while self.gather_at_once and self.gathers:
            self.handle(ev.StageDone(ticket=self.gathers.pop(0).ticket, bytes_moved=1))

    def looked(self, order: fx.MeetHosts) -> None:
        """Play the network that a look went out to."""
        lost = next((host for host in order.hosts if host in self.out_of_reach), "")
        told = ev.HostsMet(subgroup=order.subgroup, epoch=order.epoch, hosts=order.hosts, out_of_reach=lost)
        self.handle(told)

    def register(self, order: fx.RegisterOutputs, error: str = "") -> None:
        """Play the stager with a finished group's outputs."""
        names = [o.name for o in output_datasets.named(order, list(self.facts.items())) if not error]
        made = None if error else dataset(order.dataset, *names)
        self.handle(ev.OutputsInCatalogue(ticket=order.ticket, dataset=made, error=error))

    def _result(self, effect: fx.SendResult) -> ms.Result:
        return results.told(effect, self.facts.get(effect.key) or no_facts(self.name))

    def _claim(self, start: fx.Start) -> None:
        if start.worker != MAIN_MACHINE or start.session != self.session:
            return
        attempts = dict(start.attempts)
        for index in start.indices:
            run = ev.Run(start.subgroup, start.epoch, index, attempts.get(index, 1))
            self.running[run] = start
            self.collected[run.subgroup] = start.spec.outputs.collect
            self.started.append(run)
        self._fill()

    def _fill(self) -> None:
        waiting = (run for run in self.running if run not in self.began)
        for run in islice(waiting, max(0, self.settings.slots - sum(run in self.began for run in self.running))):
            self.began[run] = self.grid.now
            if self.running[run].barrier_s:
                self.held[run] = self.running[run].barrier_s
                self.reached.append(run)

    def _tell_reached(self) -> None:
        while self.barrier_told and self.reached:
            run = self.reached.pop(0)
            if run in self.held:
                where = {"subgroup": run.subgroup, "epoch": run.epoch, "host": self.host.format(run.index), "port": 7}
                self.handle(ev.AtBarrier(worker=MAIN_MACHINE, runs=(run,), **where))

    def _go(self, order: fx.Go) -> None:
        for run in list(self.held):
            if (run.subgroup, run.epoch) == (order.subgroup, order.epoch) and run.index in order.indices:
                del self.held[run]
                self.gone[run] = order
                self.began[run] = self.grid.now

    def lapse(self) -> None:
        """Play the LRM's own clock: what stands at a barrier for too long leaves it."""
        over = [run for run, until_s in self.held.items() if until_s <= self.grid.now]
        for run in over:
            del self.held[run]
            self._ends(run, Outcome.UNBEGUN)

    def _ends(self, run: ev.Run, outcome: Outcome) -> None:
        del self.running[run]
        self.ended[run] = outcome
        self._fill()
        self.tell([run], outcome)

    # --- jobs ------------------------------------------------------------------------------------------

    def end(self, count: int = 10**9, outcome: Outcome = Outcome.DONE, error: str = "") -> int:
        """End up to `count` running jobs; how many. `error`: the line that each ends with."""
        some = [run for run in self.running if run not in self.held][:count]
        by_transfer: dict[tuple[str, int], list[ev.Run]] = {}
        for run in some:
            del self.running[run]
            self.ended[run] = outcome
            by_transfer.setdefault((run.subgroup, run.epoch), []).append(run)
        self._fill()
        for runs in by_transfer.values():
            self.tell(runs, outcome, error)
        return len(some)

    def obey_kills(self) -> None:
        """Play the LRM with orders to kill: the runs end, cancelled."""
        while self.kills:
            kill = self.kills.pop(0)
            for run in list(self.running):
                if (run.subgroup, run.epoch) == (kill.subgroup, kill.epoch) and run.index in kill.indices:
                    self.held.pop(run, None)
                    self._ends(run, Outcome.CANCELLED)

    def tell(self, runs: list[ev.Run], outcome: Outcome = Outcome.DONE, error: str = "") -> None:
        collected = self.collected.get(runs[0].subgroup, ()) if outcome is Outcome.DONE else ()
        outputs = [name for name in self.outputs if name in collected]
        facts = facts_of(self.name, runs, outcome, self.grid.now, outputs, error)
        facts.started_s[:] = [self.began.get(run, self.grid.now) for run in runs]
        self.handle(ev.JobsEnded(subgroup=runs[0].subgroup, epoch=runs[0].epoch, facts=facts))

    # --- clients -----------------------------------------------------------------------------------------

    def submit(
        self,
        wanted: GroupSpec,
        jobs: int,
        request: int = 1,
        *,
        who: Principal = ALICE,
        key: str = "",
        refs: tuple[tuple[str, IndexSet], ...] = (),
        plan_only: bool = False,
        settle: bool = True,
    ) -> object:
        self.handle(
            ev.SubmitGroup(
                request=request,
                principal=who,
                key=key,
                spec=wanted,
                jobs=jobs,
                refs=refs,
                wall_s=0.0,
                plan_only=plan_only,
            )
        )
        if settle:
            self.grid.settle()
        return self.replies.get(request)

    def cancel(
        self, group: str, indices: IndexSet | None = None, who: Principal = ALICE, settle: bool = True
    ) -> object:
        self.handle(ev.CancelJobs(request=998, principal=who, group=GroupId(group), indices=indices))
        if settle:
            self.grid.settle()
        return self.replies.pop(998)

    def hold(self, group: str, indices: IndexSet | None = None, who: Principal = ALICE, settle: bool = True) -> object:
        return self._control(ev.HoldJobs(request=998, principal=who, group=GroupId(group), indices=indices), settle)

    def release_jobs(
        self, group: str, indices: IndexSet | None = None, who: Principal = ALICE, settle: bool = True
    ) -> object:
        return self._control(ev.ReleaseJobs(request=998, principal=who, group=GroupId(group), indices=indices), settle)

    def move(
        self,
        group: str,
        to: str,
        indices: IndexSet | None = None,
        who: Principal = ALICE,
        settle: bool = True,
    ) -> object:
        event = ev.MoveJobs(request=998, principal=who, group=GroupId(group), indices=indices, to=SiteId(to))
        return self._control(event, settle)

    def retry(
        self,
        group: str,
        indices: IndexSet | None = None,
        who: Principal = ALICE,
        settle: bool = True,
        memory_bytes: int = 0,
        memory_factor: float = 0.0,
        **also: bool,
    ) -> object:
        event = ev.RetryJobs(
            request=998,
            principal=who,
            group=GroupId(group),
            indices=indices,
            memory_bytes=memory_bytes,
            memory_factor=memory_factor,
            **also,
        )
        return self._control(event, settle)

    def _control(self, event: ev.Event, settle: bool) -> object:
        self.handle(event)
        if settle:
            self.grid.settle()
        return self.replies.pop(998)

    def ask(self, what: str, group: str | None = None, who: Principal = OPERATOR) -> object:
        self.handle(ev.Ask(request=999, principal=who, what=what, group=GroupId(group) if group else None))
        return self.replies.pop(999)

    def group(self, name: str) -> Group:
        return self.engine.core.state.groups[GroupId(name)]

    def records(self, kind: type[records.Record] | None = None) -> list[records.Record]:
        """The journal, or those of one kind."""
        every = [codec.decode(stored) for stored in self.stored]
        return [r for r in every if kind is None or isinstance(r, kind)]


class Grid:
    def __init__(self, settings: dict[str, object] | None = None, **slots: int) -> None:
        """`Grid(alpha=4, beta=2)`: sites that have met, each with an LRM; `settings` are for all of them."""
        self.now = 1000.0
        self.post_box: deque[Post] = deque()
        self.cut: set[str] = set()
        self.delivered = 0
        self.fate: Fate | None = None
        self.sites: dict[SiteId, Site] = {}
        for name, count in slots.items():
            self.sites[SiteId(name)] = Site(self, name, count, **(settings or {}))
        for site in self.sites.values():
            site.lrm_ready()
        every = list(self.sites.values())
        for at, a in enumerate(every):
            for b in every[at + 1 :]:
                self.meet(a, b)
        self.settle()
        self.delivered = 0

    def __getitem__(self, name: str) -> Site:
        return self.sites[SiteId(name)]

    def meet(self, a: Site, b: Site) -> None:
        if a.name not in self.cut and b.name not in self.cut:
            a.handle(ev.PeerUp(b.hello()))
            b.handle(ev.PeerUp(a.hello()))

    def part(self, name: str) -> None:
        """Cut a site off: messages are lost, streams end."""
        self.cut.add(name)
        for site in self.sites.values():
            if site.name == name:
                for peer in self.sites:
                    site.handle(ev.PeerDown(peer))
            else:
                site.handle(ev.PeerDown(SiteId(name)))

    def heal(self, name: str) -> None:
        self.cut.discard(name)
        for site in self.sites.values():
            if site.name != name:
                self.meet(self[name], site)
        self.settle()

    def post(self, sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if sender not in self.cut and to not in self.cut and to in self.sites:
            self.post_box.append((sender, to, message))

    def settle(self) -> None:
        """Deliver everything that is under way, each message as its fate wants."""
        while self.post_box:
            self.deliver_one()

    def deliver_one(self) -> None:
        letter = self.post_box.popleft()
        self.delivered += 1
        fate = self.fate(self, self.delivered, letter) if self.fate else "deliver"
        sender, to, message = letter
        site = self.sites[to]
        if fate == "later":
            self.post_box.append(letter)
        elif fate == "mute":
            site.keep(site.engine.handle(ev.Received(sender, message), self.now))
            site.restart()
        elif fate != "lose":
            for _ in range(2 if fate == "twice" else 1):
                site.handle(ev.Received(sender, message))

    def pass_time(self, seconds: float) -> None:
        """Move time on, waking engines when they asked to be."""
        end = self.now + seconds
        while True:
            due = min((d for s in self.sites.values() if (d := s.engine.deadline()) is not None), default=end)
            if due > end:
                break
            self.now = max(self.now, due)
            for site in self.sites.values():
                due = site.engine.deadline()
                if due is not None and due <= self.now:
                    site.handle(ev.Tick())
                site.lapse()
            self.settle()
        self.now = end

    def finish(self, rounds: int = 200, count: int = 10**9) -> None:
        """End up to `count` jobs per site and second as they start, until all groups everywhere are final."""
        for _ in range(rounds):
            for site in self.sites.values():
                site.obey_kills()
                site.end(count)
            self.settle()
            if self.all_final():
                return
            self.pass_time(1.0)
        raise AssertionError(f"not final after {rounds} rounds: {self.story()}")

    def all_final(self) -> bool:
        states = [s.engine.core.state for s in self.sites.values()]
        return all(g.state for s in states for g in s.groups.values()) and not any(s.custodies for s in states)

    def claims(self) -> Counter[tuple[str, int]]:
        """Times each (group, index) was given a processor, over all sites."""
        return Counter((run.subgroup.partition("/")[0], run.index) for s in self.sites.values() for run in s.started)

    def story(self) -> str:
        return "; ".join(f"{s.name}: {s.ask('groups')}" for s in self.sites.values())
