"""`placement` says how a site places; a word that is none is one line, and with a baseline nothing migrates."""

from __future__ import annotations

import pytest

from diana.model.settings import Settings


def test_a_placement_nobody_knows_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"placement = 'best': want one of diana, random, round-robin, fastest"):
        Settings(placement="best")  # type: ignore[arg-type]


def test_work_migrates_only_where_groups_are_planned() -> None:
    assert Settings().migrates()
    assert not Settings(migration="off").migrates()
    assert not Settings(placement="greedy").migrates()


def test_a_binding_nobody_knows_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"binding = 'never': want late or early"):
        Settings(binding="never")  # type: ignore[arg-type]
