"""A follower's journal folded into a snapshot of its own is the state a leader would have (D8)."""

from __future__ import annotations

from diana.engine import records
from diana.model.ids import SiteId
from diana.node.seed import folded
from diana.ports import Journal
from tests.engine.bench import Grid
from tests.engine.builders import spec


def test_a_fold_of_the_journal_is_the_engines_own_state() -> None:
    grid = Grid(alpha=2, beta=2)
    alpha = grid["alpha"]
    alpha.submit(spec(20), 20)
    grid.finish()
    told = [records.encode(record) for record in alpha.records()]
    snapshot, gone = folded(Journal(snapshot=None, seq=len(told), at_s=1.0, records=told), SiteId("alpha"))
    assert snapshot == alpha.engine.snapshot()
    assert gone == []
    half = len(told) // 2
    first, _ = folded(Journal(snapshot=None, seq=half, at_s=1.0, records=told[:half]), SiteId("alpha"))
    second, _ = folded(Journal(snapshot=first, seq=len(told), at_s=1.0, records=told[half:]), SiteId("alpha"))
    assert second == snapshot
