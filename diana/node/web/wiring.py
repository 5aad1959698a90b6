"""The dashboard of a node that leads its site: its socket and its pictures' numbers, from start to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from diana.adapters.tasks import end, keep_up
from diana.errors import UsageError
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal
from diana.node.activity import Activity, MachineWatch
from diana.node.api.service import Api
from diana.node.config.site_file import DIAL_OUT_ONLY, SiteConfig, host_port, is_loopback
from diana.node.loop.store_thread import StoreThread
from diana.node.ways_in.door import Views
from diana.node.ways_in.users import LocalUsers
from diana.node.web.config import OFF
from diana.node.web.server import WebServer

PORT = "web_port"
"""Under which the journal's store keeps the port of the last run."""

_log = logging.getLogger("diana.node")


async def open_dashboard(
    stack: AsyncExitStack,
    config: SiteConfig,
    paths: DataDir,
    api: Api,
    thread: StoreThread,
    users: LocalUsers,
    distrust_user: Callable[[str], str],
    *,
    must: bool,
) -> None:
    """`errors.UsageError` where it cannot listen as site.toml says; unless it need not (`must`): a machine that takes
    its site over does so without pictures too."""

    def by_now(was: Principal) -> Principal | None:
        return None if distrust_user(was.name) else users.by_now(was)

    web, store = config.web, thread.store
    loopback = web.listen == OFF or is_loopback(web.listen)
    server = WebServer(web, paths, api, loopback=loopback, advertise=_host(config, loopback), by_now=by_now)
    last = await thread.call(store.meta, PORT)
    try:
        port = server.start(int(last) if last.isdecimal() else 0)
    except UsageError as error:
        if must:
            raise
        port, server.trouble = 0, str(error)
        _log.error("no dashboard: %s", error)
    stack.push_async_callback(server.stop)
    if port and str(port) != last:
        await thread.call(store.set_meta, PORT, str(port))
    activity = Activity(api.look, MachineWatch(paths.root).look)
    stack.push_async_callback(
        end, keep_up(activity.run, "sampling"), keep_up(server.renew, "the dashboard's certificate")
    )
    api.show(Views(server, activity))


def _host(config: SiteConfig, loopback: bool) -> str:
    """The host by which a browser reaches this machine."""
    if config.web.listen == OFF:
        return ""
    host = config.web.listen.rpartition(":")[0]
    if loopback or host not in ("0.0.0.0", "[::]", "*"):
        return host
    told = config.advertise if config.advertise not in ("", DIAL_OUT_ONLY) else config.listen
    return f"[{name}]" if ":" in (name := host_port(told)[0]) else name
