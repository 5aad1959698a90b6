"""A bench for engines: several sites, an instant network, a store in memory and an LRM played by the test.

Not the simulator: no chance, no delays; each test moves time and ends jobs itself.
"""

from __future__ import annotations

from collections import deque

from diana.engine import effects as fx
from diana.engine import events as ev
from diana.engine import messages as ms
from diana.engine import records
from diana.engine.core import Engine
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.principal import Principal, Role
from diana.model.settings import Settings
from diana.model.spec import GroupSpec, Resources, Sweep, Axis
from diana.ports import Journal

ALICE = Principal(Role.USER, "alice@vo")
BOB = Principal(Role.USER, "bob@vo")
OPERATOR = Principal(Role.OPERATOR, "root@vo")


class TrustingKeyring:
    def authorise(self, owner: str, group: GroupId, spec: bytes) -> ms.Authorisation:
        return ms.Authorisation(
            owner=owner, spec_sha256="", group=group, expires_wall_s=1e12, signer="site:x", certificate=b"", signature=b""
        )

    def check(self, authorisation: ms.Authorisation, spec: bytes) -> str:
        return ""


def spec(jobs: int = 1, *, work_s: float = 1.0, **more: object) -> GroupSpec:
    axes = (Axis(name="n", start=0, stop=jobs),)
    resources = more.pop("resources", Resources(work_s=work_s))
    return GroupSpec(argv=("true",), sweep=Sweep(axes=axes), resources=resources, **more)  # type: ignore[arg-type]


