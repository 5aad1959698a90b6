"""Builders for transports: real ones on loopback, each a small site with keys of one VO.

`NETWORKS` names the kinds of network the conformance suite runs on. A network makes transports that reach each
other, brings time forward and restarts sites; the simulated twin registers itself here with the same five methods.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import grpc

from diana.adapters.grpc.server import make_server
from diana.adapters.grpc_transport.transport import GrpcTransport
from diana.adapters.link_probe import ProbeService
from diana.adapters.trust.certificates import issue_site, make_vo
from diana.engine.journal.events import Event, PeerDown, PeerUp, Received
from diana.engine.messages.messages import Hello
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig
from diana.node.linking import Links
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.twins.network import Network as SimNetwork
from diana.sim.twins.transport import SimTransport
from diana.wire import PROTOCOL
from diana.wire.pb import data_pb2, data_pb2_grpc


def hello(site: str, generation: int = 1, **changes: Any) -> Hello:
    fields: dict[str, Any] = {
        "site": SiteId(site),
        "protocol": PROTOCOL,
        "release": "test",
        "capabilities": (),
        "db_uuid": f"db-{site}",
        "generation": generation,
        "boot_nonce": f"boot-{site}-{generation}",
        "seq": generation,
        "term": 1,
        "data_address": "",
    }
    return Hello(**(fields | changes))


class Inbox:
    """Collects what a transport emits. With `refusing` set it raises instead, as a full inbox does."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.refusing: Exception | None = None

    def __call__(self, event: Event) -> None:
        if self.refusing is not None and isinstance(event, Received):
            raise self.refusing
        self.events.append(event)

    def up(self) -> list[str]:
        """Sites that are up by now, as the events tell it; fails on an up after an up."""
        now: list[str] = []
        for event in self.events:
            if isinstance(event, PeerUp):
                assert event.hello.site not in now, f"{event.hello.site} is up twice"
                now.append(event.hello.site)
            elif isinstance(event, PeerDown):
                now.remove(event.site)
        return sorted(now)

    def received(self) -> list[Any]:
        return [(e.sender, e.message) for e in self.events if isinstance(e, Received)]


class Site:
    """One transport with what it has heard."""

    def __init__(self, transport: Any, inbox: Inbox, address: str) -> None:
        self.transport = transport
        self.inbox = inbox
        self.address = address


class Network(Protocol):
    """The conformance suite's face of a network, real or simulated."""

    async def add(self, name: str, *, peers: tuple[str, ...] = (), generation: int = 1) -> Site:
        """A started site that knows these other sites. The same name again, after `remove`, is its restart."""
        ...

    async def remove(self, site: Site) -> None: ...

    async def until(self, true: Callable[[], bool], within_s: float = 60.0) -> None:
        """Let time pass until the condition holds; AssertionError when it does not."""
        ...

    async def settle(self) -> None:
        """Let what is on its way arrive."""
        ...

    async def close(self) -> None: ...


async def wait_until(true: Callable[[], bool], within_s: float = 60.0) -> None:
    async def poll() -> None:
        while not true():
            await asyncio.sleep(0.01)

    try:
        await asyncio.wait_for(poll(), within_s)
    except TimeoutError:
        raise AssertionError(f"did not come true within {within_s} s") from None


class Vo:
    """A VO in a directory: keys for any site, made once each."""

    def __init__(self, folder: Path, name: str = "testvo") -> None:
        self.folder = folder / name
        self.folder.mkdir(mode=0o700)
        make_vo(name, self.folder)

    def keys(self, site: str, **options: Any) -> Path:
        out = self.folder / site
        if not out.exists():
            out.mkdir(mode=0o700)
            issue_site(self.folder, site, out, **options)
        return out


