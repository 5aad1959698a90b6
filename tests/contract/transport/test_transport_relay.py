"""SPEC D9: a site that can only dial out is a full peer; two such sites reach each other through a third."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from diana.adapters.grpc_transport.streams import Incoming
from diana.adapters.relay.service import RelayService
from diana.adapters.trust.certificates import issue_user
from diana.engine.journal.effects import Contact
from diana.engine.journal.events import PeerDown
from diana.engine.messages.messages import Committed
from diana.model.ids import SiteId, SubgroupId
from diana.wire.pb import relay_pb2, relay_pb2_grpc
from diana.wire.tls import load_credentials, open_channel
from tests.contract.transport_builders import Host, Meeting, wait_until

ALPHA, BETA, HUB = SiteId("alpha"), SiteId("beta"), SiteId("hub")
DEAD = "127.0.0.1:9"
"""Claimed by a site behind a firewall: nobody answers there."""


@pytest_asyncio.fixture
async def meeting() -> AsyncIterator[Meeting]:
    # A short folder: sockets have paths of 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="dn-") as folder:
        made = Meeting(Path(folder))
        yield made
        await made.close()


def message(number: int) -> Committed:
    return Committed(subgroup=SubgroupId(f"alpha-1/{number}"), epoch=1)


async def up(*hosts: Host, names: tuple[str, ...]) -> None:
    """Each sees all the named ones but itself."""

    def all_up() -> bool:
        return all(host.inbox.up() == [n for n in names if n != host.transport.hello().site] for host in hosts)

    await wait_until(all_up)


async def offered(hub: Host, *sites: str) -> None:
    await wait_until(lambda: all(SiteId(site) in hub.links.doors._offers for site in sites))


async def two_behind_walls(meeting: Meeting, address: str = "") -> tuple[Host, Host, Host]:
    hub = await meeting.add("hub")
    alpha = await meeting.add("alpha", peers=(hub,), address=address)
    beta = await meeting.add("beta", peers=(hub,), address=address)
    await offered(hub, "alpha", "beta")
    return hub, alpha, beta


async def test_a_neighbour_reaches_the_services_of_a_site_that_can_only_dial_out(meeting: Meeting) -> None:
    hub = await meeting.add("hub")
    await meeting.add("alpha", peers=(hub,), address="")
    await offered(hub, "alpha")
    assert await hub.ping("alpha") == "alpha"
    assert hub.links.doors.tunnels() == 1


async def test_a_site_whose_claimed_address_does_not_answer_is_found_out_and_reached(meeting: Meeting) -> None:
    hub = await meeting.add("hub")
    alpha = await meeting.add("alpha", peers=(hub,), address=DEAD)
    await offered(hub, "alpha")
    assert hub.transport.reach.dials_out_only(ALPHA)
    assert await hub.ping("alpha") == "alpha"
    assert alpha.links.offering.standing() == ("hub",)


async def test_a_site_that_answers_makes_no_offer(meeting: Meeting) -> None:
    hub = await meeting.add("hub")
    alpha = await meeting.add("alpha", peers=(hub,))
    await up(hub, alpha, names=("alpha", "hub"))
    await asyncio.sleep(0.5)
    assert alpha.links.offering.standing() == ()
    assert await hub.ping("alpha") == "alpha"
    assert hub.links.doors.tunnels() == 0


@pytest.mark.parametrize("address", ["", DEAD])
async def test_two_sites_that_only_dial_out_hold_a_stream_through_a_third(meeting: Meeting, address: str) -> None:
    hub, alpha, beta = await two_behind_walls(meeting, address)
    alpha.transport.contact(Contact(site=BETA, address=address, via=(HUB,), keep=True))
    await up(alpha, beta, names=("alpha", "beta", "hub"))
    for number in range(100):
        alpha.transport.send(BETA, message(number))
        beta.transport.send(ALPHA, message(number))
    await wait_until(lambda: len(alpha.inbox.received()) == 100 == len(beta.inbox.received()))
    assert await alpha.ping("beta") == "beta"
    assert hub.links._service.tunnels() >= 1


async def test_the_relay_that_vanishes_is_replaced_by_another(meeting: Meeting) -> None:
    hub, alpha, beta = await two_behind_walls(meeting)
    spare = await meeting.add("spare")
    for host in (alpha, beta):
        host.transport.contact(Contact(site=SiteId("spare"), address=spare.address, keep=True))
    await offered(spare, "alpha", "beta")
    alpha.transport.contact(Contact(site=BETA, address="", via=(HUB, SiteId("spare")), keep=True))
    await wait_until(lambda: "beta" in alpha.inbox.up())
    await meeting.remove(hub)
    await wait_until(lambda: PeerDown(BETA) in alpha.inbox.events and PeerDown(ALPHA) in beta.inbox.events)
    await wait_until(lambda: alpha.inbox.up() == ["beta", "spare"] and beta.inbox.up() == ["alpha", "spare"])
    alpha.transport.send(BETA, message(1))
    await wait_until(lambda: beta.inbox.received() == [("alpha", message(1))])


async def test_a_relay_that_is_revoked_carries_nothing_more_and_another_takes_its_place(meeting: Meeting) -> None:
    hub, alpha, beta = await two_behind_walls(meeting)
    spare = await meeting.add("spare")
    for host in (alpha, beta):
        host.transport.contact(Contact(site=SiteId("spare"), address=spare.address, keep=True))
    await offered(spare, "alpha", "beta")
    alpha.transport.contact(Contact(site=BETA, address="", via=(HUB, SiteId("spare")), keep=True))
    await wait_until(lambda: "beta" in alpha.inbox.up() and hub.links._service.tunnels() == 1)
    alpha.transport.reach.refuses = lambda site: "revoked" if site == "hub" else ""
    alpha.transport.distrusted(HUB)
    await wait_until(lambda: hub.links._service.tunnels() == 0 and PeerDown(HUB) in alpha.inbox.events)
    await wait_until(lambda: alpha.inbox.up() == ["beta", "spare"] and spare.links._service.tunnels() == 1)


async def test_what_runs_in_a_tunnel_is_the_named_site_or_nothing(meeting: Meeting) -> None:
    """The relay lies: it ends the tunnel at its own server."""
    hub, alpha, _ = await two_behind_walls(meeting)

    async def elsewhere(_: RelayService, target: SiteId, caller: SiteId) -> Any:
        from diana.adapters.relay.ends import connect

        return await connect(hub.address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RelayService, "_far_end", elsewhere)
        alpha.transport.contact(Contact(site=BETA, address="", via=(HUB,), keep=True))
        await wait_until(lambda: alpha.transport.counters.failed_dials >= 2)
    assert alpha.inbox.up() == ["hub"]


async def carry(channel: grpc.aio.Channel, *chunks: relay_pb2.Chunk) -> grpc.StatusCode:
    """How a Carry that begins so is refused."""
    call = relay_pb2_grpc.RelayStub(channel).Carry()  # type: ignore[no-untyped-call]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        for chunk in chunks:
            await call.write(chunk)
        await call.done_writing()
        if await call.read() is grpc.aio.EOF:
            raise AssertionError("it ended without a word")
        raise AssertionError("it was carried")
    code: grpc.StatusCode = caught.value.code()
    return code


async def test_only_sites_are_carried_and_only_over_one_hop(meeting: Meeting, tmp_path: Path) -> None:
    hub = await meeting.add("hub")
    far = await meeting.add("far")
    await meeting.add("beta", peers=(far,), address="")
    await offered(far, "beta")
    hub.transport.contact(Contact(site=SiteId("far"), address=far.address, keep=True))
    hub.transport.contact(Contact(site=BETA, address="", via=(SiteId("far"),)))
    await wait_until(lambda: "far" in hub.inbox.up())
    keys = tmp_path / "user"
    keys.mkdir(mode=0o700)
    issue_user(meeting.vo.folder, "ann", keys)
    async with open_channel(hub.address, "hub", "testvo", load_credentials(keys, "user")) as channel:
        assert await carry(channel, relay_pb2.Chunk(target="far")) is grpc.StatusCode.PERMISSION_DENIED
        offer = relay_pb2_grpc.RelayStub(channel).Offer(relay_pb2.OfferRequest())  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.aio.AioRpcError, match="only sites of testvo"):
            await offer.read()
    async with open_channel(hub.address, "hub", "testvo", load_credentials(meeting.vo.keys("eve"))) as channel:
        for target in ("beta", "nobody", "hub", "eve", "../x", ""):
            assert await carry(channel, relay_pb2.Chunk(target=target)) is grpc.StatusCode.UNAVAILABLE, target


async def test_a_ticket_is_good_for_the_site_it_was_given_to_and_once(meeting: Meeting) -> None:
    hub = await meeting.add("hub")
    held = hub.links.doors._offers.put(ALPHA)
    asked = asyncio.create_task(hub.links.doors._offers.connect(ALPHA, BETA))
    ticket = await held.tickets.get()
    async with open_channel(hub.address, "hub", "testvo", load_credentials(meeting.vo.keys("eve"))) as channel:
        assert await carry(channel, relay_pb2.Chunk(ticket=ticket.number)) is grpc.StatusCode.NOT_FOUND
    async with open_channel(hub.address, "hub", "testvo", load_credentials(meeting.vo.keys("alpha"))) as channel:
        call = relay_pb2_grpc.RelayStub(channel).Carry()  # type: ignore[no-untyped-call]
        await call.write(relay_pb2.Chunk(ticket=ticket.number))
        end = await asked
        assert await carry(channel, relay_pb2.Chunk(ticket=ticket.number)) is grpc.StatusCode.NOT_FOUND
        end.close()


async def test_an_address_of_a_stranger_is_never_connected_with_an_asker(meeting: Meeting) -> None:
    """A site that claims somebody else's address would else have the relay open a connection into its network."""
    hub = await meeting.add("hub")
    heard: list[bytes] = []

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1 << 16))
        writer.close()

    inner = await asyncio.start_server(stranger, "127.0.0.1", 0)
    where = f"127.0.0.1:{inner.sockets[0].getsockname()[1]}"
    hub.transport.contact(Contact(site=SiteId("liar"), address=where))
    async with open_channel(hub.address, "hub", "testvo", load_credentials(meeting.vo.keys("eve"))) as channel:
        secret = relay_pb2.Chunk(data=b"secret of the asker")
        assert await carry(channel, relay_pb2.Chunk(target="liar"), secret) is grpc.StatusCode.UNAVAILABLE
    await wait_until(lambda: len(heard) == 1)
    assert b"secret" not in heard[0] and heard[0].startswith(b"\x16\x03"), "a greeting of TLS, nothing else"
    inner.close()
    await inner.wait_closed()


