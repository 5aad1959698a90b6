"""SPEC D10, links: forecasts by the predictor that was wrong least, as the Network Weather Service made them."""

from __future__ import annotations

import random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.links.forecast import FADE, LONGEST, PREDICTORS, Forecast, Forecaster

VALUES = st.lists(st.floats(1e-4, 1e9), min_size=1, max_size=120)


def forecast(samples: list[float]) -> Forecast:
    found = Forecaster(samples).forecast()
    assert found is not None
    return found


def test_nothing_measured_is_no_forecast() -> None:
    assert Forecaster().forecast() is None
    assert Forecaster().opinions() == {}


def test_one_sample_is_its_own_forecast_of_unknown_error() -> None:
    assert forecast([7.0]) == Forecast(7.0, -1.0, PREDICTORS[0], 1)
    assert forecast([7.0]).relative_error == -1.0


@given(st.floats(1e-6, 1e12), st.integers(2, 200))
def test_a_constant_series_is_forecast_exactly(value: float, count: int) -> None:
    found = forecast([value] * count)
    assert (found.value, found.error, found.relative_error) == (value, 0.0, 0.0)


@given(VALUES)
def test_a_forecast_lies_within_what_was_measured(samples: list[float]) -> None:
    found = forecast(samples)
    assert min(samples) * (1 - 1e-9) <= found.value <= max(samples) * (1 + 1e-9)
    assert found.samples == len(samples)


@given(VALUES.filter(lambda v: len(v) > 1))
def test_whoever_speaks_was_wrong_least(samples: list[float]) -> None:
    found, family = forecast(samples), Forecaster(samples).opinions()
    assert tuple(family) == PREDICTORS
    assert found.error == min(error for _, error in family.values()) >= 0
    assert found.value == family[found.predictor][0]


@given(VALUES.filter(lambda v: len(v) > 1))
def test_the_error_is_the_faded_mean_of_what_the_predictor_missed(samples: list[float]) -> None:
    found = forecast(samples)
    missed = [
        abs(value - Forecaster(samples[:n]).opinions()[found.predictor][0]) for n, value in enumerate(samples) if n
    ]
    weights = [FADE ** (len(missed) - 1 - n) for n in range(len(missed))]
    expected = sum(w * m for w, m in zip(weights, missed, strict=True)) / sum(weights)
    assert found.error == pytest.approx(expected, rel=1e-6, abs=1e-9 * max(samples))


def series(kind: str, seed: int, count: int = 400) -> list[float]:
    rng, level, out = random.Random(f"{kind}{seed}"), 1000.0, []
    for n in range(count):
        level += rng.gauss(0, 10)
        made = {
            "steady": rng.gauss(100, 5),
            "walk": level,
            "spikes": 100.0 if rng.random() > 0.1 else 1000.0,
            "saw": 100.0 + 10 * (n % 7),
            "steps": rng.gauss(100 if n // 50 % 2 else 30, 3),
        }
        out.append(max(0.001, made[kind]))
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["steady", "walk", "spikes", "saw", "steps"])
def test_the_choice_costs_little_against_the_best_single_member_known_afterwards(kind: str, seed: int) -> None:
    """Nobody knows in advance which member suits a series; to choose as one goes costs under a tenth."""
    samples = series(kind, seed)
    chosen: list[float] = []
    single: dict[str, list[float]] = {name: [] for name in PREDICTORS}
    forecaster = Forecaster(samples[:1])
    for value in samples[1:]:
        found = forecaster.forecast()
        assert found is not None
        chosen.append(abs(value - found.value))
        for name, (told, _) in forecaster.opinions().items():
            single[name].append(abs(value - told))
        forecaster.add(value)
    assert mean(chosen) <= 1.1 * min(map(mean, single.values()))


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_step_is_followed_within_a_few_samples(before: float, after: float) -> None:
    found = forecast([before] * 64 + [after] * 8)
    assert found.value == pytest.approx(after, rel=0.01)


def test_single_outliers_do_not_throw_the_forecast() -> None:
    samples = [100.0, 101.0, 99.0, 100.0, 100.5] * 8
    for at in (7, 19, 30):
        samples[at] = 1e6
    found = forecast([*samples, 1e6])
    assert found.value == pytest.approx(100, rel=0.02)
    assert found.predictor.startswith("median")


def test_what_is_remembered_does_not_grow_with_the_samples() -> None:
    forecaster = Forecaster()
    rng = random.Random(1)
    for _ in range(5000):
        forecaster.add(rng.random())
    assert forecaster._seen is not None and len(forecaster._seen.latest) == LONGEST
    assert forecaster.samples == 5000
