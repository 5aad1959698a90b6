"""Logs of jobs that run, and logs that are followed until all has ended.

The log of a running job is read piece by piece from its site, which asks the machine where the job runs; nobody keeps
anything for those who follow.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

from diana.adapters.staging.refs import LiveRef, live_ref
from diana.engine.journal.events import Ask, Run
from diana.errors import Denied, DianaError
from diana.model.ids import GroupId, SubgroupId, job_id
from diana.model.kept_log import (
    ENDED,
    MOST_SHOWN_BYTES,
    OWN_FILES,
    RUNS,
    UNKNOWN,
    WAITS,
    LiveLog,
    decode_live,
    last_lines,
    mark,
)
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupView, JobPlace
from diana.node.api.chunks import current
from diana.node.api.desk import Desk
from diana.node.api.ended_logs import NOT_FAILED, ended_log, find_spots, spots_of
from diana.node.ways_in.door import GroupWatch
from diana.wire.client import messages as wire

LOOK_FIRST_S, LOOK_MOST_S = 0.2, 2.0
"""Seconds between two looks at a log that does not grow: at first, and after a while."""
_OLDER = "want dataset:"
"""Says a site whose release does not know how to show logs of running jobs (`staging/refs.py`)."""


class LogsOfWorkers(Protocol):
    """The workers of a site."""

    async def look_at_log(self, worker: str, run: Run, start: int, most: int) -> LiveLog: ...


def running_logs(
    run_of: Callable[[SubgroupId, int, int], tuple[str, int] | None], workers: LogsOfWorkers
) -> Callable[[LiveRef], Awaitable[LiveLog]]:
    """Return the way to show logs of jobs that run here, to users of this site and to the jobs' origins."""

    async def look(ref: LiveRef) -> LiveLog:
        found = run_of(ref.subgroup, ref.epoch, ref.job)
        if found is None:
            return LiveLog(WAITS)
        worker, attempt = found
        return await workers.look_at_log(worker, Run(ref.subgroup, ref.epoch, ref.job, attempt), ref.start, ref.most)

    return look


async def of_merge(
    desk: Desk, caller: Principal, view: GroupView, request: wire.LogsRequest
) -> AsyncGenerator[wire.LogsChunk, None]:
    """The log of the group's merge command, as of a job; the last chunk says how it failed."""
    name = f"{view.group}.merge"
    if view.merge == "waits" and not (request.follow and not view.final):
        begins = "the merge command begins once all jobs are done"
        if view.final:
            yield wire.LogsChunk(job=name, error=f"never ran: {begins}")
        else:
            yield wire.LogsChunk(job=name, error=f"no log yet: {begins}; -f waits for it", unreachable=True)
        return
    async with aclosing(of_job(desk, caller, view, view.indices, request, name)) as chunks:
        async for chunk in chunks:
            yield chunk
    view = await desk.group(caller, view.group)
    if view.final and view.merge in ("failed", "held"):
        # That this very call shows what it wrote is no news here.
        yield wire.LogsChunk(job=name, error=view.note.partition("; what it wrote")[0])


