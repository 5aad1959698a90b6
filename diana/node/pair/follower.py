"""A machine of a pair: its composition root while it follows, and the step from there to leading.

It starts as follower whatever it was before; the register says who leads. A follower serves its other half and nobody
else; on the control socket it says who leads, and takes the orders an operator can give to a standby.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from diana import __version__
from diana.adapters.datadir import OpenDataDir
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.tasks import end, keep_up
from diana.errors import StoreFull
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig
from diana.node.ending import Stop, begins_anew
from diana.replica import messages as ms

if TYPE_CHECKING:
    from diana.adapters.replica_link.link import ReplicaLink
    from diana.adapters.replica_link.saved import DurableFile
    from diana.node.api.service import Api
    from diana.node.loop.store_thread import StoreThread
    from diana.node.pair.doorway import Doorway
    from diana.node.pair.pair import Pair
    from diana.node.pair.replication import Replication
    from diana.node.ways_in.control import ControlServer

RESTORED = "restored_from"
MINTED_FOR = "minted_for"
"""Meta: the forced term for which the journal got a db_uuid of its own."""

CALLS_END_S = 0.2
"""Seconds for calls under way when this machine stops to follow."""

STOP_S = 3.0
"""Seconds for the spawner of a standby that is stopped."""

_log = logging.getLogger("diana.standby")


class Leadership:
    """Parts of the follower this machine was, handed to its composition as leader."""

    def __init__(
        self,
        replication: Replication,
        door: Doorway,
        port: int,
        waiting: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """`waiting`: while it is entered, the control socket tells what this machine waits for before it serves."""
        self.replication = replication
        self.door = door
        self.port = port
        self._waiting = waiting

    async def open(self, seq: int) -> None:
        """Wait until the site may be served, the records up to `seq` being where they must be."""
        from diana.node.pair.pair import now_s

        if not self.replication.replica.may_act(now_s(), seq):
            async with self._waiting():
                await self.replication.open(seq)


Lead = Callable[[Leadership], Awaitable[int]]


def is_paired(paths: DataDir, config: SiteConfig) -> bool:
    """True if this machine keeps the site's journal together with another."""
    return config.role == "standby" or pair_file(paths).exists()


def pair_file(paths: DataDir) -> Path:
    return paths.root / "replica.json"


def pair_address(config: SiteConfig, port: int) -> str:
    """host:port at which the site's other machine finds this one, bound to all interfaces or not."""
    from diana.node.linking import told_address

    return told_address(config, port) or f"{config.listen.rpartition(':')[0]}:{port}"


async def serve_pair(opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any], lead: Lead) -> int:
    """Follow, and lead when it is this machine's turn (`lead` then serves the site); the exit code."""
    async with AsyncExitStack() as stack:
        follower = _Follower(opened, config, overrides, stack)
        try:
            return await follower.serve(lead)
        except StoreFull as full:
            # The leader goes on alone, and hears of it again.
            return await begins_anew(full, lambda: follower.told_to_stop)


