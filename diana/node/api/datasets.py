"""The calls behind `diana datasets`. Adding goes on when the caller has gone; told again it finds what was hashed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec

from diana.engine.data.datasets import near
from diana.engine.journal.events import AddDataset, RemoveDataset
from diana.errors import UsageError
from diana.model.data import RegisteredDataset
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.model.views.datasets import Dataset
from diana.node.api.desk import Desk
from diana.wire.client import datasets as wire
from diana.wire.client.messages import Empty
from diana.wire.pages import first_page, pages

_TOLD_EVERY_S = 0.5
_FILES_PER_CHUNK = 1000
_CHANGED_PER_MESSAGE = 500

_adding: set[asyncio.Task[RegisteredDataset]] = set()
"""Tasks under way, kept so that they are not collected while nobody waits for them."""


async def listed(desk: Desk, caller: Principal, request: Empty) -> wire.DatasetsResponse:
    rows, more = first_page(await _all(desk, caller))
    return wire.DatasetsResponse(datasets=rows, more=more)


async def all_listed(desk: Desk, caller: Principal, request: Empty) -> AsyncGenerator[wire.DatasetsResponse, None]:
    for page in pages(await _all(desk, caller)):
        yield wire.DatasetsResponse(datasets=page)


async def _all(desk: Desk, caller: Principal) -> list[Dataset]:
    """This site's from its catalogue, the others' by name."""
    found = await desk.ask(views.Datasets, caller, "datasets")
    here = _of_this_site(desk, await desk.stager.datasets())
    there = [d for d in found.datasets if d.site != desk.about.site]
    return sorted([*here, *there], key=lambda d: (d.name, d.site, d.version))


async def show(desk: Desk, caller: Principal, request: wire.DatasetRequest) -> AsyncGenerator[wire.DatasetChunk, None]:
    name, version = _split(request.name)
    rows = await desk.stager.datasets(name, version)
    everywhere = await desk.ask(views.Datasets, caller, "datasets")
    others = [d for d in everywhere.datasets if d.name == name and d.site != desk.about.site and not version]
    if not rows and not others:
        raise await _unknown(desk, request.name, [d.name for d in everywhere.datasets])
    for part in pages([*_of_this_site(desk, rows), *others]):
        yield wire.DatasetChunk(datasets=part)
    if request.files:
        if not rows:
            raise UsageError(f"dataset {request.name}: its files are known at site {others[0].site} only; ask there")
        prefix = len(f"dataset:{name}/")
        async for page in desk.stager.dataset_files(name, version):
            for at in range(0, len(page), _FILES_PER_CHUNK):
                some = page[at : at + _FILES_PER_CHUNK]
                yield wire.DatasetChunk(
                    files=tuple(
                        wire.DatasetFile(name=f.ref[prefix:], size_bytes=f.size_bytes, sha256=f.sha256) for f in some
                    )
                )


async def add(
    desk: Desk, caller: Principal, request: wire.DatasetAddRequest
) -> AsyncGenerator[wire.DatasetProgress, None]:
    if not request.paths:
        raise UsageError(f"dataset {request.name!r}: no paths; name the files or folders that belong to it")
    for text in request.paths:
        if not os.path.isabs(text) or "\0" in text:
            raise UsageError(f"dataset {request.name!r}: path {text!r} is not absolute; give the node's full path")
    await asyncio.to_thread(_check_outside, desk, request.paths)
    last = (0, 0)

    def tell(files: int, size_bytes: int) -> None:
        nonlocal last
        last = (files, size_bytes)

    async def work() -> RegisteredDataset:
        dataset = await desk.stager.register(
            request.name, [Path(text) for text in request.paths], new_version=request.new_version, tell=tell
        )
        await desk.request(views.Ok, lambda number: AddDataset(request=number, principal=caller, dataset=dataset))
        return dataset

    task = asyncio.create_task(work())
    _adding.add(task)
    task.add_done_callback(_ended)
    while not (await asyncio.wait([task], timeout=_TOLD_EVERY_S))[0]:
        yield wire.DatasetProgress(files=last[0], size_bytes=last[1])
    made = await task
    yield wire.DatasetProgress(
        files=made.files,
        size_bytes=made.size_bytes,
        dataset=Dataset(
            name=made.name,
            site=desk.about.site,
            files=made.files,
            size_bytes=made.size_bytes,
            version=made.version,
            state="registered",
            digest=made.digest,
        ),
    )


def _check_outside(desk: Desk, paths: Sequence[str]) -> None:
    """UsageError for what would offer every peer the node's keys and journal. Gathered outputs may be offered."""
    own = os.path.realpath(desk.data.root)
    gathered = os.path.realpath(desk.data.groups_root)
    for text in paths:
        real = os.path.realpath(text)
        if os.path.commonpath((real, own)) in (real, own) and os.path.commonpath((real, gathered)) != gathered:
            raise UsageError(f"{text}: lies in the node's data directory {own}, or holds it; name a folder beside it")


