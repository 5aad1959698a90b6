"""Discovery over real multicast on loopback: a hint, and only for those of one VO."""

from __future__ import annotations

import asyncio
import socket

from zeroconf.asyncio import AsyncServiceInfo

from diana.adapters.zeroconf_discovery import SERVICE, ZeroconfDiscovery
from diana.model.ids import SiteId
from tests.contract.transport_builders import wait_until

HOSTS = ("127.0.0.1",)


def discovery(site: str, vo: str, port: int, found: list[str], enabled: bool = True) -> ZeroconfDiscovery:
    return ZeroconfDiscovery(site=SiteId(site), vo=vo, port=port, found=found.append, hosts=HOSTS, enabled=enabled)


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


async def test_switched_off_it_opens_nothing() -> None:
    off = discovery("zc-d", "lab", 17404, [], enabled=False)
    await off.start()
    assert off._zeroconf is None
    await off.stop()


def test_a_record_that_makes_no_sense_gives_no_address() -> None:
    ours = discovery("zc-a", "lab", 17401, [])

    def said(port: int = 1, **properties: str) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            SERVICE, f"x.{SERVICE}", addresses=[socket.inet_aton("10.0.0.1")], port=port, properties=properties
        )

    assert ours._addresses(said(site="b", vo="lab")) == ["b@10.0.0.1:1"]
    for record in (
        said(),
        said(site="b"),
        said(site="../b", vo="lab"),
        said(site="zc-a", vo="lab"),
        said(site="b", vo="other"),
        said(site="b", vo="lab", port=0),
    ):
        assert ours._addresses(record) == []
