"""A node without an engine, for tests of what stands between callers and the engine: the real control socket, gRPC
service, Api, store and stager over a small book of groups that answers as the engine would."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from diana.adapters.sqlite_store.store import SqliteStore
from diana.adapters.staging.stager import FileStager
from diana.engine.journal.effects import GroupAccepted, Refusal
from diana.engine.journal.events import (
    AddDataset,
    Ask,
    CancelJobs,
    Event,
    HoldJobs,
    ReleaseJobs,
    RetryJobs,
    SubmitGroup,
)
from diana.errors import Overloaded
from diana.model.facts import Facts, FactsKey, JobError, Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId, subgroup_id
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal, Role
from diana.model.views import views
from diana.model.views.datasets import Dataset
from diana.model.views.ledger import LedgerView
from diana.model.views.link import LinkMap
from diana.model.views.peers import Peers, PeerStanding
from diana.model.views.site import Site
from diana.node.api.service import Api
from diana.node.ways_in.control import ControlServer
from diana.node.ways_in.control_calls import Limits
from diana.node.ways_in.door import About, ReplyBody
from diana.node.ways_in.users import LocalUsers
from diana.ports import Batch
from diana.wire.client.peers import CheckResult, PeerRow, PeersResponse

HOME = SiteId("alpha")
ALICE = Principal(Role.USER, "alice@lab")
BOB = Principal(Role.USER, "bob@lab")
ROOT = Principal(Role.OPERATOR, "root@lab")


def view(group: str, owner: str, jobs: int, **changes: object) -> views.GroupView:
    base = views.GroupView(
        group=GroupId(group), name="", owner=owner, state="running", jobs=jobs, unplaced=0, staging=0, queued=jobs,
        running=0, done=0, failed=0, cancelled=0, held=0, unreachable=0, gathering=0, final=False, indices=jobs,
        submitted_wall_s=1.0, age_s=0.0, first_start_s=-1.0, last_end_s=-1.0, bytes_moved=0, shares=(), note="",
        expected_end_s=-1.0, durability=1,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def facts(site: str, indices: list[int], **columns: object) -> Facts:
    n = len(indices)
    base = Facts(
        site=SiteId(site), indices=indices, attempts=[1] * n, outcomes=[int(Outcome.DONE)] * n, exit_codes=[0] * n,
        started_s=[1.0] * n, ended_s=[2.0] * n, cpu_s=[0.5] * n, max_rss_bytes=[1000] * n, log_segments=[""] * n,
        log_offsets=[0] * n, log_lengths=[0] * n, log_truncated=[False] * n,
    )  # fmt: skip
    return msgspec.structs.replace(base, **columns)


class _Watch:
    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def changed(self) -> None:
        await self.event.wait()
        self.event.clear()


class Book:
    """Groups by id, with the ownership rule; changes wake the watchers."""

    def __init__(self, data: DataDir) -> None:
        self.store = SqliteStore(data.journal)
        self.groups: dict[str, views.GroupView] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.submitted: list[SubmitGroup] = []
        self.datasets: list[AddDataset] = []
        self.sites: list[Site] = []
        self.elsewhere: list[Dataset] = []
        """Datasets of other sites."""
        self.peers: list[PeerStanding] = []
        self.cancelled: list[CancelJobs] = []
        self.controlled: list[HoldJobs | ReleaseJobs | RetryJobs] = []
        self.full = False
        self.requests = 0
        self._watches: dict[str, set[_Watch]] = {}

    def now_s(self) -> float:
        return 100.0

    async def request(self, make: Callable[[int], Event]) -> ReplyBody:
        if self.full:
            raise Overloaded("the node has too much to do; try again in 2 s", 2.0)
        self.requests += 1
        event = make(self.requests)
        await asyncio.sleep(0)
        return self._answer(event)

    def _answer(self, event: Event) -> ReplyBody:
        match event:
            case SubmitGroup():
                return self._submit(event)
            case HoldJobs() | ReleaseJobs() | RetryJobs():
                self.controlled.append(event)
                jobs = self.groups[event.group].jobs if event.indices is None else len(event.indices)
                return self._refusal(event.principal, event.group) or views.Ok(jobs, started=2)
            case CancelJobs():
                self.cancelled.append(event)
                refusal = self._refusal(event.principal, event.group)
                return refusal or views.Ok(
                    self.groups[event.group].jobs if event.indices is None else len(event.indices)
                )
            case AddDataset():
                self.datasets.append(event)
                return views.Ok()
            case Ask(what="groups", principal=who, named=named) if named:
                return views.Groups(tuple(self.groups[g] for g in named if self._refusal(who, g) is None))
            case Ask(what="groups", principal=who, mine=mine, active=active):
                seen = [v for v in self.groups.values() if self._refusal(who, v.group) is None]
                fits = [v for v in seen if not (mine and v.owner != who.name) and not (active and v.final)]
                return views.Groups(tuple(fits))
            case Ask(what="group" | "explain" as what, group=group):
                assert group is not None
                refusal = self._refusal(event.principal, group)
                if refusal is not None:
                    return refusal
                if what == "explain":
                    return views.Explanation(group=group, decisions=(), achieved_s=-1.0)
                return self.groups[group]
            case Ask(what="job"):
                return views.JobPlace(site=None)
            case Ask(what="info"):
                return views.Info(
                    site=HOME, db_uuid="u", generation=3, groups=len(self.groups), queued_jobs=0, running_jobs=0
                )
            case Ask(what="sites"):
                return views.Sites(tuple(views.SiteView(shown=row) for row in self.sites))
            case Ask(what="datasets"):
                return views.Datasets(tuple(self.elsewhere))
            case Ask(what="links"):
                return LinkMap(site=HOME)
            case Ask(what="peers"):
                return Peers(tuple(self.peers), ())
            case Ask(what="ledger"):
                return LedgerView()
            case Ask(what="queue"):
                return Refusal(code="retry", text="the queues cannot be told now", retry_after_s=1.0)
        raise AssertionError(event)

    def _submit(self, event: SubmitGroup) -> ReplyBody:
        owner, key = event.principal.name, event.key
        if key and (owner, key) in self.keys:
            group = self.keys[owner, key]
            return GroupAccepted(GroupId(group), self.groups[group].jobs)
        self.submitted.append(event)
        group = f"{HOME}-{len(self.submitted)}"
        self.keys[owner, key] = group
        self.groups[group] = view(group, owner, event.jobs, outputs_to=event.spec.outputs.to)
        return GroupAccepted(GroupId(group), event.jobs)

    def _refusal(self, caller: Principal, group: str) -> Refusal | None:
        found = self.groups.get(group)
        if found is None:
            return Refusal(code="usage", text=f"group {group}: not known at {HOME}")
        if caller.role is not Role.OPERATOR and found.owner != caller.name:
            return Refusal(code="denied", text=f"{caller.name} may not read what belongs to {found.owner}")
        return None

    @asynccontextmanager
    async def watch(self, group: GroupId) -> AsyncIterator[_Watch]:
        watch = _Watch()
        self._watches.setdefault(group, set()).add(watch)
        try:
            yield watch
        finally:
            self._watches[group].discard(watch)

    def watchers(self, group: str) -> int:
        return len(self._watches.get(group, ()))

    def change(self, group: str, **changes: object) -> None:
        self.groups[group] = msgspec.structs.replace(self.groups[group], **changes)
        for watch in self._watches.get(group, ()):
            watch.event.set()

    def finish(self, group: str, state: str = "done") -> None:
        self.change(group, state=state, final=True, queued=0, done=self.groups[group].jobs)

    def keep(self, group: str, batch: int, chunk: Facts, part: int = 0) -> None:
        key = FactsKey(GroupId(group), SubgroupId(subgroup_id(GroupId(group), part)), 1, batch)
        self.store.commit(Batch(at_s=1.0, records=(b"r",), facts=((key, chunk),)))


class PlainInsight:
    """What the engine says, and nothing of links."""

    def describe(self, found: Peers) -> PeersResponse:
        rows = (PeerRow(site=one.site, state=one.state, address=one.address) for one in found.peers)
        return PeersResponse(site=HOME, peers=tuple(rows))

    def notes(self) -> dict[str, str]:
        return {}

    async def examine(self, found: Peers) -> tuple[CheckResult, ...]:
        return ()


class Nodelike:
    """Everything but an engine, on the running loop."""

    def __init__(
        self, root: Path, *, limits: Limits | None = None, caller: Callable[[int], Principal] | None = None
    ) -> None:
        self.data = DataDir(root)
        root.mkdir(parents=True, exist_ok=True)
        self.stopped = asyncio.Event()
        self.stands_at_s: float | None = None
        """Time at which the clock of the callers' rates stands; None: it runs."""
        self.book = Book(self.data)
        self.stager = FileStager(self.data, HOME, lambda event: None, lambda site: None, lambda *seen: None)
        about = About(site=HOME, vo="lab", release="9.9", address="127.0.0.1:1")
        self.api = Api(
            door=self.book,
            stager=self.stager,
            data=self.data,
            about=about,
            stop=self.stopped.set,
            insight=PlainInsight(),
            clock=self._now_s,
        )
        self.users = LocalUsers("lab", operators=("ops@lab",))
        if caller is not None:
            self.users.of_uid = caller  # type: ignore[method-assign]
        self.control = ControlServer(self.data.socket, self.api, self.users, limits)

    def _now_s(self) -> float:
        return time.monotonic() if self.stands_at_s is None else self.stands_at_s

    async def __aenter__(self) -> Nodelike:
        await self.control.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.control.stop()
        await self.stager.close()
        self.book.store.close()

    def write_log(self, group: str, segment: str, text: bytes) -> tuple[str, int]:
        """Append to a segment; its name as facts give it, and the offset."""
        path = self.data.logs(GroupId(group)) / segment
        path.parent.mkdir(parents=True, exist_ok=True)
        offset = path.stat().st_size if path.exists() else 0
        with path.open("ab") as file:
            file.write(text)
        return f"{group}/{segment}", offset


