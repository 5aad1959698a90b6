"""A group's story: its shares per site, why it was placed so, why it waits, what failed last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from diana.cli.groups.decisions import summary
from diana.cli.groups.gangs import gang_lines, run_lines
from diana.cli.groups.look import heard
from diana.cli.groups.queue import waiting_lines
from diana.cli.shared import output
from diana.cli.top.tables import ending
from diana.client.results import JobResult, rows
from diana.model.signals import signal_name
from diana.model.views.group import GroupStatus, SiteShare
from diana.wire.client import messages as wire

if TYPE_CHECKING:
    from diana.client import AsyncClient

MOST_SHARES = 40
MOST_WAITING = 10
MOST_FAILED = 15
CHUNKS_A_LOOK = 20
"""Results are read on bit by bit, so that a group of a million jobs costs a look no more than others."""
_FINE = ("done",)
_SHARES = (
    "SITE", ">JOBS", ">STAGING", ">QUEUED", ">HELD", ">RUNNING", ">DONE", ">FAILED", "STATE", ">HEARD", "LEVEL",
)  # fmt: skip
_PARTS = ("SITE", ">JOBS", ">END", ">WAIT", ">STAGE IN", ">RUN", ">BYTES IN")


class Cells(str):
    """A row of a table."""

    __slots__ = ()


class Failures:
    """The last jobs of a group that did not end well, as far as its results were read."""

    def __init__(self, group: str) -> None:
        self.last: deque[JobResult] = deque(maxlen=MOST_FAILED)
        self.seen = 0
        """Results read."""
        self._group = group
        self._chunks = 0

    async def read_on(self, client: AsyncClient) -> None:
        stream = client.result_chunks(self._group, after=self._chunks)
        async with aclosing(cast("Any", stream)) as chunks:
            left = CHUNKS_A_LOOK
            async for chunk in chunks:
                self._chunks += 1
                self.seen += len(chunk.indices)
                if any(outcome not in _FINE for outcome in chunk.outcomes):
                    self.last += [job for job in rows(self._group, chunk) if not job.done]
                left -= 1
                if not left:
                    return


def story(status: GroupStatus, explained: wire.ExplainResponse | None, failures: Failures) -> list[str]:
    """Lines of plain text, without control characters; those of tables are `Cells`."""
    lines = [*_heading(status), *_shares(status.shares)]
    if explained is not None:
        lines += [*_decision(explained), *_waiting(explained)]
    lines += _failed(status, failures)
    return [line if isinstance(line, Cells) else output.clean(line) for line in lines]


def _heading(status: GroupStatus) -> Iterator[str]:
    drawn = output.bar(
        [(status.done, "#"), (status.failed + status.cancelled, "x"), (status.running, "-")], status.jobs, 40
    )
    yield f"{status.group}  {status.name or '-'}  of {status.owner}: {status.state}"
    yield f"[{drawn}] {status.done:,} of {output.counted(status.jobs, 'job')} done, end {ending(status)}"
    counts = output.fields(
        status, "failed", "cancelled", "held", "unreachable", "running", "queued", "staging", "unplaced", "gathering"
    )
    moved = f"{output.size(status.bytes_moved)} moved"
    yield ", ".join([*counts, moved, f"submitted {output.seconds(status.age_s)} ago", *_after(status)])
    if status.note:
        yield status.note


def _after(status: GroupStatus) -> list[str]:
    return [f"after {', '.join(status.after)}"] if status.after else []


def _table(title: str, header: Sequence[str], cells: list[list[str]]) -> Iterator[str]:
    yield ""
    yield title
    yield from map(Cells, output.aligned(header, [[output.clean(cell) for cell in row] for row in cells]))


def _shares(shares: Sequence[SiteShare]) -> Iterator[str]:
    if not shares:
        return
    cells = [
        [
            share.site,
            *(f"{n:,}" for n in (share.jobs, share.staging, share.queued, share.held, share.running)),
            *(f"{n:,}" for n in (share.done, share.failed)),
            share.state,
            heard(share.age_s),
            f"{share.level} {share.priority:.3f}" if share.level else "-",
        ]
        for share in shares[:MOST_SHARES]
    ]
    yield from _table("Where its jobs are:", _SHARES, cells)
    if len(shares) > MOST_SHARES:
        yield f"and {output.counted(len(shares) - MOST_SHARES, 'more part')}"


def _decision(explained: wire.ExplainResponse) -> Iterator[str]:
    if not explained.decisions:
        return
    # A call of a site that came free is a decision without prices.
    last = next((one for one in reversed(explained.decisions) if one.candidates), explained.decisions[-1])
    yield ""
    yield f"Why so: {last.reason or last.plan}"
    for line in summary(last):
        yield f"  {line}"
    cells = [
        [
            part.site,
            f"{part.jobs:,}",
            output.seconds(part.expected_end_s or part.predicted_end_s),
            output.seconds(part.wait_s),
            output.seconds(part.stage_in_s),
            output.seconds(part.run_s),
            output.size(part.bytes_in),
        ]
        for part in last.parts[:MOST_SHARES]
    ]
    if cells:
        yield from _table("The plan, in time from the decision on:", _PARTS, cells)
    rejected = [cost for cost in last.candidates if cost.rejected]
    for cost in rejected[:MOST_WAITING]:
        yield f"not {cost.site}: {cost.rejected}"
    if len(explained.decisions) > 1:
        yield f"the newest of {len(explained.decisions)} decisions; diana explain {explained.group} shows all"


def _waiting(explained: wire.ExplainResponse) -> Iterator[str]:
    if explained.gangs:
        yield ""
        yield "Its gangs that have not begun:"
        yield from (f"  {line}" for line in gang_lines(explained.gangs[:MOST_WAITING]))
    if explained.begun:
        yield ""
        yield "Its gangs that were let go:"
        yield from (f"  {line}" for line in run_lines(explained.begun[:MOST_WAITING]))
    for row in explained.waiting[:MOST_WAITING]:
        yield ""
        yield from waiting_lines(row)
    if len(explained.waiting) > MOST_WAITING:
        yield f"and {output.counted(len(explained.waiting) - MOST_WAITING, 'more place')} where jobs of it wait"
    yield from explained.ways[-MOST_WAITING:]
    for reason in explained.stays[:MOST_WAITING]:
        yield f"stays {reason}"


def _failed(status: GroupStatus, failures: Failures) -> Iterator[str]:
    if not failures.last:
        return
    cells = [
        [
            job.job,
            job.site,
            job.outcome.replace("_", " "),
            signal_name(job.signal) if job.signal else str(job.exit_code),
            job.error or "-",
        ]
        for job in reversed(failures.last)
    ]
    yield from _table("What failed last:", ("JOB", "SITE", "OUTCOME", ">EXIT", "ERROR"), cells)
    ended = status.done + status.failed + status.cancelled
    if failures.seen < ended:
        yield f"({failures.seen:,} of {ended:,} results read so far)"
    yield f"what they wrote: diana logs --failed {status.group}"
