"""PROMISES 5.12: calls per user and second are limited, with a hint when to try again; operators always get through."""

from __future__ import annotations

import pytest

from diana.errors import Overloaded
from diana.model.ids import GroupId
from diana.model.trust.principal import Principal, Role
from diana.model.views.datasets import Dataset
from diana.model.views.group import GroupStatus
from diana.node.api import service
from diana.node.ways_in import call_rates
from diana.node.ways_in.call_rates import ByteRates, CallRates, CallSpacing
from diana.wire.client.datasets import DatasetsResponse
from diana.wire.client.messages import StatusResponse

ANN = Principal(Role.USER, "ann@vo")
BOB = Principal(Role.USER, "bob@vo")


def test_a_burst_passes_and_what_goes_beyond_is_told_when_to_come_again() -> None:
    rates = CallRates(calls_per_s=10, burst=20)
    for _ in range(20):
        rates.take(ANN, 5.0)
    with pytest.raises(Overloaded, match="more than 10 calls per second") as refused:
        rates.take(ANN, 5.0)
    rates.take(ANN, 5.0 + refused.value.retry_after_s)


def test_one_user_s_flood_is_not_another_s() -> None:
    rates = CallRates(calls_per_s=1, burst=1)
    rates.take(ANN, 0.0)
    with pytest.raises(Overloaded):
        rates.take(ANN, 0.0)
    rates.take(BOB, 0.0)


def test_operators_are_not_limited() -> None:
    rates = CallRates(calls_per_s=1, burst=1)
    for _ in range(100):
        rates.take(Principal(Role.OPERATOR, "ann@vo"), 0.0)


def test_memory_is_bounded_whoever_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_rates, "MOST_USERS", 100)
    rates = CallRates()
    for number in range(1000):
        rates.take(Principal(Role.USER, f"u{number}@vo"), 0.001 * number)
    assert len(rates._left) <= 100


def test_uploads_are_slowed_to_the_rate_and_refused_far_beyond_it_while_others_go_on() -> None:
    rates = ByteRates(bytes_per_s=100, burst=1000)
    assert rates.take(ANN, 1000, 0.0) == 0.0
    assert rates.take(ANN, 100, 0.0) == pytest.approx(1.0)
    assert rates.take(ANN, 100, 2.0) == pytest.approx(0.0)
    assert rates.take(BOB, 1000, 2.0) == 0.0
    with pytest.raises(Overloaded, match="try again in") as refused:
        rates.take(ANN, 10_000, 2.0)
    assert refused.value.retry_after_s > 30
    assert rates.take(Principal(Role.OPERATOR, "op@vo"), 10**9, 2.0) == 0.0


def test_calls_that_come_at_once_begin_one_after_the_other_and_others_at_once() -> None:
    pace = CallSpacing(0.5, at_once=2)
    assert [pace.wait_s(ANN, 1.0) for _ in range(5)] == [0.0, 0.0, 0.5, 1.0, 1.5]
    assert pace.wait_s(BOB, 1.0) == 0.0
    assert [pace.wait_s(ANN, 3.5), pace.wait_s(ANN, 4.5)] == [0.0, 0.0]
    assert {pace.wait_s(Principal(Role.OPERATOR, "op@vo"), 1.0) for _ in range(9)} == {0.0}


def test_no_call_begins_later_than_the_most_however_many_come_and_memory_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_rates, "MOST_USERS", 100)
    pace = CallSpacing(0.5, most_s=2.0)
    assert max(pace.wait_s(ANN, 1.0) for _ in range(100)) == 2.0
    assert pace.wait_s(ANN, 4.0) == 0.0
    for number in range(1000):
        pace.wait_s(Principal(Role.USER, f"u{number}@vo"), 0.001 * number)
    assert len(pace._next_s) <= 100


def test_a_call_with_a_long_answer_costs_as_much_as_several_and_is_paid_back_before_the_next() -> None:
    rates = CallRates(calls_per_s=10, burst=20)
    rates.take(ANN, 0.0)
    rates.charge(ANN, 100.0)
    with pytest.raises(Overloaded) as refused:
        rates.take(ANN, 0.0)
    assert refused.value.retry_after_s == pytest.approx(2.1)
    rates.take(ANN, 2.2)
    rates.charge(BOB, 100.0)
    rates.take(BOB, 0.0)


def test_a_long_table_costs_as_several_calls_and_groups_more_than_other_rows() -> None:
    groups = StatusResponse(groups=tuple(GroupStatus(group=GroupId(f"alpha-{n}")) for n in range(16)))
    datasets = DatasetsResponse(datasets=(Dataset(name="tracks"),) * 40)
    assert service._calls(groups) == 2.0 == service._calls(datasets)