class InThread:
    """A `Nodelike` on a loop of its own thread, for tests of the synchronous client."""

    def __init__(self, root: Path, **options: object) -> None:
        self._root, self._options = root, options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> InThread:
        self._thread.start()

        async def begin() -> Nodelike:
            return await Nodelike(self._root, **self._options).__aenter__()  # type: ignore[arg-type]

        self.node = self._do(begin()).result(60)
        self.book = self.node.book
        return self

    def _do(self, work: object) -> Future[Nodelike]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)  # type: ignore[arg-type]

    def call(self, do: Callable[[], object]) -> None:
        """Run in the node's thread."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (do(), done.set()))
        assert done.wait(60)

    def later(self, delay_s: float, do: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(lambda: self._loop.call_later(delay_s, do))

    def __exit__(self, *exc: object) -> None:
        self._do(self.node.__aexit__()).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def my_uid() -> int:
    return os.getuid()


__all__ = ["ALICE", "BOB", "HOME", "ROOT", "Book", "InThread", "JobError", "Nodelike", "OutputFile", "facts", "view"]


LONG_NAME = "sky-" + "s" * 296


def crowd(book: Book, *, sites: int, named: int) -> None:
    """Fill the book with so many honest sites beside home, of which the first `named` tell as many names as they may;
    sites that were met, with names late in the order, stand before the others, as the engine has them."""
    names = [*(f"zz-met-{n}" for n in range(3)), *(f"site-{n:05}" for n in range(sites - 3))]
    told = tuple(f"{n:03}" + "x" * 297 for n in range(256))
    book.sites = [Site(site=HOME, home=True, state="alive")]
    for at, name in enumerate(names):
        book.sites.append(
            Site(site=name, state="alive", age_s=12.25, slots=640, free_slots=12, speed=1.25, queued_jobs=100_000,
                 running_jobs=628, work_ahead_s=12345.6, rtt_s=-1.0, bytes_per_s=-1.0, release="0.3.0",
                 datasets=told if at < named else (), note="maintenance from Monday on", machines=40)
        )  # fmt: skip
        book.elsewhere += [
            Dataset(name=one, site=name, files=-1, size_bytes=-1) for one in (told if at < named else (LONG_NAME,))
        ]
        book.peers.append(
            PeerStanding(site=SiteId(name), state="alive", note="", age_s=1.0, summary_age_s=1.0, via=(),
                         release="0.3.0", address=f"rootgrid.{name}.example.org:7400" + "x" * 250, rtt_s=-1.0,
                         held_here=False, held_there=False)
        )  # fmt: skip
    book.elsewhere.sort(key=lambda row: (row.name, row.site))
