"""The call behind `diana history`: the groups that were submitted here, and how each of their jobs ran; with `grid`
also what other sites tell of theirs.

The engine tells a page of groups at a time; the rows of their jobs come from the store, in a thread. Another site's
history is read from it over its data service, by a token that this site signs for the user who asks."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Literal

import msgspec
from msgspec.structs import replace

from diana.engine.journal import columns
from diana.engine.journal.events import Ask
from diana.engine.messages.messages import Authorisation
from diana.engine.site.surroundings import Keyring
from diana.errors import Denied, DianaError, Overloaded, UsageError, one_line
from diana.model.facts import Facts
from diana.model.ids import GroupId, SiteId, is_group_id, origin_of
from diana.model.settings import Settings
from diana.model.trust import past_claim
from diana.model.trust.principal import Principal, Role
from diana.model.views.past import PastGroup, PastGroups, PastRows, PastSite
from diana.model.views.views import Sites
from diana.node.api.chunks import only, without
from diana.node.api.convert import outcome_name
from diana.node.api.desk import Desk
from diana.node.api.follow import read_page
from diana.policy.trust.statement import site_signer
from diana.wire.client.history import HistoryChunk, HistoryRequest

MOST_ROWS = 10_000
"""Rows of one message."""
MOST_FRAME_BYTES = 4 << 20
"""Bytes of one message that another site tells."""
MOST_TOLD_BYTES = 4 << 30
MOST_TOLD_GROUPS = 10_000_000
"""Bytes and groups that one site may tell."""
MOST_TELLINGS = 2
"""Histories that are told to other sites at once."""
TELL_AT_MOST_S = 600.0
"""Seconds after which a history that is still told gives way to the next site that asks."""
TELL_WITHIN_S = 60.0
"""Seconds that a site may be silent in the midst of its history."""
MOST_TRIES = 16
"""Rows of one job, its earlier attempts included."""


async def history(desk: Desk, caller: Principal, request: HistoryRequest) -> AsyncGenerator[HistoryChunk, None]:
    if request.to_wall_s and not 0 <= request.from_wall_s < request.to_wall_s:
        raise UsageError("history: the span ends before it begins; give a later end")
    async with aclosing(_of_here(desk, caller, request)) as chunks:
        async for chunk in chunks:
            yield chunk
    if not request.grid:
        return
    known = await desk.ask(Sites, caller, "sites")
    for site in sorted(row.shown.site for row in known.sites if not row.shown.home):
        try:
            async with aclosing(_of_other(desk, caller, request, SiteId(site))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (DianaError, TimeoutError) as fault:
            why = "it fell silent" if isinstance(fault, TimeoutError) else one_line(str(fault))
            yield HistoryChunk(untold=site, why=why)


async def _of_here(desk: Desk, caller: Principal, request: HistoryRequest) -> AsyncGenerator[HistoryChunk, None]:
    yield HistoryChunk(site=await desk.ask(PastSite, caller, "history-site"))
    first, before = 0, None
    while True:
        page = await desk.request(PastGroups, _asks(caller, request, first, before))
        for group, superseded in zip(page.groups, page.superseded, strict=True):
            yield HistoryChunk(group=group)
            source = without(desk.door.store.facts(group.group), superseded)
            # A page at a time: a group may have a million rows.
            while some := await asyncio.to_thread(read_page, source):
                for rows in (each for facts in some for each in _rows(facts, group.jobs)):
                    yield HistoryChunk(rows=rows)
            source = only(desk.door.store.facts(group.group), superseded) if superseded else iter(())
            while some := await asyncio.to_thread(read_page, source):
                for rows in (each for facts in some for each in _rows(facts, group.jobs)):
                    yield HistoryChunk(rows=replace(rows, earlier=True))
        if page.next < 0:
            return
        first, before = page.next, page.last


def _asks(caller: Principal, request: HistoryRequest, first: int, before: GroupId | None) -> Callable[[int], Ask]:
    return lambda number: Ask(
        request=number,
        principal=caller,
        what="history",
        group=before,
        first=first,
        from_wall_s=request.from_wall_s,
        to_wall_s=request.to_wall_s,
    )


def _rows(facts: Facts, jobs: int) -> list[PastRows]:
    """The rows of jobs; that of the merge, which is none, has an index behind theirs."""
    kept = [at for at, index in enumerate(facts.indices) if index < jobs]
    if len(kept) < len(facts.indices):
        facts = columns.pick(facts, kept)
    sizes: Counter[int] = Counter()
    for output in facts.outputs:
        sizes[output.index] += output.size_bytes
    return [
        PastRows(
            site=facts.site,
            indices=tuple(facts.indices[some]),
            attempts=tuple(facts.attempts[some]),
            outcomes=tuple(map(outcome_name, facts.outcomes[some])),
            started_s=tuple(facts.started_s[some]),
            ended_s=tuple(facts.ended_s[some]),
            cpu_s=tuple(facts.cpu_s[some]),
            max_rss_bytes=tuple(facts.max_rss_bytes[some]),
            output_bytes=tuple(sizes[index] for index in facts.indices[some]),
        )
        for some in (slice(at, at + MOST_ROWS) for at in range(0, len(facts.indices), MOST_ROWS))
    ]


# --- told to another site ------------------------------------------------------------------------------------


class PastTeller:
    """Tells this site's history to other sites, as far as the setting `history_for` allows."""

    def __init__(
        self, desk: Desk, keyring: Keyring, settings: Callable[[], Settings], now_s: Callable[[], float]
    ) -> None:
        self._desk = desk
        self._keyring = keyring
        self._settings = settings
        self._now_s = now_s
        self._tellings: dict[int, float] = {}
        """Number of a telling -> when it began, the oldest first."""
        self._number = 0

    async def tell(self, token: str, reader: SiteId) -> AsyncIterator[bytes]:
        """Frames of this site's history. Denied in one line for a claim that does not hold."""
        claim = self._checked(token, reader)
        here, number = self._desk.about.site, self._admitted()
        try:
            caller = Principal(Role(claim.role), claim.owner)
            request = HistoryRequest(from_wall_s=claim.from_wall_s, to_wall_s=claim.to_wall_s)
            async with aclosing(_of_here(self._desk, caller, request)) as chunks:
                async for chunk in chunks:
                    if number not in self._tellings:
                        raise Overloaded(
                            f"site {here} told its history for {TELL_AT_MOST_S:g} s, and others asked; "
                            "ask again for a shorter span"
                        )
                    if chunk.site is not None:
                        # Settings name users and paths.
                        chunk = HistoryChunk(site=replace(chunk.site, settings=""))
                    data = msgspec.msgpack.encode(chunk)
                    yield len(data).to_bytes(4, "big") + data
        finally:
            self._tellings.pop(number, None)

    def _admitted(self) -> int:
        """The number of a new telling. Overloaded where so many go on that began a short while ago; one that goes on
        for longer loses its place, and ends when its reader takes what comes next."""
        now_s = self._now_s()
        if len(self._tellings) >= MOST_TELLINGS:
            oldest, since_s = next(iter(self._tellings.items()))
            if now_s - since_s < TELL_AT_MOST_S:
                raise Overloaded(f"site {self._desk.about.site} tells its history to others just now; ask again later")
            del self._tellings[oldest]
        self._number += 1
        self._tellings[self._number] = now_s
        return self._number

    def _checked(self, token: str, reader: SiteId) -> past_claim.PastClaim:
        here = self._desk.about.site
        try:
            signed, claim = past_claim.signed_of(token)
        except ValueError as fault:
            raise Denied(f"history of {here}: {fault}") from None
        said = Authorisation(
            owner=claim.owner,
            spec_sha256=signed.spec_sha256,
            group=_NO_GROUP,
            expires_wall_s=signed.expires_wall_s,
            signer=site_signer(reader),
            certificate=signed.certificate,
            signature=signed.signature,
            signed_wall_s=signed.signed_wall_s,
        )
        why = past_claim.wrong(claim, here, reader, self._desk.wall_s()) or self._keyring.check(said, signed.claim)
        if why:
            raise Denied(f"history of {here}: {why}")
        if why := past_claim.refused(self._settings().history_for, claim.role):
            raise Denied(f"site {here} {why}")
        return claim


