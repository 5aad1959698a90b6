"""Duties of a machine that follows, beside keeping the journal: its spawner runs jobs for whoever leads, its
certificate is renewed, users and sites the VO revoked are refused here too, and the other machine can read what this
one gathered while it led."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import grpc

from diana.adapters.datadir import OpenDataDir
from diana.adapters.grpc.server import peer_identity
from diana.adapters.tasks import begin, end
from diana.adapters.trust.keyring import FileKeyring
from diana.engine.journal import codec, records
from diana.engine.journal.state import SiteState, decode_state
from diana.errors import DianaError
from diana.model.trust.ledger import Statement
from diana.node.config.site_file import SiteConfig
from diana.node.member.member import MemberNode
from diana.node.member.subgrid import of_this_site
from diana.node.pair.follower_uploads import FollowerUploads
from diana.ports import Batch, Journal

if TYPE_CHECKING:
    from diana.node.loop.store_thread import StoreThread
    from diana.node.pair.doorway import Doorway
    from diana.node.pair.replication import Replication

_KEPT = records.StatementKept.__name__.encode()

FOR_LEADING = (
    *(f"diana.adapters.{name}" for name in ("link_probe", "zeroconf_discovery")),
    *(f"diana.adapters.staging.{name}" for name in ("stager", "transfer.service")),
    *(f"diana.node.{name}" for name in ("api", "enrol.wiring", "ground", "insight", "linking", "trusting")),
    *(f"diana.node.ways_in.{name}" for name in ("audit", "client_service", "control", "door", "users")),
    *(
        f"diana.node.{name}"
        for name in ("loop.release", "loop.runner", "member.subgrid", "pair.elsewhere", "pair.merging")
    ),
)
"""Modules that a leader's composition imports when it is made."""

_log = logging.getLogger("diana.standby")


def load_for_leading() -> None:
    """Blocks. Read while there is time: an upgrade may lie on the disk by the time this machine leads, and half of one
    release beside half of another is none."""
    for name in FOR_LEADING:
        import_module(name)


class FollowerServices:
    """`start` it once the other machine is known; `end` it before this machine leads."""

    def __init__(
        self,
        opened: OpenDataDir,
        config: SiteConfig,
        overrides: Mapping[str, Any],
        keyring: FileKeyring,
        replication: Replication,
        leader: Callable[[], str],
    ) -> None:
        """`leader`: host:port of who leads, empty while that is not known."""
        self._config = config
        self._keyring = keyring
        self._leader = leader
        self._may_attach = of_this_site(config)
        self._member = MemberNode(
            opened,
            config,
            overrides,
            key="site",
            others=lambda: list(replication.others()),
            renewed=keyring.reload_keys,
        )
        self._revoked = Revoked(keyring, replication.thread)
        self._uploads = FollowerUploads(opened.paths, replication.thread)
        replication.journal.stored = self._heard
        replication.journal.fetching = self._uploads.needed
        self._tasks: list[asyncio.Task[None]] = []
        self.room: asyncio.Task[None]
        """Ends with a fault only: this machine cannot go on."""

    def serve(self, door: Doorway) -> None:
        """Serve until this machine leads: what it holds, and a refusal to members."""
        from diana.adapters.staging.catalogue.holdings import DataReader
        from diana.wire.pb import data_pb2_grpc

        holdings = self._member.stager.holdings

        def reader(context: Any) -> DataReader:
            shown = peer_identity(context)
            own = (shown.kind, shown.name, shown.vo) == ("site", self._config.site, self._config.vo)
            return DataReader("site", holdings.site) if own else DataReader("", shown.said)

        collected = _Collected(door)
        serve_data: Any = data_pb2_grpc.add_DataServicer_to_server
        serve_data(self._member.stager.service(reader), collected)
        door.meanwhile(_attach_handler(self._refuse))

    def _heard(self, batch: Batch | None) -> None:
        self._revoked.heard(batch)
        self._uploads.heard(batch)

    async def _refuse(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """A member came to the machine that follows: it hears who leads."""
        from diana.adapters.subgrid import protocol
        from diana.wire.pb import subgrid_pb2

        first = await anext(requests, None)
        try:
            (hello,) = protocol.from_member(first.messages if first is not None else b"")
            if not isinstance(hello, protocol.Hello):
                raise ValueError("no Hello")
        except ValueError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "want a Hello first")
            return
        if why := self._may_attach(context, hello.machine):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        leader = self._leader()
        said = f"{self._config.machine} follows; {leader or 'nobody just now'} leads {self._config.site}"
        answer = protocol.encode_one(protocol.Refused(said, leader))
        yield subgrid_pb2.SubGridFrame(messages=protocol.pack([answer]))

    def start(self) -> None:
        self.room = begin(self._member.watch_room(), "watching the room on the disk")
        self._tasks = [begin(self._attach(), "having this machine run jobs"), self.room]
        self._revoked.start()
        self._uploads.start()

    async def _attach(self) -> None:
        await asyncio.to_thread(load_for_leading)
        try:
            await self._member.start()
        except (DianaError, OSError) as error:
            _log.error("this machine's spawner cannot be used yet: %s", error)
            await self._member.attach()

    def reload(self) -> None:
        """SIGHUP: a bad file changes nothing."""
        try:
            self._keyring.reload_revoked()
        except DianaError as error:
            _log.error("settings kept as they were: %s", error)
            return
        self._member.reload()

    async def end(self, *, stop_spawner: bool) -> None:
        """`stop_spawner`: it goes if it has no jobs."""
        # What failed stands in the log.
        await end(*self._tasks)
        await self._revoked.stop()
        await self._uploads.stop()
        await self._member.stop(stop_spawner=stop_spawner)


