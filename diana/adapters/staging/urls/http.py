"""Reading `http://` and `https://`: ranges where the server has them, its ETag or time as the version, no account.

Redirects are followed one by one, each only to where the operator lets this site go.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import fsspec
import yarl

from diana.adapters.staging.urls.stores import Changed, StoreFault, StoreUpload, Version, gone, told_size
from diana.bounds import MOST_COUNT
from diana.model.job.urls import Url, redirected

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_NO_HEAD = (403, 405, 501)
"""Answers of servers that do not take HEAD; then a GET of one byte is asked."""
_PASSING = (408, 425, 429)
_READ_BYTES = 1 << 18


class HttpStore:
    def __init__(self, stall_s: float, permit: Callable[[Url], None]) -> None:
        """`permit` raises StoreFault for a URL this site may not go to."""
        self._permit = permit
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=stall_s, sock_read=stall_s)
        self._files: Any = fsspec.filesystem("http", skip_instance_cache=True, get_client=self._client)

    async def _client(self, **_: Any) -> aiohttp.ClientSession:
        """Make a session with neither ~/.netrc nor cookies nor decompression: it reads what lies there for
        everybody."""
        return aiohttp.ClientSession(
            timeout=self._timeout, trust_env=False, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def look(self, url: Url) -> Version:
        async with self._answer("HEAD", url, {}) as response:
            if response.status not in _NO_HEAD:
                _check(response)
                return _version(response)
        async with self._answer("GET", url, {"Range": "bytes=0-0"}) as response:
            # An empty file has no byte to give.
            if response.status != 416:
                _check(response)
            return _version(response)

    async def read(self, url: Url, version: Version, offset: int) -> AsyncGenerator[bytes, None]:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        async with self._answer("GET", url, headers) as response:
            if response.status == 416:
                raise Changed
            _check(response)
            if _version(response) != version:
                raise Changed
            # A server without ranges begins anew.
            skip = offset if response.status == 200 else 0
            async with aclosing(_chunks(response)) as chunks:
                async for chunk in chunks:
                    if skip < len(chunk):
                        yield chunk[skip:]
                    skip = max(0, skip - len(chunk))

    async def write(self, url: Url, upload: StoreUpload) -> int:
        raise StoreFault(f"{url.scheme} takes no files; want s3://, sftp:// or file://")

    def usable(self) -> bool:
        return True

    async def close(self) -> None:
        session = self._files._session
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def _answer(self, method: str, url: Url, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer after all redirects, whatever it says."""
        headers = {"Accept-Encoding": "identity", **headers}
        try:
            session = await self._files.set_session()
            for _ in range(_MOST_REDIRECTS + 1):
                self._permit(url)
                address = yarl.URL(url.text, encoded=True)
                asking = session.request(method, address, headers=headers, allow_redirects=False, proxy=_proxy(url))
                async with asking as response:
                    if response.status not in _REDIRECTS:
                        yield response
                        return
                    url = redirected(url, response.headers.get("Location", ""))
        except ValueError as fault:
            raise StoreFault(str(fault).partition(": ")[2] or "is no URL that can be asked for") from None
        except TimeoutError:
            raise StoreFault("the server fell silent; try again later", passing=True) from None
        except aiohttp.ClientConnectorCertificateError:
            raise StoreFault("the server's certificate is not trusted here; mend it, or the site's CA list") from None
        except (aiohttp.ClientError, OSError) as fault:
            raise StoreFault(_reason(fault), passing=True) from None
        raise StoreFault(f"sent on more than {_MOST_REDIRECTS} times; name the last address")


def _proxy(url: Url) -> str | None:
    """Return the way out of the site that the node's environment names (`https_proxy`, `no_proxy`)."""
    place = url.host + (f":{url.port}" if url.port else "")
    return None if proxy_bypass(place) else getproxies().get(url.scheme)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    async for chunk in response.content.iter_chunked(_READ_BYTES):
        yield chunk


def _check(response: aiohttp.ClientResponse) -> None:
    status = response.status
    if status in (200, 206):
        return
    if status in (404, 410):
        raise gone(f"HTTP {status}")
    if status in (401, 403, 407):
        raise StoreFault(f"not readable without an account (HTTP {status}); make it readable for the sites")
    if status >= 500 or status in _PASSING:
        raise StoreFault(f"the server answered HTTP {status}; try again later", passing=True)
    raise StoreFault(f"the server answered HTTP {status}; mend the URL")


def _version(response: aiohttp.ClientResponse) -> Version:
    headers = response.headers
    total = headers.get("Content-Length", "")
    if response.status in (206, 416):
        total = headers.get("Content-Range", "").rpartition("/")[2]
    if not total.isascii() or not total.isdecimal():
        raise StoreFault("the server does not tell its size; register it as a dataset instead")
    size_bytes = told_size(int(total) if len(total) <= len(str(MOST_COUNT)) else MOST_COUNT + 1)
    # A weak tag may stand for contents that differ in their bytes; the time beside it tells a little more.
    tag, time = headers.get("ETag", ""), headers.get("Last-Modified", "")
    return Version(size_bytes, f"{tag} {time}".strip() if tag.startswith("W/") else tag or time)


def _reason(fault: Exception) -> str:
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return "no such host, or no name service now; mend the URL or try again later"
    if isinstance(fault, aiohttp.ClientConnectorError):
        why = fault.os_error.strerror or type(fault.os_error).__name__
        return f"the server cannot be reached ({why}); mend the URL or try again later"
    if isinstance(fault, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError | ConnectionError):
        return "the server broke off; try again later"
    return f"the server's answer cannot be understood ({type(fault).__name__})"
