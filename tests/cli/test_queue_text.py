"""`diana queue` and the waiting part of `diana explain`, as people read them."""

from __future__ import annotations

import msgspec
import pytest

from diana.cli.groups.look import _status_row
from diana.cli.groups.queue import littles_line, predictions_line, show_plainly, show_queue, show_waiting, waiting_lines
from diana.model.views.group import GroupStatus
from diana.model.views.queue import LittlesCheck, QueueClass, QueueUser, QueueView, Waiting

ROW = QueueClass(
    user="bob@vo", processors=1, queue="global", level="Q3", priority=-0.15, base=-0.4, ageing=0.25, allowance=6.0,
    n=10, jobs=10, ready=9, parts=("alpha-3/0",), low_s=30.0, high_s=120.0,
)  # fmt: skip
QUEUE = QueueView(
    site="alpha", mode="paper", slots=4, running=4, claimed=2, queued=10, total_processors=10, total_quota=1.0,
    classes=(ROW,), users=(QueueUser(user="bob@vo", quota=1.0, queued=10, running=4, queued_share=1.0,
    quota_share=1.0, served_share=0.25),), error_low=0.5, error_high=2.0,
    littles=LittlesCheck(window_s=600.0, mean_queued=3.0, arrivals_per_s=0.5, mean_wait_s=6.0, deviation=0.0,
    arrived=300, left=300),
)  # fmt: skip
WAITS = Waiting(
    site="alpha", jobs=10, part="alpha-3/0", user="bob@vo", processors=1, queue="global", level="Q3", priority=-0.4,
    base=-0.4, n=10, allowance=6.0, demand=10.0, quota=1.0, total_quota=2.0, ready=10, rises_to="Q2",
    rises_after_s=3600.0, rises_at_n=6.0, low_s=30.0, high_s=120.0,
)  # fmt: skip


def changed(**values: object) -> list[str]:
    return waiting_lines(msgspec.structs.replace(WAITS, **values))


def test_the_queue_is_shown_level_by_level(capsys: pytest.CaptureFixture[str]) -> None:
    show_queue(QUEUE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "alpha, paper mode: 10 jobs queued, 4 running in 4 slots, 2 claimed"
    assert lines[1] == "what is queued wants T = 10 processors; the quotas of its users make Q = 1"
    levels = [line for line in lines if line.startswith("Q")]
    assert levels == [
        "Q1 [0.5, 1): 0 jobs", "Q2 [0, 0.5): 0 jobs", "Q3 [-0.5, 0): 10 jobs", "Q4 [-1, -0.5): 0 jobs",
    ]  # fmt: skip
    row = next(line for line in lines if "alpha-3/0" in line)
    assert row.split() == [
        "-0.150", "bob@vo", "1", "global", "10", "9", "10", "6", "-0.400", "ageing", "+0.25", "30.0", "s", "to",
        "2m00s", "alpha-3/0",
    ]  # fmt: skip
    assert "bob@vo      1      10        4        100.0%          100.0%         25.0%" in lines


def test_plainly_told_the_queue_has_no_numbers_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    show_plainly(QUEUE)
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "alpha: 4 running in 4 slots, 2 claimed, 10 jobs wait"
    row = next(line for line in said.splitlines() if "alpha-3" in line)
    assert row.split() == [
        "later",
        "10",
        "bob@vo",
        "1",
        "30.0",
        "s",
        "to",
        "2m00s",
        "1",
        "not",
        "ready",
        "to",
        "start,",
        "waited",
        "long",
        "alpha-3",
    ]
    assert not {"Q3", "-0.150", "Pr", "Little's"} & set(said.split())
    show_plainly(QueueView(site="alpha", slots=2, running=1))
    assert capsys.readouterr().out == "alpha: 1 running in 2 slots, nothing waits\n"


def test_littles_law_and_the_basis_of_predictions_are_one_line_each() -> None:
    assert littles_line(QUEUE.littles) == (
        "Little's law over 10m00s: N = 3 jobs, R W = 0.5/s x 6.0 s = 3, deviation +0 (300 came, 300 left)"
    )
    assert predictions_line(QUEUE) == "starts are guesses, 0.5 to 2 times what the work ahead takes"
    learned = QueueView(site="alpha", error_low=0.8, error_high=1.25, predictions=57)
    assert predictions_line(learned) == "starts: past waits were 0.8 to 1.2 times what was predicted (57 compared)"


def test_explain_says_where_why_and_what_would_raise_it() -> None:
    assert waiting_lines(WAITS) == [
        "10 jobs wait at alpha in Q3 (global), priority -0.400; starts in 30.0 s to 2m00s (a guess)",
        "  n = 10 queued by bob@vo is above N = 6 (quota 1 of 2): Pr -0.400",
        "  rises to Q2 after 1h00m more of waiting or when bob@vo's n falls to 6 (N = 6)",
    ]


def test_ageing_demotion_and_past_service_are_named() -> None:
    added = {"ageing": 0.25, "demoted": True, "job_threshold": 1000, "demand": 14.5}
    lines = changed(**added, note="its inputs are on their way", low_s=-1.0, high_s=-1.0)
    assert lines[0] == "10 jobs wait at alpha in Q3 (global), priority -0.400"
    assert lines[1] == "  does not start yet: its inputs are on their way"
    assert lines[2] == (
        "  n = 10 queued by bob@vo, which counts as 14.5 with the service had, is above N = 6 (quota 1 of 2):"
        " Pr -0.400; ageing +0.25, demoted by half: beyond job_threshold 1,000"
    )


def test_what_nothing_raises_and_what_stands_highest_is_said() -> None:
    assert "only as others' work leaves or comes" in changed(rises_after_s=-1.0, rises_at_n=-1.0)[-1]
    assert "the highest level" in changed(rises_to="", level="Q1")[-1]


def test_jobs_of_which_only_the_reason_is_known_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    away = Waiting(site="beta", jobs=3, note="beta does not answer just now")
    show_waiting([away, Waiting(site="", jobs=1, note="not placed yet")])
    shown = capsys.readouterr().out
    assert shown == "\n3 jobs wait at beta: beta does not answer just now\n\n1 job waits: not placed yet\n"
    assert waiting_lines(Waiting(site="", jobs=2, note="wait for their turn at beta")) == [
        "2 jobs wait for their turn at beta"
    ]


def test_status_has_a_column_for_the_level() -> None:
    assert "Q2 0.459" in _status_row(GroupStatus(group="alpha-1", jobs=2, level="Q2", priority=0.4586466), gangs=False)
    assert _status_row(GroupStatus(group="alpha-1", jobs=2), gangs=False)[4] == "-"
