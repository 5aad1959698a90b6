"""The door of the client service: every call comes in here, is checked against the caller's role, and is answered.

`ACTIONS` names for each call what the caller must be allowed to do; a call without an entry is refused. The engine
checks that the group is the caller's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from diana.engine.site.surroundings import Keyring
from diana.errors import Denied, DianaError, Overloaded, UsageError
from diana.model.ids import MAIN_MACHINE
from diana.model.layout import DataDir
from diana.model.settings import Settings
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Info
from diana.node.api import (
    control,
    datasets,
    fetch_follow,
    follow,
    history,
    logs,
    operators,
    reads,
    submit,
    watch,
)
from diana.node.api.desk import Desk
from diana.node.metrics.exposing import Metrics
from diana.node.notify.notices import Notices
from diana.node.pair import standby_api
from diana.node.pair.replication import Replication
from diana.node.pair.standby_api import told
from diana.node.ways_in.audit import Audit
from diana.node.ways_in.call_rates import (
    AT_ONCE,
    GAP_S,
    GROUPS_PER_CALL,
    MOST_REFUSED_AFTER_S,
    REFUSED_AFTER_S,
    REFUSED_GAP_S,
    ROWS_PER_CALL,
    SUBMISSION_GAP_S,
    SUBMISSIONS_PER_S,
    ByteRates,
    CallRates,
    CallSpacing,
)
from diana.node.ways_in.door import About, ClientStager, EngineDoor, Insight, Inviter, Views
from diana.policy.trust.authorise import Action, authorise
from diana.wire.client.messages import StatusResponse

ACTIONS: dict[str, Action] = {
    "Submit": Action.SUBMIT,
    "Plan": Action.PLAN,
    "Upload": Action.UPLOAD,
    "Status": Action.LIST_GROUPS,
    "Wait": Action.READ_GROUP,
    "Results": Action.READ_GROUP,
    "Logs": Action.READ_GROUP,
    "Fetch": Action.READ_GROUP,
    "History": Action.LIST_GROUPS,
    "Cancel": Action.CANCEL,
    "CancelHeld": Action.CANCEL,
    "Hold": Action.HOLD,
    "Move": Action.MOVE,
    "Release": Action.RELEASE,
    "Retry": Action.RETRY,
    "Drop": Action.DROP,
    "Explain": Action.READ_GROUP,
    "Queue": Action.READ_QUEUE,
    "Links": Action.READ_SITES,
    "Sites": Action.READ_SITES,
    "AllSites": Action.READ_SITES,
    "Datasets": Action.READ_DATASETS,
    "AllDatasets": Action.READ_DATASETS,
    "ShowDataset": Action.READ_DATASETS,
    "AddDataset": Action.ADD_DATASET,
    "VerifyDataset": Action.ADD_DATASET,
    "RemoveDataset": Action.ADD_DATASET,
    "Info": Action.READ_INFO,
    "Stop": Action.STOP,
    "Promote": Action.PROMOTE,
    "Invite": Action.INVITE,
    "Operate": Action.OPERATE,
    "Ledger": Action.READ_SITES,
    "Peers": Action.READ_SITES,
    "AllPeers": Action.READ_SITES,
    "Doctor": Action.DIAGNOSE,
    "Dashboard": Action.ENTER_PAGES,
    "Activity": Action.READ_SITES,
    "Metrics": Action.READ_SITES,
}

READS = frozenset(
    (
        Action.READ_GROUP,
        Action.LIST_GROUPS,
        Action.READ_SITES,
        Action.DIAGNOSE,
        Action.READ_DATASETS,
        Action.READ_INFO,
        Action.READ_QUEUE,
        Action.PLAN,
    )
)
"""Calls that the audit trail keeps only when they were refused."""

Unary = Callable[[Desk, Principal, Any], Awaitable[msgspec.Struct]]
Streamed = Callable[[Desk, Principal, Any], AsyncGenerator[msgspec.Struct, None]]

_UNARY: dict[str, Unary] = {
    "Submit": submit.submit,
    "Plan": submit.plan,
    "Upload": submit.upload,
    "Status": reads.status,
    "Cancel": control.cancel,
    "CancelHeld": control.cancel_held,
    "Hold": control.hold,
    "Move": control.move,
    "Release": control.release,
    "Retry": control.retry,
    "Drop": control.drop,
    "Explain": reads.explain,
    "Queue": reads.queue,
    "Links": watch.links,
    "Sites": reads.sites,
    "Datasets": datasets.listed,
    "RemoveDataset": datasets.remove,
    "Info": reads.info,
    "Stop": reads.stop,
    "Promote": standby_api.promote_here,
    "Invite": operators.invite,
    "Operate": operators.operate,
    "Ledger": operators.ledger,
    "Peers": watch.peers,
    "Doctor": watch.doctor,
    "Dashboard": watch.dashboard,
    "Activity": watch.activity,
    "Metrics": watch.metrics,
}

_STREAMED: dict[str, Streamed] = {
    "Wait": follow.wait,
    "AllSites": reads.all_sites,
    "AllDatasets": datasets.all_listed,
    "AllPeers": watch.all_peers,
    "Results": follow.results,
    "Logs": logs.logs,
    "Fetch": fetch_follow.fetch_or_follow,
    "History": history.history,
    "ShowDataset": datasets.show,
    "AddDataset": datasets.add,
    "VerifyDataset": datasets.verify,
}


_TABLES = frozenset({"AllSites", "AllDatasets", "AllPeers"})
"""Streams of tables that cost as the single answers do of which they are the rest."""


class Api:
    """`call` for a single answer (its request an iterator for Upload), `stream` for many.

    Both raise `errors.DianaError` for what the caller gets as a Failure. Close a stream (`aclosing`) to end it early.
    """

    def __init__(
        self,
        *,
        door: EngineDoor,
        stager: ClientStager,
        data: DataDir,
        about: About,
        stop: Callable[[], None],
        wall_s: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        audit: Audit | None = None,
        rates: CallRates | None = None,
        inviter: Inviter | None = None,
        insight: Insight | None = None,
        pair: Replication | None = None,
        machine: str = MAIN_MACHINE,
        metrics: Metrics | None = None,
        notices: Notices | None = None,
        keyring: Keyring | None = None,
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock`: seconds since some time, by which callers' rates are counted. `asked`: told of each call."""
        self._clock = clock
        self._asked = asked
        self._desk = Desk(door=door, stager=stager, data=data, about=about, stop=stop, wall_s=wall_s, inviter=inviter)
        self._desk.keyring = keyring
        self._desk.insight = insight
        self._desk.pair = pair
        self._desk.metrics = metrics
        self._desk.notices = notices
        self._machine = machine
        self._audit = audit
        self._rates = rates or CallRates()
        self._bytes = ByteRates()
        self._submissions = CallRates(SUBMISSIONS_PER_S, of="submissions")
        self._begin = CallSpacing(GAP_S, AT_ONCE)
        self._begin_submission = CallSpacing(SUBMISSION_GAP_S, AT_ONCE)
        self._refuse = CallSpacing(REFUSED_GAP_S, most_s=MOST_REFUSED_AFTER_S)

    def show(self, views: Views) -> None:
        """Have the calls behind the dashboard answered from now on; the dashboard is itself a caller of this."""
        self._desk.views = views

    async def exposition(self, caller: Principal, accept: str) -> tuple[bytes, str]:
        """The metrics as a Prometheus server reads them, and their content type, which may be another than the call
        `Metrics` gives."""
        check(caller, "Metrics")
        await self._let_in(caller, "Metrics")
        return await watch.metrics_of(self._desk).exposition(accept)

    async def unmetered(self, caller: Principal, method: str, request: Any) -> Any:
        """Answer the node's own pages, which bound how often they ask for all who look: no user's rate is touched."""
        check(caller, method)
        return told(await _UNARY[method](self._desk, caller, request), self._desk.pair, self._machine)

    async def look(self) -> Info:
        """The site's own numbers, for the node itself: no caller's right, rate or trail is touched."""
        return await self._desk.ask(Info, Principal(Role.OPERATOR, ""), "info")

    def teller(self, keyring: Keyring, settings: Callable[[], Settings]) -> history.PastTeller:
        """The way to tell this site's history to other sites."""
        return history.PastTeller(self._desk, keyring, settings, self._clock)

    async def call(self, caller: Principal, method: str, request: Any, where: str = "") -> msgspec.Struct:
        """`where`: what the way in knows of the caller's place, for the audit trail."""
        try:
            check(caller, method)
            await self._let_in(caller, method)
            if method == "Upload":
                request = self._slowed(caller, request)
            answer = told(await _UNARY[method](self._desk, caller, request), self._desk.pair, self._machine)
        except DianaError as error:
            self._note(caller, method, request, where, error)
            raise
        self._note(caller, method, answer if method == "Submit" else request, where, None)
        self._rates.charge(caller, _calls(answer))
        return answer

    async def stream(
        self, caller: Principal, method: str, request: Any, where: str = ""
    ) -> AsyncGenerator[msgspec.Struct, None]:
        try:
            check(caller, method)
            await self._let_in(caller, method)
            async with aclosing(_STREAMED[method](self._desk, caller, request)) as answers:
                async for answer in answers:
                    yield told(answer, self._desk.pair, self._machine)
                    if method in _TABLES:
                        self._rates.charge(caller, _calls(answer))
        except DianaError as error:
            self._note(caller, method, request, where, error)
            raise
        self._note(caller, method, request, where, None)

    async def _let_in(self, caller: Principal, method: str) -> None:
        """Let a call begin: one user's calls on many connections are spread, and a user who is over the limit and asks
        again is made to wait."""
        now_s, submits = self._clock(), method in ("Submit", "Plan")
        self._asked()
        try:
            self._rates.take(caller, now_s)
            if submits:
                self._submissions.take(caller, now_s)
        except Overloaded:
            await asyncio.sleep(REFUSED_AFTER_S + self._refuse.wait_s(caller, now_s))
            raise
        begin = self._begin_submission if submits else self._begin
        if wait_s := begin.wait_s(caller, now_s):
            await asyncio.sleep(wait_s)

    async def _slowed(self, caller: Principal, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """An upload at no more than its user may send."""
        async for request in requests:
            yield request
            if wait_s := self._bytes.take(caller, len(request.data), self._clock()):
                await asyncio.sleep(wait_s)

    def _note(self, caller: Principal, method: str, request: Any, where: str, error: DianaError | None) -> None:
        action = ACTIONS.get(method)
        decision = "allowed" if error is None else "denied" if isinstance(error, Denied) else "refused"
        if self._desk.metrics is not None:
            self._desk.metrics.calls[method if action else "unknown", decision] += 1
        if self._audit is None or (action in READS and decision != "denied"):
            return
        named = (
            getattr(request, key, "") for key in ("order", "target", "group", "kind", "name", "job", "id", "scope")
        )
        target = " ".join(str(text) for text in named if text)
        self._audit.note(
            caller.name or "nobody",
            action or method,
            str(target),
            decision,
            str(error or ""),
            role=caller.role,
            where=where,
        )


def _calls(answer: msgspec.Struct) -> float:
    """Return the number of calls that the rows of the answer's longest table cost."""
    if isinstance(answer, StatusResponse):
        return len(answer.groups) / GROUPS_PER_CALL
    values = (getattr(answer, name) for name in answer.__struct_fields__)
    return max((len(value) for value in values if isinstance(value, tuple)), default=0) / ROWS_PER_CALL


def check(caller: Principal, method: str) -> None:
    """Denied unless the role may make this call at all; unknown calls are UsageErrors."""
    action = ACTIONS.get(method)
    if action is None:
        raise UsageError(f"call {method!r}: this node does not know it; its release may be older than yours")
    refused = authorise(caller, action, owner=caller.name)
    if refused:
        raise Denied(refused)
