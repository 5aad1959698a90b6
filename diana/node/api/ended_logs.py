"""Logs of jobs that have ended: where they lie, and their bytes. A log is a stretch of a segment at the site that ran
its job."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from diana.errors import DianaError
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.kept_log import MARK_BYTES, find_mark, last_lines
from diana.model.layout import DataDir
from diana.model.views.views import GroupView
from diana.node.api.desk import Desk
from diana.node.pair.elsewhere import other_machine
from diana.wire.client import messages as wire

if TYPE_CHECKING:
    from diana.node.pair.replication import Replication

READ_BYTES = 1 << 18
MOST_TAIL_BYTES = 4 << 20
"""Bytes at a log's end in which its last lines are looked for."""
NOT_FAILED = frozenset((Outcome.DONE, Outcome.CANCELLED, Outcome.LEASE_OVER))
"""Outcomes of jobs of which the logs of failed ones have nothing."""
_GONE = ": not at site "
"""Says another site of a file that it does not have (`staging/catalogue/holdings.py`)."""


class Spot(NamedTuple):
    """The place of the log of a job's last attempt."""

    rank: tuple[bool, int]
    """(not retried since, attempt): the highest is the newest."""
    outcome: int
    site: SiteId
    segment: str
    offset: int
    length: int
    truncated: bool
    error: str
    left: tuple[str, ...] = ()
    """Outputs of a job without a log: it may have written to them."""


def spots_of(desk: Desk, view: GroupView, window: range) -> dict[int, Spot]:
    """Find the logs' places. One job's log in a group of a million costs the chunk it is told in. Blocks on the
    disk."""
    store, group = desk.door.store, view.group
    numbers = desk.places.of(store, group, view.indices, IndexSet.span(window.start, window.stop))
    source = (chunk for number in numbers if (chunk := store.numbered_chunk(group, number)) is not None)
    return find_spots(source, window, dict(view.superseded))


def find_spots(
    source: Iterator[tuple[FactsKey, Facts]], window: range, superseded: dict[SubgroupId, IndexSet]
) -> dict[int, Spot]:
    """The newest attempt of each job in `window` that has one. Blocks on the disk."""
    spots: dict[int, Spot] = {}
    for key, facts in source:
        old = superseded.get(key.subgroup, IndexSet())
        errors = {error.index: error.text for error in facts.errors}
        left: dict[int, tuple[str, ...]] = {}
        for output in facts.outputs if not all(facts.log_segments) else ():
            left[output.index] = (*left.get(output.index, ()), output.name)
        for k, index in enumerate(facts.indices):
            if index not in window:
                continue
            had, rank = spots.get(index), (index not in old, facts.attempts[k])
            if had is not None and had.rank > rank:
                continue
            spots[index] = Spot(
                rank=rank,
                outcome=facts.outcomes[k],
                site=facts.site,
                segment=facts.log_segments[k],
                offset=facts.log_offsets[k],
                length=facts.log_lengths[k],
                truncated=facts.log_truncated[k],
                error=errors.get(index, ""),
                left=left.get(index, ()),
            )
    return spots


async def ended_log(
    desk: Desk, group: GroupId, name: str, spot: Spot, *, start: int = 0, tail: int = 0
) -> AsyncGenerator[wire.LogsChunk, None]:
    """The log of the job called `name`, from what it wrote after `start` bytes on, or only its last lines. The last
    chunk says how it ended if that is not well."""
    attempt = spot.rank[1]
    if not spot.segment:
        reason = spot.error or _no_log(group, spot)
        yield wire.LogsChunk(job=name, error=reason, attempt=attempt)
        return
    try:
        at = await _begin(desk, group, spot, start, tail)
        if at < spot.length:
            rest = spot._replace(offset=spot.offset + at, length=spot.length - at)
            async with aclosing(_bytes_of(desk, group, rest)) as pieces:
                async for piece in pieces:
                    yield wire.LogsChunk(job=name, data=piece, attempt=attempt)
        yield wire.LogsChunk(job=name, truncated=spot.truncated, error=spot.error, attempt=attempt)
    except (DianaError, OSError) as error:
        if isinstance(error, FileNotFoundError) or _GONE in str(error):
            index = name.rpartition(".")[2]
            result = f"; its result is: diana results {group} --from {index} --limit 1" if index.isdecimal() else ""
            text = f"its log is no longer at {spot.site}{result}"
        else:
            text = f"its log at {spot.site} cannot be had now: {_why(spot, error)}"
        yield wire.LogsChunk(job=name, error=text, unreachable=True)


