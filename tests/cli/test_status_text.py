"""`diana status`: on terminals of eighty columns, of gangs, and watched."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from diana.cli.groups import control, look, work
from diana.cli.shared import output, parsing
from diana.model.views.decision import GangDecision
from diana.model.views.gang import GangWait
from diana.model.views.group import GroupStatus
from diana.wire.client.control import HoldResponse
from diana.wire.client.decisions import Decision
from diana.wire.client.messages import ExplainResponse, JobStory, StatusResponse, SubmitResponse, SubmittedGroup


class FakeNode:
    """Answers with its groups, and remembers which were asked for."""

    def __init__(self, *groups: GroupStatus) -> None:
        self.given = groups
        self.asked: list[list[str]] = []

    def groups(self, *, limit: int = 0, **options: Any) -> StatusResponse:
        shown = self.given[-limit:]
        return StatusResponse(groups=shown, left_out=len(self.given) - len(shown))

    def status(self, groups: list[str], **options: Any) -> tuple[GroupStatus, ...]:
        self.asked.append(groups)
        return self.given


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], node: FakeNode, *words: str, columns: int = 0
) -> str:
    """The output of the verb, once; `columns`: on a terminal of so many."""

    @contextmanager
    def client(args: argparse.Namespace) -> Iterator[FakeNode]:
        yield node

    class Enough(Exception):
        pass

    def sleep(for_s: float) -> None:
        raise Enough

    monkeypatch.setattr(look, "client", client)
    monkeypatch.setattr("time.sleep", sleep)
    if columns:
        monkeypatch.setattr(output, "on_terminal", lambda: True)
        monkeypatch.setattr("shutil.get_terminal_size", lambda *fallback: os.terminal_size((columns, 24)))
        monkeypatch.setenv("COLUMNS", str(columns))
    command = look.COMMANDS["status"]
    args = parsing.parse("status", "status", command, words)
    try:
        assert command.run(args) == 0
    except Enough:
        assert args.watch
    return capsys.readouterr().out


RUNNING = GroupStatus(
    group="alpha-112", name="histograms", state="running", jobs=20_000, done=1_999, failed=12, running=40,
    queued=17_949, level="Q2", priority=0.5, age_s=3700.0,
)  # fmt: skip


def test_eighty_columns_have_room_for_the_name_and_the_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(monkeypatch, capsys, FakeNode(RUNNING), columns=80).splitlines()
    assert lines[0].split() == ["GROUP", "NAME", "STATE", "JOBS", "PROGRESS", "DONE", "FAILED", "RUNNING"]
    assert "histograms" in lines[1] and "#x-....." in lines[1]
    assert lines[2] == "(no room for LEVEL, WAITING, AGE; --json has all)"


def test_sixty_groups_that_failed_with_a_reason_fit_a_terminal_the_newest_and_what_is_open_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = GroupStatus(group="", state="failed", jobs=1, failed=1, final=True, note="the merge command failed: " * 5)
    groups = [replace(failed, group=f"alpha-{number}") for number in range(1, 60)]
    waits = replace(RUNNING, group="alpha-60", state="waiting", note="waits for alpha-59")
    lines = said(monkeypatch, capsys, FakeNode(*groups, waits), columns=80).splitlines()
    # The line below them is the prompt's.
    assert len(lines) <= 23 and max(map(len, lines)) <= 80
    assert lines[1].startswith("alpha-60") and lines[2].startswith("alpha-59")
    assert "alpha-60: waits for alpha-59" in lines
    assert "and 44 older groups; diana status --limit 0 shows all" in lines
    assert lines[-1] == "and 13 more notes; diana status --limit 0 shows all"


def test_the_bar_makes_way_for_the_name_and_a_long_name_for_the_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(monkeypatch, capsys, FakeNode(RUNNING), columns=56).splitlines()
    assert lines[0].split() == ["GROUP", "NAME", "STATE", "JOBS", "DONE", "FAILED"]
    lines = said(monkeypatch, capsys, FakeNode(replace(RUNNING, name="n" * 60)), columns=80).splitlines()
    assert "nnnnnnnnnnnnnnnnnnnnn..." in lines[1] and "FAILED" in lines[0]
    # Where nobody looks on, it is whole.
    monkeypatch.setattr(output, "on_terminal", lambda: False)
    assert "n" * 60 in said(monkeypatch, capsys, FakeNode(replace(RUNNING, name="n" * 60)))


def test_gangs_have_a_column_that_leaves_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gang = GroupStatus(group="alpha-9", name="mpi", state="done", jobs=3, done=3, components=3, gangs=1)
    wide = said(monkeypatch, capsys, FakeNode(RUNNING, gang)).splitlines()
    assert "JOBS  GANGS" in wide[0] and "1 gang of 3: 1 over" in wide[1] and " 3  1 gang" in wide[1]
    assert "GANGS" not in said(monkeypatch, capsys, FakeNode(RUNNING))
    narrow = said(monkeypatch, capsys, FakeNode(RUNNING, gang), columns=80).splitlines()
    assert "NAME" in narrow[0] and "PROGRESS" in narrow[0] and "GANGS" not in narrow[0]


@pytest.mark.parametrize("words", [("--watch", "alpha-112"), ("alpha-112", "--watch"), ("alpha-112", "--watch", "1s")])
def test_a_group_may_stand_before_and_behind_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    node = FakeNode(RUNNING)
    assert "histograms" in said(monkeypatch, capsys, node, *words)
    assert node.asked == [["alpha-112"]]


def test_a_job_that_waits_is_explained_without_empty_lines_in_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from diana.model.views.queue import Waiting

    waits = Waiting(site="", jobs=176, note="wait for their turn at alpha")
    answer = ExplainResponse(job=JobStory(job="alpha-10.150", state="waiting"), waiting=(waits,))

    class Explains(FakeNode):
        def explain(self, group: str) -> ExplainResponse:
            return answer

    @contextmanager
    def client(args: argparse.Namespace) -> Iterator[FakeNode]:
        yield Explains()

    monkeypatch.setattr(look, "client", client)
    command = look.COMMANDS["explain"]
    assert command.run(parsing.parse("explain", "explain", command, ["alpha-10.150"])) == 0
    assert capsys.readouterr().out == "alpha-10.150 waits for a site\n\n176 jobs wait for their turn at alpha\n"


def test_of_many_gangs_the_latest_plan_is_shown_whole_with_the_way_to_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = tuple(Decision(reason=f"plan {at}", gang=GangDecision(policy="worst-fit")) for at in range(3))
    gangs = tuple(GangWait(gang=at, level="low") for at in range(20))

    class Explains(FakeNode):
        answer = ExplainResponse(decisions=plans, gangs=gangs)

        def explain(self, group: str) -> ExplainResponse:
            return self.answer

    node = Explains(GroupStatus(group="a-1", gangs=25, gangs_waiting=22))
    monkeypatch.setattr(look, "client", lambda args: nullcontext(node))
    command = look.COMMANDS["explain"]
    assert command.run(parsing.parse("explain", "explain", command, ["a-1"])) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "plan 2" and lines[lines.index("plan 0") - 1 :][:4] == [
        "earlier plans, of its other gangs too:",
        "plan 0",
        "plan 1",
        "the latest plan is shown whole; diana explain a-1.N: that of the gang of job N",
    ]
    assert lines[lines.index("its gangs that have not begun:") + 21] == "and 2 more gangs"
    node.answer = ExplainResponse(decisions=plans[:1], gangs=gangs[:1], job=JobStory(job="a-1.0", state="waiting"))
    assert command.run(parsing.parse("explain", "explain", command, ["a-1.0"])) == 0
    said = capsys.readouterr().out
    assert "its gang has not begun:\ngang 0: no place yet" in said and "more" not in said and "latest" not in said


def test_a_component_whose_gang_has_not_begun_is_in_no_queue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = JobStory(job="a-1.2", state="queued", site="gamma", note="waits at gamma")

    class Explains(FakeNode):
        answer = ExplainResponse(gangs=(GangWait(gang=0, level="low"),), job=job)

        def explain(self, group: str) -> ExplainResponse:
            return self.answer

    node = Explains()
    monkeypatch.setattr(look, "client", lambda args: nullcontext(node))
    command = look.COMMANDS["explain"]
    assert command.run(parsing.parse("explain", "explain", command, ["a-1.2"])) == 0
    assert capsys.readouterr().out.startswith("a-1.2 is placed at gamma; its gang has not begun\n\nits gang has not")
    node.answer = ExplainResponse(job=job)
    assert command.run(parsing.parse("explain", "explain", command, ["a-1.2"])) == 0
    assert capsys.readouterr().out.strip() == "a-1.2 waits in the queue of gamma", "once, not twice"


def test_tries_of_one_gang_are_told_apart_and_how_it_ended_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = tuple(Decision(reason=f"plan {at}", gang=GangDecision(policy="worst-fit")) for at in (0, 0, 1))

    class Explains(FakeNode):
        def explain(self, group: str) -> ExplainResponse:
            return ExplainResponse(decisions=plans)

    note = "a-1.0 ended with its gang: a-1.1 failed"
    node = Explains(GroupStatus(group="a-1", state="failed", final=True, gangs=1, note=note))
    monkeypatch.setattr(look, "client", lambda args: nullcontext(node))
    command = look.COMMANDS["explain"]
    assert command.run(parsing.parse("explain", "explain", command, ["a-1"])) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("earlier tries:") :] == ["earlier tries:", "plan 0 (2 times)", "", note]


@pytest.mark.parametrize(
    ("verb", "target", "line"),
    [
        ("cancel", "a-1.1", "a-1.1: cancelling 2 jobs, its whole gang"),
        ("cancel", "a-1.[1,3]", "a-1.[1,3]: cancelling 2 jobs"),
        ("cancel", "a-1.[1]", "a-1.[1]: cancelling 2 jobs, their whole gangs"),
        ("cancel", "a-1", "a-1: cancelling 2 jobs"),
        ("release", "a-1.0", "a-1.0: released 2 jobs, its whole gang"),
        ("retry", "a-1.0", "a-1.0: trying 2 jobs again, its whole gang"),
        ("hold", "a-1.0", "a-1.0: holding 0 jobs, its whole gang; 2 jobs had started and run on"),
    ],
)
def test_who_names_a_component_is_told_that_it_is_about_its_gang(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str, target: str, line: str
) -> None:
    class Obeys(FakeNode):
        def cancel(self, target: str, **options: Any) -> int:
            return 2

        def hold(self, target: str) -> HoldResponse:
            return HoldResponse(jobs=0, started=2)

        release = retry = cancel

    monkeypatch.setattr(control, "client", lambda args: nullcontext(Obeys()))
    command = control.COMMANDS[verb]
    assert command.run(parsing.parse(verb, verb, command, [target])) == 0
    assert capsys.readouterr().out == f"{line}\n"


def test_no_group_that_is_not_over_is_no_word_about_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    from diana.cli.groups import groups

    groups.show(StatusResponse(), active=True)
    assert capsys.readouterr().out == "no groups that are not over\n"
    groups.show(StatusResponse())
    assert capsys.readouterr().out == "no groups; submit one with: diana submit FILE\n"


def test_a_flexible_group_that_has_no_place_yet_has_at_most_so_many_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = GroupStatus(group="a-1", state="placing", jobs=8, unplaced=8, gangs=1, gangs_waiting=1)
    lines = said(monkeypatch, capsys, FakeNode(waits)).splitlines()
    assert " placing  up to 8  1 divided gang: 1 wait " in lines[1] and " 0  up to 8  " in lines[1]
    placed = GroupStatus(group="a-1", state="queued", jobs=3, queued=3, gangs=1, gangs_waiting=1)
    assert "up to" not in said(monkeypatch, capsys, FakeNode(placed))
    work._show_accepted(SubmitResponse(groups=(SubmittedGroup(group="a-1", jobs=8, at_most=True),)), parsable=False)
    assert capsys.readouterr().out == "a-1: up to 8 jobs accepted\n"
