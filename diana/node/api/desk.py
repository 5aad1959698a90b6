"""The desk that every call of the client service works at, and its way to ask the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from diana.adapters.filling import Filling
from diana.engine.journal.effects import Refusal
from diana.engine.journal.events import Ask, Event
from diana.engine.site.surroundings import Keyring
from diana.errors import DianaError, UsageError
from diana.model.ids import GroupId, is_group_id
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupView
from diana.node.api.chunks import Places
from diana.node.notify.notices import Notices
from diana.node.ways_in.door import About, ClientStager, EngineDoor, Insight, Inviter, ReplyBody, Views
from diana.wire.client.failures import error_of
from diana.wire.client.messages import Failure

if TYPE_CHECKING:
    from diana.node.metrics.exposing import Metrics
    from diana.node.pair.replication import Replication

T = TypeVar("T")


class Desk:
    """Holds nothing of its own but what reads go faster by: the engine and the store keep the state."""

    def __init__(
        self,
        *,
        door: EngineDoor,
        stager: ClientStager,
        data: DataDir,
        about: About,
        stop: Callable[[], None],
        wall_s: Callable[[], float],
        inviter: Inviter | None = None,
        insight: Insight | None = None,
    ) -> None:
        self.door = door
        self.stager = stager
        self.data = data
        self.filling = Filling(data.root)
        self.about = about
        self.stop = stop
        self.wall_s = wall_s
        self.inviter = inviter
        self.insight = insight
        self.keyring: Keyring | None = None
        """Signs what this site asks of others for its users; None on a machine that follows."""
        self.places = Places()
        self.views: Views | None = None
        """The dashboard and its activity; None on a machine that follows."""
        self.pair: Replication | None = None
        """The site's replication, where two machines keep its journal; else None."""
        self.metrics: Metrics | None = None
        self.notices: Notices | None = None

    async def request(self, want: type[T], make: Callable[[int], Event]) -> T:
        """The engine's answer, which must be a `want`; its refusals are raised."""
        body = await self.answer(want, make)
        if isinstance(body, Refusal):
            raise raised(body)
        return body

    async def answer(self, want: type[T], make: Callable[[int], Event]) -> T | Refusal:
        """The engine's answer, which must be a `want`, or its refusal."""
        body: ReplyBody = await self.door.request(make)
        if not isinstance(body, (want, Refusal)):
            raise DianaError(f"the engine answered {type(body).__name__} where {want.__name__} was asked")
        return body

    async def ask(self, want: type[T], principal: Principal, what: str, group: GroupId | None = None) -> T:
        return await self.request(want, lambda number: Ask(request=number, principal=principal, what=what, group=group))

    async def group(self, principal: Principal, group: GroupId) -> GroupView:
        """Denied unless the caller may see it."""
        return await self.ask(GroupView, principal, "group", group)


def raised(refusal: Refusal) -> DianaError:
    return error_of(Failure(code=refusal.code, text=refusal.text, retry_after_s=refusal.retry_after_s))


def checked_group(text: str) -> GroupId:
    if not is_group_id(text):
        group, _, index = text.partition(".")
        if is_group_id(group) and index.isdecimal():
            raise UsageError(f"{text} is a job, and a group is wanted here; diana status {text} tells how it fares")
        raise UsageError(f"group {text!r}: want SITE-NUMBER, such as alpha-12; `diana status` lists yours")
    return GroupId(text)


def checked_job(text: str) -> tuple[GroupId, int | None]:
    """`alpha-12.3` -> (alpha-12, 3); a group alone has no index."""
    group, dot, index = text.partition(".")
    if dot and not (index.isascii() and index.isdecimal() and len(index) <= 18):
        raise UsageError(f"job {text!r}: want SITE-NUMBER.INDEX, such as alpha-12.3")
    return checked_group(group), int(index) if dot else None
