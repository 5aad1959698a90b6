"""A site without a standby meets its first one: this machine becomes the founder of a pair and starts anew as that.

Also what any leading node attaches for others: the witness it can be for other sites.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diana import __version__
from diana.adapters.tasks import begin
from diana.engine.journal.effects import Refusal, RegisterIs
from diana.engine.journal.events import RegisterAsked
from diana.errors import DianaError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.trust.register import Register
from diana.node.config.site_file import SiteConfig
from diana.node.pair.choosing_witness import find_witness
from diana.wire.client.failures import error_of
from diana.wire.client.messages import Failure

if TYPE_CHECKING:
    from diana.adapters.replica_link.link import ReplicaLink
    from diana.node.ways_in.door import EngineDoor

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
        self._pairing: asyncio.Task[None] | None = None
        self._done = False

    def attach(self, server: Any) -> None:
        """Before the server starts."""
        from diana.adapters.replica_link.link import ReplicaLink

        config = self._config
        self._link = ReplicaLink(
            site=config.site, vo=config.vo, keys=self._paths.keys, hello=self.hello, ears=self, rng=random.Random()
        )
        self._link.attach(server)

    def hello(self) -> Any:
        from diana.adapters.replica_link.link import VERSION
        from diana.wire.pb import replica_pb2

        # Of the witness it hears from the founder of the pair, which knows by then whether that one answers.
        return replica_pb2.ReplicaHello(
            version=VERSION, machine=self._config.machine, release=__version__, address=self._address
        )

    def other_up(self, hello: Any) -> None:
        if self._pairing is None or (self._pairing.done() and not self._done):
            self._pairing = begin(self._pair_with(hello), f"making {hello.machine} the standby")

    async def _pair_with(self, hello: Any) -> None:
        """StoreFailed."""
        from diana.adapters.replica_link.saved import DurableFile
        from diana.node.pair.follower import pair_file
        from diana.node.pair.pair import Pair
        from diana.replica.messages import Saved

        witness = await self._witness()
        DurableFile(pair_file(self._paths), Pair).write(
            Pair(other=hello.machine, saved=Saved(founder=True), witness=witness, address=hello.address)
        )
        self._done = True
        _log.info("%s is the standby; witness: %s", hello.machine, witness or "none")
        self._paired()

    def other_said(self, payload: bytes) -> None:
        """Ignored until this machine has started anew."""

    def other_gone(self) -> None:
        """Ignored: it will dial again."""

    async def _witness(self) -> str:
        """A witness that answers now and knows nothing of this site: else the founder could not make the first
        register, and would never lead. Empty: there is none yet, and one that comes later is chosen later."""
        try:
            found = await find_witness(self._config, self._paths, self._peers())
        except DianaError as error:
            _log.warning("%s; it is taken up once it answers", error)
            return ""
        if found is None and self._config.witness:
            _log.warning("witness %s of site.toml is not linked; it is taken up once it is", self._config.witness)
        return "" if found is None or found[1] is not None else found[0]


def witness_of(door: EngineDoor) -> Callable[[SiteId, int, Register | None], Any]:
    """Make the question that the witness's service asks this node's engine."""

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
