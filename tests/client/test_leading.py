"""A client finds the machine that leads its site, also while that changes (SPEC D8; PROMISES section 2, standby)."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from diana.client import leading as module
from diana.client.credential import Credential
from diana.client.grpc_parts import FAILURE_KEY
from diana.errors import Unreachable
from diana.wire import codec
from diana.wire.client_messages import Failure

ANN = Credential(
    user="ann", vo="vo", site="alpha", address="main:1", key=b"", certificate=b"", root=b"", folder="/ann",
    others=("spare:1",),
)  # fmt: skip


class Refusal(grpc.RpcError):
    """What a machine says, or (None) that nobody answers at its address."""

    def __init__(self, said: str | None) -> None:
        self._said = said

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE if self._said else grpc.StatusCode.DEADLINE_EXCEEDED

    def details(self) -> str:
        return ""

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        if not self._said:
            return ()
        return ((FAILURE_KEY, codec.to_proto(Failure(code="unreachable", text=self._said)).SerializeToString()),)


def answers(monkeypatch: pytest.MonkeyPatch, *rounds: tuple[Refusal | None, Refusal | None]) -> list[str]:
    """Main and spare answer so, round by round, and from then on as in the last one; the addresses asked."""
    asked: list[str] = []
    left: Iterator[Refusal | None] = iter([said for both in rounds for said in both])

    def refusal(credential: Credential) -> Refusal | None:
        asked.append(credential.address)
        return next(left, rounds[-1][credential.address != "main:1"])

    monkeypatch.setattr(module, "_refusal", refusal)
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    return asked


FOLLOWS = Refusal("alpha's RootGrid is main; this is its standby")
SILENT = Refusal(None)


def test_the_machine_that_answers_for_the_site_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, (FOLLOWS, None))
    assert module.leading(ANN).address == "spare:1"
    assert asked == ["main:1", "spare:1"]


def test_while_one_says_it_follows_the_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, (SILENT, FOLLOWS), (SILENT, FOLLOWS), (FOLLOWS, FOLLOWS), (None, FOLLOWS))
    assert module.leading(ANN).address == "main:1"


def test_what_the_standby_says_of_it_is_told_when_no_leader_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, (SILENT, FOLLOWS))
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    with pytest.raises(Unreachable, match="this is its standby"):
        module.leading(ANN)


def test_where_nobody_answers_that_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, (SILENT, SILENT))
    with pytest.raises(Unreachable, match="did not answer in time"):
        module.leading(ANN)
    assert len(asked) == 2
