"""A pair that was made before its site had a peer gets its witness once there is one.

First the standby takes it up: while the witness has no register, that one can only be forced to lead, as before. Then
the leader, under a lease, has the witness record that it leads, alone; it keeps that, begins anew and takes the standby
back. So the two never go by different registers of which each lets somebody lead unasked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from diana.adapters.replica_link import WitnessClient
from diana.adapters.tasks import keep_up
from diana.errors import DianaError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.register import Register, in_order, term_of
from diana.node.config import SiteConfig

if TYPE_CHECKING:
    from diana.node.replication import Replication

LOOK_EVERY_S = 2.0

_log = logging.getLogger("diana.standby")


def witness_among(config: SiteConfig, peers: dict[SiteId, str]) -> str:
    """SITE@ADDRESS: the site the operator named, else the first one linked that can be dialled; empty: there is none.
    `peers`: linked sites and where they are, empty where they can only dial out."""
    if config.witness:
        return f"{config.witness}@{peers.get(SiteId(config.witness), '')}"
    return next((f"{site}@{peers[site]}" for site in sorted(peers) if peers[site] and site != config.site), "")


class ChoosingWitness:
    """`begin` it when this machine leads; the process begins anew once there is a witness. `found` names one."""

    def __init__(
        self, vo: str, paths: DataDir, pair: Replication, found: Callable[[], str], every_s: float = LOOK_EVERY_S
    ) -> None:
        self._vo = vo
        self._keys = paths.keys
        self._pair = pair
        self._found = found
        self._every_s = every_s

    def begin(self, stack: AsyncExitStack) -> None:
        """Until the stack is closed."""
        task = keep_up(self.run, "choosing a witness")

        async def end() -> None:
            task.cancel()
            await asyncio.wait((task,))

        stack.push_async_callback(end)

    async def run(self) -> None:
        pair = self._pair
        while not pair.pair.witness:
            await asyncio.sleep(self._every_s)
            if not pair.in_step:
                continue
            if pair.other_witness:
                await self._take(pair.other_witness)
            elif (witness := self._found()) and pair.offered != witness:
                _log.info("%s is to be the witness; %s is told", witness, pair.pair.other)
                pair.offer_witness(witness)

    async def _take(self, witness: str) -> None:
        site, _, where = witness.partition("@")
        client = WitnessClient(site, self._vo, self._keys, lambda: [where] if where else [])
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
            self._pair.begin_anew_with(witness, wish)

    def _alone(self, found: Register | None) -> Register:
        replica = self._pair.replica
        forced = replica.register is not None and replica.register.forced
        return Register(max(replica.term, term_of(found)) + 1, replica.me.machine, in_order(replica.me), forced)
