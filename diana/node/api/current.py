"""Selects the stored results that count: a job that was retried has left its old ones behind, and they stay in the
store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from diana.engine.journal import columns
from diana.model.facts import Facts, FactsKey
from diana.model.views.views import GroupView

Chunk = tuple[FactsKey, Facts]


def current(source: Iterable[Chunk], view: GroupView) -> Iterator[Chunk]:
    """The same chunks without rows of jobs that were retried since; some may be empty."""
    superseded = dict(view.superseded)
    for key, facts in source:
        old = superseded.get(key.subgroup)
        if old:
            facts = columns.pick(facts, [at for at, index in enumerate(facts.indices) if index not in old])
        yield key, facts