class Revoked:
    """Keeps the keyring at the revocations of the VO's ledger, as it stands in a follower's journal."""

    def __init__(self, keyring: FileKeyring, thread: StoreThread) -> None:
        self._keyring = keyring
        self._thread = thread
        self._said: dict[str, Statement] = {}
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read what stands in the journal so far."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = begin(self._read(), "reading whom the VO revoked")

    async def stop(self) -> None:
        await end(self._reading)

    def heard(self, batch: Batch | None) -> None:
        if batch is None:
            self.start()
            return
        new = statements_in(batch.records)
        if new:
            self._said |= new
            self._apply()

    async def _read(self) -> None:
        journal = await self._thread.call(self._thread.store.load)
        found = await asyncio.to_thread(standing, journal)
        # What was heard while it was read is newer.
        self._said = found | self._said
        self._apply()

    def _apply(self) -> None:
        since = {one.about: one.wall_s for one in self._said.values() if one.kind == "revoke"}
        self._keyring.set_revoked(frozenset(since), since)


def standing(journal: Journal) -> dict[str, Statement]:
    """The newest statement about each subject."""
    state = decode_state(journal.snapshot) if journal.snapshot is not None else SiteState()
    return {about: signed.statement for about, signed in state.ledger.items()} | statements_in(journal.records)


def statements_in(stored: Any) -> dict[str, Statement]:
    """The ledger's statements in these encoded records, by subject. A record that does not contain the kind's name is
    not decoded."""
    out: dict[str, Statement] = {}
    for one in stored:
        if _KEPT in one and isinstance(record := codec.decode(one), records.StatementKept):
            out[record.signed.statement.about] = record.signed.statement
    return out


class _Collected:
    """Looks like a server to what adds itself to one."""

    def __init__(self, door: Doorway) -> None:
        self._door = door

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        for handler in handlers:
            self._door.meanwhile(handler)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Ignored: generated code adds the same handlers a second time so."""


def _attach_handler(serve: Any) -> Any:
    from diana.wire.pb import subgrid_pb2

    handler = grpc.stream_stream_rpc_method_handler(
        serve, subgrid_pb2.SubGridFrame.FromString, subgrid_pb2.SubGridFrame.SerializeToString
    )
    return grpc.method_handlers_generic_handler("diana.v1.SubGrid", {"Attach": handler})
