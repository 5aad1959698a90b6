"""A site's LRM over several machines: orders go to the machine the engine names, its own by the embedded LRM, the
others over the streams they hold open (SPEC D8: a RootGrid and the SubGrid of machines under it).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from diana.adapters.staging.refs import parse_ref
from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.delivery import LogSegments
from diana.adapters.subgrid.inputs import InputBook
from diana.adapters.subgrid.link import MemberLink
from diana.engine.journal.effects import (
    DropSubgroup,
    Go,
    KillRuns,
    RecallRuns,
    RenewLease,
    SaveRuns,
    StageIn,
    Start,
    TellRoster,
)
from diana.engine.journal.events import (
    AtBarrier,
    Event,
    JobsEnded,
    LrmLost,
    LrmReady,
    Run,
    ScratchSeen,
    StepsReported,
)
from diana.errors import DianaError
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of
from diana.model.job.gang import MOST_PORT
from diana.model.job.resources import GPUS, MEMORY, SCRATCH, amount, of, others
from diana.model.kept_log import UNKNOWN, LiveLog
from diana.model.layout import DataDir
from diana.ports import Emit, LocalResourceManager

SILENT_S = 20.0
"""Seconds after which a machine that says nothing is let go; it may come back."""

_log = logging.getLogger("diana.subgrid")


class ShowsLogs(Protocol):
    async def look_at_log(self, run: Run, start: int, most: int) -> LiveLog:
        """Return a stretch of the log of a run that has not ended."""
        ...


class WorkerLrm(LocalResourceManager, ShowsLogs, Protocol):
    """An LRM of one worker of the site."""


class SubGridLrm:
    """`ports.LocalResourceManager` whose workers are this machine and the members attached to it. Belongs to the loop.

    `term` is the site leader's at this moment; `alive` gives the subgroups whose files are needed somewhere;
    `needed` says whether this subgroup and epoch is executed here; `known` gives the groups of which anybody may ask
    for something; `known_as` gives the data directory that a machine's name belongs to, empty if to none; `leaders`
    gives the addresses from which the site may be led.
    """

    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        machine: str,
        local: WorkerLrm,
        emit: Emit,
        clock: Callable[[], float],
        *,
        term: Callable[[], int],
        alive: Callable[[], Iterable[SubgroupId]],
        needed: Callable[[SubgroupId, int], bool],
        known: Callable[[], Container[GroupId]] = frozenset,
        known_as: Callable[[str], str] = lambda _: "",
        leaders: Callable[[], list[str]] = list,
        elsewhere: Callable[[str, SubgroupId, int, Sequence[int]], bool] = lambda *_: False,
        urls: tuple[str, ...] = (),
    ) -> None:
        """`elsewhere`: are any of these jobs with another machine than the one named?"""
        self.data = data
        self.site = site
        self.machine = machine
        self.emit = emit
        self.clock = clock
        self.term = term
        self.urls = urls
        self.pool = ThreadPoolExecutor(2, "subgrid")
        self._local = local
        self._alive = alive
        self.needed = needed
        self.elsewhere = elsewhere
        self._known = known
        self._known_as = known_as
        self.leaders = leaders
        self._book = InputBook(data)
        self._links: dict[str, MemberLink] = {}
        self._clusters: dict[str, WorkerLrm] = {}
        self._numbers = 0
        self._closed = False
        self._sessions: dict[str, int] = {}
        self.note_word: Callable[[str, str], None] = lambda machine, why: None
        """Told of each machine whose word was not believed, and why."""
        self._told_by: dict[Run, str] = {}
        """Run -> machine that has told of it, as known or ended, until it is forgotten."""
        self._leases: dict[SiteId, float] = {}
        """Origin -> end of its lease, site time."""
        self._segments: dict[str, LogSegments] = {}
        self._disks: dict[str, asyncio.Lock] = {}

    # --- ports.LocalResourceManager --------------------------------------------------------------------

    def start(self, order: Start) -> None:
        if order.worker == self.machine:
            self._local.start(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.start(order)
        elif link := self._links.get(order.worker):
            link.start(order)

    def go(self, order: Go) -> None:
        if order.worker == self.machine:
            self._local.go(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.go(order)
        elif link := self._links.get(order.worker):
            link.go(order)

    def lease(self, order: RenewLease) -> None:
        self._leases[order.origin] = order.until_s
        self._local.lease(order)
        for cluster in self._clusters.values():
            cluster.lease(order)
        for link in self._links.values():
            self.beat(link)

    def kill(self, order: KillRuns) -> None:
        if order.worker == self.machine:
            self._local.kill(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.kill(order)
        elif link := self._links.get(order.worker):
            link.kill(order)

    def recall(self, order: RecallRuns) -> None:
        if order.worker == self.machine:
            self._local.recall(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.recall(order)
        elif link := self._links.get(order.worker):
            link.recall(order)

    def save(self, order: SaveRuns) -> None:
        if order.worker == self.machine:
            self._local.save(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.save(order)
        elif link := self._links.get(order.worker):
            link.save(order)

    def tell_roster(self, order: TellRoster) -> None:
        if order.worker == self.machine:
            self._local.tell_roster(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.tell_roster(order)
        elif link := self._links.get(order.worker):
            link.tell_roster(order)

    def forget(self, runs: tuple[Run, ...], worker: str = "") -> None:
        own: list[Run] = []
        theirs: dict[str, list[Run]] = {}
        for run in runs:
            if not worker or self._told_by.get(run, self.machine) == worker:
                machine = self._told_by.pop(run, self.machine)
            else:
                # It told of a run that another machine has, which forgets it when it is over.
                machine = worker
            (own if machine == self.machine else theirs.setdefault(machine, [])).append(run)
        if own:
            self._local.forget(tuple(own))
        for machine, some in theirs.items():
            # One that is away tells them again when it is back.
            if link := self._links.get(machine):
                link.forget(some)
            elif cluster := self._clusters.get(machine):
                cluster.forget(tuple(some))

    async def look_at_log(self, worker: str, run: Run, start: int, most: int) -> LiveLog:
        """Return a stretch of the log of a run that was given to this worker of the site."""
        at: ShowsLogs | None = self._local if worker == self.machine else None
        at = at or self._clusters.get(worker) or self._links.get(worker)
        if at is None:
            return LiveLog(UNKNOWN, run.attempt, note=f"machine {worker} is away")
        return await at.look_at_log(run, start, most)

    # --- clusters ----------------------------------------------------------------------------------------

    def add_cluster(self, name: str, make: Callable[[Emit], WorkerLrm]) -> None:
        """Add a worker of the site whose jobs a batch system starts; `make` gets the function it tells its events."""

        def telling(event: Event) -> None:
            match event:
                case LrmReady(known=runs):
                    self._told_by.update(dict.fromkeys(runs, name))
                case JobsEnded():
                    self._told_by.update(dict.fromkeys(_runs_of(event), name))
                case _:
                    pass
            self.emit(event)

        self._clusters[name] = make(telling)

    # --- what the site's data are doing ------------------------------------------------------------------

    def heed(self, order: StageIn | DropSubgroup) -> None:
        """Heed an order that goes to the stager, before the stager hears of it."""
        if isinstance(order, StageIn):
            self._book.note(order)
            return
        self._book.drop(order.subgroup)
        for link in self._links.values():
            link.drop(order.subgroup)

    def may_read(self, machine: str, ref: str, sha256: str) -> bool:
        """True if an attached member may fetch this: an order of its own names it (PROMISES 5.3)."""
        link = self._links.get(machine)
        try:
            return link is not None and link.grants.allow(parse_ref(ref), sha256)
        except DianaError:
            return False

    # --- members -----------------------------------------------------------------------------------------

    def machines(self) -> dict[str, float]:
        """Return the attached members, each with its load per processor."""
        return {name: link.busy for name, link in sorted(self._links.items())}

    def attach(self, hello: protocol.Hello, host: str = "") -> MemberLink | protocol.Refused:
        """Begin a machine's stream; an older one of the same machine ends. `host`: as in `MemberLink`."""
        why = self._why_not(hello)
        if why:
            _log.warning("machine %s refused: %s", hello.machine, why)
            return protocol.Refused(why)
        self.detach(self._links.get(hello.machine))
        self._numbers += 1
        link = MemberLink(
            hello.machine, self._numbers, self.site, self._book, self.pool, self.emit, self.clock, self.term()
        )
        link.identity, link.may_lead, link.host = hello.identity, hello.may_lead, host
        self._links[hello.machine] = link
        return link

    def _why_not(self, hello: protocol.Hello) -> str:
        if not 1 <= hello.version <= protocol.VERSION:
            return f"it speaks protocol {hello.version}, this release 1 to {protocol.VERSION}; upgrade the older one"
        if self._closed:
            return "this node stops"
        if hello.machine == self.machine:
            return f"machine {hello.machine} is the one that leads; join it under another name"
        if hello.machine in self._clusters:
            return f"machine {hello.machine} has the name of a cluster of the site; join it under another name"
        if hello.term > self.term():
            return f"it obeys term {hello.term}, this machine leads term {self.term()}: somebody else leads the site"
        link = self._links.get(hello.machine)
        known = self._known_as(hello.machine) or (link.identity if link else "")
        if known in ("", hello.identity):
            return ""
        return (
            f"machine {hello.machine} was another data directory before; "
            f"if that one is gone for good: diana site remove-machine {hello.machine}"
        )

    def on_ready(self, link: MemberLink, ready: protocol.Ready, known: list[Run]) -> None:
        """Take a whole inventory that came."""
        session = self._sessions[link.machine] = self._sessions.get(link.machine, 0) + 1
        # The engine has forgotten at once the runs that it knows nothing of, though nobody told their ends.
        self._note_told(link, known)
        link.session, link.their_session = session, ready.session
        link.offer = ready.offer
        there = of(link.offer.most)
        link.recalls, link.shows_logs = ready.recalls, ready.shows_logs
        alive = set(self._alive())
        if gone := [name for name in ready.subgroups if name not in alive]:
            link.send(protocol.Drop(gone))
        if link.may_lead:
            asked_for = self._known()
            groups = sorted({group_of(SubgroupId(name)) for name in gone})
            if expired := [str(group) for group in groups if group not in asked_for]:
                link.send(protocol.Expired(expired))
        self.emit(
            LrmReady(
                worker=link.machine,
                session=session,
                slots=ready.slots,
                known=tuple(known),
                memory_bytes=amount(there, MEMORY),
                identity=link.identity,
                gpus=amount(there, GPUS),
                all_gpus=amount(there, GPUS),
                software=link.offer.capabilities,
                recalls=link.recalls,
                scratch_bytes=amount(there, SCRATCH),
                scratch_free_bytes=ready.scratch_free_bytes if amount(there, SCRATCH) else -1,
                claim_log=ready.claim_log,
                resources=others(there),
            )
        )

    def on_held(self, link: MemberLink, held: list[Run], port: int) -> None:
        """Take runs that wait at the machine's barrier; those of another machine are none of its own."""
        parts: dict[tuple[SubgroupId, int], list[Run]] = {}
        for run in held if link.session else ():
            parts.setdefault((run.subgroup, run.epoch), []).append(run)
        for (subgroup, epoch), runs in parts.items():
            if self.elsewhere(link.machine, subgroup, epoch, [run.index for run in runs]):
                self.disbelieved(link.machine, f"{subgroup} is not its own to hold")
                continue
            told = port if 0 <= port <= MOST_PORT else 0
            self.emit(
                AtBarrier(
                    worker=link.machine, subgroup=subgroup, epoch=epoch, runs=tuple(runs), port=told, host=link.host
                )
            )

    def disbelieved(self, machine: str, why: str) -> None:
        """Log a word of a machine that is not believed; the audit trail has it too."""
        _log.warning("machine %s: %s", machine, why)
        self.note_word(machine, why)

    def on_steps(self, link: MemberLink, told: protocol.StepsTold) -> None:
        """Take progress of jobs that run there. ValueError for columns of unequal length."""
        now_s = self.clock()
        own = told.own or [[] for _ in told.runs]
        for named, steps, paces in zip(told.runs, told.steps, own, strict=True) if link.session else ():
            rows = zip(named.indices, named.attempts, steps, strict=True)
            self.emit(
                StepsReported(
                    worker=link.machine,
                    subgroup=SubgroupId(named.subgroup),
                    epoch=named.epoch,
                    steps=tuple((i, a, now_s - max(0.0, ago_s), done, total) for i, a, (ago_s, done, total) in rows),
                    own=tuple(paces),
                )
            )

    def on_lost(self, link: MemberLink) -> None:
        """Note that the machine's spawner is gone."""
        if link.session:
            link.session = 0
            self.emit(LrmLost(link.machine))

    def on_ended(self, link: MemberLink, ended: JobsEnded) -> None:
        """Tell ends whose outputs and logs are durable here."""
        self._note_told(link, _runs_of(ended))
        self.emit(ended)

    def _note_told(self, link: MemberLink, runs: Iterable[Run]) -> None:
        """Note who is to forget them. What is with another machine is that one's, whoever tells of it: its own word
        may wait to be made durable, or be still to come."""
        parts: dict[tuple[SubgroupId, int], list[Run]] = {}
        for run in runs:
            parts.setdefault((run.subgroup, run.epoch), []).append(run)
        for (subgroup, epoch), some in parts.items():
            if self.elsewhere(link.machine, subgroup, epoch, [run.index for run in some]):
                some = [run for run in some if not self.elsewhere(link.machine, subgroup, epoch, (run.index,))]
            for run in some:
                before = self._told_by.setdefault(run, link.machine)
                if before != link.machine and self.elsewhere(before, subgroup, epoch, (run.index,)):
                    self._told_by[run] = link.machine

    def detach(self, link: MemberLink | None) -> None:
        """End the machine's stream. Idempotent."""
        if link is None or self._links.get(link.machine) is not link:
            return
        del self._links[link.machine]
        link.end()
        self.on_lost(link)

    def greet_anew(self) -> None:
        """End the members' streams since the site's term rose; they begin again under it."""
        for link in list(self._links.values()):
            self.detach(link)

    def link(self, machine: str, number: int) -> MemberLink | None:
        """Return the machine's stream, if it is the one of that number."""
        link = self._links.get(machine)
        return link if link is not None and link.number == number else None

    def segments(self, machine: str) -> LogSegments:
        return self._segments.setdefault(machine, LogSegments(self.data.logs_root, machine, leader=self.machine))

    def disk_of(self, machine: str) -> asyncio.Lock:
        """Return the lock that is held while a batch of the machine goes to the disk."""
        return self._disks.setdefault(machine, asyncio.Lock())

    def tick(self) -> None:
        """Tell the members the time, let go of those that fell silent; called every few seconds."""
        now_s = self.clock()
        for link in list(self._links.values()):
            if now_s - link.heard_s > SILENT_S:
                _log.warning("machine %s says nothing any more", link.machine)
                self.detach(link)
            elif link.term != self.term():
                # Greeted anew, it obeys the new term; until then it takes no orders.
                self.detach(link)
            else:
                self.beat(link)

    def beat(self, link: MemberLink) -> None:
        """Tell a member the time, and how long leases run on."""
        now_s = self.clock()
        self._leases = {origin: until_s for origin, until_s in self._leases.items() if until_s > now_s}
        left = [(str(origin), until_s - now_s) for origin, until_s in self._leases.items()]
        link.send(protocol.Beat(now_s, left, link.load_sent_s))

    def heard_load(self, link: MemberLink, load: protocol.Load) -> None:
        link.busy, link.load_sent_s = load.busy, load.sent_s
        if load.scratch_free_bytes >= 0 and link.session:
            self.emit(ScratchSeen(worker=link.machine, session=link.session, free_bytes=load.scratch_free_bytes))
        if self._leases:
            self.beat(link)

    def close(self) -> None:
        self._closed = True
        for link in list(self._links.values()):
            link.end()
        self._links.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)


def _runs_of(ended: JobsEnded) -> list[Run]:
    facts = ended.facts
    return [Run(ended.subgroup, ended.epoch, i, a) for i, a in zip(facts.indices, facts.attempts, strict=True)]
