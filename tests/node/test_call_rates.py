"""PROMISES 5.12: calls per user and second are limited, with a hint when to try again; operators always get through."""

from __future__ import annotations

import pytest

from diana.errors import Overloaded
from diana.model.principal import Principal, Role
from diana.node import call_rates
from diana.node.call_rates import CallRates

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
