"""A node of an older release does not know `outcome` and tells all results: nobody is to take these for the answer. It
knows no signals, and spells outcomes as nodes of every release do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.client import Client
from diana.errors import UsageError
from diana.wire.client.messages import ResultsChunk, ResultsRequest


def everything(call: str, request: ResultsRequest) -> Iterator[ResultsChunk]:
    assert call == "Results" and request.group == "alpha-1"
    one = {"attempts": (1,), "exit_codes": (0,), "started_s": (0.0,), "ended_s": (1.0,)}
    yield ResultsChunk(indices=(0,), outcomes=("DONE",), cpu_s=(0.0,), max_rss_bytes=(0,), **one)  # type: ignore[arg-type]


def test_results_by_outcome_of_a_node_that_does_not_choose_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(data=Path("/nowhere")) as client:
        monkeypatch.setattr(client._wire, "stream", everything)
        with pytest.raises(UsageError, match="older release"):
            list(client.results("alpha-1", outcome="failed"))
        assert [row.signal for row in client.results("alpha-1")] == [0]
        assert [row.outcome for row in client.results("alpha-1")] == ["done"]
