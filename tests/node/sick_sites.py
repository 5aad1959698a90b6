"""Sites on disk for the tests of `diana doctor`, and servers that answer as a site, or as no site should."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from diana.adapters.grpc.server import make_server
from diana.adapters.link_probe import ProbeService
from diana.adapters.trust import certificates
from diana.errors import Unreachable
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.config.setup import init_site
from diana.node.doctor.checkup import checkup
from diana.wire.client.peers import CheckResult, DoctorResponse

NODE_SILENT = "nobody is asked in these tests"


def site_at(root: Path, name: str = "alpha", first: Path | None = None, **more: object) -> DataDir:
    """Made by `diana init`, never started; nobody listens at its port."""
    listen = str(more.pop("listen", "127.0.0.1:1"))
    peers = list(more.pop("peers", ()))  # type: ignore[call-overload]
    init_site(root, name, None, first, 2, listen, peers)
    paths = DataDir(root)
    text = paths.config.read_text()
    paths.config.write_text(text if "zeroconf" in text else f"zeroconf = false\n{text}")
    os.chmod(root, 0o700)
    return paths


def silent() -> DoctorResponse:
    raise Unreachable(NODE_SILENT)


def examined(paths: DataDir, wall_s: Callable[[], float] = time.time) -> dict[str, CheckResult]:
    """The doctor's findings without a node, by name."""
    return {row.name: row for row in checkup(paths.root, silent, wall_s).checks}


def said(row: CheckResult) -> tuple[str, str, str]:
    return row.state, row.found, row.mend


def issue(paths: DataDir, authority: DataDir, name: str = "alpha", **how: float) -> None:
    """Another certificate in place of the site's own."""
    for file in ("site.pem", "site.key"):
        (paths.keys / file).unlink()
    certificates.issue_site(authority.keys, name, paths.keys, **how)


@asynccontextmanager
async def answering(paths: DataDir, site: str, ahead_s: float = 0.0) -> AsyncIterator[str]:
    """A server with that site's certificate whose clock is ahead; its address."""
    server, port = make_server("127.0.0.1:0", paths.keys)
    ProbeService(SiteId(site), lambda: time.time() + ahead_s).attach(server)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def mumbling(text: bytes) -> AsyncIterator[str]:
    """Something that is no TLS server; with no text it takes connections and is silent."""

    taken: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)
        if text:
            writer.write(text)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.close()
        for writer in taken:
            writer.transport.abort()
        await asyncio.sleep(0)
