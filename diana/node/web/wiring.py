"""The dashboard of a node that leads its site: its socket and its pictures' numbers, from start to stop."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from diana.adapters.tasks import end
from diana.model.layout import DataDir
from diana.node.activity import Activity
from diana.node.api import Api
from diana.node.api.dashboard import Views
from diana.node.config import DIAL_OUT_ONLY, SiteConfig, host_port, is_loopback
from diana.node.store_thread import StoreThread
from diana.node.web.config import OFF
from diana.node.web.server import WebServer

PORT = "web_port"
"""Under which the journal's store keeps the port of the last run."""


async def open_dashboard(
    stack: AsyncExitStack,
    config: SiteConfig,
    paths: DataDir,
    api: Api,
    thread: StoreThread,
) -> None:
    """`errors.UsageError` where it cannot listen as site.toml says."""
    web, store = config.web, thread.store
    loopback = web.listen == OFF or is_loopback(web.listen)
    server = WebServer(web, paths, api, loopback=loopback, advertise=_host(config, loopback))
    last = await thread.call(store.meta, PORT)
    port = server.start(int(last) if last.isdecimal() else 0)
    stack.push_async_callback(server.stop)
    if port and str(port) != last:
        await thread.call(store.set_meta, PORT, str(port))
    activity = Activity(api.look)
    sampling = asyncio.create_task(activity.run())
    stack.push_async_callback(end, sampling)
    api.show(Views(server, activity))


def _host(config: SiteConfig, loopback: bool) -> str:
    """By which a browser reaches this machine."""
    if config.web.listen == OFF:
        return ""
    host = config.web.listen.rpartition(":")[0]
    if loopback or host not in ("0.0.0.0", "[::]", "*"):
        return host
    told = config.advertise if config.advertise not in ("", DIAL_OUT_ONLY) else config.listen
    return f"[{name}]" if ":" in (name := host_port(told)[0]) else name
