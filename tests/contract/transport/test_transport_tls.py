"""Who is let in: mutual TLS, names that must agree, and what garbage and slow readers may cost."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from diana.adapters.grpc.server import PortTaken, make_server
from diana.adapters.grpc_transport.link import QUEUE_BYTES, envelope
from diana.adapters.grpc_transport.streams import DialledStream, ServedStream
from diana.adapters.grpc_transport.transport import GrpcTransport
from diana.adapters.trust.certificates import issue_user
from diana.engine.journal.events import PeerDown, PeerUp
from diana.engine.messages.messages import Committed, Prepare
from diana.errors import UsageError
from diana.model.ids import SiteId, SubgroupId
from diana.wire import peer_codec
from diana.wire.tls import load_credentials, open_channel
from tests.contract.transport_builders import GrpcNetwork, Inbox, Site, Vo, hello

ALPHA, BETA = SiteId("alpha"), SiteId("beta")


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[GrpcNetwork]:
    made = GrpcNetwork(tmp_path)
    yield made
    await made.close()


async def both_up(network: GrpcNetwork, alpha: Site, beta: Site) -> None:
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])


async def refused(network: GrpcNetwork, alpha: Site, caller: GrpcTransport, inbox: Inbox) -> None:
    """The caller has tried and come to nothing at either end."""
    try:
        await network.until(lambda: caller.counters.failed_dials >= 2)
        assert inbox.events == [] and alpha.inbox.events == []
    finally:
        await caller.stop()


async def dial_only(keys: Path, address: str, **says: object) -> tuple[GrpcTransport, Inbox]:
    inbox = Inbox()
    greeting = hello(str(says.pop("site", "beta")), **says)
    caller = GrpcTransport(hello=greeting, keys=keys, emit=inbox, peers=[address], rng=random.Random(1))
    await caller.start()
    return caller, inbox


async def test_a_site_of_another_authority_is_refused(network: GrpcNetwork, tmp_path: Path) -> None:
    alpha = await network.add("alpha")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    forged = Vo(elsewhere, "testvo").keys("beta")
    await refused(network, alpha, *await dial_only(forged, f"alpha@{alpha.address}"))


async def test_a_forger_who_trusts_us_but_is_not_of_our_vo_is_refused(network: GrpcNetwork, tmp_path: Path) -> None:
    """It knows our public trust root, so only our side can refuse."""
    alpha = await network.add("alpha")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    forged = Vo(elsewhere, "testvo").keys("beta")
    (forged / "vo.pem").write_bytes((network.vo.folder / "vo.pem").read_bytes())
    await refused(network, alpha, *await dial_only(forged, f"alpha@{alpha.address}"))


async def test_an_expired_certificate_is_refused(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    expired = network.vo.keys("beta", valid_days=1, wall_s=time.time() - 10 * 86400)
    await refused(network, alpha, *await dial_only(expired, f"alpha@{alpha.address}"))


async def test_a_node_with_an_expired_certificate_says_so_instead_of_serving(network: GrpcNetwork) -> None:
    expired = network.vo.keys("beta", valid_days=1, wall_s=time.time() - 10 * 86400)
    with pytest.raises(UsageError, match=r"site\.pem: expired on .* renew it"):
        make_server("127.0.0.1:0", expired)


async def test_another_sites_name_in_the_hello_is_refused_and_logged(
    network: GrpcNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    alpha = await network.add("alpha")
    keys = network.vo.keys("beta")
    with caplog.at_level(logging.INFO, "diana.peers"):
        await refused(network, alpha, *await dial_only(keys, alpha.address, site="gamma"))
    assert "its certificate names beta, its hello gamma" in caplog.text
    assert alpha.transport.counters.refused_peers >= 1


async def test_a_server_that_says_another_sites_name_is_refused_by_the_dialler(network: GrpcNetwork) -> None:
    liar = await network.add("alpha", says=hello("gamma"))
    caller, inbox = await dial_only(network.vo.keys("beta"), liar.address)
    await network.until(lambda: caller.counters.failed_dials >= 2)
    await caller.stop()
    assert inbox.events == []


async def test_a_site_behind_the_address_of_another_is_refused_by_its_name(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    keys = network.vo.keys("beta")
    await refused(network, alpha, *await dial_only(keys, f"gamma@{alpha.address}"))


async def test_a_user_is_no_peer(network: GrpcNetwork, tmp_path: Path) -> None:
    alpha = await network.add("alpha")
    keys = tmp_path / "user"
    keys.mkdir(mode=0o700)
    issue_user(network.vo.folder, "beta", keys)
    (keys / "site.pem").write_bytes((keys / "user.pem").read_bytes())
    (keys / "site.key").write_bytes((keys / "user.key").read_bytes())
    await refused(network, alpha, *await dial_only(keys, alpha.address))


async def test_a_peer_that_speaks_too_old_a_protocol_is_told_to_upgrade(
    network: GrpcNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    alpha = await network.add("alpha")
    with caplog.at_level(logging.INFO, "diana.peers"):
        keys = network.vo.keys("beta")
        await refused(network, alpha, *await dial_only(keys, alpha.address, protocol=0))
    assert "speaks protocol 0, this node 1 to 1; upgrade beta" in caplog.text


async def test_a_newer_peer_is_taken(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",), says=hello("beta", protocol=7))
    await both_up(network, alpha, beta)


async def test_of_two_streams_between_a_pair_one_stays(network: GrpcNetwork) -> None:
    beta = await network.add("beta")
    alpha = await network.add("alpha", peers=("beta",))
    await both_up(network, alpha, beta)
    beta.transport.add_address(alpha.address)
    beta.transport.add_address(f"alpha@{alpha.address}")
    await asyncio.sleep(0.4)
    for number in range(50):
        alpha.transport.send(BETA, Committed(subgroup=SubgroupId("a-1/0"), epoch=number))
    await network.until(lambda: len(beta.inbox.received()) == 50)
    assert [type(e) for e in alpha.inbox.events] == [PeerUp]
    assert alpha.transport.peers().keys() == {"beta"} and beta.transport.peers().keys() == {"alpha"}


@pytest.mark.parametrize("round_", range(5))
async def test_two_sites_that_dial_at_the_same_moment_agree_on_one_stream(network: GrpcNetwork, round_: int) -> None:
    alpha, beta = await network.add("alpha"), await network.add("beta")
    alpha.transport.add_address(beta.address)
    beta.transport.add_address(alpha.address)
    await both_up(network, alpha, beta)
    await asyncio.sleep(0.3)
    await both_up(network, alpha, beta)
    alpha.transport.send(BETA, Committed(subgroup=SubgroupId("a-1/0"), epoch=1))
    beta.transport.send(ALPHA, Committed(subgroup=SubgroupId("a-1/0"), epoch=2))
    await network.until(lambda: len(alpha.inbox.received()) == 1 == len(beta.inbox.received()))
    (to_beta,) = alpha.transport._links.values()
    (to_alpha,) = beta.transport._links.values()
    assert to_beta.dialler == to_alpha.dialler == "alpha"
    assert PeerDown not in {type(e) for e in alpha.inbox.events + beta.inbox.events}


async def test_a_hello_that_is_slow_to_be_known_as_sent_makes_nobody_seem_gone(
    network: GrpcNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer has it, uses that stream and closes the other one, before this side knows that it went."""
    alpha, beta = await network.add("alpha"), await network.add("beta")
    write = ServedStream.write

    async def slowly(self: ServedStream, data: bytes) -> None:
        await write(self, data)
        await asyncio.sleep(0.3)

    monkeypatch.setattr(ServedStream, "write", slowly)
    beta.transport.add_address(alpha.address)
    await network.until(lambda: "alpha" in beta.transport.peers())
    alpha.transport.add_address(beta.address)
    await network.until(lambda: [link.dialler for link in beta.transport.links().values()] == ["alpha"])
    await asyncio.sleep(0.5)
    assert [type(e) for e in alpha.inbox.events + beta.inbox.events] == [PeerUp, PeerUp]


