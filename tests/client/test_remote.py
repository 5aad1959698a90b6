"""Remote clients: gRPC over mutual TLS with certificates of a VO made for the test."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import msgspec
import pytest

from diana import errors
from diana.adapters.grpc.server import make_server
from diana.adapters.trust import certificates
from diana.client import AsyncClient, Client
from diana.client.grpc_parts import FAILURE_KEY, credentials_of, options_of
from diana.model.facts import OutputFile
from diana.node.config.setup import init_site, init_user
from diana.node.ways_in.client_service import add_client_service
from diana.wire import peer_codec
from diana.wire.client.messages import METHODS, Failure
from diana.wire.tls import load_credentials, server_name
from tests.client.nodelike import Nodelike, crowd, facts, view

JOB = b'[group]\ncommand = ["/bin/true"]\n'


class Remote:
    """A `Nodelike` that serves gRPC with the certificates of its data directory."""

    def __init__(self, root: Path, address: str, node: Nodelike) -> None:
        self.root, self.address, self.node = root, address, node

    def user(self, name: str, folder: Path) -> Path:
        init_user(self.root, name, folder)
        return folder

    def client(self, folder: Path) -> AsyncClient:
        return AsyncClient(address=self.address, credential=folder)


@pytest.fixture
async def remote(tmp_path: Path) -> AsyncIterator[Remote]:
    root = tmp_path / "alpha"
    await asyncio.to_thread(init_site, root, "alpha", "lab", listen="127.0.0.1:0")
    async with Nodelike(root) as node:
        server, port = make_server("127.0.0.1:0", node.data.keys)
        add_client_service(server, node.api, node.users)
        await server.start()
        yield Remote(root, f"127.0.0.1:{port}", node)
        await server.stop(0.1)


async def test_a_user_does_remotely_what_a_local_one_does(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"x" * 3_000_000)
    job = tmp_path / "job.toml"
    job.write_text('inputs = ["in.bin"]\n[group]\ncommand = ["cat", "in.bin"]\n')
    book = remote.node.book
    async with remote.client(remote.user("ann", tmp_path / "ann")) as client:
        group = (await client.submit(job)).group
        assert book.groups[group].owner == "ann@lab"
        assert (await client.info()).role == "user"
        big = b"y" * 2_500_000
        outputs = [OutputFile(0, "sub/o", len(big), hashlib.sha256(big).hexdigest())]
        segment, offset = remote.node.write_log(group, "s", b"hello")
        book.keep(
            group,
            0,
            facts("alpha", [0], outputs=outputs, log_segments=[segment], log_offsets=[offset], log_lengths=[5]),
        )
        (remote.node.data.gathered(group) / "sub").mkdir(parents=True)  # type: ignore[arg-type]
        (remote.node.data.gathered(group) / "sub" / "o").write_bytes(big)  # type: ignore[arg-type]
        asyncio.get_running_loop().call_later(0.1, lambda: book.finish(group))
        assert (await client.wait(group, timeout_s=60)).done == 1
        assert [(row.index, row.outcome) async for row in client.results(group)] == [(0, "done")]
        assert b"".join([chunk.data async for chunk in client.logs(f"{group}.0")]) == b"hello"
        assert [path.read_bytes() for path in await client.fetch(group, tmp_path / "out")] == [big]
        assert await client.cancel(group) == 1


async def test_the_synchronous_client_works_over_tls_too(remote: Remote, tmp_path: Path) -> None:
    folder = remote.user("ann", tmp_path / "ann")

    def work() -> tuple[str, str]:
        with Client(address=remote.address, credential=folder) as client:
            group = client.submit(JOB).group
            client.cancel(group)
            remote.node.book.groups[group] = view(group, "ann@lab", 1, final=True, state="cancelled")
            return group, client.wait(group).state

    assert await asyncio.to_thread(work) == ("alpha-1", "cancelled")


async def test_a_vo_of_twenty_thousand_sites_is_shown_whole_from_afar(remote: Remote, tmp_path: Path) -> None:
    """By a user each: so many rows are all that one may read at once after a quiet time."""
    crowd(remote.node.book, sites=20_000, named=100)
    async with (
        remote.client(remote.user("ann", tmp_path / "ann")) as ann,
        remote.client(remote.user("ben", tmp_path / "ben")) as ben,
        remote.client(remote.user("cid", tmp_path / "cid")) as cid,
    ):
        assert len(await ann.sites()) == 20_001
        assert len((await ben.peers()).peers) == 20_000
        assert list(await cid.datasets()) == remote.node.book.elsewhere


async def test_a_long_table_costs_as_many_calls_as_its_rows_also_in_parts(remote: Remote, tmp_path: Path) -> None:
    crowd(remote.node.book, sites=30_000, named=1)
    remote.node.stands_at_s = 0.0
    async with (
        remote.client(remote.user("ann", tmp_path / "ann")) as ann,
        remote.client(remote.user("ben", tmp_path / "ben")) as ben,
    ):
        assert len(await ann.sites()) == 30_001
        with pytest.raises(errors.Overloaded):
            await ann.info()
        await ben.info()


async def test_what_is_too_long_for_any_node_is_no_overload_but_a_mistake(remote: Remote, tmp_path: Path) -> None:
    folder = remote.user("ann", tmp_path / "ann")
    job = {"group": {"command": ["/bin/true"], "environment": {f"V{i}": "x" * 100_000 for i in range(50)}}}
    async with remote.client(folder) as client:
        with pytest.raises(errors.UsageError, match=r"^what is asked takes 5,[0-9]{3},[0-9]{3} bytes, and a node"):
            await client.submit(job)

    def submit() -> None:
        with Client(address=remote.address, credential=folder) as client:
            client.submit(job)

    with pytest.raises(errors.UsageError, match="what is asked takes"):
        await asyncio.to_thread(submit)


async def test_one_user_cannot_touch_anothers_group(remote: Remote, tmp_path: Path) -> None:
    async with (
        remote.client(remote.user("ann", tmp_path / "a")) as ann,
        remote.client(remote.user("ben", tmp_path / "b")) as ben,
    ):
        group = (await ann.submit(JOB)).group
        assert await ben.status() == ()
        for attempt in (
            ben.status([group]),
            ben.wait(group),
            ben.cancel(group),
            ben.explain(group),
            ben.fetch(group, tmp_path / "o"),
        ):
            with pytest.raises(errors.Denied):
                await attempt
        for stream in (ben.results(group), ben.logs(group), ben.logs(f"{group}.0")):
            with pytest.raises(errors.Denied):
                [item async for item in stream]


async def test_only_operators_of_the_site_may_stop_it_or_add_data(remote: Remote, tmp_path: Path) -> None:
    async with remote.client(remote.user("ann", tmp_path / "ann")) as ann:
        for attempt in (ann.stop(), ann.add_dataset("d", [tmp_path])):
            with pytest.raises(errors.Denied, match="ann@lab may not"):
                await attempt
    async with remote.client(remote.user("ops", tmp_path / "ops")) as ops:
        assert (await ops.info()).role == "operator"
        await ops.stop()
        await asyncio.wait_for(remote.node.stopped.wait(), 60)


async def test_an_account_that_is_operator_here_is_none_by_its_name_alone(remote: Remote, tmp_path: Path) -> None:
    async with remote.client(remote.user("root", tmp_path / "root")) as client:
        assert (await client.info()).role == "user"


async def test_a_site_is_no_user(remote: Remote) -> None:
    keys = load_credentials(remote.node.data.keys)
    channel = grpc.aio.secure_channel(
        remote.address,
        grpc.ssl_channel_credentials(keys.root, keys.key, keys.certificate),
        [("grpc.ssl_target_name_override", server_name("alpha", "lab"))],
    )
    async with channel:
        for name, method in METHODS.items():
            if method.streams_in or method.streams_out:
                continue
            request = peer_codec.proto_class(method.request)()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/diana.v1.Client/{name}", type(request).SerializeToString)(request)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            [(_, packed)] = [pair for pair in caught.value.trailing_metadata() if pair[0] == FAILURE_KEY]
            failure = peer_codec.from_proto(Failure, peer_codec.proto_class(Failure).FromString(packed))
            assert failure.code == "denied" and "is no user" in failure.text


async def test_a_certificate_of_another_vo_is_refused(remote: Remote, tmp_path: Path) -> None:
    await asyncio.to_thread(init_site, tmp_path / "evil", "alpha", "lab", listen="127.0.0.1:0")
    init_user(tmp_path / "evil", "ann", tmp_path / "ann")
    async with remote.client(tmp_path / "ann") as client:
        with pytest.raises(errors.Unreachable):
            await client.info()


async def test_an_expired_credential_is_refused(remote: Remote, tmp_path: Path) -> None:
    folder = remote.user("ann", tmp_path / "ann")
    certificates.issue_user(remote.node.data.keys, "ann", tmp_path / "old", valid_days=1, wall_s=1e9)
    for name in ("user.pem", "user.key"):
        (folder / name).unlink()
        (folder / name).write_bytes((tmp_path / "old" / name).read_bytes())
    async with remote.client(folder) as client:
        with pytest.raises(errors.Unreachable):
            await client.info()


async def test_failures_travel_whole(remote: Remote, tmp_path: Path) -> None:
    async with remote.client(remote.user("ann", tmp_path / "ann")) as client:
        with pytest.raises(errors.UsageError, match="want SITE-NUMBER"):
            await client.explain("nonsense")
        with pytest.raises(errors.UsageError, match="commandx"):
            await client.submit(b'[group]\ncommandx = "a"\n')
        remote.node.book.full = True
        with pytest.raises(errors.Overloaded) as caught:
            await client.submit(JOB)
        assert caught.value.retry_after_s == 2.0
        remote.node.book.full = False
        remote.node.book.groups["alpha-7"] = view("alpha-7", "ann@lab", 1)
        with pytest.raises(errors.WaitTimedOut):
            await client.wait("alpha-7", timeout_s=0.2)


async def test_a_credential_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match=r"credential\.toml: No such file"):
        Client(credential=tmp_path)
    with pytest.raises(errors.UsageError, match="name its folder"):
        Client(address="127.0.0.1:1")
    (tmp_path / "credential.toml").write_text('user = "a"\n')
    with pytest.raises(errors.UsageError, match="make the credential again"):
        Client(credential=tmp_path)


async def test_a_remote_node_that_is_not_there_is_unreachable(remote: Remote, tmp_path: Path) -> None:
    folder = remote.user("ann", tmp_path / "ann")
    async with AsyncClient(address="127.0.0.1:1", credential=folder) as client:
        with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:1 of site alpha does not answer"):
            await client.info()


async def test_a_client_that_gives_up_does_not_stop_its_submission(remote: Remote, tmp_path: Path) -> None:
    async with remote.client(remote.user("ann", tmp_path / "ann")) as client:
        await client.info()
        asking = asyncio.create_task(client.submit(JOB, key="once"))
        await asyncio.sleep(0.004)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        again = await client.submit(JOB, key="once")
        assert again.group == "alpha-1" and len(remote.node.book.submitted) == 1


def test_messages_of_both_ways_in_are_the_same() -> None:
    for method in METHODS.values():
        for kind in (method.request, method.response):
            assert issubclass(kind, msgspec.Struct) and peer_codec.proto_class(kind).DESCRIPTOR.name == kind.__name__


class Follower(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A machine that led until a moment ago, and says so of every call but Info."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = call.method.rpartition("/")[2]
        info = peer_codec.to_proto(METHODS["Info"].response(site="alpha", durability=0)).SerializeToString()

        async def answer(_: bytes, context: grpc.aio.ServicerContext) -> bytes:
            self.asked.append(method)
            if method != "Info":
                said = peer_codec.to_proto(
                    Failure(code="unreachable", text="alpha's RootGrid is main")
                ).SerializeToString()
                context.set_trailing_metadata(((FAILURE_KEY, said),))
                await context.abort(grpc.StatusCode.UNAVAILABLE, "")
            return info

        return grpc.unary_unary_rpc_method_handler(answer)


async def test_a_client_in_use_follows_to_the_machine_that_leads_now(remote: Remote, tmp_path: Path) -> None:
    ann = remote.user("ann", tmp_path / "ann")
    follower = Follower()
    server, port = make_server("127.0.0.1:0", remote.node.data.keys)
    server.add_generic_rpc_handlers((follower,))
    await server.start()
    table = (ann / "credential.toml").read_text()
    (ann / "credential.toml").write_text(f'{table}addresses = ["{remote.address}"]\n')
    try:
        with Client(credential=ann) as client:
            # What it was connected to when that one led.
            client._wire._made = grpc.secure_channel(f"127.0.0.1:{port}", *parts_of(client))  # type: ignore[attr-defined]
            sites = await asyncio.to_thread(client.sites)
    finally:
        await server.stop(0)
    assert follower.asked == ["Sites"] and isinstance(sites, tuple)


def parts_of(client: Client) -> tuple[grpc.ChannelCredentials, list[tuple[str, object]]]:
    credential = client._wire._credential  # type: ignore[attr-defined]
    return credentials_of(credential), options_of(credential)
