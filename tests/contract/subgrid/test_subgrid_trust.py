"""Who may attach as a machine of a site, what it may read, whom a machine obeys (PROMISES 5.3, terms of section 2)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import msgspec
import pytest
import pytest_asyncio

from diana.adapters.grpc import pacing
from diana.adapters.staging.refs import parse_ref
from diana.adapters.subgrid import protocol, service
from diana.adapters.subgrid.inputs import Grants
from diana.adapters.trust import certificates
from diana.engine.journal import columns
from diana.engine.journal.events import AtBarrier, Run
from diana.model.data import DataFile
from diana.model.ids import SiteId, SubgroupId
from diana.model.job.spec import Outputs
from diana.model.kept_log import UNKNOWN, LiveLog
from diana.model.run_columns import Runs
from diana.wire.pb import subgrid_pb2, subgrid_pb2_grpc
from diana.wire.tls import load_credentials, open_channel
from tests.contract.lrm_builders import SUBGROUP, shell
from tests.contract.subgrid_builders import MEMBER, SubGridSite

SHA = hashlib.sha256(b"x").hexdigest()


@pytest_asyncio.fixture
async def at(tmp_path: Path) -> AsyncIterator[SubGridSite]:
    made = SubGridSite(tmp_path / "site")
    await made.up()
    yield made
    await made.down()


def hello(machine: str = "m9", **changes: Any) -> protocol.Hello:
    said = protocol.Hello(protocol.VERSION, machine, "somebody", "0.1.0", 0, 4, 1 << 30)
    return msgspec.structs.replace(said, **changes)


async def greeted(at: SubGridSite, keys: Path, kind: str, said: protocol.Hello) -> protocol.FromRoot:
    """The RootGrid's answer to whoever holds these keys."""
    channel = open_channel(at.node.addresses()[0], "alpha", "vo", load_credentials(keys, kind))
    try:
        call: Any = subgrid_pb2_grpc.SubGridStub(channel).Attach()  # type: ignore[no-untyped-call]
        await call.write(subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(said)])))
        answer = await call.read()
        if answer is grpc.aio.EOF:
            raise AssertionError(await call.details())
        return protocol.from_root(answer.messages)[0]
    finally:
        await channel.close()


def keys_of(at: SubGridSite, tmp_path: Path, kind: str, site: str = "alpha", machine: str = "m9") -> Path:
    vo, out = at.keys.parent / "vo", tmp_path / f"{kind}-{site}-{machine}"
    if kind == "member":
        certificates.issue_member(vo, site, machine, out)
    elif kind == "site":
        certificates.issue_site(vo, site, out)
    else:
        certificates.issue_user(vo, machine, out)
    return out


async def test_a_member_attaches_under_its_own_name_and_no_other(at: SubGridSite, tmp_path: Path) -> None:
    keys = keys_of(at, tmp_path, "member")
    assert isinstance(await greeted(at, keys, "member", hello()), protocol.Welcome)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await greeted(at, keys, "member", hello("m8"))
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.details() == "member alpha/m9 may not attach what belongs to alpha/m8"


@pytest.mark.parametrize(("kind", "site"), [("member", "beta"), ("site", "beta"), ("user", "alpha")])
async def test_nobody_of_another_site_attaches_nor_does_a_user(
    at: SubGridSite, tmp_path: Path, kind: str, site: str
) -> None:
    keys = keys_of(at, tmp_path, kind, site)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await greeted(at, keys, kind, hello())
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_machine_of_the_site_that_may_lead_attaches_with_the_sites_certificate(
    at: SubGridSite, tmp_path: Path
) -> None:
    keys = keys_of(at, tmp_path, "site")
    assert isinstance(await greeted(at, keys, "site", hello("m5")), protocol.Welcome)


async def test_another_disk_under_a_known_name_is_refused_until_the_machine_is_given_up(
    at: SubGridSite, tmp_path: Path
) -> None:
    # In touch under another identity.
    refused = await greeted(at, keys_of(at, tmp_path, "member", machine=MEMBER), "member", hello(MEMBER))
    assert isinstance(refused, protocol.Refused) and "diana site remove-machine m1" in refused.reason
    # Away; the journal knows it, then an operator gives it up.
    keys = keys_of(at, tmp_path, "member", machine="m9")
    at.lrm.inner._known_as = {"m9": "another"}.get
    refused = await greeted(at, keys, "member", hello("m9"))
    assert isinstance(refused, protocol.Refused) and "diana site remove-machine m9" in refused.reason
    at.lrm.inner._known_as = lambda _: ""
    assert isinstance(await greeted(at, keys, "member", hello("m9")), protocol.Welcome)


async def test_the_name_of_the_leading_machine_is_taken(at: SubGridSite, tmp_path: Path) -> None:
    refused = await greeted(at, keys_of(at, tmp_path, "member", machine="main"), "member", hello("main"))
    assert isinstance(refused, protocol.Refused) and "join it under another name" in refused.reason


