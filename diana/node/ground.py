"""The ground of a node's composition: server, journal and term, of its own or taken over from the follower it was."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from diana.adapters.grpc.server import make_server
from diana.adapters.replica_link.witness import WitnessService
from diana.adapters.sqlite_store.store import SqliteStore
from diana.adapters.trust.keyring import FileKeyring
from diana.engine.engine import Engine
from diana.errors import UsageError
from diana.model.job.spec import decode_spec
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.follower import pair_file
from diana.node.pair.pair import REPLICATED
from diana.node.pair.pairing import witness_of
from diana.node.pair.uploads import blobs_in
from diana.node.ways_in.door import ClientStager, EngineDoor
from diana.ports import Store

if TYPE_CHECKING:
    from diana.node.pair.follower import Leadership


class Ground:
    """`server` and its `port`, `thread` with the journal's store. A machine that leads a pair brings its own; else they
    are made here, the server first: a taken port must show before anything else happens."""

    def __init__(
        self,
        stack: AsyncExitStack,
        paths: DataDir,
        site: str,
        listen: str,
        keyring: FileKeyring,
        lead: Leadership | None,
        **asked: Any,
    ) -> None:
        """`asked`: whom the server asks at each handshake and call (`make_server`)."""
        self.server: Any
        if lead is not None:
            lead.door.asked.update(asked, distrust=keyring.distrust)
            self.server, self.port, self.thread = lead.door, lead.port, lead.replication.thread
            return
        self.server, self.port = make_server(listen, paths.keys, keyring.distrust, **asked)
        stack.push_async_callback(self.server.stop, 2.0)
        store = SqliteStore(paths.journal, paths.mark_twin)
        stack.callback(store.close)
        refuse_alone(store, paths, site)
        self.thread = StoreThread(store)
        stack.callback(self.thread.close)


def refuse_alone(store: Store, paths: DataDir, site: str) -> None:
    """UsageError where another machine keeps this journal as well: this one no longer knows what it promised, and that
    one may lead by now."""
    if store.meta(REPLICATED):
        raise UsageError(
            f"{pair_file(paths)}: missing, and another machine of {site} may lead it by now; where one does, write "
            'role = "standby" and root = ["HOST:PORT"] of it into site.toml; where none ever will, move this node '
            "with diana backup and diana restore"
        )


def attach_witness(server: Any, config: SiteConfig, door: EngineDoor) -> None:
    """Let this site be the witness of others; before the server starts."""
    WitnessService(config.vo, witness_of(door)).attach(server)


async def note_blobs(engine: Engine, stager: ClientStager) -> None:
    """A new leader's catalogue does not know which uploads its groups read: without that they would go too early."""
    for name in sorted(engine.state.groups):
        group = engine.state.groups[name]
        wanted = blobs_in(decode_spec(group.spec_bytes), [ref for ref, _ in group.refs])
        if wanted:
            await stager.use_blobs(name, wanted)
