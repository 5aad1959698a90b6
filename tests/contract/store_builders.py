"""Batches and facts for the store's tests."""

from __future__ import annotations

from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.ports import Batch


def batch(*records: bytes, at_s: float = 1.0, facts: tuple[tuple[FactsKey, Facts], ...] = (), term: int = 0) -> Batch:
    return Batch(at_s=at_s, records=records, facts=facts, term=term)


def key(group: str = "alpha-1", number: int = 0, *, epoch: int = 1, batch: int = 0) -> FactsKey:
    return FactsKey(GroupId(group), SubgroupId(f"{group}/{number}"), epoch, batch)


def facts(*indices: int, exit_code: int = 0) -> Facts:
    count = len(indices)
    return Facts(
        site=SiteId("alpha"),
        indices=list(indices),
        attempts=[1] * count,
        outcomes=[int(Outcome.DONE)] * count,
        exit_codes=[exit_code] * count,
        started_s=[1.5] * count,
        ended_s=[2.5] * count,
        cpu_s=[0.25] * count,
        max_rss_bytes=[1 << 20] * count,
        log_segments=["alpha-1/0"] * count,
        log_offsets=list(range(count)),
        log_lengths=[7] * count,
        log_truncated=[False] * count,
    )
