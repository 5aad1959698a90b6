"""The client for asyncio. The synchronous one, `client.py`, is made of this file: see `generate.py`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from diana import __version__
from diana.client import steps
from diana.client.results import JobResult, as_asked, by_index, rows, spelled, story_spelled
from diana.client.where import data_folder
from diana.errors import DianaError, UnknownCall, WaitTimedOut
from diana.model.views.datasets import Dataset
from diana.model.views.group import GroupStatus
from diana.model.views.link import LinkMap
from diana.model.views.queue import QueueView
from diana.model.views.site import Site
from diana.wire.client import messages as wire
from diana.wire.client.control import (
    CancelHeldRequest,
    CancelHeldResponse,
    CancelRequest,
    DropRequest,
    DropResponse,
    HoldRequest,
    HoldResponse,
    MoveRequest,
    MoveResponse,
    ReleaseRequest,
    RetryRequest,
)
from diana.wire.client.dashboard import ActivityRequest, ActivityResponse, DashboardRequest, DashboardResponse
from diana.wire.client.datasets import DatasetAddRequest, DatasetChunk, DatasetProgress, DatasetRequest
from diana.wire.client.decisions import Decision
from diana.wire.client.enrol import InviteRequest, InviteResponse, OpenInvitation
from diana.wire.client.history import HistoryChunk, HistoryRequest
from diana.wire.client.links import LinksRequest
from diana.wire.client.operators import LedgerResponse, OperateRequest, OperateResponse
from diana.wire.client.peers import CheckResult, DoctorResponse, MetricsResponse, PeerRow, PeersResponse
from diana.wire.client.permits import Permit, ToSign
from diana.wire.client.queues import QueueReadRequest

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol, TypeVar

    from diana.client.where import StrPath

    T = TypeVar("T")

    class AsyncWire(Protocol):
        @property
        def sign(self) -> Callable[[ToSign], Permit] | None: ...
        async def call(self, method: str, request: Any) -> Any: ...
        async def upload(self, requests: Iterator[Any]) -> None: ...
        def stream(self, method: str, request: Any) -> AsyncIterator[Any]: ...
        async def close(self) -> None: ...


class AsyncClient:
    """A node on this machine by its data directory (`data`, else DIANA_DATA, else ~/.diana), or a remote one by a
    user credential's folder; `address` (host:port) overrides the one written there.

    Every method may raise the classes of `diana.errors`: UsageError, Denied, Unplaceable, Unreachable, Overloaded.
    Iterators hold a connection until they are exhausted or closed: leave one early through `contextlib.aclosing`. Use
    the client within one event loop. Files are read and hashed in threads.
    """

    def __init__(
        self, data: StrPath | None = None, address: str | None = None, credential: StrPath | None = None
    ) -> None:
        self._wire: AsyncWire
        if address is None and credential is None:
            from diana.client.aio_local import AsyncLocalWire

            self._wire = AsyncLocalWire(data_folder(data))
        else:
            from diana.client.aio_remote import AsyncRemoteWire

            self._wire = AsyncRemoteWire(address, credential)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._wire.close()

    # --- work ----------------------------------------------------------------------------------------

    async def submit(
        self,
        job: steps.Job,
        *,
        key: str | None = None,
        options: Mapping[str, object] | None = None,
        format: str | None = None,
        folder: StrPath | None = None,
    ) -> wire.SubmitResponse:
        """Durable at the node on return. `job`: a job file's path, its bytes, or a dict; local files it names are
        uploaded, relative to the job file (or `folder`). The same `key` with the same job gives the same groups.
        A file of several groups gives them all in `groups`, or none."""
        return await self._run(
            steps.submit(await asyncio.to_thread(steps.prepare, job, key, options, format, folder), self._wire.sign)
        )

    async def plan(
        self,
        job: steps.Job,
        *,
        options: Mapping[str, object] | None = None,
        format: str | None = None,
        folder: StrPath | None = None,
    ) -> Decision:
        """Plan the job: where it would go now, and why; nothing is submitted."""
        prepared = await asyncio.to_thread(steps.prepare, job, "", options, format, folder)
        return await self._run(steps.plan(prepared))

    async def plans(
        self,
        job: steps.Job,
        *,
        options: Mapping[str, object] | None = None,
        format: str | None = None,
        folder: StrPath | None = None,
    ) -> tuple[wire.PlannedGroup, ...]:
        """Plan the groups of a job file of several; those that wait for others have no decision yet."""
        prepared = await asyncio.to_thread(steps.prepare, job, "", options, format, folder)
        return await self._run(steps.plans(prepared))

    async def planned(
        self,
        job: steps.Job,
        *,
        options: Mapping[str, object] | None = None,
        format: str | None = None,
        folder: StrPath | None = None,
    ) -> wire.PlanResponse:
        """Plan a job file, and tell its author's `notes` too; the plan of an only group is `decision`, else `groups`
        has each."""
        prepared = await asyncio.to_thread(steps.prepare, job, "", options, format, folder)
        return await self._run(steps.planned(prepared))

    async def cancel(self, target: str, *, dependents: bool = False) -> int:
        """Cancel `alpha-12`, `alpha-12.3` or `alpha-12.[3-9,12]`; returns the number of jobs concerned. `dependents`:
        also every group that waits for it (with the whole of a group only); else those are held until it is retried."""
        request = CancelRequest(target=target, dependents=dependents)
        return cast("int", (await self._call("Cancel", request)).jobs)

    async def cancel_held(self, target: str, *, release: bool = False) -> CancelHeldResponse:
        """Cancel the target's jobs that are held and have not started; the others stay as they are, or with `release`
        are held no longer. Asked again while it is `unsure` of some, because their site has not said yet that it holds
        them. UsageError where the node's release does not know the call."""
        request = CancelHeldRequest(target=target, release=release)
        return cast("CancelHeldResponse", await self._call("CancelHeld", request))

    async def hold(self, target: str) -> HoldResponse:
        """Hold the target's jobs that have not started until they are released; the others run on (`started`)."""
        return cast("HoldResponse", await self._call("Hold", HoldRequest(target=target)))

    async def move(self, target: str, to: str) -> MoveResponse:
        """Move the target's jobs that have not started, or can save their state, to the site `to`; the others run on
        (`started`)."""
        return cast("MoveResponse", await self._call("Move", MoveRequest(target=target, to=to)))

    async def checkpoint(self, target: str) -> int:
        """Have the target's jobs that run save their state and stop; each goes on from there where it is best. Returns
        how many were asked. UsageError when the group has no `[checkpoint]`."""
        return cast("int", (await self._call("Move", MoveRequest(target=target, to=""))).jobs)

    async def release(self, target: str) -> int:
        """Let held jobs start again; returns how many. UsageError when something named is not held."""
        return cast("int", (await self._call("Release", ReleaseRequest(target=target))).jobs)

    async def retry(
        self, target: str, *, held: bool = False, cancelled: bool = False, unreachable: bool = False, memory: str = ""
    ) -> int:
        """Try failed jobs again, with `held` those of unknown outcome, with `cancelled` those cancelled and with
        `unreachable` (for whole groups) those at sites out of reach too, where they may run on for a while; returns how
        many. With `memory` (`2x`, `8G`) only those that ran out of memory, each with so much more. UsageError when
        there is none."""
        request = RetryRequest(target=target, held=held, cancelled=cancelled, unreachable=unreachable, memory=memory)
        return cast("int", (await self._call("Retry", request)).jobs)

    async def drop(self, groups: Iterable[str], *, outputs: bool = False, each: bool = False) -> DropResponse:
        """Have the node forget groups that are over: their rows, logs and uploads; their keys are free again. All of
        them or none, with `each` those that can be, and the answer says why the others stay. A group with outputs in
        the node's own folder is refused without `outputs`, which deletes them too; those in a folder of the user's, at
        a URL or in a dataset stay. UsageError for a group that is not over, that another one waits for, or whose
        companions of one submission are not named, and for more than 1,000 of them."""
        request = DropRequest(groups=tuple(steps.group_names(groups)), outputs=outputs, each=each)
        return cast("DropResponse", await self._call("Drop", request))

    # --- looking on ----------------------------------------------------------------------------------

    async def status(
        self, groups: Iterable[str] = (), *, mine: bool = False, active: bool = False
    ) -> tuple[GroupStatus, ...]:
        """Status of these groups, or of all the caller may see."""
        request = wire.StatusRequest(groups=tuple(steps.group_names(groups)), mine=mine, active=active)
        return cast("tuple[GroupStatus, ...]", (await self._call("Status", request)).groups)

    async def groups(self, *, mine: bool = False, active: bool = False, limit: int = 0) -> wire.StatusResponse:
        """Groups the caller may see, at most `limit` (0: as many as an answer holds): open ones before ended ones,
        newest first. `left_out` says how many more there are."""
        request = wire.StatusRequest(mine=mine, active=active, limit=limit)
        return cast("wire.StatusResponse", await self._call("Status", request))

    def watch(self, group: str, timeout_s: float | None = None) -> AsyncIterator[GroupStatus]:
        """The status now and whenever it changes (at most about five a second), until it is final."""
        return self._wire.stream("Wait", wire.WaitRequest(group=group, timeout_s=timeout_s or 0.0))

    async def wait(self, group: str, timeout_s: float | None = None) -> GroupStatus:
        """The final status. WaitTimedOut when `timeout_s` (None: for ever) passes first."""
        last: GroupStatus | None = None
        async with aclosing(cast("Any", self.watch(group, timeout_s))) as statuses:
            async for status in statuses:
                last = status
        if last is None:
            raise DianaError(f"group {group}: the node ended the wait without a status")
        return last

    async def as_completed(self, groups: Iterable[str], timeout_s: float | None = None) -> AsyncIterator[GroupStatus]:
        """Each group's final status as it ends, whichever ends first. WaitTimedOut when `timeout_s` passes first."""
        waiting = steps.Completion(groups)
        end = time.monotonic() + timeout_s if timeout_s else float("inf")
        while waiting:
            for status in waiting.take(await self._call("Status", waiting.request())):
                yield status
            if not waiting:
                return
            if time.monotonic() >= end:
                raise WaitTimedOut(f"{waiting.names()}: not ended after {timeout_s:g} s; they go on")
            await asyncio.sleep(waiting.pause_s)

    async def results(
        self, group: str, *, follow: bool = False, outcome: str = "", first: int = 0, most: int = 0
    ) -> AsyncIterator[JobResult]:
        """Finished jobs in the order their results arrived; with `follow` until the group is final.

        With `outcome` those that ended so, in order of their indices: `done`, `failed`, `cancelled` or `held` as its
        status counts them, or `ended` for all of these; from the job `first` on, at most `most` (0: all). A page of a
        group of any size costs what it holds. Jobs that were given to no site have none; those that were given to a
        machine and cancelled before they began have its site, and `began` says so."""
        page: list[wire.ResultsChunk] = []
        asked = self.result_chunks(group, follow=follow, outcome=outcome, first=first, most=most)
        async with aclosing(cast("Any", asked)) as chunks:
            async for chunk in chunks:
                # Without an outcome they come as they arrived; else a page is put in order once it is whole.
                if not outcome or (page and page[-1].chunk != chunk.chunk):
                    for row in by_index(group, page) if outcome else rows(group, chunk):
                        yield row
                    page.clear()
                if outcome:
                    page.append(as_asked(chunk))
        for row in by_index(group, page):
            yield row

    async def result_chunks(
        self, group: str, *, follow: bool = False, after: int = 0, outcome: str = "", first: int = 0, most: int = 0
    ) -> AsyncIterator[wire.ResultsChunk]:
        """Results in columns; `after` skips chunks already seen. With `outcome` a page's chunks bear one number."""
        request = wire.ResultsRequest(group=group, follow=follow, after=after, outcome=outcome, first=first, most=most)
        async with aclosing(cast("Any", self._wire.stream("Results", request))) as chunks:
            async for chunk in chunks:
                yield spelled(chunk)

    def history_chunks(
        self, from_wall_s: float = 0.0, to_wall_s: float = 0.0, *, grid: bool = False
    ) -> AsyncIterator[HistoryChunk]:
        """The site, then each group that was submitted there in the span and that the caller may read, with rows of its
        jobs behind it. `to_wall_s`: 0: all. With `grid` each other site follows, or why it tells nothing."""
        request = HistoryRequest(from_wall_s=from_wall_s, to_wall_s=to_wall_s, grid=grid)
        return self._wire.stream("History", request)

    def logs(
        self,
        job: str,
        *,
        failed: bool = False,
        follow: bool = False,
        tail: int = 0,
        start: int = 0,
        attempt: int = 0,
        merge: bool = False,
    ) -> AsyncIterator[wire.LogsChunk]:
        """Logs of one job (`alpha-12.3`), also while it runs, or of a group's jobs in order of their index. With
        `follow` until the job, or the group, is over: a group's as its jobs end. `tail`: only so many lines of each,
        the last. `start`, `attempt`: go on where an earlier answer ended. `merge`: of a group, its merge command's own
        log (job `alpha-12.merge`); a node of an older release passes that over."""
        request = wire.LogsRequest(
            job=job, failed=failed, follow=follow, tail=tail, start=start, attempt=attempt, merge=merge
        )
        return self._wire.stream("Logs", request)

    async def fetch(self, group: str, folder: StrPath, pattern: str = "", *, follow: bool = False) -> list[Path]:
        """Copy gathered outputs into `folder`, each verified and whole or not at all; the paths written. With `follow`
        as they come, until the group is final (without what its merge command wrote)."""
        from diana.client.fetching import FolderWriter

        writer = await asyncio.to_thread(FolderWriter, folder)
        stream = self.fetch_chunks(group, pattern, follow=follow)
        try:
            async with aclosing(cast("Any", stream)) as chunks:
                async for chunk in chunks:
                    await asyncio.to_thread(writer.feed, chunk)
        finally:
            writer.close()
        return writer.paths

    def fetch_chunks(
        self, group: str, pattern: str = "", *, follow: bool = False, skip: str = ""
    ) -> AsyncIterator[wire.FetchChunk]:
        """Gathered outputs in pieces, file after file; the last of each names its SHA-256. `skip`: jobs whose outputs
        are not wanted, as `0-7,12`."""
        request = wire.FetchRequest(group=group, pattern=pattern, follow=follow, skip=skip)
        return self._wire.stream("Fetch", request)

    async def explain(self, group: str) -> wire.ExplainResponse:
        """Why a group's jobs are where they are; of one job (`alpha-12.3`) also where it stands (`job`)."""
        return story_spelled(await self._call("Explain", wire.GroupRequest(group=group)))

    # --- the node ------------------------------------------------------------------------------------

    async def queue(self, site: str | None = None) -> QueueView:
        """The queues at the node's site, or at another. Unreachable when that does not answer the node."""
        return cast("QueueView", await self._call("Queue", QueueReadRequest(site=site or "")))

    async def links(self, source: str = "", *, paths: str = "") -> LinkMap:
        """The links known at the node, measured or told; `source`: only those data of this site come over. `paths`:
        also how all sites lie to this one. UsageError for a site nothing is known of."""
        return cast("LinkMap", await self._call("Links", LinksRequest(source=source, paths=paths)))

    async def sites(self) -> tuple[Site, ...]:
        found = await self._call("Sites", wire.Empty())
        rows: tuple[Site, ...] = found.sites
        if not found.more:
            return rows
        every: list[Site] = []
        async for page in self._wire.stream("AllSites", wire.Empty()):
            every += page.sites
        return tuple(sorted(every, key=lambda row: (not row.home, row.site)))

    async def datasets(self) -> tuple[Dataset, ...]:
        found = await self._call("Datasets", wire.Empty())
        rows: tuple[Dataset, ...] = found.datasets
        if not found.more:
            return rows
        every: list[Dataset] = []
        async for page in self._wire.stream("AllDatasets", wire.Empty()):
            every += page.datasets
        return tuple(every)

    async def add_dataset(
        self,
        name: str,
        paths: Iterable[StrPath],
        *,
        new_version: bool = False,
        progress: Callable[[DatasetProgress], None] | None = None,
    ) -> Dataset:
        """Register files and folders of the node's machine; `progress` is told how far it is, about twice a second.
        The same content again is fine; UsageError for other content under a name that stands unless `new_version`.
        Operators only."""
        absolute = tuple(os.path.abspath(os.fspath(path)) for path in paths)
        request = DatasetAddRequest(name=name, paths=absolute, new_version=new_version)
        return await self._followed("AddDataset", request, progress)

    async def verify_dataset(self, name: str, *, progress: Callable[[DatasetProgress], None] | None = None) -> Dataset:
        """Have every file of the node's own dataset read again. `progress` is told how far it is, and a line for each
        file that changed; the answer's state is `registered` or `changed`. Operators only."""
        return await self._followed("VerifyDataset", DatasetRequest(name=name), progress)

    def show_dataset(self, name: str, *, files: bool = False) -> AsyncIterator[DatasetChunk]:
        """The node's knowledge of a dataset: first its versions and replicas, then with `files` its files, in pages."""
        return self._wire.stream("ShowDataset", DatasetRequest(name=name, files=files))

    async def remove_dataset(self, name: str) -> tuple[Dataset, ...]:
        """Forget `NAME` with all its versions, or `NAME@VERSION`; what was. The files stay. Operators only."""
        request = DatasetRequest(name=name)
        return cast("tuple[Dataset, ...]", (await self._call("RemoveDataset", request)).datasets)

    async def _followed(
        self, method: str, request: object, progress: Callable[[DatasetProgress], None] | None
    ) -> Dataset:
        made: Dataset | None = None
        async for told in self._wire.stream(method, request):
            made = told.dataset
            if progress:
                progress(told)
        if made is None:
            raise DianaError(f"{method}: the node ended the call without an answer; try again")
        return made

    async def info(self) -> wire.InfoResponse:
        return cast("wire.InfoResponse", await self._call("Info", wire.Empty()))

    async def invite(
        self, kind: str = "site", name: str = "", *, for_s: float = 0.0, address: str = "", again: bool = False
    ) -> InviteResponse:
        """A token to join the VO with, once. `kind`: site, member, standby or user. For operators."""
        request = InviteRequest(kind=kind, name=name, for_s=for_s, address=address, again=again)
        return cast("InviteResponse", await self._call("Invite", request))

    async def invitations(self, withdraw: str = "") -> tuple[OpenInvitation, ...]:
        """Invitations that are open at this site; or withdraw the one of this id, which nobody can use from now on. For
        operators."""
        request = InviteRequest(order="withdraw" if withdraw else "list", id=withdraw)
        return cast("InviteResponse", await self._call("Invite", request)).open

    async def promote(self, *, force: bool = False, remove: bool = False) -> str:
        """Have a site's leader hand over to its standby. `force`, to a standby: lead, the other machine is dead for
        good. `remove`, to a leader: lead alone. Returns what was done; UsageError when it cannot be. Operators only."""
        request = wire.PromoteRequest(force=force, remove=remove)
        return cast("wire.PromoteResponse", await self._call("Promote", request)).text

    async def operate(
        self,
        order: str,
        name: str = "",
        *,
        reason: str = "",
        values_json: str = "",
        from_wall_s: float = 0.0,
        to_wall_s: float = 0.0,
    ) -> str:
        """drain, undrain, ban, unban, give-up, remove-machine, go-on or set-policy; what was done. Operators only.
        With `to_wall_s` a drain is for maintenance, from `from_wall_s` (0: now) to then, seconds since 1970."""
        request = OperateRequest(
            order=order,
            name=name,
            reason=reason,
            values_json=values_json,
            from_wall_s=from_wall_s,
            to_wall_s=to_wall_s,
        )
        return cast("OperateResponse", await self._call("Operate", request)).text

    async def ledger(self) -> LedgerResponse:
        """Decisions of the VO's signers: the policy, who is banned; and whether this site is drained."""
        return cast("LedgerResponse", await self._call("Ledger", wire.Empty()))

    async def peers(self) -> PeersResponse:
        """Each known site, how it is linked and what was last heard of it; this site's machines; the node's counts."""
        found: PeersResponse = await self._call("Peers", wire.Empty())
        if not found.more:
            return found
        every: list[PeerRow] = []
        async for page in self._wire.stream("AllPeers", wire.Empty()):
            every += page.peers
        rows = tuple(sorted(every, key=lambda row: row.site))
        return replace(found, peers=rows, more=False)

    async def doctor(self) -> tuple[CheckResult, ...]:
        """Faults the running node finds in how it is reached and whom it reaches. Operators only."""
        return cast("DoctorResponse", await self._call("Doctor", wire.Empty())).checks

    async def dashboard(self, scope: str = "pages", *, for_s: float = 0.0) -> DashboardResponse:
        """A way into the node's pages as this caller, good once and within two minutes; or, for the scope `metrics`, a
        token for what collects them. `for_s`: how long it holds; 0: as the site's operator set."""
        request = DashboardRequest(scope=scope, for_s=for_s)
        return cast("DashboardResponse", await self._call("Dashboard", request))

    async def activity(self, after_wall_s: float = 0.0) -> ActivityResponse:
        """Activity of the site since its node started, in columns; only samples after that time of the node's clock."""
        request = ActivityRequest(after_wall_s=after_wall_s)
        return cast("ActivityResponse", await self._call("Activity", request))

    async def metrics(self) -> str:
        """Metrics of the node as a Prometheus server reads them, in its text format; docs/metrics.md names every
        metric."""
        return cast("MetricsResponse", await self._call("Metrics", wire.Empty())).text

    async def stop(self) -> None:
        """Ask the node to stop; running jobs run on. Operators only."""
        await self._call("Stop", wire.Empty())

    # --- carrying it out -----------------------------------------------------------------------------

    async def _call(self, method: str, request: object) -> Any:
        try:
            return await self._wire.call(method, request)
        except UnknownCall as error:
            raise await self._with_releases(error) from None

    async def _with_releases(self, error: UnknownCall) -> UnknownCall:
        """Name both releases in the error, so that it is known which one to upgrade; as it is if the node says none."""
        try:
            info: wire.InfoResponse = await self._wire.call("Info", wire.Empty())
        except DianaError:
            return error
        return UnknownCall(f"{error}: it is {info.release}, this is {__version__}")

    async def _run(self, doing: Generator[steps.MethodCall | steps.FileUpload, Any, T]) -> T:
        answer: Any = None
        while not isinstance(step := await asyncio.to_thread(steps.advance, doing, answer), steps.CallResult):
            if isinstance(step, steps.MethodCall):
                answer = await self._call(step.method, step.request)
            else:
                answer = None
                await self._wire.upload(step.requests())
        return step.value