async def test_a_superseded_leader_gives_no_orders_and_the_machine_remembers_after_a_restart(at: SubGridSite) -> None:
    at.term = 5
    await at.restart_node()
    assert at.node.member.term == 5
    at.term = 4
    readies = at.readies()
    with pytest.raises(AssertionError):
        await at.restart_node_within(1.5)
    assert at.readies() == readies
    at.term = 5
    await at.restart_member()
    assert at.node.member.term == 5


async def test_a_leader_that_hears_of_a_higher_term_refuses(at: SubGridSite, tmp_path: Path) -> None:
    refused = await greeted(at, keys_of(at, tmp_path, "member"), "member", hello(term=1))
    assert isinstance(refused, protocol.Refused) and "somebody else leads the site" in refused.reason


async def test_an_order_of_another_term_is_not_run_and_the_machine_is_greeted_anew(
    at: SubGridSite, tmp_path: Path
) -> None:
    at.term = 3
    await at.restart_node()
    before = at.readies()
    at.start(shell(f"touch {tmp_path / 'ran'}"), 0)
    await at.until(lambda: at.readies() > before)
    assert at.ready().known == ()
    at.term_of_orders = 3
    at.start(shell("true"), 1)
    await at.ended(1)
    assert {end.run.index for end in at.ends()} == {1} and not (tmp_path / "ran").exists()


def test_a_machine_may_read_what_its_orders_name_and_nothing_else() -> None:
    grants, subgroup = Grants(), SubgroupId("alpha-1/0")
    other = hashlib.sha256(b"y").hexdigest()
    grants.give(subgroup, [DataFile("dataset:parts/a", 3, SHA), DataFile("dataset:all", 9, other)])
    assert grants.allow(parse_ref("dataset:parts/a"), SHA)
    assert grants.allow(parse_ref("dataset:all/any/file"), "")
    assert grants.allow(parse_ref(f"manifest:{other}"), "")
    for ref, sha256 in (
        ("dataset:parts/a", ""),
        ("dataset:parts/b", other[::-1]),
        ("dataset:all@2/x", ""),
        (f"blob:{other[::-1]}", ""),
        (f"output:{SUBGROUP}/1/x", SHA),
        ("log:alpha-1/0-1.log", SHA),
    ):
        assert not grants.allow(parse_ref(ref), sha256), ref
    grants.drop(subgroup)
    assert not grants.allow(parse_ref("dataset:parts/a"), SHA)


async def test_what_a_machine_brings_of_jobs_that_are_with_another_is_not_kept(
    at: SubGridSite,
) -> None:
    """It could write over the outputs and the log of the machine that has them."""
    asked: list[Any] = []

    def elsewhere(*about: Any) -> bool:
        asked.append(about)
        return about[3] == [0]

    at.lrm.inner.elsewhere = elsewhere
    job = shell("echo forged; echo x > out.{index}", outputs=Outputs(collect=("out.{index}",)))
    at.start(job, 0)
    await at.ended(1)
    assert asked[0][:2] == (MEMBER, SUBGROUP) and list(asked[0][3]) == [0]
    assert not at.data.collected(SUBGROUP, 1).exists()
    assert not any(path.is_file() for path in at.data.logs_root.rglob(f"*{MEMBER}*"))
    at.start(job, 1)
    await at.ended(2)
    assert [path.name for path in at.data.collected(SUBGROUP, 1).iterdir()] == ["out.1"]


async def test_a_machine_holds_no_job_that_another_has(at: SubGridSite) -> None:
    """Its gang would be let go without the machine that has it."""
    at.lrm.inner.elsewhere = lambda *about: list(about[3]) == [0]
    link = at.lrm.inner._links[MEMBER]
    at.lrm.inner.on_held(link, [Run(SUBGROUP, 1, 0, 1)], 7)
    assert not at.at_barrier()
    at.lrm.inner.on_held(link, [Run(SUBGROUP, 1, 1, 1)], 70_000)
    (told,) = [event for event in at.events if isinstance(event, AtBarrier)]
    assert (at.at_barrier(), told.worker, told.port) == ({1}, MEMBER, 0)


async def test_who_tells_of_a_run_of_another_machine_takes_its_forgetting_from_nobody(at: SubGridSite) -> None:
    """The true end may wait to be made durable, or be still to come; else the machine kept the claim."""
    lrm, told = at.lrm.inner, dict[str, list[Run]]()
    for name in ("x1", "x2"):
        lrm._links[name] = SimpleNamespace(machine=name, forget=partial(told.setdefault(name, []).extend))
    run, has = Run(SUBGROUP, 1, 0, 1), "x1"
    lrm.elsewhere = lambda machine, *about: machine != has
    for true_first in (True, False):
        for name in ("x1", "x2") if true_first else ("x2", "x1"):
            lrm._note_told(lrm._links[name], [run])
        lrm.forget((run,), "x2")
        assert (told["x1"], told["x2"]) == ([], [run])
        lrm.forget((run,))
        assert (told["x1"], told["x2"]) == ([run], [run])
        told["x1"].clear(), told["x2"].clear()
    # Told before it was given to anybody.
    lrm.elsewhere = lambda machine, *about: False
    lrm._note_told(lrm._links["x2"], [run])
    lrm.elsewhere = lambda machine, *about: machine != has
    lrm._note_told(lrm._links["x1"], [run])
    lrm.forget((run,))
    assert (told["x1"], told["x2"]) == ([run], [])
    del lrm._links["x1"], lrm._links["x2"]


