"""Tests of real processes that fail among others are judged alone, three times each, and few of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.again import run

SLOW, OTHER = "tests/real/test_a.py::test_slow", "tests/real/test_b.py::test_other[a b]"
WORDS = [
    "-n",
    "4",
    "--dist",
    "loadfile",
    "--timeout",
    "400",
    "-m",
    "not alone",
    "tests/real",
    "--lf",
    "--hypothesis-seed=7",
]


class Runs:
    """Plays pytest: the first run fails with the names given; alone a test ends with its list of codes, then well."""

    def __init__(self, failed: Sequence[str], alone: dict[str, list[int]] | None = None, first: int = 1) -> None:
        self.failed, self.alone, self.first = list(failed), alone or {}, first
        self.made: list[list[str]] = []

    def __call__(self, words: Sequence[str]) -> int:
        self.made.append(list(words))
        if len(self.made) == 1:
            return self.first
        codes = self.alone.get(words[-1], [])
        return codes.pop(0) if codes else 0

    def judge(self) -> int:
        return run(WORDS, self, lambda: self.failed)


def test_a_test_that_passes_three_times_alone_is_named_and_does_not_fail_the_run(capsys: pytest.CaptureFixture) -> None:
    runs = Runs([SLOW, OTHER])
    assert runs.judge() == 0
    alone = ["--timeout", "400", "-m", "not alone", "--hypothesis-seed=7", "-p", "no:cacheprovider"]
    assert runs.made == [WORDS, *[[*alone, SLOW]] * 3, *[[*alone, OTHER]] * 3]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("again: failed among others, passed 3 times alone") and SLOW in last and OTHER in last


@pytest.mark.parametrize("codes", [[1], [0, 1], [0, 0, 1], [0, 0, 2]])
def test_a_test_that_fails_once_more_fails_the_run(codes: list[int]) -> None:
    assert Runs([SLOW], {SLOW: list(codes)}).judge() == codes[-1]


@pytest.mark.parametrize(
    ("failed", "first", "why"),
    [
        ([f"tests/real/test_a.py::test_{n}" for n in range(6)], 1, "more fail than load can explain"),
        (["tests/real/test_a.py"], 1, "a file that cannot be read"),
        ([], 1, "a process that ended without a word"),
        ([SLOW], 2, "a run that was stopped"),
        ([SLOW], 4, "words that pytest does not know"),
    ],
)
def test_other_failures_are_final(failed: list[str], first: int, why: str) -> None:
    runs = Runs(failed, first=first)
    assert (runs.judge(), len(runs.made)) == (first, 1), why


def test_a_run_without_failures_is_one_run() -> None:
    runs = Runs([], first=0)
    assert (runs.judge(), len(runs.made)) == (0, 1)