async def test_tunnels_are_bounded_in_number(meeting: Meeting) -> None:
    hub, alpha, _ = await two_behind_walls(meeting)
    hub.links._service._most_per_site = 2
    stub = relay_pb2_grpc.RelayStub(alpha.links.channel_for(HUB))  # type: ignore[no-untyped-call]
    open_ = []
    for _ in range(2):
        call = stub.Carry()
        await call.write(relay_pb2.Chunk(target="beta"))
        assert await call.read() == relay_pb2.Chunk()
        open_.append(call)
    channel = alpha.links.channel_for(HUB)
    assert channel is not None
    assert await carry(channel, relay_pb2.Chunk(target="beta")) is grpc.StatusCode.UNAVAILABLE
    for call in open_:
        call.cancel()
    await wait_until(lambda: hub.links._service.tunnels() == 0)


async def test_a_silent_tunnel_is_closed(meeting: Meeting) -> None:
    hub, alpha, _ = await two_behind_walls(meeting)
    hub.links._service._idle_s = 0.3
    stub = relay_pb2_grpc.RelayStub(alpha.links.channel_for(HUB))  # type: ignore[no-untyped-call]
    call = stub.Carry()
    await call.write(relay_pb2.Chunk(target="beta"))
    assert await call.read() == relay_pb2.Chunk()
    # Whatever the far server says of itself comes first; then nothing.
    while await asyncio.wait_for(call.read(), 60) is not grpc.aio.EOF:
        pass
    await wait_until(lambda: hub.links._service.tunnels() == 0)