def _ended(task: asyncio.Task[RegisteredDataset]) -> None:
    """Take the error of a call whose client has gone: it was for that client only."""
    _adding.discard(task)
    if not task.cancelled():
        task.exception()


async def verify(
    desk: Desk, caller: Principal, request: wire.DatasetRequest
) -> AsyncGenerator[wire.DatasetProgress, None]:
    name, version = _split(request.name)
    rows = [row for row in await desk.stager.datasets(name, version) if row.version]
    if not rows:
        raise await _unknown(desk, request.name, [])
    told_s = time.monotonic()
    async for checked in desk.stager.verify(name, version):
        for at in range(0, len(checked.changed), _CHANGED_PER_MESSAGE):
            lines = checked.changed[at : at + _CHANGED_PER_MESSAGE]
            yield wire.DatasetProgress(files=checked.files, size_bytes=checked.size_bytes, changed=lines)
        if time.monotonic() - told_s > _TOLD_EVERY_S:
            told_s = time.monotonic()
            yield wire.DatasetProgress(files=checked.files, size_bytes=checked.size_bytes)
    row = (await desk.stager.datasets(name, version or rows[-1].version))[0]
    yield wire.DatasetProgress(files=row.files, size_bytes=row.size_bytes, dataset=_of_this_site(desk, (row,))[0])


async def remove(desk: Desk, caller: Principal, request: wire.DatasetRequest) -> wire.DatasetsResponse:
    """The files stay where they lie. What was removed is answered."""
    name, version = _split(request.name)
    rows = [row for row in await desk.stager.datasets(name, version) if row.version]
    known = await desk.ask(views.Datasets, caller, "datasets")
    if not rows and not any(d.name == name and d.site == desk.about.site for d in known.datasets):
        raise await _unknown(desk, request.name, [])
    await desk.stager.remove_dataset(name, version)
    left = await desk.stager.newest(name)
    if left is None:
        await desk.request(views.Ok, lambda number: RemoveDataset(request=number, principal=caller, name=name))
    else:
        await desk.request(views.Ok, lambda number: AddDataset(request=number, principal=caller, dataset=left))
    return wire.DatasetsResponse(datasets=tuple(_of_this_site(desk, rows)))


def _of_this_site(desk: Desk, rows: Sequence[Dataset]) -> list[Dataset]:
    return [msgspec.structs.replace(row, site=desk.about.site) for row in rows]


def _split(text: str) -> tuple[str, int]:
    name, mark, version = text.partition("@")
    if not name or (mark and not (version.isascii() and version.isdigit() and 0 < len(version) < 10 and int(version))):
        raise UsageError(f"dataset {text!r}: want NAME or NAME@VERSION, such as {name or 'events'}@2")
    return name, int(version) if mark else 0


async def _unknown(desk: Desk, text: str, others: list[str]) -> UsageError:
    name = text.partition("@")[0]
    known = {*await desk.stager.dataset_names(), *others}
    if name in known:
        return UsageError(f"dataset {text}: no such version here; see: diana datasets show {name}")
    likely = near(name, known)
    mend = f"did you mean {' or '.join(likely)}?" if likely else "diana datasets says where; ask the node of that site"
    return UsageError(f"dataset {text}: not known at site {desk.about.site}; {mend}")