_NO_GROUP = GroupId("history-0")
"""Stands for the group in what is signed: a claim is about none."""


# --- asked of another site -----------------------------------------------------------------------------------


def token_for(keyring: Keyring, here: str, site: str, caller: Principal, request: HistoryRequest, now_s: float) -> str:
    """The token by which this site asks another for its history, for the caller."""
    role: Literal["user", "operator"] = "operator" if caller.role is Role.OPERATOR else "user"
    claim = past_claim.payload(here, site, caller.name, role, (request.from_wall_s, request.to_wall_s), now_s)
    said = keyring.authorise(caller.name, _NO_GROUP, claim)
    return past_claim.token_of(
        past_claim.SignedClaim(
            claim, said.spec_sha256, said.expires_wall_s, said.signed_wall_s, said.certificate, said.signature
        )
    )


async def _of_other(
    desk: Desk, caller: Principal, request: HistoryRequest, site: SiteId
) -> AsyncGenerator[HistoryChunk, None]:
    if desk.keyring is None:
        raise UsageError("this machine does not lead its site; ask the one that does")
    token = token_for(desk.keyring, desk.about.site, site, caller, request, desk.wall_s())
    pieces = desk.stager.read(site, f"past:{token}")
    checking, left, told = _Checking(site), bytearray(), 0
    while True:
        async with asyncio.timeout(TELL_WITHIN_S):
            piece = await anext(pieces, b"")
        if not piece:
            break
        left += piece
        told += len(piece)
        if told > MOST_TOLD_BYTES:
            raise Denied(f"site {site} tells more than {MOST_TOLD_BYTES >> 30} GiB")
        while len(left) >= 4:
            size = int.from_bytes(left[:4], "big")
            if size > MOST_FRAME_BYTES:
                raise Denied(f"site {site} tells nonsense: a message of {size:,} bytes")
            if len(left) < 4 + size:
                break
            yield checking.checked(bytes(left[4 : 4 + size]))
            del left[: 4 + size]
    if left or not checking.began:
        raise DianaError(f"the history of site {site} broke off")


