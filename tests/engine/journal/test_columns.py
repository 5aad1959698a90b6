"""Facts picked and joined column by column, where some tell of signals and others do not."""

from __future__ import annotations

from diana.engine.journal import columns
from diana.engine.journal.events import Run
from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId, SubgroupId
from tests.engine.builders import facts_of

ALPHA = SiteId("alpha")


def ended(first: int, signals: list[int], jobs: int = 2) -> Facts:
    runs = [Run(SubgroupId("alpha-1/0"), 1, first + k, 1) for k in range(jobs)]
    facts = facts_of(ALPHA, runs, Outcome.FAILED, 5.0)
    return columns.join([facts]) if not signals else _with(facts, signals)


def _with(facts: Facts, signals: list[int]) -> Facts:
    import msgspec

    return msgspec.structs.replace(facts, signals=signals)


def test_a_batch_of_which_no_job_ended_by_a_signal_has_no_column_of_them() -> None:
    told = ended(0, [9, 0])
    assert columns.pick(told, [1]).signals == []
    assert columns.pick(told, [1, 0]).signals == [0, 9]
    assert columns.join([ended(0, []), ended(2, [])]).signals == []
    assert columns.empty(ALPHA).signals == []


def test_batches_that_tell_of_signals_and_others_are_joined_row_by_row() -> None:
    joined = columns.join([ended(0, []), ended(2, [15, 0]), ended(4, [])])
    assert joined.indices == [0, 1, 2, 3, 4, 5]
    assert joined.signals == [0, 0, 15, 0, 0, 0]
    assert columns.in_order(columns.join([ended(2, [0, 9]), ended(0, [])])).signals == [0, 0, 0, 9]
