"""The way that leads to each site now, and what was found out about it; the data channels follow.

Nothing is taken on trust: an address counts as answering only after a handshake with the very site's certificate, so
a site that claims a stranger's address draws a connection there and nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import grpc

from diana.adapters.grpc_transport.book import AddressBook, DialTarget, is_dialable
from diana.adapters.grpc_transport.channels import DataChannels
from diana.adapters.tasks import begin, end
from diana.engine.journal.effects import Contact
from diana.engine.messages.messages import Hello
from diana.model.ids import SiteId
from diana.wire.tls import server_name

LOOKS_AT_ONCE = 8
VERIFIED_AT_ONCE = 32
VERIFY_WAIT_S = 3.0
MOST_RESOLVED = 4

_log = logging.getLogger("diana.peers")


class Reach:
    """The address book, the data channels, and the looks by which they are kept right."""

    def __init__(
        self, *, vo: str, keys: Path, tunnel: Callable[[SiteId], str], dialled: Callable[[SiteId], bool]
    ) -> None:
        """`dialled`: True if a stream to the site stands that this side dialled at its own address."""
        self.book = AddressBook(tunnel)
        self.refuses: Callable[[SiteId], str] = lambda _: ""
        """Function that says why a site is not to be dialled, or nothing: trust in it was taken back."""
        self._vo = vo
        self._keys = keys
        self._dialled = dialled
        self._channels = DataChannels(vo, keys, self._data_way)
        self._looking: dict[SiteId, asyncio.Task[None]] = {}
        self._verifying = asyncio.Semaphore(VERIFIED_AT_ONCE)
        self._stopped = False

    # --- what is told ----------------------------------------------------------------------------

    def put(self, order: Contact) -> None:
        old = self.book.put(order)
        if old is not None and old.address != order.address:
            self._channels.drop(order.site)

    def forget(self, site: SiteId) -> None:
        self.book.forget(site)
        self._channels.drop(site)

    def learn(self, hello: Hello) -> None:
        """Note what a linked peer says of itself, with an address that can be dialled."""
        self.book.learn(hello.site, hello.data_address)
        self._channels.learn(hello)

    def drop(self, site: SiteId) -> None:
        """Close the channel; the next to ask gets a new one."""
        self._channels.drop(site)

    def came(self, site: SiteId, *, tunnel: bool) -> None:
        """Note that a stream to the site was made: at its own address, or through a neighbour because that does not
        answer."""
        if tunnel:
            self._unheard(site)
        else:
            self._heard(site)

    # --- what is asked ---------------------------------------------------------------------------

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        return None if self.refuses(site) else self._channels.channel_for(site)

    def data_sites(self) -> tuple[SiteId, ...]:
        """Return the sites to which a channel for data is open."""
        return self._channels.sites()

    def dials_out_only(self, site: SiteId) -> bool:
        """True if, as seen from here, the site names no address, or none that answers."""
        return self.book.is_deaf(site) or not self.book.addresses(site)

    async def direct_address(self, site: SiteId) -> str:
        """Return IP:port at which this very site answers us, by a handshake made now; empty: none does. Never a
        name, which might lead elsewhere the next time it is looked up."""
        for address in () if self.refuses(site) else self.book.addresses(site):
            for numeric in await _resolved(address):
                if not await self._verify(numeric, site):
                    self._heard(site)
                    return numeric
        return ""

    async def _verify(self, address: str, site: SiteId) -> str:
        """As `verify_site`; few at once, since each claimed address costs us a connection."""
        async with self._verifying:
            return await verify_site(address, site, self._vo, self._keys)

    async def answers(self, site: SiteId, claimed: str = "") -> bool:
        """True if the site can be dialled, at `claimed` too; note it if it cannot."""
        if await self.direct_address(site):
            return True
        if is_dialable(claimed) and claimed not in self.book.addresses(site):
            return not await self._verify(claimed, site)
        addresses = self.book.addresses(site)
        if addresses and not self.book.is_deaf(site):
            _log.info("%s does not answer at %s: seen from here it can only dial out", site, ", ".join(addresses))
        self._unheard(site)
        return False

    def look_again(self, now_s: float) -> None:
        """Look at addresses that did not answer a while ago, and at sites that are trusted no more: all that runs
        through the channel to one, tunnels too, ends."""
        for site in self._channels.sites():
            if self.refuses(site):
                self._channels.drop(site)
        for site in self.book.to_look_at(now_s):
            self._look(site)

    async def close(self) -> None:
        self._stopped = True
        await asyncio.gather(end(*self._looking.values()), self._channels.close(), return_exceptions=True)

    # --- what is found out -----------------------------------------------------------------------

    def _heard(self, site: SiteId) -> None:
        if self.book.is_deaf(site):
            self.book.answers(site)
            self._channels.drop(site)

    def _unheard(self, site: SiteId) -> None:
        if not self.book.is_deaf(site):
            self._channels.drop(site)
        if self.book.addresses(site):
            self.book.deaf(site, asyncio.get_running_loop().time())

    def _data_way(self, site: SiteId) -> DialTarget | None:
        ways = self.book.ways(site)
        if len(ways) > 1 and not ways[0].tunnel and not self._dialled(site):
            # Not known to answer, and something else may reach it: find out on the side.
            self._look(site)
        return ways[0] if ways else None

    def _look(self, site: SiteId) -> None:
        if site not in self._looking and len(self._looking) < LOOKS_AT_ONCE and not self._stopped:
            task = self._looking[site] = begin(self._look_at(site), f"the look at {site}")
            task.add_done_callback(lambda _: self._looking.pop(site, None))

    async def _look_at(self, site: SiteId) -> None:
        await self.answers(site)


async def _resolved(address: str) -> tuple[str, ...]:
    """The IP:port that host:port stands for now; none where it stands for nothing."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(VERIFY_WAIT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError, TimeoutError):
        return ()
    ips = dict.fromkeys(str(to[0]) for *_, to in found)
    return tuple(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in ips)[:MOST_RESOLVED]


async def verify_site(address: str, site: SiteId, vo: str, keys: Path) -> str:
    """Empty if the holder of this site's certificate answers at host:port within 3 s; else one line why not."""
    host, _, port = address.rpartition(":")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(keys / "vo.pem")
        context.load_cert_chain(keys / "site.pem", keys / "site.key")
        context.set_alpn_protocols(["h2"])
        async with asyncio.timeout(VERIFY_WAIT_S):
            _, writer = await asyncio.open_connection(
                host.strip("[]"), int(port), ssl=context, server_hostname=server_name(site, vo)
            )
            writer.transport.abort()
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        # Never empty: asyncio's own reset says nothing at all.
        return error.strerror or str(error) or type(error).__name__
    except ValueError as error:
        return str(error) or "no address"
    return ""
