"""The queue before the engine: bounded for strangers, and never in the way of a stop."""

from __future__ import annotations

import asyncio
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.messages.recovery import Holding, Holdings
from diana.errors import Overloaded
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal, Role
from diana.node.loop.intake import LIMIT_EVENTS, OWN_TURN, Intake, size_of
from tests.engine.gossiping import entry


@pytest.mark.parametrize("rounds", range(6))
async def test_a_stop_that_meets_an_event_is_not_lost(rounds: int) -> None:
    intake = Intake()
    waiting = asyncio.create_task(_for_ever(intake))
    await asyncio.sleep(0.01)
    intake.push(ev.Tick())
    for _ in range(rounds):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=60)
    assert waiting.cancelled()


async def _for_ever(intake: Intake) -> None:
    while True:
        await intake.wait(5.0)
        intake.take(10)


async def test_a_wait_ends_when_its_time_is_over() -> None:
    await asyncio.wait_for(Intake().wait(0.01), 60)


async def test_a_full_queue_refuses_peers_but_takes_what_this_node_owes_itself() -> None:
    intake = Intake(limit_bytes=10_000)
    message = ev.Received(SiteId("beta"), ms.Abort(subgroup="alpha-1/0", epoch=1))  # type: ignore[arg-type]
    with pytest.raises(Overloaded):
        for _ in range(100):
            intake.put(message)
    held = len(intake)
    intake.push(ev.Tick())
    assert len(intake) == held + 1
    assert len(intake.take(1000)) == held + 1 and len(intake) == 0
    intake.put(message)


def _from(site: str, epoch: int = 1) -> ev.Received:
    return ev.Received(SiteId(site), ms.Abort(subgroup=SubgroupId("alpha-1/0"), epoch=epoch))


def test_a_peer_that_floods_waits_behind_itself_and_is_told_to_come_again() -> None:
    intake = Intake()
    with pytest.raises(Overloaded, match="site beta sends faster") as refused:
        for _ in range(LIMIT_EVENTS):
            intake.put(_from("beta"))
    assert refused.value.retry_after_s > 0 and len(intake) < LIMIT_EVENTS / 2
    intake.put(_from("gamma"))
    intake.push(ev.Tick())
    first = intake.take(3)
    assert {getattr(event, "sender", "own") for event in first} == {"beta", "gamma", "own"}


@given(
    st.lists(st.tuples(st.sampled_from(["beta", "gamma", "delta"]), st.integers(1, 9)), max_size=60), st.integers(1, 9)
)
def test_every_sender_is_heard_in_its_own_order_and_nobody_waits_for_more_than_one_of_each(
    sent: list[tuple[str, int]], most: int
) -> None:
    intake = Intake()
    for site, epoch in sent:
        intake.put(_from(site, epoch))
    heard: list[tuple[str, int]] = []
    while len(intake):
        some = intake.take(most)
        assert 0 < len(some) <= most
        heard += [(event.sender, event.message.epoch) for event in some]  # type: ignore[union-attr]
    for site in ("beta", "gamma", "delta"):
        assert [one for one in heard if one[0] == site] == [one for one in sent if one[0] == site]
    places = [at for at, (site, _) in enumerate(heard) if site == "delta"]
    assert all(later - sooner <= 3 for sooner, later in pairwise(places))


BOB = Principal(Role.USER, "bob@vo")


def test_a_user_waits_for_one_turn_of_all_the_peers_and_machines_that_send() -> None:
    intake = Intake()
    for n in range(30):
        intake.put(_from(f"site{n}"))
        intake.push(ev.LrmLost(worker=f"m{n}"))
    assert intake.take(1)
    for request in (1, 2):
        intake.put(ev.Ask(request=request, principal=BOB, what="groups"))
    asked = [isinstance(event, ev.Ask) for event in intake.take(61)]
    assert [at for at, one in enumerate(asked) if one] == [0, 2]
    assert len(asked) == 61 and not len(intake)


def test_what_a_machine_says_waits_behind_itself_and_not_before_the_nodes_own() -> None:
    intake = Intake()
    for _ in range(1000):
        intake.push(ev.LrmLost(worker="m1"))
    intake.push(ev.LrmLost(worker="m2"))
    intake.push(ev.Tick())
    first = intake.take(OWN_TURN + 2)
    assert first[-2:] == [ev.LrmLost(worker="m2"), ev.Tick()]


PART = SubgroupId("alpha-1/0")
SPARSE = IndexSet.of(range(0, 20_000, 2))
LARGE: list[tuple[ms.Message, int]] = [
    (ms.Gossip(entries=(entry("far"),) * 500, ages_s=(0.0,) * 500), 300_000),
    (ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=("dataset:d/f" * 10,) * 9000), 1_000_000),
    (ms.Control(subgroup=PART, epoch=1, control_seq=1, cancel=SPARSE, hold=SPARSE), 600_000),
    (Holdings(db_uuid="d", seq=1, part=0, parts=1, rows=(Holding(subgroup=PART, epoch=1, open=SPARSE),)), 300_000),
]


@pytest.mark.parametrize(("message", "least"), LARGE, ids=lambda one: type(one).__name__)
def test_each_message_counts_by_what_it_holds(message: ms.Message, least: int) -> None:
    size = size_of(ev.Received(SiteId("beta"), message))
    assert least < size < 10 * least
    assert size_of(_from("beta")) < 1000


def test_a_turn_that_is_broken_off_is_over_and_nothing_of_it_is_lost() -> None:
    intake = Intake()
    for _ in range(5):
        intake.push(ev.Tick())
    intake.put(_from("beta"))
    with closing(intake.turn(10)) as events:
        assert isinstance(next(events), ev.Tick)
    assert len(intake) == 5
    order = [getattr(event, "sender", "own") for event in intake.take(10)]
    assert order == ["beta", "own", "own", "own", "own"]
