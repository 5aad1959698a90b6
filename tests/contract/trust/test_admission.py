"""Who is let in and put out again (PROMISES 5.2, 5.3), over real connections: callers whose trust is taken back while
they stream, certificates and trust roots that change while the server runs, and what an invitation opens."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from diana.adapters.grpc import server as server_
from diana.adapters.grpc.server import make_server
from diana.adapters.trust import admission, certificates
from diana.adapters.trust.admission import JOIN
from diana.adapters.trust.keyring import FileKeyring
from diana.wire.tls import (
    Credentials,
    learn_leaf,
    load_credentials,
    open_channel,
    peer_identity,
    server_name,
    why_no_handshake,
)
from tests.contract.trust_builders import DAY_S, Signed, chain, folder, make, root, signer, site
from tests.runs import SOAK

DENIED = grpc.StatusCode.PERMISSION_DENIED
UNREACHED = grpc.StatusCode.UNAVAILABLE


class Calls(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`/t/Who` says who calls; `/t/Pull` and `/t/Flood` stream for ever; `/t/Talk` echoes; any other is a `Who`."""

    def __init__(self) -> None:
        self.ended = 0
        self.flooded_s = 0.0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def who(_: bytes, context: Any) -> bytes:
            return peer_identity(context).said.encode()

        async def pull(_: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x"
                    await asyncio.sleep(0.05)
            finally:
                self.ended += 1

        async def flood(_: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                while True:
                    self.flooded_s = time.monotonic()
                    yield bytes(1 << 20)
            finally:
                self.ended += 1

        async def talk(_: Any, context: Any) -> None:
            try:
                while (data := await context.read()) is not grpc.aio.EOF:
                    await context.write(data)
            finally:
                self.ended += 1

        if details.method == "/t/Pull":
            return grpc.unary_stream_rpc_method_handler(pull)
        if details.method == "/t/Flood":
            return grpc.unary_stream_rpc_method_handler(flood)
        if details.method == "/t/Talk":
            return grpc.stream_stream_rpc_method_handler(talk)
        return grpc.unary_unary_rpc_method_handler(who)


class Vo:
    """Site alpha serves; beta, a signer too, and gamma, whom beta signed, call."""

    def __init__(self, folder_: Path) -> None:
        self.folder = folder_
        certificates.make_vo("lab", folder_ / "alpha", site="alpha")
        certificates.make_signer(folder_ / "alpha", "beta", folder_ / "beta")
        certificates.issue_site(folder_ / "alpha", "alpha", folder_ / "alpha")
        certificates.issue_site(folder_ / "beta", "beta", folder_ / "beta")
        certificates.issue_site(folder_ / "beta", "gamma", folder_ / "gamma")
        certificates.issue_user(folder_ / "beta", "ann", folder_ / "ann")
        certificates.issue_member(folder_ / "beta", "gamma", "m2", folder_ / "m2")
        self.roots: dict[str, bytes] = {}
        self.now_s = time.time
        self.ring = FileKeyring(folder_ / "alpha", wall_clock=lambda: self.now_s())
        self.calls = Calls()
        self.address = ""
        self.refusals: list[tuple[str, str, str]] = []

    async def serve(self) -> grpc.aio.Server:
        server, port = make_server(
            "127.0.0.1:0",
            self.folder / "alpha",
            self.ring.distrust,
            extra_roots=lambda: tuple(self.roots.values()),
            invited=lambda leaf: "" if certificates.invited_by(leaf, self.roots.values()) else "no invitation",
            refused=lambda named, method, _, why: self.refusals.append((named, method, why)),
        )
        server.add_generic_rpc_handlers((self.calls,))
        await server.start()
        self.address = f"127.0.0.1:{port}"
        return server

    def credentials(self, who: str, kind: str = "site") -> Credentials:
        return load_credentials(self.folder / who, kind)

    async def ask(self, given: Credentials, method: str = "/t/Who") -> str:
        async with open_channel(self.address, "alpha", "lab", given) as channel:
            return str((await channel.unary_unary(method)(b"", timeout=60)).decode())

    async def refused(self, given: Credentials, method: str = "/t/Who") -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.ask(given, method)
        return caught.value.code(), caught.value.details() or ""


@pytest_asyncio.fixture
async def vo(tmp_path: Path) -> AsyncIterator[Vo]:
    made = Vo(tmp_path)
    server = await made.serve()
    yield made
    await server.stop(0)


async def test_everybody_of_the_vo_is_known_whoever_signed(vo: Vo) -> None:
    assert await vo.ask(vo.credentials("beta")) == "site:beta"
    assert await vo.ask(vo.credentials("gamma")) == "site:gamma"
    assert await vo.ask(vo.credentials("ann", "user")) == "user:ann@lab"
    assert await vo.ask(vo.credentials("m2", "member")) == "member:gamma/m2"


async def test_a_site_below_another_signer_serves_and_is_verified_by_its_name(vo: Vo, tmp_path: Path) -> None:
    server, port = make_server("127.0.0.1:0", tmp_path / "gamma", FileKeyring(tmp_path / "gamma").distrust)
    server.add_generic_rpc_handlers((vo.calls,))
    await server.start()
    for name, good in (("gamma", True), ("alpha", False)):
        async with open_channel(f"127.0.0.1:{port}", name, "lab", vo.credentials("alpha")) as channel:
            call = channel.unary_unary("/t/Who")(b"", timeout=60)
            if good:
                assert await call == b"site:alpha"
            else:
                with pytest.raises(grpc.aio.AioRpcError):
                    await call
    await server.stop(0)


# --- taken back while it streams -----------------------------------------------------------------------------


async def ends(read: Callable[[], Any]) -> tuple[grpc.StatusCode, str, float]:
    """How a stream ends: its status, its words, and after how many seconds."""
    began = time.monotonic()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(60):
            while await read() is not grpc.aio.EOF:
                pass
    return caught.value.code(), caught.value.details() or "", time.monotonic() - began


@pytest.mark.parametrize("entry", ["site:gamma", "signer:beta"])
async def test_open_streams_of_who_is_revoked_are_broken_off_within_seconds(vo: Vo, entry: str) -> None:
    async with (
        open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")) as gamma,
        open_channel(vo.address, "alpha", "lab", vo.credentials("alpha")) as other,
    ):
        pulled, talk = gamma.unary_stream("/t/Pull")(b""), gamma.stream_stream("/t/Talk")()
        kept = other.stream_stream("/t/Talk")()
        for call in (talk, kept):
            await call.write(b"a")
            assert await call.read() == b"a"
        assert await pulled.read() == b"x"
        vo.ring.set_revoked(frozenset({entry}))
        for call in (pulled, talk):
            code, words, took_s = await ends(call.read)
            assert code is DENIED and "revoked by the VO" in words and (not SOAK or took_s < 5.0)
        assert vo.calls.ended == 2, "the handlers were told, not left behind"
        assert {told[:2] for told in vo.refusals} == {("site:gamma", "/t/Pull"), ("site:gamma", "/t/Talk")}
        await kept.write(b"b")
        assert await kept.read() == b"b"
        kept.cancel()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gamma.unary_unary("/t/Who")(b"")
        assert caught.value.code() is DENIED


async def test_a_caller_that_is_revoked_while_it_reads_nothing_is_told_when_it_reads_again(vo: Vo) -> None:
    async with open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")) as gamma:
        call = gamma.unary_stream("/t/Flood")(b"")
        await call.read()
        while time.monotonic() < vo.calls.flooded_s + 0.3:
            await asyncio.sleep(0.05)
        vo.ring.set_revoked(frozenset({"site:gamma"}))
        async with asyncio.timeout(60):
            while not vo.calls.ended:
                await asyncio.sleep(0.05)
        code, words, _ = await ends(call.read)
        assert code is DENIED and "revoked by the VO" in words


async def test_one_holder_has_so_many_calls_open_over_all_its_connections_and_others_have_theirs(
    vo: Vo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MOST_OPEN", 4)
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")))
            for _ in range(2)
        ]
        calls = [channel.stream_stream("/t/Talk")() for channel in channels for _ in range(2)]
        for call in calls:
            await call.write(b"a")
            assert await call.read() == b"a"
        assert (await vo.refused(vo.credentials("gamma")))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert vo.refusals[-1][0] == "site:gamma" and "try again" in vo.refusals[-1][2]
        assert await vo.ask(vo.credentials("beta"))
        calls[0].cancel()
        async with asyncio.timeout(60):
            while not vo.calls.ended:
                await asyncio.sleep(0.02)
        assert await vo.ask(vo.credentials("gamma"))
        for call in calls:
            call.cancel()


async def test_one_holder_calls_by_so_many_connections_at_once_and_others_by_theirs(
    vo: Vo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MOST_CONNECTIONS", 3)
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")))
            for _ in range(3)
        ]
        calls = [channel.stream_stream("/t/Talk")() for channel in channels for _ in range(2)]
        for call in calls:
            await call.write(b"a")
            assert await call.read() == b"a"
        code, words = await vo.refused(vo.credentials("gamma"))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "by 3 connections already" in words
        assert vo.refusals[-1][0] == "site:gamma"
        assert await channels[0].unary_unary("/t/Who")(b"", timeout=60) == b"site:gamma"
        assert await vo.ask(vo.credentials("beta"))
        # The last call of a connection frees its place, not the first.
        for number, call in enumerate(calls[:2]):
            call.cancel()
            async with asyncio.timeout(60):
                while vo.calls.ended <= number:
                    await asyncio.sleep(0.02)
            if not number:
                assert (await vo.refused(vo.credentials("gamma")))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await vo.ask(vo.credentials("gamma"))
        for call in calls:
            call.cancel()


# --- connections that carry no call --------------------------------------------------------------------------


def silent(vo: Vo, count: int, *, shows: bool) -> list[socket.socket]:
    """Connections with gamma's certificate that say hello in HTTP/2, or such that say nothing at all."""
    host, _, port = vo.address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(vo.folder / "gamma" / "site.pem", vo.folder / "gamma" / "site.key")
    made: list[socket.socket] = []
    for _ in range(count):
        with suppress(OSError):
            made.append(socket.create_connection((host, int(port)), timeout=60))
            if shows:
                made[-1] = context.wrap_socket(made[-1])
                made[-1].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
    return [each for each in made if each.fileno() >= 0]


def ended(connection: socket.socket) -> bool:
    """Whether the server ends it within a minute."""
    with suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass
    return True


@pytest.mark.parametrize("shows", [True, False])
async def test_of_connections_that_call_nothing_there_are_so_many_at_once_at_most(
    vo_folder: Path, monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    """Also of callers without a certificate: the node keeps descriptors for its files."""
    monkeypatch.setattr(server_, "SILENT_S", 600.0)
    monkeypatch.setattr(server_, "HANDSHAKE_S", 600.0)
    monkeypatch.setattr(server_, "MOST_CONNECTIONS", 20)
    vo = Vo(vo_folder.parent / "lab")
    server = await vo.serve()
    try:
        assert await vo.ask(vo.credentials("beta")) == "site:beta"
        before = len(os.listdir("/proc/self/fd"))
        made = await asyncio.to_thread(silent, vo, 60, shows=shows)
        # Each has an end here and, if it was let in, one at the server.
        async with asyncio.timeout(60):
            while len(os.listdir("/proc/self/fd")) - before - len(made) > 20:
                await asyncio.sleep(0.05)
        assert len(made) == (20 if shows else 60)
        for each in made:
            each.close()
    finally:
        await server.stop(0)


@pytest.mark.parametrize("shows", [True, False])
async def test_connections_that_call_nothing_are_ended_and_others_come_in_again(
    vo_folder: Path, monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    monkeypatch.setattr(server_, "SILENT_S", 0.5)
    monkeypatch.setattr(server_, "HANDSHAKE_S", 0.5)
    monkeypatch.setattr(server_, "MOST_CONNECTIONS", 20)
    vo = Vo(vo_folder.parent / "lab")
    server = await vo.serve()
    try:
        made = await asyncio.to_thread(silent, vo, 60, shows=shows)
        async with asyncio.timeout(60):
            assert all(await asyncio.gather(*(asyncio.to_thread(ended, s) for s in made)))
        assert await vo.ask(vo.credentials("beta")) == "site:beta"
        for each in made:
            each.close()
    finally:
        await server.stop(0)


async def test_a_connection_with_a_call_stays_however_long_it_says_nothing(
    vo_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_, "SILENT_S", 0.5)
    vo = Vo(vo_folder.parent / "lab")
    server = await vo.serve()
    try:
        async with open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")) as channel:
            talk = channel.stream_stream("/t/Talk")()
            for _ in range(2):
                await talk.write(b"a")
                assert await talk.read() == b"a"
                await asyncio.sleep(1.2)
            talk.cancel()
            await asyncio.sleep(1.2)
            # The server ended it meanwhile: the next call makes another and does not fail.
            assert await channel.unary_unary("/t/Who")(b"", timeout=60) == b"site:gamma"
    finally:
        await server.stop(0)


def test_connections_leave_half_of_the_descriptors_to_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in ((256, 128), (1 << 20, 1024), (resource.RLIM_INFINITY, 1024)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert dict(server_._bounds())["grpc.max_allowed_incoming_connections"] == most


async def test_a_stream_ends_when_its_certificate_runs_out_unrenewed(vo: Vo) -> None:
    async with open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")) as channel:
        talk = channel.stream_stream("/t/Talk")()
        await talk.write(b"a")
        assert await talk.read() == b"a"
        vo.now_s = lambda: time.time() + 8 * DAY_S
        code, words, _ = await ends(talk.read)
        assert code is DENIED and "the certificate expired 1.0 days ago" in words


async def test_a_caller_that_goes_away_by_itself_is_no_refusal(vo: Vo, caplog: pytest.LogCaptureFixture) -> None:
    async with open_channel(vo.address, "alpha", "lab", vo.credentials("gamma")) as channel:
        talk = channel.stream_stream("/t/Talk")()
        await talk.write(b"a")
        assert await talk.read() == b"a"
        talk.cancel()
    async with asyncio.timeout(60):
        while not vo.calls.ended:
            await asyncio.sleep(0.02)
    assert "broken off" not in caplog.text


# --- what changes while the server runs ----------------------------------------------------------------------


async def test_a_renewed_certificate_serves_the_next_caller(vo: Vo) -> None:
    before = (await learn_leaf(vo.address)).serial_number
    certificates.issue_site(vo.folder / "beta", "alpha", vo.folder / "alpha")
    after = (await learn_leaf(vo.address)).serial_number
    assert before != after
    assert await vo.ask(vo.credentials("gamma")) == "site:gamma"


async def test_half_a_renewal_serves_what_there_was(vo: Vo) -> None:
    before = (await learn_leaf(vo.address)).serial_number
    certificates.issue_site(vo.folder / "beta", "alpha", vo.folder / "next")
    shutil.copy(vo.folder / "next" / "site.key", vo.folder / "alpha" / "site.key")
    assert (await learn_leaf(vo.address)).serial_number == before
    shutil.copy(vo.folder / "next" / "site.pem", vo.folder / "alpha" / "site.pem")
    assert (await learn_leaf(vo.address)).serial_number != before
    (vo.folder / "alpha" / "site.pem").unlink()
    assert await vo.ask(vo.credentials("gamma")) == "site:gamma"


# --- invitations ---------------------------------------------------------------------------------------------

SEED = bytes(range(16))


def invite(vo: Vo, until_s: float = 3600.0) -> tuple[str, Credentials]:
    name = certificates.invite_id(SEED)
    vo.roots[name] = certificates.invite_root(SEED, "lab", until_wall_s=time.time() + until_s)
    key, leaf = certificates.invite_leaf(SEED, "lab")
    return name, Credentials(key, leaf, (vo.folder / "alpha" / "vo.pem").read_bytes())


async def test_an_invitation_opens_one_call_for_as_long_as_it_is_open(vo: Vo) -> None:
    name, given = invite(vo)
    assert await vo.ask(given, JOIN) == f"invite:{name}"
    for method in ("/t/Who", "/diana.v1.Enrol/Sign", "/diana.v1.Peer/Stream", "/diana.v1.Enrol/Join/"):
        assert await vo.refused(given, method) == (DENIED, "the certificate is not one of VO lab")
    del vo.roots[name]
    assert (await vo.refused(given, JOIN))[0] is UNREACHED
    assert await vo.ask(vo.credentials("gamma")) == "site:gamma"


async def test_before_there_is_an_invitation_or_after_its_end_nobody_comes_in(vo: Vo) -> None:
    name, given = invite(vo, until_s=-5.0)
    assert (await vo.refused(given, JOIN))[0] is UNREACHED
    vo.roots.clear()
    assert (await vo.refused(given, JOIN))[0] is UNREACHED
    assert name == certificates.invite_id(SEED)


@pytest.mark.parametrize("method", ["/t/Who", JOIN])
@pytest.mark.parametrize(
    ("uri", "dns"),
    [
        ("spiffe://lab/site/gamma", ("gamma.lab.diana",)),
        ("spiffe://lab/site/alpha", ("alpha.lab.diana",)),
        ("spiffe://lab/user/root", ()),
        ("spiffe://lab/member/gamma/m2", ("m2.gamma.lab.diana",)),
        ("spiffe://lab/invite/0011223344556677", ()),
    ],
)
async def test_whatever_who_was_invited_calls_himself_he_is_nobody_of_the_vo(
    vo: Vo, uri: str, dns: tuple[str, ...], method: str
) -> None:
    """The token gives its holder a key that TLS trusts: it lets him forge any name, and none of them counts."""
    name, given = invite(vo)
    above = Signed(x509.load_pem_x509_certificate(vo.roots[name]), certificates.derive_invite_key(SEED))
    forged = make(uri, above, dns=dns)
    code, words = await vo.refused(Credentials(forged.key_pem, forged.pem, given.root), method)
    assert code is DENIED and words.startswith("the certificate is not one of VO lab")


async def test_a_signer_made_below_an_invitation_signs_nobody(vo: Vo) -> None:
    name, given = invite(vo)
    above = Signed(x509.load_pem_x509_certificate(vo.roots[name]), certificates.derive_invite_key(SEED))
    evil = signer("alpha", above)
    leaf = site("gamma", evil)
    code, _ = await vo.refused(Credentials(leaf.key_pem, chain(leaf, evil), given.root))
    assert code in (DENIED, UNREACHED)


# --- refusals at the handshake, and why ----------------------------------------------------------------------


def refused_by_tls(tmp_path: Path, vo: Vo) -> dict[str, Credentials]:
    """Callers who know our root and are not below it, or not now."""
    ours = (vo.folder / "alpha" / "vo.pem").read_bytes()
    other = root()
    foreign = folder(tmp_path / "foreign", other, site("gamma", other))
    certificates.issue_site(vo.folder / "beta", "gamma", tmp_path / "old", wall_s=time.time() - 30 * DAY_S)
    certificates.issue_site(vo.folder / "beta", "gamma", tmp_path / "ahead", wall_s=time.time() + 3600)
    found = {name: load_credentials(tmp_path / name) for name in ("old", "ahead")}
    return found | {"foreign": load_credentials(foreign)._replace(root=ours)}


@pytest.mark.parametrize("who", ["foreign", "old", "ahead"])
async def test_the_handshake_fails_for_wrong_roots_and_wrong_dates(vo: Vo, tmp_path: Path, who: str) -> None:
    assert (await vo.refused(refused_by_tls(tmp_path, vo)[who]))[0] is UNREACHED


async def test_after_a_failed_handshake_one_line_says_what_is_wrong(vo: Vo, tmp_path: Path) -> None:
    given = refused_by_tls(tmp_path, vo)
    now_s = time.time()
    good = vo.credentials("gamma")

    async def why(credentials: Credentials, site_: str = "alpha", wall_s: float = now_s) -> str:
        return await why_no_handshake(vo.address, site_, credentials, wall_s=wall_s)

    assert "our certificate expired on" in await why(given["old"])
    ahead = await why(given["ahead"])
    assert ahead.startswith("our certificate is not valid before") and ahead.endswith("check this machine's clock")
    behind = await why(good, wall_s=now_s - 3600)
    assert "is not valid before" in behind and "check this machine's clock" in behind
    assert await why(good, "delta") == "it shows the certificate of site alpha, not of site delta"
    assert await why(good) == ""
    elsewhere = folder(tmp_path / "elsewhere", root("other"), make("spiffe://other/site/x", dns=("x.other.diana",)))
    assert await why(load_credentials(elsewhere)) == "it shows a certificate of VO lab, we are of other"
    assert await why_no_handshake("127.0.0.1:1", "alpha", good, wall_s=now_s) == ""


async def test_a_channel_may_trust_one_certificate_alone(vo: Vo) -> None:
    """How a newcomer asks to join: pinned to what the address showed, until the root proves itself."""
    _, given = invite(vo)
    shown = (await learn_leaf(vo.address)).public_bytes(Encoding.PEM)
    assert (await vo.ask(given._replace(root=shown), JOIN)).startswith("invite:")
    certificates.issue_site(vo.folder / "beta", "alpha", vo.folder / "alpha")
    assert (await vo.refused(given._replace(root=shown), JOIN))[0] is UNREACHED


async def test_callers_without_a_certificate_do_not_even_shake_hands(vo: Vo) -> None:
    trusted = grpc.ssl_channel_credentials((vo.folder / "alpha" / "vo.pem").read_bytes())
    options = [("grpc.ssl_target_name_override", server_name("alpha", "lab"))]
    async with grpc.aio.secure_channel(vo.address, trusted, options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/t/Who")(b"", timeout=60)
    assert caught.value.code() in (UNREACHED, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_invitations_need_a_judge_of_all_other_callers(vo_folder: Path) -> None:
    with pytest.raises(ValueError, match="give distrust"):
        make_server("127.0.0.1:0", vo_folder, extra_roots=lambda: ())


@pytest.fixture
def vo_folder(tmp_path: Path) -> Path:
    certificates.make_vo("lab", tmp_path / "v")
    certificates.issue_site(tmp_path / "v", "alpha", tmp_path / "v")
    return tmp_path / "v"
