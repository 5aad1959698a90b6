"""Gathered outputs while the group still runs: each leaves as soon as its batch is in the group's folder.

What a batch left travels in as few messages as its size allows, so that a million small files cost no call and no
thread each.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import NamedTuple

from diana.adapters.staging.paths import Root
from diana.errors import DianaError, UsageError
from diana.model.facts import FactsKey, OutputFile
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupView
from diana.node.api import fetch
from diana.node.api.chunks import Chunk, current
from diana.node.api.control import target
from diana.node.api.desk import Desk
from diana.node.api.follow import LOOK_EVERY_S, PAGE_JOBS
from diana.wire.client import messages as wire

SMALL_BYTES = 256 << 10
"""A file up to this is one message; it is read together with others."""
READ_BYTES = 1 << 20
"""Bytes of small files read in one go."""
MOST_RANGES = 4096
"""Ranges that a caller may name of the jobs it has already."""

Lacking = dict[FactsKey, list[OutputFile]]


class Bad(NamedTuple):
    """An output that lies there and cannot be served: no link or device is read, and no file that somebody changed is
    passed on."""

    output: OutputFile
    why: str


async def fetch_or_follow(
    desk: Desk, caller: Principal, request: wire.FetchRequest
) -> AsyncGenerator[wire.FetchChunk, None]:
    way = _follow if request.follow else fetch.fetch
    async with aclosing(way(desk, caller, request)) as chunks:
        async for chunk in chunks:
            yield chunk


async def _follow(desk: Desk, caller: Principal, request: wire.FetchRequest) -> AsyncGenerator[wire.FetchChunk, None]:
    """The jobs' outputs, without what a merge command wrote. Ends when the group is final; then what cannot be had is
    told, after all that can."""
    group, jobs = target(request.group)
    if jobs is not None:
        raise UsageError(f"{request.group}: outputs are followed of a whole group; leave --follow (-f) out")
    skip = _have(request.skip)
    lacking: Lacking = {}
    bad: list[Bad] = []
    read = 0
    loop = asyncio.get_running_loop()
    async with desk.door.watch(group) as watch:
        while True:
            view = await desk.group(caller, group)
            folder, _ = fetch.where(desk, view)
            began = loop.time()
            source = current(itertools.islice(desk.door.store.facts(group), read, None), view)
            while page := await asyncio.to_thread(_page, source):
                for key, outputs in page:
                    read += 1
                    if found := [o for o in outputs if o.index not in skip and fetch.matches(o.name, request.pattern)]:
                        lacking.setdefault(key, []).extend(found)
            if view.final:
                break
            for key in sorted(lacking.keys() - set(view.on_their_way)):
                async with aclosing(_arrived(folder, lacking.pop(key))) as arrived:
                    async for chunk in arrived:
                        if isinstance(chunk, OutputFile):
                            lacking.setdefault(key, []).append(chunk)
                        elif isinstance(chunk, Bad):
                            bad.append(chunk)
                        else:
                            yield chunk
            # Skipping what was read costs with the group's size: the pause grows with it.
            await asyncio.sleep(max(LOOK_EVERY_S, 5 * (loop.time() - began)))
            await watch.changed()
    async with aclosing(_rest(desk, view, list(itertools.chain(*lacking.values())), bad)) as rest:
        async for chunk in rest:
            yield chunk


def _have(text: str) -> IndexSet:
    if text.count(",") >= MOST_RANGES:
        raise UsageError(f"skip: more than {MOST_RANGES} ranges; name the largest")
    try:
        return IndexSet.parse(text) if text else IndexSet()
    except ValueError as error:
        raise UsageError(f"skip: {error}") from None


def _page(source: Iterator[Chunk]) -> list[tuple[FactsKey, list[OutputFile]]]:
    """The next chunks' outputs, about PAGE_JOBS of them; empty at the end. Blocks on the disk."""
    page: list[tuple[FactsKey, list[OutputFile]]] = []
    rows = 0
    for key, facts in source:
        page.append((key, facts.outputs))
        rows += len(facts.indices)
        if rows >= PAGE_JOBS:
            break
    return page


async def _arrived(folder: Root, outputs: list[OutputFile]) -> AsyncGenerator[wire.FetchChunk | OutputFile | Bad, None]:
    """Files as messages; as it was given what is not here: its batch was not known to be on its way yet, or it lies on
    the site's other machine. No file's fault ends the others' way."""
    small = [o for o in outputs if o.size_bytes <= SMALL_BYTES]
    while small:
        told, small = await asyncio.to_thread(_read_some, folder, small)
        for each in told:
            yield each
    for output in outputs:
        if output.size_bytes > SMALL_BYTES:
            try:
                if not await asyncio.to_thread(_is_there, folder, output.name):
                    yield output
                    continue
                async with aclosing(fetch.one(folder, output.name, output.sha256)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except DianaError as fault:
                yield Bad(output, str(fault))


def _is_there(folder: Root, name: str) -> bool:
    try:
        os.close(fetch.open_below(folder, name))
    except FileNotFoundError:
        return False
    return True


def _read_some(
    folder: Root, outputs: list[OutputFile]
) -> tuple[list[wire.FetchChunk | OutputFile | Bad], list[OutputFile]]:
    """About READ_BYTES of them, and those left for later. Blocks."""
    told: list[wire.FetchChunk | OutputFile | Bad] = []
    size = 0
    for at, output in enumerate(outputs):
        if size >= READ_BYTES:
            return told, outputs[at:]
        try:
            with open(fetch.open_below(folder, output.name), "rb") as file:
                data = file.read(SMALL_BYTES + 1)
        except FileNotFoundError:
            told.append(output)
            continue
        except DianaError as fault:
            told.append(Bad(output, str(fault)))
            continue
        except OSError as fault:
            told.append(Bad(output, f"output {output.name} in {folder} cannot be read: {fault.strerror}"))
            continue
        size += len(data)
        if hashlib.sha256(data).hexdigest() != output.sha256:
            told.append(Bad(output, f"output {output.name} in {folder} was changed since it was gathered"))
            continue
        told.append(wire.FetchChunk(name=output.name, size_bytes=len(data), data=data, sha256=output.sha256, last=True))
    return told, []


async def _rest(
    desk: Desk, view: GroupView, lacking: list[OutputFile], bad: list[Bad]
) -> AsyncGenerator[wire.FetchChunk, None]:
    """DianaError at the end, for the first that cannot be had."""
    if not lacking and not bad:
        return
    # Jobs that were retried since have others, or will never have any.
    valid = await asyncio.to_thread(fetch.wanted_outputs, current(desk.door.store.facts(view.group), view), "")
    left = [o for o in lacking if valid.get(o.name) == o.sha256]
    elsewhere: dict[str, str] = {}
    faults = [DianaError(each.why) for each in bad if valid.get(each.output.name) == each.output.sha256]
    async with aclosing(_arrived(fetch.where(desk, view)[0], left)) as arrived:
        async for chunk in arrived:
            if isinstance(chunk, OutputFile):
                elsewhere[chunk.name] = chunk.sha256
            elif isinstance(chunk, Bad):
                faults.append(DianaError(chunk.why))
            else:
                yield chunk
    async with aclosing(fetch.late(desk, view, elsewhere)) as late:
        async for told in late:
            if isinstance(told, DianaError):
                faults.append(told)
            else:
                yield told
    if faults:
        raise faults[0]