class Site:
    def __init__(self, grid: Grid, name: str, slots: int, **settings: object) -> None:
        self.grid = grid
        self.name = SiteId(name)
        self.settings = Settings(slots=slots, **settings)  # type: ignore[arg-type]
        self.stored: list[bytes] = []
        self.facts: dict[FactsKey, Facts] = {}
        self.replies: dict[int, object] = {}
        self.running: dict[ev.Run, None] = {}
        self.ended: dict[ev.Run, None] = {}
        self.started: list[ev.Run] = []
        self.staging: list[fx.StageIn] = []
        self.gathers: list[fx.Gather] = []
        self.kills: list[fx.Kill] = []
        self.warnings: list[str] = []
        self.session = 0
        self.boots = 0
        self.stage_at_once = True
        self.boot()

    def boot(self, db_uuid: str | None = None) -> None:
        self.boots += 1
        journal = Journal(snapshot=None, seq=len(self.stored), at_s=self.grid.now, records=list(self.stored))
        self.engine = Engine.restore(journal, site=self.name, keyring=TrustingKeyring(), now=self.grid.now)
        self.db_uuid = db_uuid or f"db-{self.name}"
        self.run(self.engine.start(self.settings, boot_nonce=f"{self.name}{self.boots}", db_uuid=self.db_uuid))

    def lrm_ready(self) -> None:
        self.session += 1
        known = tuple(self.running) + tuple(self.ended)
        self.handle(ev.LrmReady(session=self.session, slots=self.settings.slots, known=known))

    def hello(self) -> ms.Hello:
        return ms.Hello(
            site=self.name, protocol=1, release="t", capabilities=(), db_uuid=self.db_uuid,
            generation=self.engine.generation, boot_nonce=f"{self.name}{self.boots}", term=0, data_address="",
        )

    def handle(self, event: ev.Event) -> None:
        self.run(self.engine.handle(event, self.grid.now))

    def run(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            match effect:
                case fx.Persist(record):
                    self.stored.append(records.encode(record))
                case fx.KeepFacts(key, facts):
                    self.facts[key] = facts
        for effect in effects:
            match effect:
                case fx.Send(to, message):
                    self.grid.post(self.name, to, message)
                case fx.SendResult(to, key, cancelled):
                    facts = self.facts.get(key) or no_facts(self.name)
                    self.grid.post(
                        self.name, to,
                        ms.Result(subgroup=key.subgroup, epoch=key.epoch, batch=key.batch, facts=facts, cancelled=cancelled),
                    )
                case fx.Reply(request, body):
                    self.replies[request] = body
                case fx.Start():
                    if effect.session == self.session:
                        attempts = dict(effect.attempts)
                        for index in effect.indices:
                            run = ev.Run(effect.subgroup, effect.epoch, index, attempts.get(index, 1))
                            self.running[run] = None
                            self.started.append(run)
                case fx.ForgetRuns(runs):
                    for run in runs:
                        self.ended.pop(run, None)
                case fx.StageIn():
                    self.staging.append(effect)
                case fx.Gather():
                    self.gathers.append(effect)
                case fx.Kill():
                    self.kills.append(effect)
                case fx.Warn(text):
                    self.warnings.append(text)
        if self.stage_at_once:
            while self.staging:
                self.handle(ev.StageDone(ticket=self.staging.pop(0).ticket, bytes_moved=1))

    def end(self, count: int = 10**9, outcome: Outcome = Outcome.DONE) -> int:
        """End up to `count` running jobs; how many."""
        some = list(self.running)[:count]
        by_transfer: dict[tuple[str, int], list[ev.Run]] = {}
        for run in some:
            del self.running[run]
            self.ended[run] = None
            by_transfer.setdefault((run.subgroup, run.epoch), []).append(run)
        for runs in by_transfer.values():
            self.tell(runs, outcome)
        return len(some)

    def tell(self, runs: list[ev.Run], outcome: Outcome = Outcome.DONE) -> None:
        facts = facts_of(self.name, runs, outcome, self.grid.now)
        self.handle(ev.JobsEnded(subgroup=runs[0].subgroup, epoch=runs[0].epoch, facts=facts))

    def submit(self, wanted: GroupSpec, jobs: int, request: int = 1, who: Principal = ALICE, **more: object) -> object:
        event = ev.SubmitGroup(
            request=request, principal=who, key=more.pop("key", ""), spec=wanted, jobs=jobs,  # type: ignore[arg-type]
            refs=more.pop("refs", ()), wall_s=0.0, **more,  # type: ignore[arg-type]
        )
        self.handle(event)
        self.grid.settle()
        return self.replies.get(request)

    def ask(self, what: str, group: str | None = None, who: Principal = OPERATOR) -> object:
        self.handle(ev.Ask(request=999, principal=who, what=what, group=GroupId(group) if group else None))
        return self.replies.pop(999)


class Grid:
    def __init__(self, **slots: int) -> None:
        self.now = 1000.0
        self.post_box: deque[tuple[SiteId, SiteId, ms.Message]] = deque()
        self.cut: set[str] = set()
        self.sites: dict[SiteId, Site] = {}
        for name, count in slots.items():
            self.sites[SiteId(name)] = Site(self, name, count)
        for site in self.sites.values():
            site.lrm_ready()
        self.connect()

    def __getattr__(self, name: str) -> Site:
        return self.sites[SiteId(name)]

    def connect(self) -> None:
        for a in self.sites.values():
            for b in self.sites.values():
                if a is not b:
                    a.handle(ev.PeerUp(b.hello()))
        self.settle()

    def post(self, sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if sender not in self.cut and to not in self.cut:
            self.post_box.append((sender, to, message))

    def settle(self) -> None:
        """Deliver everything that is under way."""
        while self.post_box:
            sender, to, message = self.post_box.popleft()
            self.sites[to].handle(ev.Received(sender, message))

    def pass_time(self, seconds: float) -> None:
        """Move time on, waking engines when they asked to be."""
        end = self.now + seconds
        while True:
            due = min((d for s in self.sites.values() if (d := s.engine.deadline()) is not None), default=end)
            if due > end:
                break
            self.now = max(self.now, due)
            for site in self.sites.values():
                site.handle(ev.Tick())
            self.settle()
        self.now = end

    def finish(self, rounds: int = 10_000) -> None:
        """End jobs as they start until nothing runs anywhere."""
        for _ in range(rounds):
            if not sum(site.end() for site in self.sites.values()):
                self.pass_time(1.0)
                if not any(site.running for site in self.sites.values()):
                    return
            self.settle()
            self.pass_time(0.1)


def facts_of(site: SiteId, runs: list[ev.Run], outcome: Outcome, now: float) -> Facts:
    count = len(runs)
    return Facts(
        site=site, indices=[r.index for r in runs], attempts=[r.attempt for r in runs], outcomes=[int(outcome)] * count,
        exit_codes=[0] * count, started_s=[now] * count, ended_s=[now] * count, cpu_s=[0.0] * count,
        max_rss_bytes=[0] * count, log_segments=[""] * count, log_offsets=[0] * count, log_lengths=[0] * count,
        log_truncated=[False] * count,
    )


def no_facts(site: SiteId) -> Facts:
    return facts_of(site, [], Outcome.DONE, 0.0)


def whole(jobs: int) -> IndexSet:
    return IndexSet.span(0, jobs)
