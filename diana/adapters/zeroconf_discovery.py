"""Finds peers on the LAN by DNS-SD (SPEC D9), and a member's or a standby's RootGrid. A hint only: whoever is found
still has to prove who it is, and nothing is shown to it before it has (PROMISES 5.15).

Network interfaces come and go, and with them multicast membership; a changed set of addresses therefore rebuilds
the whole responder. A killed node leaves its record behind until it expires, which costs its finders some dials. A
record holds a digest of the VO's name and the site's name, no more: whoever listens learns nothing it could use.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import ifaddr
from zeroconf import Error as ZeroconfError
from zeroconf import IPVersion, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from diana.adapters.tasks import begin, end, keep_up
from diana.model.ids import SiteId, site_id

SERVICE = "_diana._tcp.local."
ROOT_GRID = "root"
"""Role of the machine that leads its site; the only one that is announced."""
LOOKUP_WAIT_MS = 3_000
INTERFACES_EVERY_S = 10.0
LOOKUPS_AT_ONCE = 32
MOST_WAITING = 1024
"""Names that wait to be looked up; beyond it, records are passed over until they are announced again."""
MOST_ADDRESSES = 4
"""Most addresses taken from one record."""

_log = logging.getLogger("diana.discovery")


def vo_digest(vo: str) -> str:
    """Return the digest by which a record names its VO: enough to pass over records of other VOs."""
    return hashlib.sha256(f"diana VO {vo}".encode()).hexdigest()[:16]


class ZeroconfDiscovery:
    """Announces this site's RootGrid and reports those of others of the same VO, as `site@host:port`."""

    def __init__(
        self,
        *,
        site: SiteId,
        vo: str,
        port: int,
        found: Callable[[str], None],
        found_root: Callable[[str], None] = lambda _: None,
        hosts: tuple[str, ...] = (),
        enabled: bool = True,
        interfaces_every_s: float = INTERFACES_EVERY_S,
    ) -> None:
        """`port` 0: nothing is announced (a member, or a site that can only dial out). `found_root` is told of this
        very site's RootGrid. `hosts`: the IP addresses we listen on; empty: every interface. Off, it neither announces
        nor looks."""
        self._site = site
        self._vo = vo_digest(vo)
        self._port = port
        self._found = found
        self._found_root = found_root
        self._hosts = hosts
        self._enabled = enabled
        self._every_s = interfaces_every_s
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._lookups: set[asyncio.Task[None]] = set()
        self._names: dict[str, None] = {}
        self.problem = ""
        """The reason why nothing is announced or found; empty: all is well."""
        self.announced = ""
        """Name under which the site is announced: another than its own where somebody on the LAN uses that already."""

    async def start(self) -> None:
        """Start; return when the announcement is on its way. A machine without multicast only loses the hints."""
        if self._enabled:
            await self._open()
            self._watcher = keep_up(self._watch, "discovery")

    async def stop(self) -> None:
        """Take the announcement back, so that others need not wait for it to expire."""
        await end(self._watcher)
        await self._close()

    async def _open(self) -> None:
        addresses = [a for a in self._hosts or interfaces() if a != "0.0.0.0"]
        try:
            self._zeroconf = AsyncZeroconf(interfaces=addresses, ip_version=IPVersion.V4Only)
            if self._port:
                # Another site of this name may be on the LAN: both are announced, certificates tell them apart.
                info = self._info(addresses)
                await self._zeroconf.async_register_service(info, allow_name_change=True)
                self.announced = info.name.removesuffix(f".{SERVICE}")
            self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._changed])
            self.problem = ""
        except (OSError, ZeroconfError) as error:
            _log.warning("no discovery on %s: %s; name peers in the node's settings", ", ".join(addresses), error)
            self.problem = str(error)
            await self._close()

    def _info(self, addresses: list[str]) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            SERVICE,
            f"{self._site}.{SERVICE}",
            addresses=[socket.inet_aton(a) for a in addresses],
            port=self._port,
            properties={"site": self._site, "vo": self._vo, "role": ROOT_GRID},
            server=f"{self._site}-{self._port}.local.",
        )

    async def _close(self) -> None:
        self._names.clear()
        await end(*self._lookups)
        zeroconf, browser = self._zeroconf, self._browser
        self._zeroconf = self._browser = None
        with suppress(OSError, ZeroconfError, TimeoutError):
            if browser is not None:
                await browser.async_cancel()
        with suppress(OSError, ZeroconfError, TimeoutError):
            if zeroconf is not None:
                await zeroconf.async_unregister_all_services()
        with suppress(OSError, ZeroconfError, TimeoutError):
            if zeroconf is not None:
                await zeroconf.async_close()

    async def _watch(self) -> None:
        before = interfaces()
        while True:
            await asyncio.sleep(self._every_s)
            now = await asyncio.to_thread(interfaces)
            if now != before or self._zeroconf is None:
                _log.info("the addresses of this machine are now %s", ", ".join(now))
                before = now
                await self._close()
                await self._open()

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if state_change is ServiceStateChange.Removed:
            self._names.pop(name, None)
        elif len(self._names) < MOST_WAITING:
            self._names[name] = None
            self._look_up_next(zeroconf)

    def _look_up_next(self, zeroconf: Zeroconf) -> None:
        while self._names and len(self._lookups) < LOOKUPS_AT_ONCE:
            name = next(iter(self._names))
            del self._names[name]
            task = begin(self._look_up(zeroconf, name), "the look at a site found on the network")
            self._lookups.add(task)
            task.add_done_callback(partial(self._looked_up, zeroconf))

    def _looked_up(self, zeroconf: Zeroconf, task: asyncio.Task[None]) -> None:
        self._lookups.discard(task)
        self._look_up_next(zeroconf)

    async def _look_up(self, zeroconf: Zeroconf, name: str) -> None:
        info = AsyncServiceInfo(SERVICE, name)
        with suppress(OSError, ZeroconfError):
            if await info.async_request(zeroconf, LOOKUP_WAIT_MS):
                self._tell(info)

    def _tell(self, info: AsyncServiceInfo) -> None:
        """Report the addresses of a record, if it is of our VO and makes sense; anybody on the LAN can write one."""
        said = info.decoded_properties
        try:
            site = site_id(said.get("site") or "")
        except ValueError:
            return
        if said.get("vo") != self._vo or said.get("role") != ROOT_GRID or not info.port:
            return
        tell = self._found_root if site == self._site else self._found
        for host in info.parsed_addresses(IPVersion.V4Only)[:MOST_ADDRESSES]:
            tell(f"{site}@{host}:{info.port}")


def interfaces() -> tuple[str, ...]:
    """Return the IPv4 addresses of this machine, loopback only when there is no other."""
    found = sorted(
        ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4 and isinstance(ip.ip, str)
    )
    outward = tuple(a for a in found if not ipaddress.ip_address(a).is_loopback)
    return outward or tuple(found)
