"""`sftp://HOST/PATH`, as the node's own account does it: keys, agent, `~/.ssh/config`, and only hosts of known_hosts.

A file is written beside its name and renamed when it is whole.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncssh
from sshfs import SSHFileSystem

from diana.adapters.file_names import PART_PREFIX
from diana.adapters.staging.limits import CHUNK_BYTES
from diana.adapters.staging.urls.stores import Changed, StoreFault, StoreUpload, Version, forbidden, gone, told_size
from diana.model.job.urls import Url

_KEEPALIVES = 4


class _Files(SSHFileSystem):  # type: ignore[misc]
    def connect(self, *where: Any, connect_args: dict[str, Any], timeout: object, **how: Any) -> Any:
        """Connect on the loop given. The library's own way hands the loop to asyncssh too, which refuses that."""
        options = {key: value for key, value in connect_args.items() if key != "loop"}
        connecting = self._connect(*where, connect_args=options, **how)
        return asyncio.run_coroutine_threadsafe(connecting, self.loop).result()


class SftpStore:
    """One host. Made in a thread, because the library connects in its constructor; its coroutines run on `loop`."""

    def __init__(self, url: Url, stall_s: float, loop: Any) -> None:
        options: dict[str, Any] = {"port": url.port} if url.port else {}
        with _told():
            self._files: Any = _Files(
                url.host,
                # The library's own default is to trust any host.
                known_hosts=(),
                connect_timeout=stall_s,
                login_timeout=stall_s,
                keepalive_interval=stall_s / _KEEPALIVES,
                keepalive_count_max=_KEEPALIVES,
                loop=loop,
                skip_instance_cache=True,
                **options,
            )

    async def look(self, url: Url) -> Version:
        async with self._channel() as channel:
            return await _look(channel, url.path)

    async def read(self, url: Url, version: Version, offset: int) -> AsyncGenerator[bytes, None]:
        async with self._channel() as channel, channel.open(url.path, "rb") as file:
            if await _look(channel, url.path) != version:
                raise Changed
            while chunk := await file.read(CHUNK_BYTES, offset):
                offset += len(chunk)
                yield chunk

    async def write(self, url: Url, upload: StoreUpload) -> int:
        folder, _, name = url.path.rpartition("/")
        tag = hashlib.sha256(url.text.encode()).hexdigest()[:24]
        spare = f"{folder}/{PART_PREFIX}{tag}"
        async with self._channel() as channel:
            if folder:
                await channel.makedirs(folder, exist_ok=True)
            try:
                await channel.put(str(upload.path), spare)
                came = (await channel.stat(spare)).size
                if came != upload.size_bytes:
                    raise StoreFault(f"{came} bytes arrived there, not {upload.size_bytes}; try again", passing=True)
                await _rename(channel, spare, f"{folder}/{name}")
            except BaseException:
                with suppress(asyncssh.Error, OSError):
                    await channel.remove(spare)
                raise
        return upload.size_bytes

    def usable(self) -> bool:
        return not self._files._client.is_closed()

    async def close(self) -> None:
        with suppress(asyncssh.Error, OSError):
            await self._files._pool.close()
            await self._files._stack.aclose()

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[Any]:
        with _told():
            async with self._files._pool.get() as channel:
                yield channel


async def _look(channel: Any, path: str) -> Version:
    status = await channel.stat(path)
    if status.size is None or status.type not in (asyncssh.FILEXFER_TYPE_REGULAR, asyncssh.FILEXFER_TYPE_UNKNOWN):
        raise StoreFault("no regular file; name a file")
    return Version(told_size(status.size), str(status.mtime or ""))


async def _rename(channel: Any, old: str, new: str) -> None:
    """Rename in one step where the server can; else the new file is away for a moment, never half there."""
    try:
        await channel.posix_rename(old, new)
    except asyncssh.SFTPOpUnsupported:
        with suppress(asyncssh.SFTPNoSuchFile):
            await channel.remove(new)
        await channel.rename(old, new)


class _told:
    """Turns faults of asyncssh into StoreFault."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, asyncssh.Error | OSError):
            raise _fault(fault) from None


def _fault(fault: asyncssh.Error | OSError) -> StoreFault:
    match fault:
        case asyncssh.SFTPNoSuchFile() | asyncssh.SFTPNoSuchPath() | FileNotFoundError():
            return gone()
        case asyncssh.HostKeyNotVerifiable():
            return StoreFault("the server's host key is not known here; add it to the node's ~/.ssh/known_hosts")
        case asyncssh.SFTPPermissionDenied() | asyncssh.PermissionDenied() | PermissionError():
            return forbidden()
        case asyncssh.SFTPNoSpaceOnFilesystem() | asyncssh.SFTPQuotaExceeded():
            return StoreFault("no space is left there; make room", passing=True)
        case asyncssh.SFTPConnectionLost() | asyncssh.SFTPNoConnection() | asyncssh.ConnectionLost():
            return StoreFault("the server broke off; try again later", passing=True)
        case asyncssh.SFTPError():
            return StoreFault(f"the server answered: {fault.reason[:120]}", passing=True)
        case TimeoutError():
            return StoreFault("the server fell silent; try again later", passing=True)
    return StoreFault(f"the server cannot be reached ({_why(fault)}); mend the URL or try again later", passing=True)


def _why(fault: asyncssh.Error | OSError) -> str:
    text = fault.strerror if isinstance(fault, OSError) else fault.reason
    return (text or type(fault).__name__)[:120]
