"""The pace of a peer: what is beyond it is read later, and the peer is told when."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from diana.adapters.grpc import pacing
from diana.adapters.grpc.pacing import Paces, PeerPace, Slack
from diana.adapters.subgrid.lrm import SILENT_S
from diana.engine.messages.messages import QueueReport, QueueRequest
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.wire.maxima import MAX_MESSAGE_BYTES
from tests.contract.transport_builders import GrpcNetwork

BETA = SiteId("beta")


def test_bytes_beyond_the_burst_are_read_at_the_rate() -> None:
    pace, now_s, read = PeerPace(0.0), 0.0, 0
    while now_s < 10.0:
        now_s += pace.charge(4 << 20, now_s)
        read += 4 << 20
    assert read <= pacing.BURST_BYTES + 10 * pacing.BYTES_PER_S + 2 * (4 << 20)


def test_messages_beyond_the_burst_are_read_at_the_rate_however_small() -> None:
    pace, now_s, read = PeerPace(0.0), 0.0, 0
    while now_s < 5.0:
        now_s += pace.charge(10, now_s)
        read += 1
    assert read <= pacing.BURST_MESSAGES + 5 * pacing.MESSAGES_PER_S + 2


def test_who_dials_anew_gets_no_new_room_and_who_owes_nothing_is_forgotten() -> None:
    paces: Paces[SiteId] = Paces()
    assert paces.of(BETA, 0.0).charge(64 << 20, 0.0) > 10.0
    for n in range(2 * pacing.MOST_KNOWN):
        paces.of(SiteId(f"s{n}"), 1.0)
    assert paces.of(BETA, 1.0).charge(1, 1.0) > 9.0
    assert len(paces._of) <= pacing.MOST_KNOWN + 1


def test_a_message_that_costs_as_much_as_many_is_charged_as_many() -> None:
    pace = PeerPace(0.0)
    assert pace.charge(10, 0.0, pacing.BURST_MESSAGES) == 0.0
    assert pace.charge(10, 0.0, pacing.MESSAGES_PER_S) == 1.0


def busy(slack: Slack, notes: int, idle: float = 0.0) -> None:
    for _ in range(notes):
        slack.asked()
        slack.note(idle)


def test_while_users_call_a_busy_node_the_pace_is_halved_down_to_a_part_that_stays() -> None:
    slack = Slack()
    busy(slack, 1)
    assert slack.part == 0.5
    busy(slack, 100)
    assert slack.part == pacing.LEAST_PART


def test_the_pace_grows_again_once_the_node_waits_or_nobody_calls_and_is_kept_in_between() -> None:
    slack = Slack()
    busy(slack, 100)
    busy(slack, 1, idle=(pacing.BUSY + pacing.EASY) / 2)
    assert slack.part == pacing.LEAST_PART
    busy(slack, 1, idle=0.9)
    assert slack.part == pacing.LEAST_PART * pacing.GROWTH
    for _ in range(100):
        slack.note(0.0)
    assert slack.part == 1.0


def test_what_is_beyond_the_burst_is_read_by_the_part_of_the_pace_and_a_burst_is_not() -> None:
    slack = Slack()
    paces: Paces[SiteId] = Paces(slack)
    busy(slack, 2)
    pace = paces.of(BETA, 0.0)
    assert pace.charge(pacing.BURST_BYTES, 0.0) == 0.0
    assert pace.charge(pacing.BYTES_PER_S, 0.0) == 4.0
    assert pace.owed_s(1.0) == 3.0
    slack.part = 1.0
    assert pace.owed_s(1.0) == 0.75


def at_least() -> Slack:
    slack = Slack()
    busy(slack, 100)
    return slack


def test_nobody_is_taken_for_silent_because_of_the_longest_message_there_is() -> None:
    pace = PeerPace(0.0, at_least())
    pace.charge(pacing.BURST_BYTES, 0.0)
    assert pace.charge(MAX_MESSAGE_BYTES, 0.0) < min(Settings().suspect_after_s, SILENT_S)
    # At the whole pace all of it is waited for.
    pace._slack.part = 1.0
    assert pace.charge(64 << 20, 0.0) > 10.0


async def test_one_message_is_waited_for_as_long_as_was_said_though_more_is_owed() -> None:
    now_s = 0.0

    async def passes(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    pace = PeerPace(0.0, at_least())
    pace.charge(pacing.BURST_BYTES, 0.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("diana.adapters.grpc.pacing.asyncio.sleep", passes)
        await pacing.wait(pace, pace.charge(MAX_MESSAGE_BYTES, 0.0), lambda: now_s)
    assert now_s == pytest.approx(pacing.LONGEST_S) and pace.owed_s(now_s) > 0


def test_what_is_asked_for_makes_room_up_to_the_burst() -> None:
    pace = PeerPace(0.0, at_least())
    pace.expect(5)
    assert pace.charge(10, 0.0, pacing.BURST_MESSAGES) == 0.0
    pace.expect(2)
    assert pace.charge(10, 0.0) == pace.charge(10, 0.0) == 0.0 < pace.charge(10, 0.0)


async def test_answers_to_what_users_have_asked_are_read_at_once_however_busy_the_node_is(tmp_path: Path) -> None:
    network, questions = GrpcNetwork(tmp_path), 400
    alpha = await network.add("alpha")
    beta = await network.add("beta", peers=("alpha",))
    await network.until(lambda: alpha.inbox.up() == ["beta"] and beta.inbox.up() == ["alpha"])
    pace = alpha.transport._paces.of(BETA, asyncio.get_running_loop().time())
    # What the stream says of itself is no answer.
    pace._slack, pace._messages = at_least(), 10.0
    for number in range(questions):
        alpha.transport.send(BETA, QueueRequest(query=number, whole=False, parts=()))
    await network.until(lambda: len(beta.inbox.received()) == questions)
    for number in range(questions):
        beta.transport.send(SiteId("alpha"), QueueReport(query=number, parts=()))
    await network.until(lambda: len(alpha.inbox.received()) == questions)
    assert alpha.transport.counters.slowed == 0
    for number in range(questions):
        beta.transport.send(SiteId("alpha"), QueueReport(query=number, parts=()))
    await network.until(lambda: alpha.transport.counters.slowed > 0)
    await network.close()
