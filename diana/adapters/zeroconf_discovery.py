"""Finds peers on the LAN by DNS-SD (SPEC D9). A hint only: whoever is found still has to prove who it is.

Network interfaces come and go, and with them multicast membership; a changed set of addresses therefore rebuilds
the whole responder. A killed node leaves its record behind until it expires, which costs its finders some dials.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

import ifaddr
from zeroconf import Error as ZeroconfError
from zeroconf import IPVersion, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from diana.model.ids import SiteId, site_id

SERVICE = "_diana._tcp.local."
LOOKUP_WAIT_MS = 3_000
INTERFACES_EVERY_S = 10.0
_LOOKUPS_AT_ONCE = 32

_log = logging.getLogger("diana.discovery")


class ZeroconfDiscovery:
    """Announces this site and reports addresses of others of the same VO, as `site@host:port`."""

    def __init__(
        self,
        *,
        site: SiteId,
        vo: str,
        port: int,
        found: Callable[[str], None],
        hosts: tuple[str, ...] = (),
        enabled: bool = True,
    ) -> None:
        """`hosts`: the IP addresses we listen on; empty: every interface. Off, it neither announces nor looks."""
        self._site = site
        self._vo = vo
        self._port = port
        self._found = found
        self._hosts = hosts
        self._enabled = enabled
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._lookups: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Returns when the announcement is on its way. A machine without multicast only loses the hints."""
        if self._enabled:
            await self._open()
            self._watcher = asyncio.ensure_future(self._watch())

    async def stop(self) -> None:
        """Takes the announcement back, so that others need not wait for it to expire."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._close()

    async def _open(self) -> None:
        addresses = [a for a in self._hosts or _interfaces() if a != "0.0.0.0"]
        try:
            self._zeroconf = AsyncZeroconf(interfaces=addresses, ip_version=IPVersion.V4Only)
            await self._zeroconf.async_register_service(self._info(addresses), allow_name_change=True)
            self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._changed])
        except (OSError, ZeroconfError) as error:
            _log.warning("no discovery on %s: %s; name peers in the node's settings", ", ".join(addresses), error)
            await self._close()

    def _info(self, addresses: list[str]) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            SERVICE,
            f"{self._site}.{SERVICE}",
            addresses=[socket.inet_aton(a) for a in addresses],
            port=self._port,
            properties={"site": self._site, "vo": self._vo},
            server=f"{self._site}-{self._port}.local.",
        )

    async def _close(self) -> None:
        for task in self._lookups:
            task.cancel()
        await asyncio.gather(*self._lookups, return_exceptions=True)
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
        before = _interfaces()
        while True:
            await asyncio.sleep(INTERFACES_EVERY_S)
            now = await asyncio.to_thread(_interfaces)
            if now != before or self._zeroconf is None:
                before = now
                await self._close()
                await self._open()

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if state_change is ServiceStateChange.Removed or len(self._lookups) >= _LOOKUPS_AT_ONCE:
            return
        task = asyncio.ensure_future(self._look_up(zeroconf, name))
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)

    async def _look_up(self, zeroconf: Zeroconf, name: str) -> None:
        info = AsyncServiceInfo(SERVICE, name)
        with suppress(OSError, ZeroconfError):
            if await info.async_request(zeroconf, LOOKUP_WAIT_MS):
                for address in self._addresses(info):
                    self._found(address)

    def _addresses(self, info: AsyncServiceInfo) -> list[str]:
        """What a record says, if it is of our VO and makes sense; anybody on the LAN can write one."""
        said = info.decoded_properties
        try:
            site = site_id(said.get("site") or "")
        except ValueError:
            return []
        if site == self._site or said.get("vo") != self._vo or not info.port:
            return []
        hosts = info.parsed_addresses(IPVersion.V4Only)[:4]
        return [f"{site}@{host}:{info.port}" for host in hosts]


def _interfaces() -> tuple[str, ...]:
    """IPv4 addresses of this machine, loopback only when there is no other."""
    found = sorted(
        ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4 and isinstance(ip.ip, str)
    )
    outward = tuple(a for a in found if not ipaddress.ip_address(a).is_loopback)
    return outward or tuple(found)