def _no_log(group: GroupId, spot: Spot) -> str:
    if not spot.left:
        return "kept no log: it wrote to files of its own, or was never started"
    more = f" and {len(spot.left) - 1} more" if len(spot.left) > 1 else ""
    return f"kept no log: it left {spot.left[0]}{more}; diana fetch {group} brings it"


async def _begin(desk: Desk, group: GroupId, spot: Spot, start: int, tail: int) -> int:
    """Where in the kept log to begin."""
    if tail:
        first = max(0, spot.length - MOST_TAIL_BYTES)
        return first + last_lines(b"".join([piece async for piece in _tail_of(desk, group, spot, first)]), tail)
    if not start or not spot.truncated:
        return min(start, spot.length)
    # The head is where it was; the tail was written after what is left out.
    at, held = 0, b""
    async with aclosing(_bytes_of(desk, group, spot)) as pieces:
        async for piece in pieces:
            held += piece
            if found := find_mark(held):
                head, left_out, line = at + found[0], found[1], found[2]
                return start if start <= head else head if start <= head + left_out else start - left_out + line
            at, held = at + max(0, len(held) - MARK_BYTES), held[-MARK_BYTES:]
    return min(start, spot.length)


async def _tail_of(desk: Desk, group: GroupId, spot: Spot, first: int) -> AsyncGenerator[bytes, None]:
    if first < spot.length:
        rest = spot._replace(offset=spot.offset + first, length=spot.length - first)
        async with aclosing(_bytes_of(desk, group, rest)) as pieces:
            async for piece in pieces:
                yield piece


def _why(spot: Spot, error: Exception) -> str:
    """The reason as the user is told it, without the names that only nodes have for the log."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = str(error).removeprefix(f"log:{spot.segment}: ")
    return said.replace("; try again", "; try again when diana peers shows it alive", 1).removesuffix(" later")


async def _bytes_of(desk: Desk, group: GroupId, spot: Spot) -> AsyncGenerator[bytes, None]:
    if spot.site != desk.about.site:
        async with aclosing(_remote(desk, spot)) as pieces:
            async for piece in pieces:
                yield piece
        return
    at, end = spot.offset, spot.offset + spot.length
    while at < end:
        try:
            piece = await asyncio.to_thread(read_segment, desk.data, group, spot.segment, at, min(READ_BYTES, end - at))
        except FileNotFoundError:
            if desk.pair is None or at != spot.offset:
                raise
            async with aclosing(_at_the_other(desk, desk.pair, spot)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        if not piece:
            raise DianaError(f"segment {spot.segment} ends at byte {at}, before the log does")
        at += len(piece)
        yield piece


async def _at_the_other(desk: Desk, pair: Replication, spot: Spot) -> AsyncGenerator[bytes, None]:
    """The machine that led when the job ended has its log."""
    if not pair.other_up_now:
        raise DianaError(f"it is on machine {pair.pair.other}, which is away; read it when that is back")
    try:
        async with aclosing(_remote(desk, spot._replace(site=other_machine(pair)))) as pieces:
            async for piece in pieces:
                yield piece
    except DianaError as error:
        raise DianaError(f"it is on machine {pair.pair.other}, not here: {error}") from None


async def _remote(desk: Desk, spot: Spot) -> AsyncGenerator[bytes, None]:
    """Read a log at another site, in pieces that fit a frame and never more than was asked."""
    left = spot.length
    async for data in desk.stager.read(spot.site, f"log:{spot.segment}", spot.offset, spot.length):
        data = data[:left]
        left -= len(data)
        for at in range(0, len(data), READ_BYTES):
            yield data[at : at + READ_BYTES]
        if left <= 0:
            return


def read_segment(data: DataDir, group: GroupId, segment: str, offset: int, length: int) -> bytes:
    """A stretch of one of the group's own segments; the name came in facts, which a peer may have written."""
    parts = segment.split("/")
    if len(parts) != 2 or parts[0] != group or parts[1] in ("", ".", "..") or "\0" in segment:
        raise DianaError(f"log segment {segment!r} does not belong to {group}")
    handle = os.open(data.logs_root / segment, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.pread(handle, length, offset)
    finally:
        os.close(handle)