async def of_job(
    desk: Desk, caller: Principal, view: GroupView, index: int, request: wire.LogsRequest, name: str = ""
) -> AsyncGenerator[wire.LogsChunk, None]:
    """One job's log: what there is of it, or with `follow` all until the job has ended. It is called `name`, if that is
    not empty."""
    name = name or job_id(view.group, index)
    job = _Following(desk, caller, name, request)
    pause_s = LOOK_FIRST_S
    async with desk.door.watch(view.group) as watch:
        while True:
            spot = (await asyncio.to_thread(spots_of, desk, view, range(index, index + 1))).get(index)
            if spot is not None and spot.rank[0]:
                start = job.at if spot.rank[1] == job.attempt else 0
                ended = ended_log(desk, view.group, name, spot, start=start, tail=0 if start else job.tail)
                async with aclosing(ended) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            if view.final:
                yield wire.LogsChunk(job=name, error="never ran, so it has no log")
                return
            look = await job.look(view, index)
            for chunk in job.told(look):
                yield chunk
            if look.data and job.at < look.size:
                # There is more of it already.
                continue
            if not request.follow:
                if spot is not None and look.stand not in (RUNS, OWN_FILES):
                    # Until it has begun again, that of its last attempt is the newest.
                    async with aclosing(ended_log(desk, view.group, name, spot, tail=job.tail)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    return
                yield job.last(look)
                return
            pause_s = LOOK_FIRST_S if look.data else min(1.5 * pause_s, LOOK_MOST_S)
            await _change(watch, pause_s)
            view = await desk.group(caller, view.group)


async def _change(watch: GroupWatch, pause_s: float) -> None:
    """Return after this time, or soon after the group changed."""
    await asyncio.sleep(LOOK_FIRST_S)
    try:
        async with asyncio.timeout(pause_s - LOOK_FIRST_S):
            await watch.changed()
    except TimeoutError:
        pass


async def stand_of(desk: Desk, caller: Principal, view: GroupView, index: int) -> wire.JobStory:
    """The stand of a job that has not ended, as its site tells it now."""
    name = job_id(view.group, index)
    place = await where_is(desk, caller, view.group, index)
    if place.site is None:
        return wire.JobStory(job=name, state="held" if place.held else "waiting", note=place.note)
    look = await _Following(desk, caller, name, wire.LogsRequest(job=name)).look(view, index)
    state = _STATES.get(look.stand, "given")
    if place.held and state == "queued":
        state = "held"
    note = place.note or (look.note if look.stand in (WAITS, UNKNOWN) else "")
    return wire.JobStory(
        job=name,
        state=state,
        site=place.site,
        attempt=look.attempt,
        note=note,
        runs_for_s=look.runs_for_s if state == "running" else 0.0,
    )


_STATES = {RUNS: "running", OWN_FILES: "running", WAITS: "queued"}


async def where_is(desk: Desk, caller: Principal, group: GroupId, index: int) -> JobPlace:
    return await desk.request(
        JobPlace, lambda number: Ask(request=number, principal=caller, what="job", group=group, first=index)
    )


class _Following:
    """A log of a running job as far as it was told."""

    def __init__(self, desk: Desk, caller: Principal, name: str, request: wire.LogsRequest) -> None:
        self._desk = desk
        self._caller = caller
        self.name = name
        self.at = request.start
        self.attempt = request.attempt
        self.tail = 0 if request.start else request.tail
        """Lines that the first piece is to have; 0: all."""
        self._note = ""
        self._follow = request.follow

    async def look(self, view: GroupView, index: int) -> LiveLog:
        """Return the job's log as its site shows it now."""
        place = await where_is(self._desk, self._caller, view.group, index)
        if place.site is None:
            return LiveLog(WAITS, note=place.note or "is not placed yet")
        start = -MOST_SHOWN_BYTES if self.tail else self.at
        ref = live_ref(place.subgroup, place.epoch, index, start, MOST_SHOWN_BYTES)
        try:
            pieces = self._desk.stager.read(place.site, ref)
            look = decode_live(b"".join([piece async for piece in pieces]))
        except Denied:
            raise
        except (DianaError, ValueError) as fault:
            if _OLDER in str(fault):
                why = f"site {place.site} is of an older release and shows no logs of running jobs"
                return LiveLog(UNKNOWN, note=why)
            return LiveLog(UNKNOWN, note=place.note or f"site {place.site} shows no log of it just now")
        if look.stand == WAITS and not look.note:
            return LiveLog(WAITS, look.attempt, note=f"waits at {place.site}")
        return look

    def told(self, look: LiveLog) -> list[wire.LogsChunk]:
        """The chunks that tell what is new in it."""
        if look.stand != RUNS:
            note = look.note or ("writes to files of its own" if look.stand == OWN_FILES else "")
            if not note or note == self._note or not self._follow:
                return []
            self._note = note
            return [wire.LogsChunk(job=self.name, note=note, next=self.at, attempt=self.attempt)]
        if look.attempt != self.attempt:
            known, self.attempt = self.attempt, look.attempt
            if known:
                # Another attempt began: its log is another one.
                self.at = 0
                return []
        data, start = look.data, look.start
        if self.tail:
            cut = last_lines(data, self.tail)
            data, self.tail = data[cut:], 0
        elif start > self.at:
            data = mark(start - self.at, look.limit) + data
        self.at = start + len(look.data)
        if not data:
            return []
        return [wire.LogsChunk(job=self.name, data=data, next=self.at, attempt=self.attempt, running=True)]

    def last(self, look: LiveLog) -> wire.LogsChunk:
        """The last chunk of a log that is not followed."""
        if look.stand == RUNS:
            return wire.LogsChunk(job=self.name, attempt=self.attempt, running=True)
        if look.stand == OWN_FILES:
            return wire.LogsChunk(job=self.name, error="runs, and writes to files of its own", running=True)
        why = look.note or ("its end is being told" if look.stand == ENDED else "its site cannot say")
        return wire.LogsChunk(job=self.name, error=f"no log yet: {why}; -f waits for it", unreachable=True)


async def of_group(
    desk: Desk, caller: Principal, view: GroupView, request: wire.LogsRequest
) -> AsyncGenerator[wire.LogsChunk, None]:
    """Each job's log when it has ended, in that order, until the group is final. `next` counts the store's chunks that
    were told whole."""
    group, after = view.group, request.start
    async with desk.door.watch(group) as watch:
        while True:
            view = await desk.group(caller, group)
            source = current(itertools.islice(desk.door.store.facts(group), after, None), view)
            while (page := await asyncio.to_thread(next, source, None)) is not None:
                key, facts = page
                spots = find_spots(iter([(key, facts)]), range(view.indices), {})
                for index in sorted(spots):
                    if request.failed and spots[index].outcome in NOT_FAILED:
                        continue
                    name = job_id(group, index)
                    async with aclosing(ended_log(desk, group, name, spots[index], tail=request.tail)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                after += 1
                yield wire.LogsChunk(job=group, next=after)
            if view.final:
                return
            await _change(watch, LOOK_MOST_S)
