"""The link probe measures real streams and never trusts strangers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from diana.adapters.certificates import issue_user
from diana.adapters.grpc_server import make_server
from diana.adapters.link_probe import FIRST_PROBE_BYTES, MOST_PROBE_BYTES, LinkProbe, ProbeService
from diana.engine.events import LinkMeasured
from diana.model.ids import SiteId
from diana.wire.pb import data_pb2, data_pb2_grpc
from diana.wire.tls import load_credentials, open_channel
from tests.contract.transport_builders import Inbox, Vo, wait_until

ALPHA = SiteId("alpha")


@pytest_asyncio.fixture
async def alpha(tmp_path: Path) -> AsyncIterator[tuple[Vo, str]]:
    vo = Vo(tmp_path)
    server, port = make_server("127.0.0.1:0", vo.keys("alpha"))
    ProbeService(ALPHA).attach(server)
    await server.start()
    yield vo, f"127.0.0.1:{port}"
    await server.stop(None)


def samples(inbox: Inbox) -> list[LinkMeasured]:
    return [e for e in inbox.events if isinstance(e, LinkMeasured)]


async def test_round_trips_come_again_and_again_and_throughput_once(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, ping_every_s=0.1)
        probe.start()
        await wait_until(lambda: sum(s.rtt_s is not None for s in samples(inbox)) >= 4)
        await probe.stop()
    rtts = [s.rtt_s for s in samples(inbox) if s.rtt_s is not None]
    rates = [s.bytes_per_s for s in samples(inbox) if s.bytes_per_s is not None]
    assert all(0 < r < 1 for r in rtts)
    assert len(rates) == 1 and rates[0] > 1e5
    assert {s.site for s in samples(inbox)} == {"alpha"}


async def test_a_transfer_that_took_place_is_a_sample_and_spares_the_probe(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, ping_every_s=0.1)
        probe.observe(ALPHA, FIRST_PROBE_BYTES - 1, 1.0)
        probe.observe(ALPHA, 10 << 20, 2.0)
        probe.start()
        await wait_until(lambda: sum(s.rtt_s is not None for s in samples(inbox)) >= 2)
        await probe.stop()
    assert [s.bytes_per_s for s in samples(inbox) if s.bytes_per_s is not None] == [5 << 20]


async def test_a_peer_that_does_not_answer_gives_no_sample(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "gamma", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, ping_every_s=0.05)
        await probe._measure(ALPHA)
        await probe.stop()
    assert inbox.events == []


async def test_a_probe_is_capped_whatever_is_asked(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
        got = 0
        async for frame in stub.Throughput(data_pb2.ThroughputRequest(size_bytes=1 << 31)):
            got += len(frame.data)
    assert got == MOST_PROBE_BYTES


async def test_a_user_may_not_probe(alpha: tuple[Vo, str], tmp_path: Path) -> None:
    vo, address = alpha
    keys = tmp_path / "user"
    keys.mkdir(mode=0o700)
    issue_user(vo.folder, "ann", keys)
    async with open_channel(address, "alpha", "testvo", load_credentials(keys, "user")) as channel:
        stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Ping(data_pb2.PingRequest())
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
