"""`s3://BUCKET/KEY`, with the credentials, region and endpoint of the node's own environment and `~/.aws`.

An object appears whole or not at all, so it is written under its own name. Its SHA-256 stands in its metadata, which
tells an upload that was told twice.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import fsspec
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError, ProfileNotFound

from diana.adapters.staging.limits import CHUNK_BYTES
from diana.adapters.staging.urls.stores import Changed, StoreFault, StoreUpload, Version, forbidden, gone, told_size
from diana.model.job.urls import Url

_PART_BYTES = 16 << 20
_MOST_PARTS = 9_000
_SHA256 = "sha256"


class S3Store:
    def __init__(self, stall_s: float) -> None:
        waits = {"connect_timeout": stall_s, "read_timeout": stall_s, "retries": {"max_attempts": 0}}
        self._files: Any = fsspec.filesystem(
            "s3", asynchronous=True, skip_instance_cache=True, use_listings_cache=False, config_kwargs=waits
        )
        # The decision to ask again, and for how long, is made in urls.py.
        self._files.retries = 1

    async def look(self, url: Url) -> Version:
        async with _faults():
            return _version(await self._head(url))

    async def read(self, url: Url, version: Version, offset: int) -> AsyncGenerator[bytes, None]:
        """Read; IfMatch makes the server refuse another version."""
        if offset >= version.size_bytes:
            return
        async with _faults():
            body = None
            try:
                answer = await self._files._call_s3(
                    "get_object", **_key(url), Range=f"bytes={offset}-", IfMatch=version.mark
                )
                body = answer["Body"]
                while chunk := await body.read(CHUNK_BYTES):
                    yield chunk
            finally:
                if body is not None:
                    body.close()

    async def write(self, url: Url, upload: StoreUpload) -> int:
        async with _faults():
            if await self._stands(url, upload):
                return 0
            if upload.size_bytes > _PART_BYTES:
                await self._put_parts(url, upload)
            else:
                await self._put_whole(url, upload)
            came = _version(await self._head(url)).size_bytes
        if came != upload.size_bytes:
            raise StoreFault(f"{came} bytes arrived there, not {upload.size_bytes}; try again", passing=True)
        return upload.size_bytes

    def usable(self) -> bool:
        return True

    async def close(self) -> None:
        creator = getattr(self._files, "_s3creator", None)
        if creator is not None:
            await creator.__aexit__(None, None, None)

    async def _put_whole(self, url: Url, upload: StoreUpload) -> None:
        """Write a small file; a store that knows checksums refuses content that does not have this one."""
        checksum = b64encode(bytes.fromhex(upload.sha256)).decode()
        body = await asyncio.to_thread(upload.path.read_bytes)
        await self._files._call_s3("put_object", **_key(url), **_noted(upload), Body=body, ChecksumSHA256=checksum)

    async def _put_parts(self, url: Url, upload: StoreUpload) -> None:
        """Write a large file, one part in memory at a time; an upload that was begun and cannot be completed is
        taken away."""
        call, key = self._files._call_s3, _key(url)
        part_bytes = max(_PART_BYTES, upload.size_bytes // _MOST_PARTS + 1)
        began = {**key, "UploadId": await self._begin(url, upload)}
        try:
            parts: list[dict[str, Any]] = []
            with open(upload.path, "rb") as source:
                while body := await asyncio.to_thread(source.read, part_bytes):
                    number = len(parts) + 1
                    sent = await call("upload_part", **began, PartNumber=number, Body=body)
                    parts.append({"PartNumber": number, "ETag": sent["ETag"]})
            await call("complete_multipart_upload", **began, MultipartUpload={"Parts": parts})
        except BaseException:
            with suppress(OSError, BotoCoreError):
                await call("abort_multipart_upload", **began)
            raise

    async def _begin(self, url: Url, upload: StoreUpload) -> str:
        """Return the id of an upload in parts. Cancelled before the store answered, wait for the id to take it away."""
        call, key = self._files._call_s3, _key(url)
        answer = asyncio.ensure_future(call("create_multipart_upload", **key, **_noted(upload)))
        try:
            return str((await asyncio.shield(answer))["UploadId"])
        except asyncio.CancelledError:
            with suppress(OSError, BotoCoreError):
                await call("abort_multipart_upload", **key, UploadId=(await answer)["UploadId"])
            raise

    async def _head(self, url: Url) -> dict[str, Any]:
        head: dict[str, Any] = await self._files._call_s3("head_object", **_key(url))
        return head

    async def _stands(self, url: Url, upload: StoreUpload) -> bool:
        try:
            head = await self._head(url)
        except FileNotFoundError:
            return False
        same_size = bool(head.get("ContentLength") == upload.size_bytes)
        return same_size and head.get("Metadata", {}).get(_SHA256) == upload.sha256


def _key(url: Url) -> dict[str, str]:
    return {"Bucket": url.host, "Key": url.path.removeprefix("/")}


def _noted(upload: StoreUpload) -> dict[str, Any]:
    return {"Metadata": {_SHA256: upload.sha256}}


def _version(head: dict[str, Any]) -> Version:
    return Version(told_size(head.get("ContentLength")), str(head.get("ETag", "")))


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    """Turn faults of botocore and s3fs into StoreFault."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound):
        raise StoreFault("the node has no credentials for it; give it some (environment or ~/.aws)") from None
    except FileNotFoundError as fault:
        bucket = "bucket" in str(fault).lower()
        raise (StoreFault("no such bucket; mend the URL or make the bucket") if bucket else gone()) from None
    except PermissionError as fault:
        raise forbidden(_code(fault)) from None
    except TimeoutError:
        raise StoreFault("the store fell silent; try again later", passing=True) from None
    except OSError as fault:
        if _code(fault) in ("PreconditionFailed", "412", "InvalidRange", "416"):
            raise Changed from None
        raise StoreFault(_said(fault), passing=True) from None
    except BotoCoreError as fault:
        why = f"the store cannot be reached ({type(fault).__name__})"
        raise StoreFault(f"{why}; try again later, or see to the node's AWS_ENDPOINT_URL", passing=True) from None


def _code(fault: BaseException) -> str:
    """Return the store's own code of the error that s3fs translated."""
    cause = fault.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


def _said(fault: BaseException) -> str:
    code = _code(fault)
    return f"the store answered {code}; try again later" if code else "the store broke off; try again later"
