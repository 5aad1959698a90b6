"""The word on who computes, written where a component of a gang with spares reads it (SPEC G6)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diana import report
from diana.adapters.lrm import rosters
from diana.adapters.lrm.spawner import steps
from diana.model.job.gang import roster_text


def test_a_roster_is_put_in_place_whole_and_the_later_one_stands(tmp_path: Path) -> None:
    path = tmp_path / "roster"
    for number, active in ((1, (0, 3, 2)), (2, (0, 1, 2))):
        rosters.write([str(path)], roster_text(number, active))
    assert path.read_text() == "2 0,1,2\n" and os.listdir(tmp_path) == ["roster"]


def test_no_link_of_a_component_is_followed_and_the_others_are_told_though_one_cannot_be(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("as it was")
    (tmp_path / "a.new").symlink_to(theirs)
    (tmp_path / "b").symlink_to(theirs)
    (tmp_path / "c").mkdir()
    paths = [str(tmp_path / name) for name in ("c", "gone/d", "a", "b")]
    rosters.write(paths, "1 0\n")
    assert theirs.read_text() == "as it was"
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["1 0\n"] * 2


def test_what_a_component_reports_is_what_the_spawner_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIANA_REPORT", str(tmp_path / "told"))
    assert report(3, 10, own_s=0.25, roster=2)
    found = steps.read(str(tmp_path / "told"), b"")
    assert found is not None and found[1][1:] == (3.0, 10.0) and steps.own(found[0]) == (0.25, 2)
    assert report(4, 10)
    found = steps.read(str(tmp_path / "told"), found[0])
    assert found is not None and found[1][1:] == (4.0, 10.0) and steps.own(found[0]) == (0.0, 0)


@pytest.mark.parametrize("text", [b"", b"1/2 x y", b"1/2 0.1", b"1/2 0.1 1 9", b"1/2 0.1 1.5"])
def test_nonsense_about_its_own_seconds_is_none(text: bytes) -> None:
    assert steps.own(text) == (0.0, 0)
