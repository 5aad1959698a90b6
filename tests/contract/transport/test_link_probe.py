"""SPEC D10, links: the link probe measures real streams, spends little and never trusts strangers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from diana.adapters.grpc.server import make_server
from diana.adapters.link_probe import (
    FIRST_PINGS,
    FIRST_PROBE_BYTES,
    MOST_PROBE_BYTES,
    PING_WAIT_S,
    QUIET_TIMES,
    THROUGHPUT_WAIT_S,
    Allowance,
    LinkProbe,
    ProbeService,
)
from diana.adapters.trust.certificates import issue_user
from diana.engine.journal.events import LinkMeasured
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.wire.pb import data_pb2, data_pb2_grpc
from diana.wire.tls import load_credentials, open_channel
from tests.contract.transport_builders import Inbox, Vo, wait_until

ALPHA = SiteId("alpha")


def always(_: SiteId) -> bool:
    """A link that is in use."""
    return True


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


def pings(inbox: Inbox) -> int:
    return sum(s.sent for s in samples(inbox))


def rates(inbox: Inbox) -> list[float]:
    return [s.bytes_per_s for s in samples(inbox) if s.bytes_per_s is not None]


async def test_round_trips_come_again_and_again_and_throughput_once(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(
            channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, in_use=always, ping_every_s=0.1
        )
        probe.start()
        await wait_until(lambda: sum(s.rtt_s is not None for s in samples(inbox)) >= 4)
        await probe.stop()
    rtts = [s.rtt_s for s in samples(inbox) if s.rtt_s is not None]
    assert all(0 < r < PING_WAIT_S for r in rtts)
    (rate,) = rates(inbox)
    assert rate > FIRST_PROBE_BYTES / THROUGHPUT_WAIT_S
    assert {s.site for s in samples(inbox)} == {"alpha"}


async def test_a_transfer_that_took_place_is_a_sample_and_spares_the_probe(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(
            channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, in_use=always, ping_every_s=0.1
        )
        probe.observe(ALPHA, FIRST_PROBE_BYTES - 1, 0.01)
        await asyncio.sleep(0.02)
        probe.observe(ALPHA, 10 << 20, 0.016)
        probe.start()
        await wait_until(lambda: sum(s.rtt_s is not None for s in samples(inbox)) >= 5)
        await probe.stop()
    assert rates(inbox) == [pytest.approx((10 << 20) / 0.016)]


async def test_transfers_at_the_same_time_are_one_sample_of_the_whole_link() -> None:
    inbox = Inbox()
    probe = LinkProbe(channel_for=lambda _: None, peers=lambda: [], emit=inbox)
    for _ in range(4):
        probe.observe(ALPHA, 1 << 20, 0.5)
    await wait_until(lambda: bool(rates(inbox)))
    await probe.stop()
    # So much less than four times a stream's own rate as one was told later than another.
    (rate,) = rates(inbox)
    assert 2 < rate / ((1 << 20) / 0.5) <= 4.01


async def test_probes_spend_no_more_than_the_hour_allows(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(
            channel_for=lambda _: channel,
            peers=lambda: [ALPHA],
            emit=inbox,
            in_use=always,
            ping_every_s=0.05,
            throughput_every_s=0.0,
            bytes_per_hour=FIRST_PROBE_BYTES,
        )
        probe.start()
        await wait_until(lambda: sum(s.rtt_s is not None for s in samples(inbox)) >= 6)
        await probe.stop()
    assert len(rates(inbox)) == 1


async def test_without_an_allowance_nothing_is_probed(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, in_use=always)
        probe.configure(Settings(ping_every_s=0.1, probe_bytes_per_hour=0))
        probe.start()
        await wait_until(lambda: sum(s.rtt_s is not None for s in samples(inbox)) >= 4)
        await probe.stop()
    assert rates(inbox) == []


def test_what_was_spent_an_hour_ago_may_be_spent_again() -> None:
    allowance = Allowance(100)
    assert [allowance.take(60, 0.0), allowance.take(60, 10.0), allowance.take(40, 20.0)] == [True, False, True]
    assert [allowance.take(60, 3599.0), allowance.take(60, 3601.0), allowance.take(1, 3602.0)] == [False, True, False]


class Deaf(ProbeService):
    """A peer whose pings wait for ever while it is deaf."""

    deaf = False

    async def Ping(self, request: data_pb2.PingRequest, context: Any) -> data_pb2.PingResponse:
        while self.deaf:
            await asyncio.sleep(0.02)
        return await super().Ping(request, context)


async def test_a_ping_nobody_answers_in_time_is_counted_as_lost(tmp_path: Path) -> None:
    vo, deaf, inbox = Vo(tmp_path), Deaf(ALPHA), Inbox()
    server, port = make_server("127.0.0.1:0", vo.keys("alpha"))
    deaf.attach(server)
    await server.start()
    credentials = load_credentials(vo.keys("beta"))
    async with open_channel(f"127.0.0.1:{port}", "alpha", "testvo", credentials) as channel:
        probe = LinkProbe(
            channel_for=lambda _: channel,
            peers=lambda: [ALPHA],
            emit=inbox,
            in_use=always,
            ping_every_s=0.05,
            ping_wait_s=0.3,
            bytes_per_hour=0,
        )
        probe.start()
        await wait_until(lambda: any(s.rtt_s is not None for s in samples(inbox)))
        deaf.deaf = True
        await wait_until(lambda: sum(s.lost for s in samples(inbox)) >= 2)
        deaf.deaf = False
        seen = len(samples(inbox))
        await wait_until(lambda: any(s.rtt_s is not None for s in samples(inbox)[seen + 1 :]))
        await probe.stop()
    await server.stop(None)
    assert all(s.sent == 1 and s.lost == (s.rtt_s is None) for s in samples(inbox))


async def test_a_link_nobody_uses_is_pinged_seldom_over_what_is_open_anyway_and_often_once_it_is_used(
    alpha: tuple[Vo, str],
) -> None:
    vo, address = alpha
    inbox, used, every_s = Inbox(), asyncio.Event(), 0.1
    asked: list[str] = []
    at_s: list[float] = []

    def emit(event: LinkMeasured) -> None:
        at_s.append(probe._asked[ALPHA][1])
        inbox(event)

    async with (
        open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as data,
        open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as stream,
    ):

        def channel_for(_: SiteId) -> grpc.aio.Channel:
            asked.append("data")
            return data

        probe = LinkProbe(
            channel_for=channel_for,
            peers=lambda: [ALPHA],
            emit=emit,
            in_use=lambda _: used.is_set(),
            spare_channel=lambda _: stream,
            ping_every_s=every_s,
            bytes_per_hour=0,
        )
        probe.start()
        await wait_until(lambda: pings(inbox) > FIRST_PINGS)
        assert at_s[FIRST_PINGS] - at_s[FIRST_PINGS - 1] >= QUIET_TIMES * every_s
        asked.clear()
        await wait_until(lambda: pings(inbox) > FIRST_PINGS + 1)
        assert at_s[FIRST_PINGS + 1] - at_s[FIRST_PINGS] >= QUIET_TIMES * every_s
        assert asked == []
        used.set()
        assert probe._due_s(ALPHA, every_s) == at_s[-1] + every_s
        await wait_until(lambda: pings(inbox) > FIRST_PINGS + 4)
        assert asked
        await probe.stop()


async def test_no_connection_is_made_for_pings_over_a_link_nobody_uses(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, ping_every_s=0.05)
        probe.start()
        await wait_until(lambda: pings(inbox) >= FIRST_PINGS)
        await asyncio.sleep(10 * 0.05)
        assert pings(inbox) == FIRST_PINGS
        await probe.stop()


async def test_links_are_probed_one_at_a_time(alpha: tuple[Vo, str]) -> None:
    """Two probes at once would measure each other."""
    vo, address = alpha
    inbox, sites = Inbox(), [SiteId(f"s{n}") for n in range(5)]
    async with open_channel(address, "alpha", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(
            channel_for=lambda _: channel, peers=lambda: sites, emit=inbox, in_use=always, ping_every_s=0.1
        )
        running = most = 0
        whole = probe._throughput

        async def counted(stub: Any, rtt_s: float) -> float | None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            found = await whole(stub, rtt_s)
            running -= 1
            return found

        probe._throughput = counted  # type: ignore[method-assign]
        probe.start()
        await wait_until(lambda: len(rates(inbox)) == len(sites))
        await probe.stop()
    assert most == 1


async def test_a_peer_that_does_not_answer_gives_no_sample(alpha: tuple[Vo, str]) -> None:
    vo, address = alpha
    inbox = Inbox()
    async with open_channel(address, "gamma", "testvo", load_credentials(vo.keys("beta"))) as channel:
        probe = LinkProbe(
            channel_for=lambda _: channel, peers=lambda: [ALPHA], emit=inbox, in_use=always, ping_every_s=0.05
        )
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


@pytest.mark.wide
async def test_probers_that_are_killed_mid_stream_leave_no_traceback_in_the_log(
    alpha: tuple[Vo, str], caplog: pytest.LogCaptureFixture
) -> None:
    vo, address = alpha
    command = [sys.executable, "-m", "tests.contract.link_prober", str(vo.keys("beta")), address]
    for _ in range(4):
        probers = [await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE) for _ in range(2)]
        for prober in probers:
            assert prober.stdout is not None
            assert await prober.stdout.readline() == b"reading\n"
        for prober in probers:
            prober.kill()
            await prober.wait()
    await asyncio.sleep(0.2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_reader_that_is_gone_ends_its_stream_without_an_error_and_frees_its_place() -> None:
    class Gone:
        """The end of a caller whose connection broke while something was written."""

        def auth_context(self) -> dict[str, list[bytes]]:
            return {"x509_subject_alternative_name": [b"spiffe://testvo/site/beta"]}

        async def write(self, frame: data_pb2.ThroughputFrame) -> None:
            raise grpc.aio.InternalError("Failed execute_batch")

    service = ProbeService(ALPHA)
    for _ in range(100):
        with pytest.raises(asyncio.CancelledError):
            await service.Throughput(data_pb2.ThroughputRequest(size_bytes=1), Gone())


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
