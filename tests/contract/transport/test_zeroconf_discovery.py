"""SPEC D9, PROMISES 5.15: discovery over real multicast on loopback is a hint, and only for those of one VO."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest
from zeroconf import IPVersion, ServiceStateChange
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from diana.adapters import zeroconf_discovery
from diana.adapters.grpc_transport.transport import MAX_HINTS, GrpcTransport
from diana.adapters.zeroconf_discovery import LOOKUPS_AT_ONCE, MOST_WAITING, SERVICE, ZeroconfDiscovery, vo_digest
from diana.model.ids import SiteId
from tests.contract.transport_builders import Inbox, Vo, hello, wait_until

HOSTS = ("127.0.0.1",)


def discovery(
    site: str, vo: str, port: int, found: list[str], enabled: bool = True, roots: list[str] | None = None, **more: float
) -> ZeroconfDiscovery:
    return ZeroconfDiscovery(
        site=SiteId(site),
        vo=vo,
        port=port,
        found=found.append,
        found_root=(roots if roots is not None else []).append,
        hosts=HOSTS,
        enabled=enabled,
        **more,
    )


def record(port: int = 1, name: str = "x", address: str = "10.0.0.1", **properties: str) -> AsyncServiceInfo:
    return AsyncServiceInfo(
        SERVICE,
        f"{name}.{SERVICE}",
        addresses=[socket.inet_aton(address)],
        port=port,
        properties=properties,
        server=f"{name}.local.",
    )


async def test_sites_of_one_vo_find_each_other_and_strangers_do_not_show() -> None:
    found: dict[str, list[str]] = {"zc-a": [], "zc-b": [], "zc-c": []}
    a = discovery("zc-a", "lab", 17401, found["zc-a"])
    b = discovery("zc-b", "lab", 17402, found["zc-b"])
    c = discovery("zc-c", "elsewhere", 17403, found["zc-c"])
    try:
        await asyncio.gather(a.start(), b.start(), c.start())
        await wait_until(lambda: "zc-b@127.0.0.1:17402" in found["zc-a"] and "zc-a@127.0.0.1:17401" in found["zc-b"])
    finally:
        await asyncio.gather(a.stop(), b.stop(), c.stop())
    assert found["zc-c"] == []
    assert not any("zc-c" in address for address in found["zc-a"] + found["zc-b"])


async def test_a_member_finds_its_own_root_grid_and_announces_nothing() -> None:
    found: list[str] = []
    roots: list[str] = []
    root = discovery("zc-e", "lab", 17405, found)
    member = discovery("zc-e", "lab", 0, [], roots=roots)
    try:
        await asyncio.gather(root.start(), member.start())
        await wait_until(lambda: roots == ["zc-e@127.0.0.1:17405"])
    finally:
        await asyncio.gather(root.stop(), member.stop())
    assert found == []


async def test_what_is_announced_names_no_vo_and_is_taken_back_at_the_end() -> None:
    site = discovery("zc-f", "secret-lab", 17406, [])
    looker = AsyncZeroconf(interfaces=list(HOSTS), ip_version=IPVersion.V4Only)
    info = AsyncServiceInfo(SERVICE, f"zc-f.{SERVICE}")
    try:
        await site.start()
        assert await info.async_request(looker.zeroconf, 60_000)
        assert b"secret-lab" not in (info.text or b"") and set(info.decoded_properties) == {"site", "vo", "role"}
        await site.stop()
        # Long before what was announced is stale by itself.
        async with asyncio.timeout(60):
            while await AsyncServiceInfo(SERVICE, f"zc-f.{SERVICE}").async_request(looker.zeroconf, 500):
                await asyncio.sleep(0.1)
    finally:
        await looker.async_close()


@pytest.mark.wide
async def test_two_sites_of_one_name_are_both_announced() -> None:
    found: list[str] = []
    one, other = discovery("zc-g", "lab", 17407, []), discovery("zc-g", "lab", 17408, [])
    looker = discovery("zc-h", "lab", 17409, found)
    try:
        await one.start()
        await other.start()
        await looker.start()
        await wait_until(lambda: {"zc-g@127.0.0.1:17407", "zc-g@127.0.0.1:17408"} <= set(found))
    finally:
        await asyncio.gather(one.stop(), other.stop(), looker.stop())


async def test_changed_interfaces_rebuild_the_responder(monkeypatch: pytest.MonkeyPatch) -> None:
    site = discovery("zc-i", "lab", 17410, [], interfaces_every_s=0.05)
    try:
        await site.start()
        first = site._zeroconf
        await asyncio.sleep(0.2)
        assert site._zeroconf is first
        monkeypatch.setattr(zeroconf_discovery, "interfaces", lambda: ("127.0.0.1", "127.0.0.2"))
        await wait_until(lambda: site._zeroconf is not None and site._zeroconf is not first)
    finally:
        await site.stop()


async def test_switched_off_it_opens_nothing() -> None:
    off = discovery("zc-d", "lab", 17404, [], enabled=False)
    await off.start()
    assert off._zeroconf is None
    await off.stop()


def test_a_record_that_makes_no_sense_gives_no_address() -> None:
    found: list[str] = []
    ours = discovery("zc-a", "lab", 17401, found)
    good = {"site": "b", "vo": vo_digest("lab"), "role": "root"}
    ours._tell(record(**good))
    assert found == ["b@10.0.0.1:1"]
    for bad in (
        record(),
        record(site="b"),
        record(**good | {"site": "../b"}),
        record(**good | {"site": "zc-a"}),
        record(**good | {"vo": "lab"}),
        record(**good | {"vo": vo_digest("other")}),
        record(**good | {"role": "member"}),
        record(port=0, **good),
    ):
        ours._tell(bad)
    assert found == ["b@10.0.0.1:1"]


async def test_a_spoofed_record_gains_no_trust_and_receives_no_credentials(tmp_path: Path) -> None:
    """The right VO and a real site's name, but nobody there holds that site's certificate."""
    keys = Vo(tmp_path).keys("beta")
    heard: list[bytes] = []

    async def listener(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1 << 16))
        writer.close()

    server = await asyncio.start_server(listener, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    inbox = Inbox()
    transport = GrpcTransport(hello=hello("beta"), keys=keys, emit=inbox, rng=random.Random(1))
    ours = ZeroconfDiscovery(site=SiteId("beta"), vo="testvo", port=0, found=transport.add_address, hosts=HOSTS)
    hostile = AsyncZeroconf(interfaces=list(HOSTS), ip_version=IPVersion.V4Only)
    try:
        await ours.start()
        spoof = {"site": "alpha", "vo": vo_digest("testvo"), "role": "root"}
        await hostile.async_register_service(record(port, "alpha", "127.0.0.1", **spoof), cooperating_responders=True)
        await wait_until(lambda: len(heard) >= 2)
        await wait_until(lambda: transport.counters.failed_dials >= 1)
    finally:
        await hostile.async_close()
        await asyncio.gather(ours.stop(), transport.stop())
        server.close()
        await server.wait_closed()
    certificate = (keys / "site.pem").read_bytes()
    assert inbox.events == []
    assert all(said.startswith(b"\x16\x03") and b"beta" not in said for said in heard), "a greeting of TLS alone"
    assert not any(certificate[40:80] in said for said in heard)


async def test_a_flood_of_records_costs_a_bounded_number_of_dials(tmp_path: Path) -> None:
    transport = GrpcTransport(hello=hello("beta"), keys=Vo(tmp_path).keys("beta"), emit=Inbox(), rng=random.Random(1))
    ours = ZeroconfDiscovery(site=SiteId("beta"), vo="testvo", port=0, found=transport.add_address, hosts=HOSTS)
    for number in range(10_000):
        spoof = {"site": f"s{number}", "vo": vo_digest("testvo"), "role": "root"}
        ours._tell(record(1 + number, f"s{number}", "127.0.0.1", **spoof))
    assert len(transport._dialling) == MAX_HINTS
    await transport.stop()


async def test_a_flood_of_names_costs_a_bounded_number_of_lookups() -> None:
    ours = discovery("zc-j", "lab", 17411, [])
    looker = AsyncZeroconf(interfaces=list(HOSTS), ip_version=IPVersion.V4Only)
    try:
        for number in range(10_000):
            ours._changed(looker.zeroconf, SERVICE, f"s{number}.{SERVICE}", ServiceStateChange.Added)
        assert len(ours._lookups) == LOOKUPS_AT_ONCE and len(ours._names) == MOST_WAITING
    finally:
        await ours.stop()
        await looker.async_close()