async def test_a_stream_that_is_not_kept_stands_until_the_peer_has_the_other(
    network: GrpcNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beta has alpha's stream and wants its own no more, while its answer to alpha is still on the way."""
    alpha, beta = await network.add("alpha"), await network.add("beta")
    read, late_s = DialledStream.read, iter((0.8, 0.3))

    async def slowly(self: DialledStream) -> bytes | None:
        await asyncio.sleep(next(late_s, 0.0))
        return await read(self)

    monkeypatch.setattr(DialledStream, "read", slowly)
    alpha.transport.add_address(beta.address)
    beta.transport.add_address(alpha.address)
    await network.until(lambda: [link.dialler for link in alpha.transport.links().values()] == ["alpha"])
    await asyncio.sleep(0.5)
    assert [type(e) for e in alpha.inbox.events + beta.inbox.events] == [PeerUp, PeerUp]


async def test_garbage_on_a_stream_is_counted_and_the_stream_lives(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    keys = network.vo.keys("beta")
    own = hello("beta")
    channel = open_channel(alpha.address, "alpha", "testvo", load_credentials(keys))
    call = channel.stream_stream("/diana.v1.Peer/Stream")()
    await call.write(envelope(own, "", peer_codec.encode_message(own), 1))
    await call.read()
    good = peer_codec.encode_message(Committed(subgroup=SubgroupId("alpha-1/0"), epoch=1))
    rng = random.Random(5)
    bad = [rng.randbytes(rng.randrange(1, 200)) for _ in range(300)]
    bad += [envelope(own, "alpha", data, 1) for data in (b"", b"\xff" * 30, good[:-1])]
    bad += [envelope(own, "gamma", good, 1), envelope(hello("gamma"), "alpha", good, 1)]
    for data in bad:
        await call.write(data)
    await call.write(envelope(own, "alpha", good, 1))
    await network.until(lambda: len(alpha.inbox.received()) == 1)
    assert alpha.transport.counters.bad_envelopes == len(bad)
    assert alpha.inbox.up() == ["beta"]
    await channel.close()


async def test_a_stream_that_does_not_begin_with_a_hello_is_refused(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    channel = open_channel(alpha.address, "alpha", "testvo", load_credentials(network.vo.keys("beta")))
    call = channel.stream_stream("/diana.v1.Peer/Stream")()
    await call.write(b"nonsense")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert alpha.inbox.events == []
    await channel.close()


async def test_an_oversized_message_breaks_only_its_stream(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await both_up(network, alpha, beta)
    (link,) = beta.transport._links.values()
    link.offer(bytes(5 << 20))
    await network.until(lambda: PeerDown(ALPHA) in beta.inbox.events)
    await both_up(network, alpha, beta)


async def test_what_a_slow_reader_leaves_is_bounded(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    channel = open_channel(alpha.address, "alpha", "testvo", load_credentials(network.vo.keys("beta")))
    call = channel.stream_stream("/diana.v1.Peer/Stream")()
    own = hello("beta")
    await call.write(envelope(own, "", peer_codec.encode_message(own), 1))
    await call.read()
    await network.until(lambda: alpha.inbox.up() == ["beta"])
    (link,) = alpha.transport._links.values()
    big = Prepare(**(prepare() | {"spec": bytes(1 << 20)}))
    for _ in range(60):
        alpha.transport.send(BETA, big)
        assert sum(map(len, link._queue)) <= QUEUE_BYTES
        await asyncio.sleep(0)
    assert alpha.transport.counters.dropped_full > 30
    await channel.close()
    await network.until(lambda: alpha.inbox.up() == [])


def prepare() -> dict[str, object]:
    from diana.engine.messages.messages import Authorisation
    from diana.model.ids import GroupId
    from diana.model.indexset import IndexSet

    proof = Authorisation(
        owner="u@testvo",
        spec_sha256="0" * 64,
        group=GroupId("alpha-1"),
        expires_wall_s=0.0,
        signer="site:alpha",
        certificate=b"",
        signature=b"",
    )
    empty: dict[str, object] = {"files": (), "sources": (), "readers": (), "max_parallel": 0, "submitted_s": 0.0}
    return empty | {
        "subgroup": SubgroupId("alpha-1/0"),
        "epoch": 1,
        "indices": IndexSet.span(0, 10),
        "spec": b"",
        "authorisation": proof,
    }


async def test_a_peer_is_found_again_when_its_server_comes_back(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await both_up(network, alpha, beta)
    for generation in (2, 3):
        await network.remove(alpha)
        await network.until(lambda: beta.inbox.up() == [])
        alpha = await network.add("alpha", generation=generation)
        await both_up(network, alpha, beta)
    assert beta.transport.peers()[ALPHA].generation == 3


async def test_a_peer_that_dies_without_a_word_is_noticed(network: GrpcNetwork) -> None:
    """Its connection stays open and silent, as of a machine that lost power: only keepalive tells."""
    alpha = await network.add("alpha")
    host, port = alpha.address.split(":")
    silent = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not silent.is_set():
                    writer.write(data)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))

    proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
    where = f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    beta = await network.add("beta", peers_at=(f"alpha@{where}",))
    await both_up(network, alpha, beta)
    silent.set()
    await network.until(lambda: beta.inbox.up() == [] and alpha.inbox.up() == [])
    await network.close()
    proxy.close()
    await proxy.wait_closed()
    await asyncio.sleep(0.1)


async def test_a_taken_port_is_one_line_with_its_mend(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    port = alpha.address.partition(":")[2]
    with pytest.raises(PortTaken) as caught:
        make_server(alpha.address, keys := network.vo.keys("beta"))
    said = str(caught.value)
    assert said.startswith(f"port {port} on 127.0.0.1 is taken by process {os.getpid()} ("), said
    assert said.endswith(f"; stop that, or set listen in {keys.parent / 'site.toml'}"), said
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PortTaken):
            make_server(f"127.0.0.1:{other.getsockname()[1]}", network.vo.keys("beta"))


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:7400", "[::]:7400"])
async def test_without_tls_only_loopback_is_bound(listen: str) -> None:
    with pytest.raises(UsageError, match="without TLS: only loopback"):
        make_server(listen, None)


@pytest.mark.parametrize("listen", ["7400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", ":7400"])
async def test_a_bad_listen_address_is_one_line(listen: str) -> None:
    with pytest.raises(UsageError, match="want HOST:PORT"):
        make_server(listen, None)


async def test_an_address_this_machine_does_not_have_is_one_line(network: GrpcNetwork) -> None:
    with pytest.raises(UsageError, match="set listen"):
        make_server("192.0.2.1:7400", network.vo.keys("beta"))


async def test_missing_keys_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"site\.key: No such file.*put it back from a backup, or see: diana doctor"):
        make_server("127.0.0.1:0", tmp_path)


@pytest.mark.parametrize("peer", ["", "host", "a b:1", "x:0", "x:65536", "Site@h:1", "@h:1", "h:1/..", "http://h:1"])
def test_a_bad_peer_address_is_refused(peer: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"peer|site id"):
        GrpcTransport(hello=hello("beta"), keys=Vo(tmp_path).keys("beta"), emit=Inbox(), peers=[peer])


async def test_the_data_channel_of_a_peer_reaches_it_and_nobody_else(network: GrpcNetwork) -> None:
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await both_up(network, alpha, beta)
    assert beta.transport.channel_for(SiteId("gamma")) is None
    channel = beta.transport.channel_for(ALPHA)
    assert channel is not None and channel is beta.transport.channel_for(ALPHA)
    await asyncio.wait_for(channel.channel_ready(), 60)


async def test_of_two_sites_of_one_name_the_second_is_refused_until_the_first_is_gone(network: GrpcNetwork) -> None:
    """Else the streams of the two would replace each other for ever, and peers think that a database was lost."""
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await network.until(lambda: alpha.inbox.up() == ["beta"])
    noted: list[str] = []
    alpha.transport.note_refused = lambda where, why: noted.append(why)
    says = hello("beta", 1, db_uuid="another", boot_nonce="another")
    twin = await network.add("twin", keys=network.vo.keys("beta"), says=says, peers_at=(f"alpha@{alpha.address}",))
    await network.until(lambda: bool(noted))
    assert "two nodes are called beta" in noted[0]
    assert len(alpha.inbox.events) == 1 and twin.inbox.up() == []
    await network.remove(beta)
    await network.until(lambda: twin.inbox.up() == ["alpha"] and alpha.inbox.up() == ["beta"])