async def test_the_door_is_for_the_nodes_own_account_only(meeting: Meeting) -> None:
    hub = await meeting.add("hub")
    await meeting.add("alpha", peers=(hub,), address="")
    await offered(hub, "alpha")
    path = Path(hub.links.doors.address(ALPHA).removeprefix("unix:"))
    assert path.stat().st_mode & 0o777 == 0o600
    await meeting.remove(hub)
    assert not path.exists()


async def test_what_was_verified_is_what_is_connected_and_no_name_looked_up_again(meeting: Meeting) -> None:
    """A site whose name leads to itself once and into the relay's network the next time would else pass bytes there."""
    hub, beta = await meeting.add("hub"), await meeting.add("beta")
    port = beta.address.rpartition(":")[2]
    hub.transport.contact(Contact(site=BETA, address=f"localhost:{port}"))
    assert await hub.transport.reach.direct_address(BETA) == f"127.0.0.1:{port}"


def test_one_site_cannot_take_all_streams_of_another() -> None:
    incoming = Incoming(most=5, most_of_site=3)
    assert [incoming.enter("eve") for _ in range(4)] == [True, True, True, False]
    assert [incoming.enter(site) for site in ("ann", "bob", "cid")] == [True, True, False]
    incoming.leave("eve")
    assert incoming.enter("cid") and not incoming.enter("ann")
