"""The steps of moving one file to or from a store: worth a write each, told with its URL, side by side with others."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

from diana.adapters.staging.limits import CHUNK_BYTES
from diana.adapters.staging.transfer.client import LocalFault
from diana.adapters.staging.transfer.parts import PartFile
from diana.adapters.staging.urls.stores import Changed, StoreFault, StoreUpload
from diana.model.job.urls import Url, shown

T = TypeVar("T")


def check_still(upload: StoreUpload) -> None:
    """StoreFault when the local file is no more what it was when it was gathered."""
    try:
        with open(upload.path, "rb", buffering=0) as file:
            same = os.fstat(file.fileno()).st_size == upload.size_bytes
            same = same and hashlib.file_digest(file, "sha256").hexdigest() == upload.sha256
    except OSError as fault:
        raise StoreFault(f"{upload.path}: {fault.strerror}; retry the group to have it made anew") from None
    if not same:
        raise StoreFault(f"{upload.path}: changed since it was gathered; retry the group to have it made anew")


def put(part: PartFile, chunk: bytes, url: Url) -> None:
    try:
        part.write(chunk)
    except OSError as fault:
        raise LocalFault(
            f"{shown(url.text)}: cannot be written below {part.root}: {fault.strerror};"
            " make room there or give the node the right"
        ) from None


def finish(part: PartFile, url: Url) -> None:
    """An empty file has seen no write yet."""
    put(part, b"", url)
    part.finish()


async def worth_writing(chunks: AsyncGenerator[bytes, None], stall_s: float) -> AsyncGenerator[bytes, None]:
    """Chunks worth a write each. TimeoutError when nothing comes for so long; what had come is given first."""
    waiting: list[bytes] = []
    size_bytes = 0
    async with aclosing(chunks):
        try:
            while True:
                async with asyncio.timeout(stall_s):
                    chunk = await anext(chunks, b"")
                if not chunk:
                    break
                waiting.append(chunk)
                size_bytes += len(chunk)
                if size_bytes >= CHUNK_BYTES:
                    yield b"".join(waiting)
                    waiting.clear()
                    size_bytes = 0
        except (StoreFault, TimeoutError) as fault:
            if waiting and not isinstance(fault, Changed):
                yield b"".join(waiting)
            raise
    if waiting:
        yield b"".join(waiting)


async def side_by_side(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """The first error ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(work)) for work in works]
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
