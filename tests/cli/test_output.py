"""Tables, bars and units."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from diana.cli.groups.decisions import show_decision
from diana.cli.groups.follow import exit_code, progress_line, result_line
from diana.cli.groups.look import guarded_line
from diana.cli.groups.results import _row
from diana.cli.groups.work import guessed_format
from diana.cli.shared import output
from diana.client.results import JobResult
from diana.model.views.group import GroupStatus, SiteShare
from diana.model.views.site import Guarded
from diana.wire.client.decisions import Decision, PlannedPart, SiteCost


@example(9_909, 10_091, 0)
@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_bar_keeps_its_width_and_is_full_only_at_the_end(done: int, failed: int, left: int) -> None:
    drawn = output.bar([(done, "#"), (failed, "x")], done + failed + left)
    assert len(drawn) == 20
    assert drawn.endswith(".") == (left > 0 or not done + failed)
    assert done == 0 or drawn.startswith("#")


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0, "0 s"),
        (0.0004, "0 s"),
        (0.25, "0.250 s"),
        (0.9996, "1.0 s"),
        (12.34, "12.3 s"),
        (59.96, "1m00s"),
        (185, "3m05s"),
        (7380, "2h03m"),
        (352800, "4d02h"),
        (-1, "-"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_seconds_read_naturally(value_s: float, text: str) -> None:
    assert output.seconds(value_s) == text


@pytest.mark.parametrize(
    ("low_s", "high_s", "text"),
    [
        (2, 9.1, "2.0-9.1 s"),
        (0, 5, "0-5.0 s"),
        (58.2, 125, "58.2 s to 2m05s"),
        (2.01, 2.02, ""),
        (0, 0, ""),
        (9, 2, ""),
    ],
)
def test_a_range_says_its_unit_once(low_s: float, high_s: float, text: str) -> None:
    assert output.between(low_s, high_s) == text


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"#!/bin/sh\ntrue\n", "script"), (b"\xef\xbb\xbf#!/bin/sh\r\n", "script"), (b"\r\n \n#!/bin/sh", "script"),
        (b' {"group": {}}', "json"), (b"[group]\nname = 'a: b'", "toml"),
        (b"# a: comment\n\n[[group]]", "toml"), (b'group.command = "x"', "toml"), (b"group:\n  command: x", "yaml"),
        (b"---\ngroup: {}", "yaml"), (b"# TOML?\n'group': {command: x}", "yaml"), (b"", "toml"),
    ],
)  # fmt: skip
def test_what_comes_by_standard_input_is_known_by_its_first_line(content: bytes, form: str) -> None:
    assert guessed_format(content) == form


@pytest.mark.parametrize(
    ("value_bytes", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e9, "2.0 GB"), (5e15, "5000.0 TB")]
)
def test_sizes_read_naturally(value_bytes: float, text: str) -> None:
    assert output.size(value_bytes) == text


def test_a_table_is_aligned_and_hides_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("NAME", ">JOBS"), [("a\033[2J", 1), ("longer-name", 1000)])
    assert capsys.readouterr().out.splitlines() == ["NAME         JOBS", "a?[2J           1", "longer-name  1000"]


def test_json_is_the_messages_own() -> None:
    from diana.model.views.group import GroupStatus

    assert set(GroupStatus.__struct_encode_fields__) >= {"bytesMoved", "lastEndS"}


def status(**values: object) -> GroupStatus:
    return GroupStatus(group="alpha-1", jobs=10, **values)  # type: ignore[arg-type]


def test_the_result_line_says_what_became_of_the_group() -> None:
    ended = status(state="failed", done=8, failed=2, last_end_s=12.5, shares=(SiteShare(site="beta", jobs=10),))
    line = "alpha-1: failed, 8 of 10 jobs done, 2 failed, in 12.5 s, at 1 site; why: diana logs --failed alpha-1"
    assert result_line(ended) == line
    assert result_line(ended, " --data /srv/alpha") == f"{line} --data /srv/alpha"
    assert exit_code(ended) == 1
    assert exit_code(status(state="done", done=10)) == 0


def test_the_result_line_of_a_gang_says_who_ended_with_whom_and_where_to_look() -> None:
    ended = status(state="failed", done=8, failed=1, cancelled=1, note="alpha-1.0 ended with its gang", gangs=5)
    line = "alpha-1: failed, 8 of 10 jobs done, 1 failed, 1 cancelled; alpha-1.0 ended with its gang"
    assert result_line(ended) == f"{line}; why: diana logs --failed alpha-1"


def test_a_site_with_several_parts_of_a_group_counts_once() -> None:
    parts = tuple(SiteShare(site=site, jobs=jobs) for site, jobs in (("alpha", 4), ("beta", 3), ("beta", 3), ("c", 0)))
    assert "at 2 sites" in result_line(status(state="done", done=10, shares=parts))


@pytest.mark.parametrize(("count", "text"), [(0, "0 slots"), (1, "1 slot"), (2, "2 slots"), (1200, "1,200 slots")])
def test_one_is_singular(count: int, text: str) -> None:
    assert output.counted(count, "slot") == text
    assert output.counted(count, "class", "classes") == text.replace("slots", "classes").replace("slot", "class")


def test_progress_shows_done_failed_and_what_goes_on() -> None:
    line = progress_line(status(state="running", done=5, failed=1, running=4))
    assert line == "alpha-1 running [##########xx........] 5/10 done, 1 failed, 4 running"


def test_a_decision_shows_its_reason_its_parts_and_who_was_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    show_decision(
        Decision(
            plan="split",
            reason="two sites end earlier than one",
            whole_s=20.0,
            split_s=11.0,
            candidates=(SiteCost(site="alpha", total_s=20.0, slots=4), SiteCost(site="gamma", rejected="needs 2 GPUs")),
            parts=(PlannedPart(site="alpha", jobs=5, predicted_end_s=11.0),),
        )
    )
    shown = capsys.readouterr().out
    assert shown.startswith("two sites end earlier than one\npredicted end: 11.0 s\n")
    assert "alpha     5" in shown and "not gamma: needs 2 GPUs" in shown


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            Guarded(group="alpha-4", stand="probation", since_wall_s=97.0, until_wall_s=105.0, why="of 9", lifts="one"),
            "guard: alpha-4 is on probation at beta for 3.0 s (of 9), tried again in 5.0 s; lifted by one",
        ),
        (
            Guarded(stand="barred", machine="m1", since_wall_s=40.0, why="of 9", lifts="mending"),
            "guard: groups that are new are barred at machine m1 of beta for 1m00s (of 9), not tried again by itself;"
            " lifted by mending",
        ),
    ],
)
def test_what_the_guard_holds_back_is_a_sentence(row: Guarded, line: str) -> None:
    assert guarded_line("beta", row, 100.0) == line


def test_what_never_began_shows_neither_exit_code_nor_times() -> None:
    row = {"job": "alpha-1.0", "index": 0, "site": "alpha", "attempt": 1, "cpu_s": 0.0, "max_rss_bytes": 0}

    def shown(outcome: str, exit_code: int, ended_s: float) -> tuple[object, ...]:
        told = JobResult(**row, outcome=outcome, exit_code=exit_code, started_s=5.0, ended_s=ended_s)  # type: ignore[arg-type]
        cells = _row(told)
        return cells[2], cells[5], cells[7]

    assert shown("cancelled", 0, 5.0) == ("-", "-", "-")
    assert shown("not_started", 127, 5.0) == (127, "-", "-")
    assert shown("cancelled", 143, 7.0)[:2] == (143, "2.0 s")
    assert shown("done", 0, 5.0)[0] == 0
