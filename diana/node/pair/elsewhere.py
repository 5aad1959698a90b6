"""Access to the other machine of a pair: logs and outputs stay on the machine that led when they came, and are read
there as long as it lives.

To the adapters that machine is a site of its own, SITE.MACHINE, though it answers with the site's certificate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from diana.adapters.staging.outputs.beside import Beside
from diana.model.ids import SiteId
from diana.node.config.site_file import SiteConfig

if TYPE_CHECKING:
    import grpc

    from diana.node.pair.replication import Replication

ChannelFor = Callable[[SiteId], "grpc.aio.Channel | None"]


def other_machine(pair: Replication) -> SiteId:
    """The adapters' name for the other machine."""
    return SiteId(f"{pair.site}.{pair.pair.other}")


def beside(pair: Replication, given_up: Callable[[str], bool]) -> Beside:
    """The other machine as the stager sees it. `given_up`: tells whether the operator said that this machine will not
    be back."""
    machine = pair.pair.other
    return Beside(SiteId(pair.site), other_machine(pair), machine, lambda: given_up(machine))


class OtherMachine:
    """`channel_for` finds the other machine too, while there is a stream to it."""

    def __init__(self, config: SiteConfig, keys: Path, pair: Replication, otherwise: ChannelFor) -> None:
        self._config = config
        self._keys = keys
        self._pair = pair
        self._otherwise = otherwise
        self._made: tuple[str, int] = ("", 0)
        self._channel: grpc.aio.Channel | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        if site != other_machine(self._pair):
            return self._otherwise(site)
        if not self._pair.other_up_now or not self._pair.others():
            return None
        # A renewed certificate is shown by a new channel only.
        wanted = (self._pair.others()[0], (self._keys / "site.pem").stat().st_mtime_ns)
        if self._channel is None or wanted != self._made:
            self._drop()
            self._made, self._channel = wanted, self._open(wanted[0])
        return self._channel

    def _open(self, address: str) -> grpc.aio.Channel:
        from diana.wire.tls import load_credentials, open_channel

        return open_channel(address, self._config.site, self._config.vo, load_credentials(self._keys))

    def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            task = asyncio.ensure_future(channel.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        self._drop()
        if self._closing:
            await asyncio.wait(self._closing)
