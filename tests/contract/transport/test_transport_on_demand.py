"""SPEC D9, P9: a stream to whoever is needed, when needed; to those ordered, always; to nobody for nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from diana.adapters.grpc_transport import transport
from diana.adapters.grpc_transport.transport import GrpcTransport
from diana.adapters.grpc_transport.waiting import SITE_BYTES, WAIT_S, WaitingMessages
from diana.engine.journal.effects import Contact
from diana.engine.journal.events import PeerDown, PeerUp
from diana.engine.messages.messages import Committed
from diana.model.ids import SiteId, SubgroupId
from tests.contract.transport_builders import GrpcNetwork, Site

ALPHA, BETA = SiteId("alpha"), SiteId("beta")


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[GrpcNetwork]:
    made = GrpcNetwork(tmp_path)
    yield made
    await made.close()


def message(number: int) -> Committed:
    return Committed(subgroup=SubgroupId(f"alpha-1/{number}"), epoch=1)


def knows(site: Site, other: Site, *, keep: bool) -> None:
    site.transport.contact(Contact(site=other.transport.hello().site, address=other.address, keep=keep))


async def test_what_is_sent_to_a_known_site_without_a_stream_makes_one(network: GrpcNetwork) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    knows(alpha, beta, keep=False)
    await asyncio.sleep(0.3)
    assert alpha.inbox.events == []
    for number in range(50):
        alpha.transport.send(BETA, message(number))
    await network.until(lambda: len(beta.inbox.received()) == 50)
    assert beta.inbox.received() == [("alpha", message(n)) for n in range(50)]
    assert alpha.transport.counters.dropped_unlinked == 0


async def test_a_stream_that_is_ordered_is_held_and_had_again(network: GrpcNetwork) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    knows(alpha, beta, keep=True)
    await network.until(lambda: alpha.inbox.up() == ["beta"])
    await network.remove(beta)
    await network.until(lambda: alpha.inbox.up() == [])
    await network.add("beta", generation=2)
    await network.until(lambda: alpha.inbox.up() == ["beta"])


async def test_a_site_that_cannot_be_had_costs_its_messages_and_a_count(network: GrpcNetwork) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    knows(alpha, beta, keep=False)
    await network.remove(beta)
    alpha.transport.send(BETA, message(0))
    assert BETA in alpha.transport._waiting
    alpha.transport._waiting.expire(asyncio.get_running_loop().time() + WAIT_S + 1)
    alpha.transport.send(BETA, message(1))
    await network.until(lambda: alpha.transport.counters.failed_dials >= 1)
    alpha.transport._waiting.expire(asyncio.get_running_loop().time() + WAIT_S + 1)
    await network.until(lambda: not alpha.transport._having)
    assert alpha.inbox.events == []


def test_what_waits_is_bounded_in_bytes_and_seconds() -> None:
    waiting = WaitingMessages()
    assert all(waiting.offer(BETA, bytes(SITE_BYTES // 4), now_s=n) for n in range(4))
    assert not waiting.offer(BETA, b"x", now_s=4)
    assert waiting.expire(WAIT_S + 1) == 2
    assert waiting.offer(BETA, b"x", now_s=WAIT_S)
    sites = [SiteId(f"s{n}") for n in range(20)]
    assert sum(waiting.offer(site, bytes(SITE_BYTES), now_s=WAIT_S) for site in sites) == 15
    assert len(waiting.take(BETA)) == 3
    assert waiting.expire(3 * WAIT_S) == 15
    assert list(waiting) == [] and waiting._all_bytes == 0


@pytest.mark.parametrize("kept_by", ["nobody", "dialler", "dialled"])
async def test_a_stream_goes_when_nobody_wants_it_and_stays_when_one_does(
    network: GrpcNetwork, monkeypatch: pytest.MonkeyPatch, kept_by: str
) -> None:
    monkeypatch.setattr(transport, "TIDY_EVERY_S", 0.1)
    made: dict[str, Any] = {}
    for name in ("alpha", "beta"):
        made[name] = await network.add(name)
    alpha, beta = made["alpha"], made["beta"]
    knows(alpha, beta, keep=False)
    alpha.transport.send(BETA, message(0))
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    knows(alpha, beta, keep=kept_by == "dialler")
    knows(beta, alpha, keep=kept_by == "dialled")
    # Not sooner: before both were told, nobody wanted it.
    for site in (alpha, beta):
        site.transport._idle_s = 0.4
    if kept_by == "nobody":
        await network.until(lambda: alpha.inbox.up() == [] and beta.inbox.up() == [])
        await asyncio.sleep(0.5)
    else:
        await asyncio.sleep(1.5)
    for site in (alpha, beta):
        ups = [e for e in site.inbox.events if isinstance(e, PeerUp)]
        downs = [e for e in site.inbox.events if isinstance(e, PeerDown)]
        assert (len(ups), len(downs)) == (1, int(kept_by == "nobody")), "closing must not flap"


async def test_a_static_peer_is_held_whatever_is_ordered(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha", idle_s=0.3)
    beta = await network.add("beta", peers=("alpha",), idle_s=0.3)
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    knows(alpha, beta, keep=False)
    knows(beta, alpha, keep=False)
    await asyncio.sleep(1.0)
    assert [type(e) for e in beta.inbox.events] == [PeerUp]


async def test_a_forgotten_site_is_dialled_no_more(network: GrpcNetwork) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    knows(alpha, beta, keep=True)
    await network.until(lambda: alpha.inbox.up() == ["beta"])
    alpha.transport.forget_contact(BETA)
    await network.remove(beta)
    await network.until(lambda: alpha.inbox.up() == [])
    await network.until(lambda: not alpha.transport._having)
    alpha.transport.send(BETA, message(1))
    assert alpha.transport.counters.dropped_unlinked == 1


async def test_an_address_that_moved_is_followed(network: GrpcNetwork) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    alpha.transport.contact(Contact(site=BETA, address="127.0.0.1:9", keep=True))
    await network.until(lambda: alpha.transport.counters.failed_dials >= 1)
    knows(alpha, beta, keep=True)
    await network.until(lambda: alpha.inbox.up() == ["beta"])


async def test_both_dial_at_once_and_one_stream_stays(network: GrpcNetwork) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    knows(alpha, beta, keep=True)
    knows(beta, alpha, keep=True)
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    await asyncio.sleep(0.5)
    assert [type(e) for e in alpha.inbox.events + beta.inbox.events] == [PeerUp, PeerUp]


async def test_no_more_sites_are_dialled_at_once_than_allowed(network: GrpcNetwork) -> None:
    keys = network.vo.keys("alpha")
    hello = (await network.add("alpha")).transport.hello()
    lone = GrpcTransport(hello=hello, keys=keys, emit=lambda _: None, rng=random.Random(1))
    for number in range(200):
        site = SiteId(f"s{number}")
        lone.contact(Contact(site=site, address="127.0.0.1:9"))
        lone.send(site, message(number))
    assert len(lone._having) == 64 and lone.counters.dropped_unlinked == 136
    await lone.stop()
