"""Gathered outputs on their way to a client, each with its SHA-256.

Files the results name are served from the folder of the gathered outputs and must have the recorded hash. The
group's own folder belongs to it alone, so once the group is final whatever else stands there (what the merge command
made) is served too; in a folder the user named, nothing but the group's outputs is touched.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from fnmatch import fnmatchcase

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.paths import NotPlain, Root, Unlinked, files_below, open_file
from diana.errors import DianaError, Unreachable, UsageError
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.job.urls import is_url
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupView
from diana.model.words import counted
from diana.node.api import ended
from diana.node.api.chunks import current
from diana.node.api.control import target
from diana.node.api.desk import Desk
from diana.node.pair.elsewhere import other_machine
from diana.wire.client import messages as wire

READ_BYTES = 1 << 20


async def fetch(desk: Desk, caller: Principal, request: wire.FetchRequest) -> AsyncGenerator[wire.FetchChunk, None]:
    group, jobs = target(request.group)
    view = await desk.group(caller, group)
    folder, own = where(desk, view)
    if jobs is not None:
        named = await _of_jobs(desk, caller, group, request, jobs)
        other = _Other(desk, group) if own and desk.pair is not None else None
        for name in sorted(named):
            async with aclosing(one(folder, name, named[name], other, _or_at_the_other(desk))) as chunks:
                async for chunk in chunks:
                    yield chunk
        return
    named = await asyncio.to_thread(wanted_outputs, current(desk.door.store.facts(group), view), request.pattern)
    other = _Other(desk, group) if own and desk.pair is not None else None
    if own and view.final:
        for name in await asyncio.to_thread(lambda: list(files_below(desk.data.gathered(group)))):
            if matches(name, request.pattern):
                named.setdefault(name, "")
        if other is not None:
            merged = all(named.values()) and await asyncio.to_thread(
                _merged, desk.door.store.facts(group), view.indices
            )
            for name in await other.names(merged):
                if matches(name, request.pattern):
                    named.setdefault(name, "")
    if not named:
        raise UsageError(_nothing(request, view))
    for name in sorted(named):
        async with aclosing(one(folder, name, named[name], other, _or_at_the_other(desk))) as chunks:
            async for chunk in chunks:
                yield chunk


async def _of_jobs(
    desk: Desk, caller: Principal, group: GroupId, request: wire.FetchRequest, jobs: IndexSet
) -> dict[str, str]:
    """Name -> SHA-256 of what these jobs left. UsageError where that is nothing."""
    named: dict[str, str] = {}
    asked = wire.ResultsRequest(group=group, outcome=ended.ANY)
    async with aclosing(ended.pages_of(desk, caller, group, asked, jobs)) as pages:
        async for _, facts in pages:
            named.update((o.name, o.sha256) for o in facts.outputs if matches(o.name, request.pattern))
    if not named:
        which = f" that match {request.pattern!r}" if request.pattern else ""
        stand = f"diana status {shlex.quote(request.group)} tells how it stands"
        raise UsageError(f"{request.group}: no outputs{which}; {stand}, diana logs what it printed")
    return named


def where(desk: Desk, view: GroupView) -> tuple[Root, bool]:
    """The folder its outputs are gathered in, and whether that is the group's own."""
    own = not view.outputs_to or is_url(view.outputs_to) or desk.stager.delivery is not None
    return desk.data.gathered(view.group) if own else Unlinked.outside(view.outputs_to, desk.data.root), own


async def late(
    desk: Desk, view: GroupView, named: dict[str, str]
) -> AsyncGenerator[wire.FetchChunk | DianaError, None]:
    """Once the group is final: what of the outputs `named` can be had, on whichever machine, and why others cannot."""
    folder, own = where(desk, view)
    other = _Other(desk, view.group) if own and desk.pair is not None else None
    for name in sorted(named):
        try:
            async with aclosing(one(folder, name, named[name], other, _or_at_the_other(desk))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except DianaError as fault:
            yield fault


def _nothing(request: wire.FetchRequest, view: GroupView) -> str:
    which = f" that match {request.pattern!r}" if request.pattern else ""
    if not view.final:
        mend = " yet; `diana wait` for it first"
    elif not view.leaves:
        mend = "; a job file names them under outputs.collect; diana logs has what jobs printed"
    elif view.failed:
        jobs = f"{counted(view.failed, 'job')} of it failed: diana logs --failed {request.group}"
        mend = f"; {jobs}" if request.pattern else f": its jobs left none of what they were to leave; {jobs}"
    else:
        mend = "" if request.pattern else ": its jobs left none of what they were to leave"
        mend += f"; {counted(view.cancelled, 'job')} of it cancelled" if view.cancelled else ""
    return f"group {request.group}: no outputs{which}{mend}"


def matches(name: str, pattern: str) -> bool:
    """Shell pattern over the whole name or over its last part."""
    return not pattern or fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)


