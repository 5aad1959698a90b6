"""A machine of a site is given no job that asks for what it does not offer: an older one would run it without."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from diana.adapters.lrm.software import Software, here
from diana.adapters.lrm.spawner import protocol as spawner
from diana.adapters.subgrid import protocol
from diana.engine.journal.events import LrmReady
from diana.model.facts import Outcome
from diana.model.job.declared import MOST_AMOUNT, MOST_DECLARED
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND, SPARES
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.subgrid_builders import SubGridSite

READY = GroupSpec(argv=("/bin/sh", "-c", 'test "$GREETING" = hello'), modules=("greeter",))


def offered(site: SubGridSite) -> tuple[str, ...] | None:
    """The engine's last news of the machine."""
    return [event for event in site.events if isinstance(event, LrmReady)][-1].software


async def test_a_member_runs_what_it_offers_and_is_not_given_the_rest(tmp_path: Path) -> None:
    site = SubGridSite(tmp_path)
    await site.up()
    try:
        site.start(READY, 0)
        (refused,) = await site.ended(1)
        assert refused.outcome is Outcome.NOT_STARTED
        assert refused.error == "alpha-1.0 at site alpha: machine m1 has no module greeter"
        told = site.readies()
        assert set(offered(site) or ()) == {here(), BARRIER, CHECKPOINT, SPARES, FOUND}
        site.node.member.offer(Software(modules={"greeter": "export GREETING=hello"}))
        await site.until(lambda: site.readies() > told)
        assert set(offered(site) or ()) == {"module greeter", here(), BARRIER, CHECKPOINT, SPARES, FOUND}
        site.start(READY, 1)
        await site.ended(2)
        assert site.by_index()[1].outcome is Outcome.DONE
    finally:
        await site.down()


async def test_a_machine_that_cannot_hold_jobs_is_given_none_that_wait_for_others(tmp_path: Path) -> None:
    """One of an older release would begin them at once."""
    site = SubGridSite(tmp_path)
    await site.up()
    try:
        link = site.lrm.inner._links["m1"]
        link.offer = link.offer._replace(capabilities=())
        site.start(GroupSpec(argv=("/bin/true",)), 0, barrier_s=time.monotonic() + 60.0)
        (refused,) = await site.ended(1)
        assert refused.outcome is Outcome.NOT_STARTED
        assert refused.error.endswith("machine m1 cannot hold jobs until others start with them")
    finally:
        await site.down()


def test_an_order_of_an_older_release_waits_for_nobody() -> None:
    words = ["Order", 1, 0, "alpha-1/0", 1, "u@vo", [0, 1], [], [], ""]
    (order,) = protocol.from_root(msgspec.msgpack.encode([words]))
    assert isinstance(order, protocol.Order) and order.hold_s < 0


async def test_a_member_tells_its_gpus_and_is_not_given_jobs_that_want_more(tmp_path: Path) -> None:
    site = SubGridSite(tmp_path)
    site.config = msgspec.structs.replace(site.config, gpus=("3",))
    await site.up()
    try:
        ready = [event for event in site.events if isinstance(event, LrmReady)][-1]
        assert (ready.gpus, ready.all_gpus) == (1, 1)
        site.start(GroupSpec(argv=("/bin/sh", "-c", 'test "$DIANA_GPUS" = 3'), resources=Resources(gpus=1)), 0)
        await site.ended(1)
        assert site.by_index()[0].outcome is Outcome.DONE
        site.start(GroupSpec(argv=("/bin/true",), resources=Resources(gpus=2)), 1)
        await site.ended(2)
        refused = site.by_index()[1]
        assert refused.outcome is Outcome.NOT_STARTED
        assert refused.error == "alpha-1.1 at site alpha: machine m1 has 1 GPU for one job, a job needs 2"
    finally:
        await site.down()


def test_a_member_and_a_spawner_of_an_older_release_have_no_gpus() -> None:
    """An older machine's message is shorter."""
    (ready,) = protocol.from_member(msgspec.msgpack.encode([["Ready", 1, 4, 0, [], ["containers"]]]))
    assert isinstance(ready, protocol.Ready) and ready.gpus == 0
    welcome = spawner.decode(msgspec.msgpack.encode(["Welcome", 1, 4, [], True]))
    assert isinstance(welcome, spawner.Welcome) and not welcome.hands_out


async def test_the_root_hears_what_a_members_operator_declared_and_gives_it_no_job_that_asks_for_more(
    tmp_path: Path,
) -> None:
    site = SubGridSite(tmp_path)
    site.config = msgspec.structs.replace(site.config, resources={"tape": 1, "fpga": 2, "idle": 0})
    await site.up()
    try:
        told = [event for event in site.events if isinstance(event, LrmReady)][-1]
        assert told.resources == (("fpga", 2), ("tape", 1))
        site.start(GroupSpec(argv=("/bin/true",), resources=Resources(others=(("fpga", 3),))), 0)
        (refused,) = await site.ended(1)
        assert refused.outcome is Outcome.NOT_STARTED
        assert refused.error.endswith("machine m1 has 2 of the 3 fpga a job needs")
        site.start(GroupSpec(argv=("/bin/true",), resources=Resources(others=(("fpga", 2), ("tape", 1)))), 1)
        await site.ended(2)
        assert site.by_index()[1].outcome is Outcome.DONE
        # Whatever else it tells.
        nonsense = [("fpga", 2**62), ("tape", -1), ("No name", 1), ("gpus", 4), *((f"r{n}", 1) for n in range(1000))]
        lrm = site.lrm.inner
        lrm.on_ready(lrm._links["m1"], protocol.Ready(2, 2, 1, resources=nonsense), [])
        told = [event for event in site.events if isinstance(event, LrmReady)][-1]
        assert dict(told.resources)["fpga"] == MOST_AMOUNT and len(told.resources) == MOST_DECLARED
        assert {name for name, _ in told.resources} <= {"fpga", *(f"r{n}" for n in range(MOST_DECLARED))}
    finally:
        await site.down()


def test_a_member_of_an_older_release_has_nothing_declared_and_an_older_root_passes_over_what_one_tells() -> None:
    class OldReady(msgspec.Struct, array_like=True, tag="Ready"):
        session: int
        slots: int
        memory_bytes: int

    ready = protocol.Ready(1, 2, 3, resources=[("fpga", 2)])
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(ready), type=OldReady)
    assert (old.session, old.slots, old.memory_bytes) == (1, 2, 3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=protocol.Ready).resources == []
