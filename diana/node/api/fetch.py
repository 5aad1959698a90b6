"""Gathered outputs on their way to a client, each with its SHA-256.

Files the results name are served from the folder of the gathered outputs and must have the recorded hash. The
group's own folder belongs to it alone, so once the group is final whatever else stands there (what the merge command
made) is served too; in a folder the user named, nothing but the group's outputs is touched.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from fnmatch import fnmatchcase
from pathlib import Path

from diana.adapters.staging.paths import NotPlain, open_file
from diana.adapters.staging.refs import BadName, parts_of
from diana.errors import DianaError, UsageError
from diana.model.facts import Facts, FactsKey
from diana.model.principal import Principal
from diana.model.urls import is_url
from diana.node.api.current import current
from diana.node.api.desk import Desk, checked_group
from diana.wire import client_messages as wire

READ_BYTES = 1 << 20


async def fetch(desk: Desk, caller: Principal, request: wire.FetchRequest) -> AsyncGenerator[wire.FetchChunk, None]:
    group = checked_group(request.group)
    view = await desk.group(caller, group)
    own = not view.outputs_to or is_url(view.outputs_to)
    folder = desk.data.gathered(group) if own else Path(view.outputs_to)
    named = await asyncio.to_thread(wanted_outputs, current(desk.door.store.facts(group), view), request.pattern)
    if own and view.final:
        for name in await asyncio.to_thread(lambda: list(files_below(folder))):
            if matches(name, request.pattern):
                named.setdefault(name, "")
    if not named:
        raise UsageError(_nothing(request, view.final))
    for name in sorted(named):
        async with aclosing(_file(folder, name, named[name], _or_at_the_other(desk))) as chunks:
            async for chunk in chunks:
                yield chunk


def _nothing(request: wire.FetchRequest, final: bool) -> str:
    which = f" that match {request.pattern!r}" if request.pattern else ""
    later = "" if final else " yet; `diana wait` for it first"
    return f"group {request.group}: no outputs{which}{later}"


def matches(name: str, pattern: str) -> bool:
    """Shell pattern over the whole name or over its last part."""
    return not pattern or fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)


def wanted_outputs(source: Iterator[tuple[FactsKey, Facts]], pattern: str) -> dict[str, str]:
    """Name -> SHA-256 of the outputs recorded so far. Blocks on the disk."""
    return {o.name: o.sha256 for _, facts in source for o in facts.outputs if matches(o.name, pattern)}


def files_below(folder: Path) -> Iterator[str]:
    """Names of the regular files, relative; links are not followed and hidden files not shown."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(where, name)
            if not name.startswith(".") and stat.S_ISREG(os.lstat(path).st_mode):
                yield os.path.relpath(path, folder)


def _or_at_the_other(desk: Desk) -> str:
    """Where else a file may be: gathered outputs stay on the machine that led when they came."""
    if desk.pair is None:
        return ""
    return f", or on machine {desk.pair.pair.other} below {desk.about.site}'s data directory there"


async def _file(folder: Path, name: str, sha256: str, or_at: str) -> AsyncGenerator[wire.FetchChunk, None]:
    try:
        handle = await asyncio.to_thread(open_below, folder, name)
    except FileNotFoundError:
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


def open_below(folder: Path, name: str) -> int:
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
