"""Who follows many groups by name costs the node those, and not all there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.client import Client
from diana.engine.journal.events import Ask
from diana.errors import UsageError
from diana.workflows.under_way import UnderWay
from tests.client.nodelike import InThread, facts, view


def test_a_workflows_look_asks_for_its_own_open_groups_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Ask] = []
    with InThread(tmp_path / "alpha") as node, Client(tmp_path / "alpha") as client:
        for number in range(1, 101):
            node.book.groups[f"alpha-{number}"] = view(f"alpha-{number}", client.info().principal, 1)
        answers = node.book._answer
        monkeypatch.setattr(node.book, "_answer", lambda e: (isinstance(e, Ask) and asked.append(e), answers(e))[1])
        under_way = UnderWay(client, lambda line: None)
        mine = [f"alpha-{number}" for number in range(40, 70)]
        for name in mine:
            under_way.add(name, 1)
        node.call(lambda: (node.book.keep("alpha-50", 0, facts("beta", [0])), node.book.finish("alpha-50")))
        assert under_way.look() == 1
        (end,) = [end for name in mine if (end := under_way.take(f"{name}.0"))]
        assert end.done and end.job == "alpha-50.0"
        groups = [event for event in asked if event.what == "groups"]
        assert [event.named for event in groups] == [tuple(mine)], "one question, of those alone"
        assert under_way.look() == 0 and "alpha-50" not in under_way.groups()
        with pytest.raises(UsageError, match="'alpha-777': not known here"):
            client.status([*mine, "alpha-777"])
