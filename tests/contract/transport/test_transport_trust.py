"""Streams between sites one of which is revoked (PROMISES 5.2): closed within seconds, whoever dialled, and not made
again until the revocation is lifted."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.grpc.server import make_server
from diana.adapters.grpc_transport.transport import GrpcTransport
from diana.adapters.trust import certificates
from diana.adapters.trust.keyring import FileKeyring
from diana.model.ids import SiteId
from diana.node.trusting import watch_links
from tests.contract.transport_builders import Inbox, hello, wait_until
from tests.contract.trust_builders import DAY_S
from tests.runs import SOAK


class Node:
    def __init__(self, keys: Path) -> None:
        self.keys = keys
        self.inbox = Inbox()
        self.ring = FileKeyring(keys)
        self.transport: GrpcTransport
        self.address = ""


@pytest_asyncio.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Node, Node]]:
    """Alpha serves, beta dials it; each below another signer."""
    certificates.make_vo("lab", tmp_path / "alpha", site="alpha")
    certificates.make_signer(tmp_path / "alpha", "beta", tmp_path / "beta")
    async with AsyncExitStack() as stack:
        made: dict[str, Node] = {}
        for name in ("alpha", "beta"):
            certificates.issue_site(tmp_path / name, name, tmp_path / name)
            node = made[name] = Node(tmp_path / name)
            server, port = make_server("127.0.0.1:0", node.keys, node.ring.distrust)
            stack.push_async_callback(server.stop, None)
            node.address = f"127.0.0.1:{port}"
            node.transport = GrpcTransport(
                hello=hello(name, 1, data_address=node.address),
                keys=node.keys,
                emit=node.inbox,
                peers=[f"alpha@{made['alpha'].address}"] if name == "beta" else [],
                rng=random.Random(name),
            )
            node.transport.attach(server)
            await server.start()
            await node.transport.start()
            stack.push_async_callback(node.transport.stop)
            watch_links(stack, node.transport, node.ring.distrust_site, every_s=0.1)
        alpha, beta = made["alpha"], made["beta"]
        await wait_until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
        yield alpha, beta


@pytest.mark.parametrize("who", ["the one dialled", "the dialler"])
async def test_a_stream_to_a_revoked_site_is_closed_whoever_dialled(pair: tuple[Node, Node], who: str) -> None:
    alpha, beta = pair
    judge, revoked = (alpha, SiteId("beta")) if who == "the one dialled" else (beta, SiteId("alpha"))
    began = time.monotonic()
    judge.ring.set_revoked(frozenset({f"site:{revoked}"}))
    await wait_until(lambda: alpha.inbox.up() == beta.inbox.up() == [])
    assert not SOAK or time.monotonic() - began < 5.0
    failed, refused = beta.transport.counters.failed_dials, beta.transport.counters.refused_peers
    await wait_until(lambda: beta.transport.counters.failed_dials >= failed + 2)
    assert judge.inbox.up() == [] and judge.transport.channel_for(revoked) is None
    assert beta.transport.counters.refused_peers > refused or judge is alpha
    judge.ring.set_revoked(frozenset())
    await wait_until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    assert judge.transport.channel_for(revoked) is not None


@pytest.mark.parametrize(
    ("wall_s", "said"),
    [
        (3600.0, r"cannot reach a peer at .*: our certificate is not valid before .*; check this machine's clock"),
        (-30 * DAY_S, "cannot reach a peer at .*: our certificate expired on"),
    ],
)
async def test_a_dial_that_fails_for_its_dates_says_so(
    pair: tuple[Node, Node], tmp_path: Path, caplog: pytest.LogCaptureFixture, wall_s: float, said: str
) -> None:
    alpha, _ = pair
    certificates.issue_site(tmp_path / "alpha", "gamma", tmp_path / "gamma", wall_s=time.time() + wall_s)
    caplog.set_level(logging.INFO, "diana.peers")
    gamma = GrpcTransport(
        hello=hello("gamma", 1), keys=tmp_path / "gamma", emit=Inbox(), peers=[f"alpha@{alpha.address}"]
    )
    await gamma.start()
    await wait_until(lambda: re.search(said, caplog.text) is not None)
    await gamma.stop()
    assert alpha.inbox.up() == ["beta"]


async def test_what_others_are_revoked_of_leaves_the_stream(pair: tuple[Node, Node]) -> None:
    alpha, beta = pair
    before = len(alpha.inbox.events)
    for node in pair:
        node.ring.set_revoked(frozenset({"site:gamma", "user:beta@lab", "member:beta/m2", "signer:gamma"}))
    await wait_until(lambda: alpha.transport.peers().keys() == {"beta"})
    began = time.monotonic()
    await wait_until(lambda: time.monotonic() - began > 1.5)
    assert len(alpha.inbox.events) == before and beta.inbox.up() == ["alpha"]