class _Follower:
    def __init__(
        self, opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any], stack: AsyncExitStack
    ) -> None:
        from diana.adapters.replica_link.saved import DurableFile
        from diana.node.pair.pair import Pair

        self._opened = opened
        self._overrides = overrides
        self._paths = paths = opened.paths
        self._config = config
        self._stack = stack
        self._file: DurableFile[Pair] = DurableFile(pair_file(paths), Pair)
        self._stop = Stop()
        self._address = config.advertise or config.listen
        self._replication: Replication | None = None
        self._link: ReplicaLink

    @property
    def told_to_stop(self) -> bool:
        return self._stop.is_set()

    async def serve(self, lead: Lead) -> int:
        from diana.adapters.grpc.server import make_server
        from diana.adapters.sqlite_store.store import SqliteStore
        from diana.adapters.trust.keyring import FileKeyring
        from diana.node.loop.store_thread import StoreThread
        from diana.node.pair.doorway import Doorway
        from diana.node.pair.following import FollowerServices
        from diana.node.pair.pair import make_consistent

        config, paths, stack = self._config, self._paths, self._stack
        keyring = FileKeyring(paths.keys)
        door = Doorway(self._says)
        server, port = make_server(
            config.listen,
            paths.keys,
            lambda chain: door.asked.get("distrust", keyring.distrust)(chain),
            extra_roots=door.ask("extra_roots", ()),
            invited=door.ask("invited", "this machine invites nobody"),
            refused=door.ask("refused", None),
        )
        stack.push_async_callback(server.stop, 0.5)
        self._address = pair_address(config, port)
        thread = StoreThread(SqliteStore(paths.journal, paths.mark_twin))
        thread.check_place, thread.watch = self._opened.check_place, self._opened.watch_journal
        thread.watch(True)
        stack.callback(lambda: thread.store.close())
        stack.callback(thread.close)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        # Unhandled, the signal would end it.
        loop.add_signal_handler(
            signal.SIGHUP, _log.info, "SIGHUP: settings are read when this machine has met the other"
        )
        pair = self._file.read() or await self._introduced()
        if pair is None:
            await self._stop_spawner()
            return 0
        self._replication = replication = self._machine(thread, make_consistent(pair, self._file, thread))
        self._link = self._linked(replication)
        self._attach(server, thread)
        following = FollowerServices(self._opened, config, self._overrides, keyring, replication, self._leader)
        following.serve(door)
        door.behind(server)
        await server.start()
        running = asyncio.create_task(replication.run())
        dialling = keep_up(partial(self._link.dial, self._others), "dialling the other machine")
        stack.push_async_callback(end, running, dialling)
        print(f"diana {__version__}: site {config.site} follows on {config.machine} at {self._address}", flush=True)
        _log.info("diana %s: %s of %s follows, data in %s", __version__, config.machine, config.site, paths.root)
        loop.add_signal_handler(signal.SIGHUP, following.reload)
        following.start()
        won: ms.Lead | None = None
        try:
            won = await self._follow(replication, running, following.room)
        finally:
            # Its spawner is the leader's own from here on.
            await following.end(stop_spawner=won is None)
        if won is None:
            return 0
        mint(thread, won, replication)
        return await self._led(asyncio.ensure_future(lead(Leadership(replication, door, port, self._waiting))), running)

    async def _led(self, code: asyncio.Future[int], running: asyncio.Task[None]) -> int:
        # A leader that waits for its standby before it serves does not hear signals itself yet.
        stopping = asyncio.create_task(self._stop.wait())
        any_of: tuple[asyncio.Future[Any], ...] = (code, running, stopping)
        await asyncio.wait(any_of, return_when=asyncio.FIRST_COMPLETED)
        await end(stopping)
        if code.done():
            return code.result()
        code.cancel()
        await asyncio.gather(code, return_exceptions=True)
        if running.done():
            running.result()
        return 0

    async def _stop_spawner(self) -> None:
        """Stop the spawner; it was started before anybody knew that there is nothing to do for it."""
        lrm = LocalLrm(
            self._paths,
            self._config.site,
            self._config.settings.slots,
            lambda event: None,
            clock=time.monotonic,
            worker=self._config.machine,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await lrm.connect()
        await lrm.close(stop_spawner=True)

    # --- parts --------------------------------------------------------------------------------------------

    def _says(self) -> str:
        from diana.node.pair.standby_api import who_leads

        replication, config = self._replication, self._config
        if replication is None:
            where = ", ".join(self._others())
            return (
                f"{config.machine} of {config.site} has not met the site's other machine yet; start that one's node, "
                f"which was at {where}; diana doctor --data {self._paths.root} says what is between"
            )
        return who_leads(replication, self._paths.root, replication.other_address or ", ".join(self._others()))

    def _leader(self) -> str:
        """host:port of who leads; empty: this machine knows nobody."""
        replication = self._replication
        if replication is None or replication.replica.leads() in ("", self._config.machine):
            return ""
        return next(iter(replication.others()), "")

    def _others(self) -> list[str]:
        known = [self._replication.other_address] if self._replication and self._replication.other_address else []
        return [*known, *(a for a in self._config.root if a not in (*known, self._address))]

    def _linked(self, ears: Any) -> ReplicaLink:
        from diana.adapters.replica_link.link import ReplicaLink

        link = ReplicaLink(
            site=self._config.site,
            vo=self._config.vo,
            keys=self._paths.keys,
            hello=ears.hello,
            ears=ears,
            rng=random.Random(),
            other=lambda: self._replication.pair.other if self._replication else "",
        )
        ears.use(link)
        return link

    def _attach(self, server: Any, thread: StoreThread) -> None:
        from diana.adapters.replica_link.seeds import SeedService

        self._link.attach(server)
        SeedService(self._config.site, self._config.vo, self._paths, lambda path: _copy(thread, path)).attach(server)

    def _machine(self, thread: StoreThread, pair: Pair) -> Replication:
        from diana.adapters.sqlite_store.store import SqliteStore
        from diana.node.pair.replication import Replication

        config = self._config
        return Replication(
            site=config.site,
            vo=config.vo,
            machine=config.machine,
            address=self._address,
            paths=self._paths,
            thread=thread,
            file=self._file,
            pair=pair,
            reopen=lambda: SqliteStore(self._paths.journal, self._paths.mark_twin),
            witness_addresses=lambda: [peer.rpartition("@")[2] for peer in config.peers],
        )

    async def _introduced(self) -> Pair | None:
        """A new standby: until it has met the machine it stands by; None: it was stopped first."""
        first = _Introduction(self._config.machine, self._address)
        link = self._linked(first)
        control = self._control(None)
        await control.start()
        dialling = keep_up(partial(link.dial, self._others), "dialling the other machine")
        stopping = asyncio.create_task(self._stop.wait())
        either: tuple[asyncio.Future[Any], ...] = (first.met, stopping)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        await end(dialling, stopping)
        await control.stop(CALLS_END_S)
        if not first.met.done():
            return None
        self._file.write(first.met.result())
        return first.met.result()

    def _control(self, replication: Replication | None) -> ControlServer:
        """The control socket's server, not started. None: for a machine that has not met the other one."""
        from diana.node.pair.standby_api import StandbyApi
        from diana.node.ways_in.control import ControlServer
        from diana.node.ways_in.users import users_of_machine

        config = self._config
        users = users_of_machine(config)
        api = StandbyApi(config, self._paths, self._address, replication, self._says, self._stop.set)
        return ControlServer(self._paths.socket, cast("Api", api), users)

    @asynccontextmanager
    async def _waiting(self) -> AsyncIterator[None]:
        control = self._control(self._replication)
        await control.start()
        try:
            yield
        finally:
            await control.stop(CALLS_END_S)

    async def _follow(
        self, replication: Replication, running: asyncio.Task[None], room: asyncio.Task[None]
    ) -> ms.Lead | None:
        """Follow until this machine is to lead; None: it was stopped."""
        control = self._control(replication)
        await control.start()
        stopping = asyncio.create_task(self._stop.wait())
        try:
            any_of: tuple[asyncio.Future[Any], ...] = (running, stopping, replication.leading, room)
            await asyncio.wait(any_of, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await control.stop(CALLS_END_S)
        for task in (running, room):
            if task.done():
                task.result()
        return replication.leading.result() if replication.leading.done() and not self._stop.is_set() else None


class _Introduction:
    """Ears of a new standby's first stream: who is there."""

    def __init__(self, machine: str, address: str) -> None:
        self._machine = machine
        self._address = address
        self._link: ReplicaLink | None = None
        self.met: asyncio.Future[Pair] = asyncio.get_running_loop().create_future()

    def use(self, link: ReplicaLink) -> None:
        self._link = link

    def hello(self) -> Any:
        from diana.adapters.replica_link.link import VERSION
        from diana.wire.pb import replica_pb2

        return replica_pb2.ReplicaHello(
            version=VERSION, machine=self._machine, release=__version__, address=self._address
        )

    def other_up(self, hello: Any) -> None:
        from diana.node.pair.pair import Pair

        if not self.met.done():
            self.met.set_result(Pair(other=hello.machine, saved=ms.Saved(), witness=hello.witness))

    def other_said(self, payload: bytes) -> None:
        """Ignored: these ears only look who is there."""

    def other_gone(self) -> None:
        """Ignored: the machine that follows dials again."""


def mint(thread: StoreThread, won: ms.Lead, replication: Replication) -> None:
    """A forced takeover gave up another history: this one gets a name of its own, by which peers notice, and nothing
    that was not over is started by itself."""
    store = thread.store
    if won.history_term and store.meta(MINTED_FOR) != str(won.history_term):
        history = uuid.uuid4().hex
        store.set_meta(RESTORED, store.meta("db_uuid"))
        store.set_meta("db_uuid", history)
        store.set_meta(MINTED_FOR, str(won.history_term))
        replication.tell(ms.Minted(history))


def _copy(thread: StoreThread, path: Path) -> None:
    thread.store.copy_to(path)  # type: ignore[attr-defined]
