"""Rules that every transport keeps, the real one and its simulated twin alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from diana.engine.journal.events import PeerDown, PeerUp
from diana.engine.messages.messages import Committed
from diana.errors import Overloaded
from diana.model.ids import SiteId, SubgroupId
from tests.contract.transport_builders import NETWORKS

ALPHA, BETA, GAMMA = SiteId("alpha"), SiteId("beta"), SiteId("gamma")


def message(number: int) -> Committed:
    return Committed(subgroup=SubgroupId(f"alpha-1/{number}"), epoch=1)


@pytest_asyncio.fixture(params=sorted(NETWORKS))
async def network(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    made = NETWORKS[request.param](tmp_path)
    yield made
    await made.close()


async def test_two_sites_of_which_one_knows_the_other_come_up_at_both(network: Any) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    (up,) = [e for e in alpha.inbox.events if isinstance(e, PeerUp)]
    assert up.hello == beta.transport.hello()


async def test_messages_arrive_once_in_order_and_name_their_sender(network: Any) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    for number in range(200):
        alpha.transport.send(BETA, message(number))
        beta.transport.send(ALPHA, message(number))
    await network.until(lambda: len(alpha.inbox.received()) == 200 == len(beta.inbox.received()))
    assert beta.inbox.received() == [("alpha", message(n)) for n in range(200)]
    assert alpha.inbox.received() == [("beta", message(n)) for n in range(200)]


async def test_a_message_to_a_site_without_a_stream_is_dropped_silently(network: Any) -> None:
    alpha = await network.add("alpha")
    alpha.transport.send(GAMMA, message(0))
    await network.settle()
    assert alpha.inbox.events == []


async def test_a_peer_that_goes_is_down_and_its_restart_comes_up_with_the_new_hello(network: Any) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    await network.remove(alpha)
    await network.until(lambda: beta.inbox.up() == [])
    again = await network.add("alpha", generation=2)
    await network.until(lambda: beta.inbox.up() == ["alpha"] and again.inbox.up() == ["beta"])
    kinds = [(type(e), e.hello.generation if isinstance(e, PeerUp) else 0) for e in beta.inbox.events]
    assert kinds == [(PeerUp, 1), (PeerDown, 0), (PeerUp, 2)]
    beta.transport.send(ALPHA, message(7))
    await network.until(lambda: again.inbox.received() == [("beta", message(7))])


async def test_a_full_inbox_loses_messages_but_not_the_stream(network: Any) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    beta.inbox.refusing = Overloaded("inbox full", 0.05)
    for number in range(10):
        alpha.transport.send(BETA, message(number))
    await network.settle()
    beta.inbox.refusing = None
    assert beta.inbox.received() == []
    alpha.transport.send(BETA, message(99))
    await network.until(lambda: beta.inbox.received() == [("alpha", message(99))])
    assert beta.inbox.up() == ["alpha"]


async def test_three_sites_that_all_know_each_other_see_each_other_once(network: Any) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    gamma = await network.add("gamma", peers=("alpha", "beta"))
    await network.until(
        lambda: (
            alpha.inbox.up() == ["beta", "gamma"]
            and beta.inbox.up() == ["alpha", "gamma"]
            and gamma.inbox.up() == ["alpha", "beta"]
        )
    )
    alpha.transport.send(GAMMA, message(1))
    gamma.transport.send(BETA, message(2))
    await network.until(lambda: beta.inbox.received() == [("gamma", message(2))])
    await network.until(lambda: gamma.inbox.received() == [("alpha", message(1))])