class GrpcNetwork:
    """Real servers and streams with mutual TLS on loopback."""

    def __init__(self, folder: Path) -> None:
        self.vo = Vo(folder)
        self._ports: dict[str, int] = {}
        self._servers: dict[int, Any] = {}
        self._sites: list[Site] = []

    async def add(
        self,
        name: str,
        *,
        peers: tuple[str, ...] = (),
        generation: int = 1,
        keys: Path | None = None,
        says: Hello | None = None,
        peers_at: tuple[str, ...] = (),
        idle_s: float = 60.0,
    ) -> Site:
        """`keys`, `says`: another site's keys or another hello than the name's. `peers_at`: addresses as written."""
        keys = keys or self.vo.keys(name)
        server, port = make_server(f"127.0.0.1:{self._ports.get(name, 0)}", keys)
        self._ports[name] = port
        inbox = Inbox()
        addresses = [f"127.0.0.1:{self._ports[p]}" for p in peers] + list(peers_at)
        transport = GrpcTransport(
            hello=says or hello(name, generation, data_address=f"127.0.0.1:{port}"),
            keys=keys,
            emit=inbox,
            peers=addresses,
            rng=random.Random(name),
            idle_s=idle_s,
        )
        transport.attach(server)
        await server.start()
        await transport.start()
        site = Site(transport, inbox, f"127.0.0.1:{port}")
        self._servers[id(site)] = server
        self._sites.append(site)
        return site

    async def remove(self, site: Site) -> None:
        self._sites.remove(site)
        await site.transport.stop()
        await self._servers.pop(id(site)).stop(None)

    async def until(self, true: Callable[[], bool], within_s: float = 60.0) -> None:
        await wait_until(true, within_s)

    async def settle(self) -> None:
        await asyncio.sleep(0.5)

    async def close(self) -> None:
        for site in list(self._sites):
            await self.remove(site)


class SimulatedNetwork:
    """The simulator's twin under a virtual clock: nothing here waits for real time."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.network = SimNetwork(self.clock, Faults(FaultsSpec(), 0), 0.01, 1e6)
        self._up: dict[str, Hello] = {}

    async def add(self, name: str, *, peers: tuple[str, ...] = (), generation: int = 1) -> Site:
        inbox = Inbox()
        transport = SimTransport(self.network, SiteId(name), inbox, partial(self._up.get, name), probing=False)
        self._up[name] = hello(name, generation)
        self.network.node_up(SiteId(name))
        return Site(transport, inbox, name)

    async def remove(self, site: Site) -> None:
        del self._up[site.address]
        self.network.node_down(SiteId(site.address))

    async def until(self, true: Callable[[], bool], within_s: float = 60.0) -> None:
        end_s = self.clock.now_s + within_s
        while not true():
            assert self.clock.now_s < end_s, f"did not come true within {within_s} s"
            self.clock.run_until(self.clock.now_s + 0.01)

    async def settle(self) -> None:
        self.clock.run_until(self.clock.now_s + 0.5)

    async def close(self) -> None:
        self._up.clear()


NETWORKS: dict[str, Callable[[Path], Any]] = {"grpc": GrpcNetwork, "simulated": SimulatedNetwork}


class Meeting:
    """Whole link layers on loopback, as a node puts them together: transport, doors, offers and relay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vo = Vo(folder)
        self.hosts: list[Host] = []

    async def add(self, name: str, *, peers: tuple[Host, ...] = (), address: str | None = None, **changes: Any) -> Host:
        """`address`: what others are told; None: the truth, empty: it can only dial out."""
        server, port = make_server("127.0.0.1:0", self.vo.keys(name))
        paths = DataDir(self.folder / f"data-{name}-{port}")
        paths.control.mkdir(parents=True)
        paths.keys.symlink_to(self.vo.keys(name))
        config = SiteConfig(
            site=SiteId(name), vo="testvo", listen="127.0.0.1:0", peers=tuple(p.address for p in peers), zeroconf=False
        )
        real = f"127.0.0.1:{port}"
        inbox = Inbox()
        greeting = hello(name, data_address=real if address is None else address, **changes)
        links = Links(paths=paths, config=config, port=port, hello=greeting, emit=inbox)
        links.attach(server)
        ProbeService(SiteId(name)).attach(server)
        await server.start()
        await links.start()
        host = Host(links, inbox, real, server)
        self.hosts.append(host)
        return host

    async def remove(self, host: Host) -> None:
        self.hosts.remove(host)
        await host.links.stop()
        await host.server.stop(None)

    async def close(self) -> None:
        for host in list(self.hosts):
            await self.remove(host)


class Host(Site):
    def __init__(self, links: Links, inbox: Inbox, address: str, server: Any) -> None:
        super().__init__(links.transport, inbox, address)
        self.links = links
        self.server = server

    async def ping(self, site: str, within_s: float = 60.0) -> str:
        """Name that the probe at the other end of the data channel gives itself; empty: nobody answers."""
        channel = self.links.channel_for(SiteId(site))
        if channel is None:
            return ""
        stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
        try:
            answer = await stub.Ping(data_pb2.PingRequest(), timeout=within_s)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError):
            return ""
        return str(answer.site)
