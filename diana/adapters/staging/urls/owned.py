"""`file:///...` for a user who has an account here: opened and read by a process of that account, so that the user's
rights decide and nobody else's.

Kept in the cache, such a file must not become anybody else's: its name there can be told by this node alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from diana.adapters.durable import replace_durably
from diana.adapters.staging.limits import CHUNK_BYTES
from diana.adapters.staging.urls.stores import Changed, StoreFault, StoreUpload, Version, parts_outside, told
from diana.model.job.urls import Url

_SECRET_BYTES = 32


class OwnedContent(Protocol):
    async def read(self, count: int) -> bytes:
        """Return some bytes, at most `count`; none at the end."""
        ...


class OwnersFiles(Protocol):
    """Reads as the owners of groups."""

    def account_of(self, owner: str) -> str:
        """Return the owner's account. StoreFault says why there is none. Does not block."""
        ...

    def open(self, account: str, path: str, offset: int) -> AbstractAsyncContextManager[tuple[int, int, OwnedContent]]:
        """Open a regular file through no link: its size, the time of its last change in ns, and its content from
        `offset` on; -1: it is only looked at. OSError with the number that the account met; StoreFault, passing, says
        what keeps this machine from becoming the account."""
        ...


class OwnedStore:
    """A `UrlStore` that one account reads."""

    def __init__(self, files: OwnersFiles, account: str, own: Path) -> None:
        """`own`: the node's data directory, from which nothing is read."""
        self._files = files
        self._account = account
        self._own = own

    async def look(self, url: Url) -> Version:
        async with self._open(url, -1) as (version, _):
            return version

    async def read(self, url: Url, version: Version, offset: int) -> AsyncGenerator[bytes, None]:
        async with self._open(url, offset) as (now, content):
            if now != version:
                raise Changed
            while chunk := await content.read(CHUNK_BYTES):
                yield chunk

    async def write(self, url: Url, upload: StoreUpload) -> int:
        raise StoreFault("is a folder of a user's, which only the user's account writes")

    def usable(self) -> bool:
        return True

    async def close(self) -> None:
        return

    @asynccontextmanager
    async def _open(self, url: Url, offset: int) -> AsyncGenerator[tuple[Version, OwnedContent], None]:
        path = "/" + "/".join(parts_outside(url.path, self._own))
        try:
            async with self._files.open(self._account, path, offset) as (size_bytes, mtime_ns, content):
                yield Version(size_bytes, str(mtime_ns)), content
        except OSError as fault:
            raise told(fault, self._account) from None


class OwnNames:
    """Names in the cache for what accounts read: the same ones after a restart."""

    def __init__(self, path: Path) -> None:
        """`path`: the file with the secret, made where there is none. OSError."""
        self._secret = b""
        with suppress(FileNotFoundError), path.open("rb") as file:
            self._secret = file.read(_SECRET_BYTES + 1)
        if len(self._secret) != _SECRET_BYTES:
            self._secret = secrets.token_bytes(_SECRET_BYTES)
            replace_durably(path, self._secret)

    def name(self, account: str, identity: str) -> str:
        """Return 64 hex digits for a content that this account read."""
        return hmac.new(self._secret, f"{account} {identity}".encode(), hashlib.sha256).hexdigest()
