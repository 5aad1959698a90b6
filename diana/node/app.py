"""The composition root: settings -> adapters -> runner. Order matters: the spawner starts before grpc is imported,
the boot generation is durable before anyone hears of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from diana import __version__
from diana.adapters.datadir import OpenDataDir
from diana.adapters.lrm.local import LocalLrm
from diana.engine import datasets
from diana.engine import events as ev
from diana.engine.core import Engine
from diana.engine.messages import Hello
from diana.errors import DianaError, UsageError
from diana.model.layout import DataDir
from diana.node.clock import SiteClock
from diana.node.config import SiteConfig, limits_of, load_config

if TYPE_CHECKING:
    from diana.node.runner import Runner

ROOM_EVERY_S = 10.0
AUDIT_HEAD = "audit_head"
"""In the store: what the newest line of the audit trail is."""

_log = logging.getLogger("diana.node")


def run_node(data: Path, overrides: Mapping[str, Any] | None = None) -> int:
    """Serve a site until SIGTERM or SIGINT; the exit code. `overrides`: fields of `SiteConfig` (listen, peers,
    zeroconf) or of its settings (slots) that the command line gave.

    UsageError and its kin for what an operator can mend; an internal error is logged to <data>/node.log and raised.
    """
    paths = DataDir(data)
    if not paths.config.exists():
        raise UsageError(f"{data}: no site here; make one with: diana init NAME --data {data}")
    config = _with(load_config(paths.config), overrides or {})
    opened = OpenDataDir(data)
    try:
        _log_to(paths.node_log)
        LocalLrm.launch(paths)
        return asyncio.run(_serve(opened, config, overrides or {}))
    finally:
        opened.close()


def _with(config: SiteConfig, overrides: Mapping[str, Any]) -> SiteConfig:
    fields = {f.name for f in msgspec.structs.fields(SiteConfig)}
    own = {k: v for k, v in overrides.items() if k in fields}
    rest = {k: v for k, v in overrides.items() if k not in fields}
    try:
        settings = msgspec.structs.replace(config.settings, **rest)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return msgspec.structs.replace(config, settings=settings, **own)


def _log_to(path: Path) -> None:
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)


async def _serve(opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any]) -> int:
    async with AsyncExitStack() as stack:
        node = _Node(opened, config, overrides)
        await node.start(stack)
        print(f"diana {__version__}: site {config.site} serves {node.address}, data in {opened.paths.root}", flush=True)
        _log.info("diana %s: site %s of %s serves %s", __version__, config.site, config.vo, node.address)
        if os.getuid() == 0:
            _log.warning("this node runs as root, and so do its jobs; give it an account of its own")
        code = await node.serve()
        _log.info("site %s stops; jobs that run, run on", config.site)
        return code


class _Node:
    """One run of a node: what was built, in the order it is taken down again (by the exit stack)."""

    def __init__(self, opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any]) -> None:
        self.opened = opened
        self.paths = opened.paths
        self.config = config
        self.overrides = overrides
        self.address = ""
        self._stop = asyncio.Event()
        self.runner: Runner

    async def start(self, stack: AsyncExitStack) -> None:
        from diana.adapters.grpc_server import make_server
        from diana.adapters.keyring import FileKeyring
        from diana.adapters.sqlite_store import SqliteStore
        from diana.node.release import Release
        from diana.node.runner import Runner
        from diana.node.store_thread import StoreThread

        paths, config = self.paths, self.config
        keyring = self.keyring = FileKeyring(paths.keys)
        # Bound first: a taken port must show before anything else happens.
        server, port = make_server(config.listen, paths.keys, keyring.distrust)
        stack.push_async_callback(server.stop, 2.0)
        host = config.listen.rpartition(":")[0]
        self.address = config.advertise or f"{host}:{port}"
        store = self.store = SqliteStore(paths.journal)
        stack.callback(store.close)
        thread = self.thread = StoreThread(store)
        stack.callback(thread.close)
        journal = store.load()
        clock = SiteClock(journal.at_s)
        engine = Engine.restore(journal, site=config.site, keyring=keyring, now=clock.now_s())
        nonce, restored = uuid.uuid4().hex, bool(store.meta("restored_from"))
        db_uuid = store.meta("db_uuid")
        effects = engine.start(
            config.settings, boot_nonce=nonce, db_uuid=db_uuid, restored=restored, urls=config.staging.urls
        )
        release = Release(config.site, paths, thread)
        self.runner = Runner(engine, thread, clock, release, journal.records)
        stack.push_async_callback(self.runner.close)
        hello = Hello(
            site=config.site,
            protocol=_protocol(),
            release=__version__,
            capabilities=(),
            db_uuid=db_uuid,
            generation=engine.generation,
            boot_nonce=nonce,
            seq=engine.boot_seq,
            term=0,
            data_address=self.address,
        )
        await self._adapters(stack, server, hello, release, clock)
        # Before the engine gives orders again: none of them may change the catalogue meanwhile.
        for event in datasets.missed(engine.core, await self.stager.registered()):
            self.runner.emit_own(event)
        await self.runner.open(effects)
        if restored:
            store.set_meta("restored_from", "")
        await self._clients(stack, server, port)

    async def _adapters(self, stack: AsyncExitStack, server: Any, hello: Hello, release: Any, clock: SiteClock) -> None:
        from diana.adapters.grpc_server import peer_identity
        from diana.adapters.grpc_transport import GrpcTransport
        from diana.adapters.link_probe import LinkProbe, ProbeService
        from diana.adapters.stager import FileStager
        from diana.adapters.staging.holdings import Reader
        from diana.wire.pb import data_pb2_grpc

        paths, config, runner = self.paths, self.config, self.runner
        try:
            self.transport = GrpcTransport(hello=hello, keys=paths.keys, emit=runner.emit_peer, peers=config.peers)
        except ValueError as error:
            raise UsageError(f"{paths.config}: peers: {error}") from None
        transport = self.transport
        transport.attach(server)
        probe = LinkProbe(channel_for=transport.channel_for, peers=transport.peers, emit=runner.emit_own)
        probe.configure(config.settings)
        ProbeService(config.site).attach(server)
        self.stager = FileStager(
            paths,
            config.site,
            runner.emit_own,
            transport.channel_for,
            probe.observe,
            limits=limits_of(config.staging),
            allowed_urls=config.staging.urls,
        )
        stack.push_async_callback(self.stager.close)

        def reader(context: Any) -> Reader:
            kind, name, _ = peer_identity(context)
            return Reader(kind, name)

        serve_data: Any = data_pb2_grpc.add_DataServicer_to_server
        serve_data(self.stager.service(reader), server)
        self.lrm = LocalLrm(paths, config.site, config.settings.slots, runner.emit_own, clock=clock.now_s)
        release.transport, release.stager, release.lrm = transport, self.stager, self.lrm
        stack.push_async_callback(transport.stop)
        stack.push_async_callback(probe.stop)
        self.probe = probe

    async def _clients(self, stack: AsyncExitStack, server: Any, port: int) -> None:
        from diana.adapters.zeroconf_discovery import ZeroconfDiscovery
        from diana.node.api import Api
        from diana.node.audit import open_audit
        from diana.node.client_service import add_client_service
        from diana.node.control import ControlServer
        from diana.node.door import About
        from diana.node.users import Users

        config, paths = self.config, self.paths
        users = Users(config.vo, operators=config.operators, owner_of=config.owner_of)
        about = About(site=config.site, vo=config.vo, release=__version__, address=self.address)
        self.audit = open_audit(paths.audit, self.store.meta(AUDIT_HEAD))
        stack.callback(self.audit.close)
        api = Api(door=self.runner, stager=self.stager, data=paths, about=about, stop=self._stop.set, audit=self.audit)
        add_client_service(server, api, users)
        control = ControlServer(paths.socket, api, users)
        discovery = ZeroconfDiscovery(
            site=config.site, vo=config.vo, port=port, found=self.transport.add_address, enabled=config.zeroconf
        )
        await server.start()
        await self.transport.start()
        self.probe.start()
        await self.lrm.connect()
        stack.push_async_callback(self.lrm.close, stop_spawner=True)
        await control.start()
        stack.push_async_callback(control.stop)
        await discovery.start()
        stack.push_async_callback(discovery.stop)

    async def serve(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        running = asyncio.create_task(self.runner.run())
        watching = asyncio.create_task(self._watch_room())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        watching.cancel()
        if not running.done():
            await self.runner.drain()
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return 0 if running.cancelled() else _report(running.exception())

    async def _watch_room(self) -> None:
        """A full disk must not cost a result: new work is refused in time, and what runs gets the ballast's room. The
        newest line of the audit trail is kept apart from it."""
        told, head = "", self.audit.head()
        while True:
            if self.audit.head() != head:
                head = self.audit.head()
                await self.thread.call(self.store.set_meta, AUDIT_HEAD, head)
            low = await asyncio.to_thread(self.opened.keep_room)
            if low != told:
                self.runner.emit_own(ev.RoomChecked(low))
                told = low
            await asyncio.sleep(ROOM_EVERY_S)

    def _reload(self) -> None:
        """SIGHUP: a bad file changes nothing."""
        try:
            config = _with(load_config(self.paths.config), self.overrides)
            self.keyring.reload_revoked()
        except DianaError as error:
            _log.error("settings kept as they were: %s", error)
            return
        self.runner.emit_own(ev.SettingsLoaded(config.settings, config.staging.urls))
        self.lrm.set_slots(config.settings.slots)
        self.stager.allow_urls(config.staging.urls)
        self.stager.set_rate(config.staging.rate_bytes_per_s)
        self.probe.configure(config.settings)
        _log.info("%s was read again", self.paths.config)


def _protocol() -> int:
    from diana.wire import PROTOCOL

    return PROTOCOL


def _report(error: BaseException | None) -> int:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return 0
    if isinstance(error, DianaError):
        raise error
    _log.critical("the node stops", exc_info=error)
    raise error
