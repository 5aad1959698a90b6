"""A site's LRM over several machines: orders go to the machine the engine names, its own by the embedded LRM, the
others over the streams they hold open (SPEC D8: a RootGrid and the SubGrid of machines under it).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from concurrent.futures import ThreadPoolExecutor

from diana.adapters.staging.refs import parse_ref
from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.delivery import LogSegments
from diana.adapters.subgrid.inputs import InputBook
from diana.adapters.subgrid.link import MemberLink
from diana.engine.journal.effects import DropSubgroup, Kill, Lease, Recall, StageIn, Start
from diana.engine.journal.events import Event, JobsEnded, LrmLost, LrmReady, Run
from diana.errors import DianaError
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of
from diana.model.layout import DataDir
from diana.ports import Emit, LocalResourceManager

SILENT_S = 20.0
"""Seconds after which a machine that says nothing is let go; it may come back."""

_log = logging.getLogger("diana.subgrid")


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
        local: LocalResourceManager,
        emit: Emit,
        clock: Callable[[], float],
        *,
        term: Callable[[], int],
        alive: Callable[[], Iterable[SubgroupId]],
        needed: Callable[[SubgroupId, int], bool],
        known: Callable[[], Container[GroupId]] = frozenset,
        known_as: Callable[[str], str] = lambda _: "",
        leaders: Callable[[], list[str]] = list,
        urls: tuple[str, ...] = (),
    ) -> None:
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
        self._known = known
        self._known_as = known_as
        self.leaders = leaders
        self._book = InputBook(data)
        self._links: dict[str, MemberLink] = {}
        self._clusters: dict[str, LocalResourceManager] = {}
        self._numbers = 0
        self._closed = False
        self._sessions: dict[str, int] = {}
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

    def lease(self, order: Lease) -> None:
        self._leases[order.origin] = order.until_s
        self._local.lease(order)
        for cluster in self._clusters.values():
            cluster.lease(order)
        for link in self._links.values():
            self.beat(link)

    def kill(self, order: Kill) -> None:
        if order.worker == self.machine:
            self._local.kill(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.kill(order)
        elif link := self._links.get(order.worker):
            link.kill(order)

    def recall(self, order: Recall) -> None:
        if order.worker == self.machine:
            self._local.recall(order)
        elif cluster := self._clusters.get(order.worker):
            cluster.recall(order)
        elif link := self._links.get(order.worker):
            link.recall(order)

    def forget(self, runs: tuple[Run, ...]) -> None:
        own: list[Run] = []
        theirs: dict[str, list[Run]] = {}
        for run in runs:
            machine = self._told_by.pop(run, self.machine)
            (own if machine == self.machine else theirs.setdefault(machine, [])).append(run)
        if own:
            self._local.forget(tuple(own))
        for machine, some in theirs.items():
            # One that is away tells them again when it is back.
            if link := self._links.get(machine):
                link.forget(some)
            elif cluster := self._clusters.get(machine):
                cluster.forget(tuple(some))

    # --- clusters ----------------------------------------------------------------------------------------

    def add_cluster(self, name: str, make: Callable[[Emit], LocalResourceManager]) -> None:
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

    def attach(self, hello: protocol.Hello) -> MemberLink | protocol.Refused:
        """Begin a machine's stream; an older one of the same machine ends."""
        why = self._why_not(hello)
        if why:
            _log.warning("machine %s refused: %s", hello.machine, why)
            return protocol.Refused(why)
        self.detach(self._links.get(hello.machine))
        self._numbers += 1
        link = MemberLink(
            hello.machine, self._numbers, self.site, self._book, self.pool, self.emit, self.clock, self.term()
        )
        link.identity, link.may_lead = hello.identity, hello.may_lead
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
        self._told_by.update(dict.fromkeys(known, link.machine))
        link.session, link.their_session = session, ready.session
        link.software, link.gpus = tuple(ready.software), max(0, ready.gpus)
        link.recalls = ready.recalls
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
                memory_bytes=ready.memory_bytes,
                identity=link.identity,
                gpus=link.gpus,
                all_gpus=link.gpus,
                software=link.software,
                recalls=link.recalls,
            )
        )

    def on_lost(self, link: MemberLink) -> None:
        """Note that the machine's spawner is gone."""
        if link.session:
            link.session = 0
            self.emit(LrmLost(link.machine))

    def on_ended(self, link: MemberLink, ended: JobsEnded) -> None:
        """Tell ends whose outputs and logs are durable here."""
        self._told_by.update(dict.fromkeys(_runs_of(ended), link.machine))
        self.emit(ended)

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