class _Checking:
    """Read another site's account of itself, message by message: Denied names what no honest site would say."""

    def __init__(self, site: SiteId) -> None:
        self._site = site
        self.began = False
        self._number = -1
        self._group: PastGroup | None = None
        self._rows = self._groups = 0

    def checked(self, data: bytes) -> HistoryChunk:
        try:
            chunk = msgspec.msgpack.decode(data, type=HistoryChunk)
        except (msgspec.DecodeError, RecursionError):
            raise self._nonsense("a message that cannot be read") from None
        if chunk.untold or chunk.why or sum(x is not None for x in (chunk.site, chunk.group, chunk.rows)) != 1:
            raise self._nonsense("a message of no kind")
        if chunk.site is not None:
            if self.began or chunk.site.site != self._site or chunk.site.settings:
                raise self._nonsense("another site's word")
            self._check_site(chunk.site)
            self.began = True
        elif not self.began:
            raise self._nonsense("groups before itself")
        elif chunk.group is not None:
            self._check_group(chunk.group)
        elif chunk.rows is not None:
            self._check_rows(chunk.rows)
        return chunk

    def _check_site(self, said: PastSite) -> None:
        times = [w for one in said.maintenance for w in (one.from_wall_s, one.to_wall_s)]
        times += [one.wall_s for one in said.moments]
        slots = [said.slots, *(one.slots for one in said.moments), *(one.slots for one in said.machines)]
        if not (0 < said.speed <= 1e6 and all(0 < one.speed <= 1e6 for one in said.moments)):
            raise self._nonsense("a speed of nothing")
        if not _finite(times) or not all(0 <= one <= 1_000_000_000 for one in slots):
            raise self._nonsense("slots or times that are none")

    def _check_group(self, said: PastGroup) -> None:
        self._groups += 1
        if not is_group_id(said.group) or origin_of(said.group) != self._site or self._groups > MOST_TOLD_GROUPS:
            raise self._nonsense(f"group {said.group[:40]!a}")
        number = int(said.group.rpartition("-")[2])
        times = (said.submitted_wall_s, said.submitted_s, said.work_s, *(one.after_s for one in said.orders))
        if number <= self._number or said.jobs < 1 or not _finite(times):
            raise self._nonsense(f"group {said.group}")
        self._number, self._group, self._rows = number, said, 0

    def _check_rows(self, said: PastRows) -> None:
        group, count = self._group, len(said.indices)
        self._rows += count
        columns_of = (said.attempts, said.outcomes, said.started_s, said.ended_s, said.cpu_s, said.max_rss_bytes)
        if group is None or self._rows > MOST_TRIES * group.jobs:
            raise self._nonsense("rows of no group")
        if any(len(one) != count for one in (*columns_of, said.output_bytes)):
            raise self._nonsense("columns that differ in length")
        if not all(0 <= one < group.jobs for one in said.indices):
            raise self._nonsense(f"jobs that {group.group} does not have")
        if not (_finite(said.started_s) and _finite(said.ended_s) and _finite(said.cpu_s)):
            raise self._nonsense("times that are none")

    def _nonsense(self, text: str) -> Denied:
        return Denied(f"site {self._site} tells nonsense: {text}")


def _finite(values: tuple[float, ...] | list[float]) -> bool:
    return all(math.isfinite(one) and abs(one) < 1e12 for one in values)
