"""`diana explain` tells the calls of late binding in a line per site, however many there were."""

from __future__ import annotations

import pytest

from diana.cli.groups.decisions import show_called
from diana.wire.client.decisions import Decision


def test_calls_are_told_in_a_line_per_site(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = ["their turn came at alpha", "their turn came at beta", "their turn came at beta"]
    show_called([Decision(reason=reason) for reason in reasons])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "their turn came at alpha",
        "their turn came at beta (2 times)",
    ]


def test_without_calls_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_called([])
    assert capsys.readouterr().out == ""