def wanted_outputs(source: Iterator[tuple[FactsKey, Facts]], pattern: str) -> dict[str, str]:
    """Name -> SHA-256 of the outputs recorded so far. Blocks on the disk."""
    return {o.name: o.sha256 for _, facts in source for o in facts.outputs if matches(o.name, pattern)}


def _merged(source: Iterator[tuple[FactsKey, Facts]], indices: int) -> bool:
    """True if a merge command ran: its results are those of the index after the last. Blocks."""
    return any(facts.indices == [indices] for _, facts in source)


def _or_at_the_other(desk: Desk) -> str:
    """Name the other place a file may be: gathered outputs stay on the machine that led when they came."""
    if desk.pair is None:
        return ""
    return f", or in that folder on machine {desk.pair.pair.other}"


class _Other:
    """The group's own folder on the site's other machine."""

    def __init__(self, desk: Desk, group: GroupId) -> None:
        assert desk.pair is not None
        self._stager = desk.stager
        self._pair = desk.pair
        self._at = other_machine(desk.pair)
        self._machine = desk.pair.pair.other
        self._ref = f"gathered:{group}"

    async def names(self, must: bool) -> list[str]:
        """Names of all files there; none when that machine is away, unless they `must` be had: then Unreachable."""
        if not must and not self._pair.other_up_now:
            return []
        self._reach("what the merge command made")
        return b"".join([piece async for piece in self._stager.read(self._at, self._ref)]).decode().splitlines()

    async def file(self, name: str, sha256: str) -> AsyncGenerator[wire.FetchChunk, None]:
        self._reach(f"output {name}")
        digest, size = hashlib.sha256(), 0
        async for data in self._stager.read(self._at, f"{self._ref}/{name}"):
            digest.update(data)
            size += len(data)
            yield wire.FetchChunk(name=name, size_bytes=size, data=data)
        found = digest.hexdigest()
        if sha256 and found != sha256:
            raise DianaError(f"output {name} on machine {self._machine} was changed since it was gathered; remove it")
        yield wire.FetchChunk(name=name, size_bytes=size, sha256=found, last=True)

    def _reach(self, what: str) -> None:
        if not self._pair.other_up_now:
            raise Unreachable(f"{what} is on machine {self._machine}, which is away; fetch it when that is back")


async def one(
    folder: Root, name: str, sha256: str, other: _Other | None = None, or_at: str = ""
) -> AsyncGenerator[wire.FetchChunk, None]:
    """A file in pieces, the last with its SHA-256, which is `sha256` unless that is empty. DianaError."""
    try:
        handle = await asyncio.to_thread(open_below, folder, name)
    except FileNotFoundError:
        if other is not None:
            async with aclosing(other.file(name, sha256)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        raise DianaError(
            f"output {name} is not in {folder}: still on its way, or moved since it was gathered{or_at}"
        ) from None
    try:
        size = os.fstat(handle).st_size
        digest = hashlib.sha256()
        while True:
            data = await asyncio.to_thread(_read, handle, digest)
            if not data:
                break
            yield wire.FetchChunk(name=name, size_bytes=size, data=data)
    except OSError as fault:
        raise DianaError(f"output {name} in {folder} cannot be read: {fault.strerror}") from None
    finally:
        os.close(handle)
    found = digest.hexdigest()
    if sha256 and found != sha256:
        raise DianaError(f"output {name} in {folder} was changed since it was gathered; remove it, or fetch the others")
    yield wire.FetchChunk(name=name, size_bytes=size, sha256=found, last=True)


def _read(handle: int, digest: hashlib._Hash) -> bytes:
    data = os.read(handle, READ_BYTES)
    digest.update(data)
    return data


def open_below(folder: Root, name: str) -> int:
    """A descriptor of a regular file below `folder`, no link on the way followed. FileNotFoundError, DianaError."""
    try:
        return open_file(folder, parts_of(name))
    except BadName as bad:
        raise DianaError(f"output in {folder}: {bad}") from None
    except NotPlain:
        raise DianaError(f"output {name} in {folder} is no regular file; remove it, or fetch the others") from None
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise DianaError(f"output {name} in {folder} cannot be read: {fault.strerror}") from None
