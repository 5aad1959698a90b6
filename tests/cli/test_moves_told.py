"""`diana explain` tells the moves of a group in a line per destination and wave, however many there were."""

from __future__ import annotations

import pytest

from diana.cli.groups.decisions import show_moves
from diana.wire.client.decisions import Decision, PlannedPart


def move(site: str, jobs: int, at_s: float, why: str = "beta has work that waits (2 jobs/s come)") -> Decision:
    part = PlannedPart(site=site, jobs=jobs)
    return Decision(reason=f"whole at {site}", moved=f"{site}: {why}", parts=(part,), decided_at_s=at_s)


def test_moves_of_one_wave_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_moves([move("gamma", 3, 5.0), move("gamma", 4, 10.0), move("delta", 1, 10.0), move("gamma", 2, 60.0)])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "moves (their cost tables: --json):",
        "7 jobs in 2 moves to gamma: beta has work that waits (2 jobs/s come)",
        "1 job to delta: beta has work that waits (2 jobs/s come)",
        "2 jobs to gamma: beta has work that waits (2 jobs/s come)",
    ]


def test_without_moves_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_moves([])
    assert capsys.readouterr().out == ""
