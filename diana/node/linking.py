"""Puts together how this site meets others: peer streams, tunnels by neighbours, offers to be reached, discovery."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import grpc

from diana.adapters.grpc.pacing import Slack
from diana.adapters.grpc_transport.transport import GrpcTransport
from diana.adapters.relay.doors import Doors
from diana.adapters.relay.offering import Offering
from diana.adapters.relay.offers import TunnelOffers
from diana.adapters.relay.service import RelayService
from diana.adapters.zeroconf_discovery import ZeroconfDiscovery
from diana.engine.messages.messages import Hello
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.config.site_file import DIAL_OUT_ONLY, SiteConfig, host_port
from diana.ports import Emit

_ANYWHERE = "192.0.2.1"
"""An address of nobody: no packet goes there, it only chooses the interface that leads out."""


class Links:
    """`transport` is the port; the rest serves it."""

    def __init__(
        self, *, paths: DataDir, config: SiteConfig, port: int, hello: Hello, emit: Emit, slack: Slack | None = None
    ) -> None:
        """`port`: the one that was bound. UsageError for a bad address among `peers`."""
        site = config.site
        self._site = site
        self.offers = offers = TunnelOffers()
        self.doors = Doors(paths.control, site, offers, relays=self._relays, channel_for=self.channel_for)
        try:
            self.transport = GrpcTransport(
                hello=hello, keys=paths.keys, emit=emit, peers=config.peers, tunnel=self.doors.address, slack=slack
            )
        except ValueError as error:
            raise UsageError(f"{paths.config}: peers: {error}") from None
        transport, reach = self.transport, self.transport.reach
        self._service = RelayService(
            site, config.vo, offers, answers=reach.answers, direct_address=reach.direct_address
        )
        self.offering = Offering(
            neighbours=transport.neighbours,
            changed=transport.links_changed,
            channel_for=transport.channel_for,
            address=hello.data_address,
            own=_own(config.listen, port),
        )
        self.discovery = ZeroconfDiscovery(
            site=site,
            vo=config.vo,
            port=port if hello.data_address else 0,
            found=transport.add_address,
            hosts=_hosts(config.listen),
            enabled=config.zeroconf,
        )

    def attach(self, server: Any) -> None:
        self.transport.attach(server)
        self._service.attach(server)

    async def start(self) -> None:
        """Start the streams and the offers to be reached; after the server started."""
        await self.transport.start()
        self.offering.start()

    async def stop(self) -> None:
        await self.offering.stop()
        await self.doors.stop()
        await self._service.stop()
        await self.transport.stop()

    def in_use(self, site: SiteId) -> bool:
        """True if work went over the stream to the site lately."""
        link = self.transport.link(site)
        return link is not None and link.in_use()

    def spare_channel(self, site: SiteId) -> grpc.aio.Channel | None:
        """The channel that the stream to the site runs over, if this side made it."""
        link = self.transport.link(site)
        return link.spare_channel() if link else None

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        return self.transport.channel_for(site)

    def _relays(self, site: SiteId) -> list[SiteId]:
        """The sites that may relay to a site and answer us at their own address: those with a stream to it, the nearest
        first."""
        book, neighbours = self.transport.reach.book, self.transport.neighbours()
        order = book.contact(site)
        if order is None:
            return []
        # Where nobody is named yet, a site that names no address has been heard of through a neighbour.
        named = order.via or (() if order.address else tuple(neighbours))
        reach = self.transport.reach
        usable = [
            via
            for via in named
            if via not in (site, self._site) and not reach.dials_out_only(via) and not reach.refuses(via)
        ]
        return sorted(usable, key=lambda via: (via not in neighbours, via))


def told_address(config: SiteConfig, port: int) -> str:
    """host:port that others are told; empty: this site can only dial out. Bound to all interfaces, it is told the one
    from which its first peer is reached, else the one that leads out."""
    if config.advertise:
        return "" if config.advertise == DIAL_OUT_ONLY else config.advertise
    host = config.listen.rpartition(":")[0]
    if not _is_unspecified(host):
        return f"{host}:{port}"
    outward = _outward([peer.rpartition("@")[2] for peer in config.peers])
    return f"{outward or host}:{port}"


def _outward(peers: list[str]) -> str:
    for target in (*(peer.rpartition(":")[0] for peer in peers), _ANYWHERE):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))
            except OSError:
                continue
            found = str(probe.getsockname()[0])
            if not _is_unspecified(found):
                return found
    return ""


def _own(listen: str, port: int) -> str:
    """host:port at which this machine itself dials its server."""
    host = listen.rpartition(":")[0]
    if not _is_unspecified(host):
        return f"{host}:{port}"
    return f"[::1]:{port}" if ":" in host else f"127.0.0.1:{port}"


def _hosts(listen: str) -> tuple[str, ...]:
    """IPv4 addresses the server is bound to; empty: all of this machine."""
    host, _ = host_port(listen)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ()
    return (host,) if address.version == 4 and not address.is_unspecified else ()


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host
