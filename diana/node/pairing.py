"""A site without a standby meets its first one: this machine becomes the founder of a pair and starts anew as that.

Also what any leading node attaches for others: the witness it can be for other sites.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diana import __version__
from diana.engine.effects import Refusal, RegisterIs
from diana.engine.events import RegisterAsked
from diana.errors import DianaError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.register import Register
from diana.node.choosing_witness import witness_among
from diana.node.config import SiteConfig
from diana.wire.client_messages import Failure
from diana.wire.failures import error_of

if TYPE_CHECKING:
    from diana.adapters.replica_link import ReplicaLink
    from diana.node.door import EngineDoor

_log = logging.getLogger("diana.standby")


class Pairing:
    """Ears of a machine that is alone. `paired` is called once a standby has shown itself and this is durable."""

    def __init__(
        self,
        config: SiteConfig,
        paths: DataDir,
        address: str,
        peers: Callable[[], dict[SiteId, str]],
        paired: Callable[[], None],
    ) -> None:
        """`peers`: linked sites and where they are, empty where they can only dial out."""
        self._config = config
        self._paths = paths
        self._address = address
        self._peers = peers
        self._paired = paired
        self._link: ReplicaLink | None = None
        self._done = False

    def attach(self, server: Any) -> None:
        """Before the server starts."""
        from diana.adapters.replica_link import ReplicaLink

        config = self._config
        self._link = ReplicaLink(
            site=config.site, vo=config.vo, keys=self._paths.keys, hello=self.hello, ears=self, rng=random.Random()
        )
        self._link.attach(server)

    def hello(self) -> Any:
        from diana.adapters.replica_link.link import VERSION
        from diana.wire.pb import replica_pb2

        return replica_pb2.ReplicaHello(
            version=VERSION,
            machine=self._config.machine,
            release=__version__,
            address=self._address,
            witness=self._witness(),
        )

    def other_up(self, hello: Any) -> None:
        from diana.adapters.replica_link import DurableFile
        from diana.node.follower import pair_file
        from diana.node.pair import Pair
        from diana.replica.messages import Saved

        if self._done:
            return
        self._done = True
        witness = self._witness()
        DurableFile(pair_file(self._paths), Pair).write(
            Pair(other=hello.machine, saved=Saved(founder=True), witness=witness, address=hello.address)
        )
        _log.info("%s is the standby; witness: %s", hello.machine, witness or "none")
        self._paired()

    def other_said(self, payload: bytes) -> None:
        """Not before this machine has started anew."""

    def other_gone(self) -> None:
        """It will dial again."""

    def _witness(self) -> str:
        return witness_among(self._config, self._peers())


def witness_of(door: EngineDoor) -> Callable[[SiteId, int, Register | None], Any]:
    """What the service of the witness asks this node's engine."""

    async def asked(site: SiteId, expect_term: int, wish: Register | None) -> Register | None:
        body = await door.request(
            lambda number: RegisterAsked(request=number, by=site, site=site, expect_term=expect_term, register=wish)
        )
        if isinstance(body, Refusal):
            raise error_of(Failure(code=body.code, text=body.text, retry_after_s=body.retry_after_s))
        if not isinstance(body, RegisterIs):
            raise DianaError(f"the engine answered {type(body).__name__} where a register was asked")
        return body.register

    return asked
