"""A pair that was made before its site had a peer gets its witness once there is one.

First the standby takes up the witness: while the witness has no register, the standby can only be forced to lead, as
before. Then the leader, under a lease, has the witness record that it leads, alone; it keeps that, begins anew and
takes the standby back. So the two never go by different registers that each let one of them lead unasked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from diana.adapters.replica_link.witness import WitnessClient
from diana.adapters.tasks import end, keep_up
from diana.errors import DianaError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.trust.register import Register, in_order, term_of
from diana.node.config.site_file import SiteConfig

if TYPE_CHECKING:
    from diana.node.pair.replication import Replication

LOOK_EVERY_S = 2.0

_log = logging.getLogger("diana.standby")


def witness_among(config: SiteConfig, peers: dict[SiteId, str]) -> tuple[str, list[str]]:
    """The site the operator named, else the first one linked, and where it may be dialled; nowhere: there is none yet.
    `peers`: linked sites and where they are, empty where they can only dial out."""
    if config.witness:
        told = [peer.rpartition("@")[2] for peer in config.peers]
        return config.witness, [
            where for where in dict.fromkeys((peers.get(SiteId(config.witness), ""), *told)) if where
        ]
    first = next((site for site in sorted(peers) if peers[site] and site != config.site), None)
    return ("", []) if first is None else (first, [peers[first]])


async def find_witness(
    config: SiteConfig, paths: DataDir, peers: dict[SiteId, str]
) -> tuple[str, Register | None] | None:
    """SITE@ADDRESS of one that answers, and what it keeps of this site. None: there is none yet. DianaError where one
    that is known does not answer."""
    site, addresses = witness_among(config, peers)
    if not addresses:
        return None
    client = WitnessClient(site, config.vo, paths.keys, lambda: addresses)
    try:
        kept = await client.touch(0, None)
        return f"{site}@{client.good}", kept
    finally:
        await client.close()


class ChoosingWitness:
    """`begin` it when this machine leads; the process begins anew once there is a witness."""

    def __init__(
        self,
        config: SiteConfig,
        paths: DataDir,
        pair: Replication,
        peers: Callable[[], dict[SiteId, str]],
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`peers`: as for `witness_among`."""
        self._config = config
        self._paths = paths
        self._pair = pair
        self._peers = peers
        self._every_s = every_s

    def begin(self, stack: AsyncExitStack) -> None:
        """Run until the stack is closed."""
        stack.push_async_callback(end, keep_up(self.run, "choosing a witness"))

    async def run(self) -> None:
        pair = self._pair
        while not pair.pair.witness:
            await asyncio.sleep(self._every_s)
            if not pair.in_step:
                continue
            if pair.other_witness:
                await self._take(pair.other_witness)
            elif not pair.offered:
                await self._offer()

    async def _offer(self) -> None:
        """Offer the standby a witness that answers: it keeps what it is told."""
        try:
            found = await find_witness(self._config, self._paths, self._peers())
        except DianaError as error:
            _log.info("%s", error)
            return
        if found is not None:
            _log.info("%s is to be the witness; %s is told", found[0], self._pair.pair.other)
            self._pair.offer_witness(found[0])

    def _addresses(self, witness: str) -> list[str]:
        """The witness's addresses: the one the standby was told, and the one it is linked at now."""
        site, _, told = witness.partition("@")
        return [where for where in dict.fromkeys((told, self._peers().get(SiteId(site), ""))) if where]

    async def _take(self, witness: str) -> None:
        site = witness.partition("@")[0]
        client = WitnessClient(site, self._config.vo, self._paths.keys, lambda: self._addresses(witness))
        try:
            found = await client.touch(0, None)
            term, wish = self._pair.replica.term, self._alone(found)
            kept = await client.touch(term_of(found), wish)
        except DianaError as error:
            _log.info("%s", error)
            return
        finally:
            await client.close()
        # Whoever was made leader meanwhile was so by force, and says so before it grants a lease.
        if kept == wish and self._pair.in_step and self._pair.replica.term == term:
            self._pair.begin_anew_with(f"{site}@{client.good}", wish)

    def _alone(self, found: Register | None) -> Register:
        replica = self._pair.replica
        forced = replica.register is not None and replica.register.forced
        return Register(max(replica.term, term_of(found)) + 1, replica.me.machine, in_order(replica.me), forced)
