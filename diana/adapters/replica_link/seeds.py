"""The fetches of a standby besides the stream of transactions: a copy of the whole journal, and clients' uploads.

Both go in chunks, are checked by their SHA-256 and put in place whole or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from diana.adapters.durable import sync
from diana.adapters.grpc.words import told
from diana.adapters.replica_link.link import of_this_site
from diana.errors import Unreachable
from diana.model.layout import DataDir
from diana.wire.pb import replica_pb2
from diana.wire.tls import load_credentials, open_channel

CHUNK_BYTES = 1 << 20
NAMES = 10_000
"""Most names of blobs in one message."""
SILENT_S = 10.0
"""Seconds for which an upload's next chunk is waited for. A seed's first one takes as long as copying the journal."""

_log = logging.getLogger("diana.standby")


class SeedService:
    """Serves this machine's journal and blobs to the other one."""

    def __init__(self, site: str, vo: str, data: DataDir, copy: Callable[[Path], None]) -> None:
        """`copy` makes a consistent copy of the journal at a path; it blocks."""
        self._site = site
        self._vo = vo
        self._data = data
        self._copy = copy
        self._one = asyncio.Lock()

    def attach(self, server: grpc.aio.Server) -> None:
        kinds: dict[str, tuple[Any, Any]] = {
            "Seed": (self._seed, replica_pb2.SeedRequest),
            "Blob": (self._blob, replica_pb2.BlobRequest),
            "Blobs": (self._blobs, replica_pb2.BlobsRequest),
        }
        handlers = {
            name: grpc.unary_stream_rpc_method_handler(serve, kind.FromString, lambda m: m.SerializeToString())
            for name, (serve, kind) in kinds.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("diana.v1.ReplicaData", handlers),))

    async def _seed(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await of_this_site(context, self._site, self._vo)
        async with self._one:
            path = self._data.root / "seed.out"
            try:
                await asyncio.to_thread(self._copy, path)
                async for chunk in _chunks(path):
                    yield chunk
            finally:
                path.unlink(missing_ok=True)

    async def _blob(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await of_this_site(context, self._site, self._vo)
        if len(request.sha256) != 64 or not set(request.sha256) <= set("0123456789abcdef"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "want a SHA-256 in hexadecimal")
        path = self._data.blob(request.sha256)
        if not path.is_file():
            await context.abort(grpc.StatusCode.NOT_FOUND, f"blob {request.sha256} is not here")
        async for chunk in _chunks(path):
            yield chunk

    async def _blobs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await of_this_site(context, self._site, self._vo)
        names = await asyncio.to_thread(_names, self._data.root / "blobs")
        for start in range(0, len(names), NAMES):
            yield replica_pb2.BlobNames(sha256=names[start : start + NAMES])


class SeedFetcher:
    """Fetches from the other machine. Each call has a channel of its own, with the keys as they are then: nothing
    that fails, and no certificate that ran out, stays for the next."""

    def __init__(self, site: str, vo: str, data: DataDir) -> None:
        self._site = site
        self._vo = vo
        self._data = data

    async def seed(self, address: str, to: Path) -> None:
        """Fetch the other's whole journal, durable at `to`. Unreachable when it cannot be had now."""
        async with self._open(address) as channel:
            await self._fetch(channel, address, "Seed", replica_pb2.SeedRequest(), to, "")

    async def blobs(self, address: str, wanted: Iterable[str]) -> None:
        """Fetch each of `wanted` that is not here yet, verified and durable. One the other does not have either, or
        only damaged, is left out. Unreachable when it cannot be had now."""
        missing = [sha256 for sha256 in wanted if not self._data.blob(sha256).exists()]
        if not missing:
            return
        async with self._open(address) as channel:
            for sha256 in missing:
                await self._blob(channel, address, sha256)

    async def _blob(self, channel: grpc.aio.Channel, address: str, sha256: str) -> None:
        path = self._data.blob(sha256)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, part = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        os.close(fd)
        try:
            await self._fetch(channel, address, "Blob", replica_pb2.BlobRequest(sha256=sha256), Path(part), sha256)
            os.chmod(part, 0o444)
            os.rename(part, path)
            await asyncio.to_thread(sync, path.parent)
            await asyncio.to_thread(sync, path.parent.parent)
        except FileNotFoundError:
            return
        finally:
            Path(part).unlink(missing_ok=True)

    async def names(self, address: str) -> Sequence[str]:
        """Return the names of all the other's blobs."""
        async with self._open(address) as channel:
            call = channel.unary_stream(
                "/diana.v1.ReplicaData/Blobs", lambda m: m.SerializeToString(), replica_pb2.BlobNames.FromString
            )
            try:
                return [name async for names in call(replica_pb2.BlobsRequest()) for name in names.sha256]
            except grpc.aio.AioRpcError as error:
                raise Unreachable(f"the machine at {address}: {told(error)}") from None

    @asynccontextmanager
    async def _open(self, address: str) -> AsyncIterator[grpc.aio.Channel]:
        channel = open_channel(address, self._site, self._vo, load_credentials(self._data.keys))
        try:
            yield channel
        finally:
            await channel.close()

    async def _fetch(
        self, channel: grpc.aio.Channel, address: str, method: str, request: Any, to: Path, wanted: str
    ) -> None:
        call = channel.unary_stream(
            f"/diana.v1.ReplicaData/{method}", lambda m: m.SerializeToString(), replica_pb2.ReplicaChunk.FromString
        )
        digest, sent = hashlib.sha256(), ""
        try:
            with to.open("wb") as file:
                async for chunk in _in_time(call(request), SILENT_S if wanted else None):
                    digest.update(chunk.data)
                    await asyncio.to_thread(file.write, chunk.data)
                    sent = chunk.sha256 or sent
                await asyncio.to_thread(_flushed, file)
        except TimeoutError:
            raise Unreachable(f"the machine at {address}: nothing came for {SILENT_S:g} s; it is asked again") from None
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise FileNotFoundError(wanted) from None
            raise Unreachable(f"the machine at {address}: {told(error)}") from None
        if digest.hexdigest() != sent:
            raise Unreachable(f"the machine at {address}: what it sent arrived damaged; it is asked again")
        if wanted and sent != wanted:
            # It would be the same each time, and a group that waits for it would wait for ever.
            _log.error("upload %s is damaged on the machine at %s; submit its group again", wanted, address)
            raise FileNotFoundError(wanted)


async def _in_time(chunks: AsyncIterator[Any], silent_s: float | None) -> AsyncIterator[Any]:
    """Yield the chunks; TimeoutError when one does not come in time."""
    coming = aiter(chunks)
    while True:
        try:
            async with asyncio.timeout(silent_s):
                chunk = await anext(coming)
        except StopAsyncIteration:
            return
        yield chunk


async def _chunks(path: Path) -> AsyncIterator[Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while True:
            data = await asyncio.to_thread(file.read, CHUNK_BYTES)
            digest.update(data)
            if not data:
                yield replica_pb2.ReplicaChunk(sha256=digest.hexdigest())
                return
            yield replica_pb2.ReplicaChunk(data=data)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("??/*") if len(path.name) == 64)


def _flushed(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
