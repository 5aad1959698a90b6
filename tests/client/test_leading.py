"""A client finds the machine that leads its site, also while that changes (SPEC D8; PROMISES section 2, standby)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from diana.client import leading as module
from diana.client.credential import Credential
from diana.errors import Unreachable

ANN = Credential(
    user="ann", vo="vo", site="alpha", address="main:1", key=b"", certificate=b"", root=b"", folder="/ann",
    others=("spare:1",),
)  # fmt: skip


SILENT = -1
FOLLOWS = 0
LEADS = 2


def answers(monkeypatch: pytest.MonkeyPatch, *rounds: tuple[int, int]) -> list[str]:
    """Main and spare answer so, round by round, and from then on as in the last one; the addresses asked."""
    asked: list[str] = []
    left: Iterator[int] = iter([said for both in rounds for said in both])

    def durability(credential: Credential) -> int:
        asked.append(credential.address)
        said = next(left, rounds[-1][credential.address != "main:1"])
        if said == SILENT:
            raise Unreachable(f"{credential.address} did not answer in time")
        return said

    monkeypatch.setattr(module, "_durability", durability)
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    return asked


def test_the_machine_that_answers_for_the_site_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, (FOLLOWS, LEADS))
    assert module.leading(ANN).address == "spare:1"
    assert asked == ["main:1", "spare:1"]


def test_while_one_says_it_follows_the_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, (SILENT, FOLLOWS), (SILENT, FOLLOWS), (FOLLOWS, FOLLOWS), (LEADS, FOLLOWS))
    assert module.leading(ANN).address == "main:1"


def test_when_no_leader_comes_the_standby_is_asked_which_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, (SILENT, FOLLOWS))
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    assert module.leading(ANN).address == "spare:1"


def test_where_nobody_answers_that_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, (SILENT, SILENT))
    with pytest.raises(Unreachable, match="main:1 did not answer in time"):
        module.leading(ANN)
    assert len(asked) == 2
