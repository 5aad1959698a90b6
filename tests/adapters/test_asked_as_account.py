"""A job of an account that is out of the spawner's own reach is asked to save by the root program, and by nothing else
(`tests/real/trust/test_run_as.py` has the program itself)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from diana.adapters.lrm.spawner import processes
from diana.adapters.lrm.spawner.jobs import JobState
from diana.adapters.lrm.spawner.others import _heeded
from diana.adapters.lrm.spawner.runner import JobRunner
from diana.model.indexset import IndexSet


def asked(monkeypatch: pytest.MonkeyPatch, *, account: str, separate: bool, late: bool = False) -> tuple[Any, Any, Any]:
    """Ask a job to save and look at it once; return the job, the other accounts, and the spawner's own way."""
    record = SimpleNamespace(account=account, contained=False)
    job: Any = SimpleNamespace(
        adopted=False, claim=SimpleNamespace(record=record), state=JobState.RUNNING, asked_by_s=0.0, pid=7
    )
    runner: Any = Mock(others=Mock(separate=separate), _table=Mock(matching=lambda *_: [job]))
    own = Mock(return_value=True)
    monkeypatch.setattr(processes, "ask", own)
    JobRunner.save(runner, "alpha-1/0", 1, IndexSet.span(0, 1), "USR1", 60.0)
    assert job.asked_by_s > 0
    JobRunner._ask(runner, job, job.asked_by_s + 1.0 if late else 0.0)
    return job, runner.others, own


def test_it_is_asked_by_the_program_and_stays_asked_until_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    job, others, own = asked(monkeypatch, account="ann", separate=True)
    others.ask.assert_called_once()
    own.assert_not_called()
    assert job.asked_by_s > 0


def test_after_its_time_it_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    job, others, _ = asked(monkeypatch, account="ann", separate=True, late=True)
    others.ask.assert_not_called()
    assert not job.asked_by_s


@pytest.mark.parametrize(("account", "separate"), [("", True), ("ann", False)])
def test_one_within_reach_is_asked_without_the_program(
    account: str, separate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, others, own = asked(monkeypatch, account=account, separate=separate)
    others.ask.assert_not_called()
    own.assert_called_once()
    assert not job.asked_by_s


@pytest.mark.parametrize(
    "said", [b"", b"no", b"{}", b"3", b"[" * 100_000, b'["0", null, true, 2, -1, 1e9, [0]]', b"\xff\xfe"], ids=range(7)
)
def test_an_answer_that_is_none_names_no_run(said: bytes) -> None:
    assert _heeded(said, 2) == []
    assert _heeded(b"[1, 0]", 2) == [1, 0]
