"""One test of so many is drawn by the seed of the run."""

from __future__ import annotations

from tests.conftest import drawn

NAMES = [f"tests/a/test_b.py::test_{n}" for n in range(500)]


def test_one_seed_draws_the_same_tests_and_about_one_of_five() -> None:
    some = drawn(NAMES, 5, "17")
    assert some == drawn(NAMES[::-1], 5, "17") and 60 <= len(some) <= 140
    assert some & set(NAMES[:250]) == drawn(NAMES[:250], 5, "17"), "also where others are left out"


def test_every_test_is_drawn_by_some_seed() -> None:
    assert set().union(*(drawn(NAMES, 5, str(seed)) for seed in range(60))) == set(NAMES)


def test_one_of_one_is_all() -> None:
    assert drawn(NAMES, 1, "17") == set(NAMES)