async def test_a_leader_of_another_term_lets_nothing_go_and_what_ended_waits_no_more(at: SubGridSite) -> None:
    at.start(shell("true"), 0, barrier_s=time.monotonic() + 60.0)
    await at.until(lambda: at.at_barrier() == {0})
    at.node.member.heard(protocol.LetGo(at.term + 1, SUBGROUP, 1, (0, 1), [], 1))
    at.start(shell("true"), 1)
    await at.ended(1)
    assert set(at.by_index()) == {1}
    at.go(0)
    await at.ended(2)
    at.events.clear()
    await at.restart_node()
    assert not at.at_barrier()


def test_an_inventory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_KNOWN", 8)
    part = protocol.Known(1, [Runs("alpha-1/0", 1, [0] * 5, [1] * 5)], last=False)
    hearing = service.SubGridService(Any, Any)  # type: ignore[arg-type]
    begun = hearing._take(Any, part, (protocol.Ready(1, 1, 1), []))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="more than 8 runs"):
        hearing._take(Any, part, begun)  # type: ignore[arg-type]


@pytest.mark.parametrize("says", ["inventories", "runs", "bytes"])
async def test_a_machine_that_talks_without_end_is_read_at_a_pace_also_when_it_dials_anew(
    at: SubGridSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, says: str
) -> None:
    """It costs this node the time of everybody else. The clock stands: what it may say is what a burst allows."""
    monkeypatch.setattr(service, "monotonic", lambda: 0.0)
    runs = [Runs("alpha-1/0", 1, [0] * 10_000, [1] * 10_000)]
    frame: list[Any] = {
        "inventories": [protocol.Ready(1, 1, 1), protocol.Known(1, [], last=True)],
        "runs": [protocol.HeldRuns(runs, 7)],
        "bytes": [protocol.LogShown(1, LiveLog(UNKNOWN, note="x" * (2 << 20)))],
    }[says]
    most = {"inventories": 98, "runs": 99, "bytes": 7}[says]
    data = subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(one) for one in frame]))
    took: list[str] = []
    take = service.SubGridService._take

    def taking(self: Any, link: Any, message: Any, inventory: Any) -> Any:
        if link.machine == "m9" and type(message) is type(frame[0]):
            took.append(link.machine)
        return take(self, link, message, inventory)

    monkeypatch.setattr(service.SubGridService, "_take", taking)
    keys = keys_of(at, tmp_path, "member")

    async def talk(frames: int) -> None:
        channel = open_channel(at.node.addresses()[0], "alpha", "vo", load_credentials(keys, "member"))
        try:
            call: Any = subgrid_pb2_grpc.SubGridStub(channel).Attach()  # type: ignore[no-untyped-call]
            await call.write(subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(hello())])))
            assert await call.read() is not grpc.aio.EOF
            for _ in range(frames):
                if "read more slowly" in caplog.text:
                    return
                await call.write(data)
            await at.until(lambda: "read more slowly" in caplog.text, 60.0)
        finally:
            await channel.close()

    with caplog.at_level(logging.WARNING, "diana.subgrid"):
        await talk(most + 2)
        assert most <= len(took) <= most + 2
        caplog.clear()
        # What it owes it owes still.
        await talk(1)
    assert "machine m9 says more than a machine has to say" in caplog.text
    # This machine is another's affair.
    assert at.lrm.inner.link(MEMBER, 1) is not None


async def test_ends_without_end_are_taken_at_a_pace(
    at: SubGridSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "monotonic", lambda: 0.0)
    channel = open_channel(
        at.node.addresses()[0], "alpha", "vo", load_credentials(keys_of(at, tmp_path, "member"), "member")
    )
    try:
        stub = subgrid_pb2_grpc.SubGridStub(channel)  # type: ignore[no-untyped-call]
        attached: Any = stub.Attach()
        await attached.write(subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(hello())])))
        welcome = protocol.from_root((await attached.read()).messages)[0]
        assert isinstance(welcome, protocol.Welcome)
        many = list(range(20_000))
        nothing = columns.never_ran(SiteId("alpha"), many, [1] * 20_000, [0] * 20_000, 0, [], 1.0)
        batch = protocol.encode_batch(protocol.DeliveredRuns(welcome.link, 1, "alpha-9/0", 1, nothing))
        delivering: Any = stub.Deliver()
        acks, most = 0, pacing.BURST_BYTES // len(batch) + 2
        with caplog.at_level(logging.WARNING, "diana.subgrid"):
            while "read more slowly" not in caplog.text and acks <= most:
                await delivering.write(subgrid_pb2.DeliverFrame(batch=batch))
                assert await delivering.read() is not grpc.aio.EOF
                acks += 1
                # The acknowledgement goes out before the wait.
                await asyncio.sleep(0.01)
        assert acks <= most
    finally:
        await channel.close()
