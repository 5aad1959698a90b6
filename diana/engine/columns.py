"""Facts made, picked and joined, column by column."""

from __future__ import annotations

from collections.abc import Sequence

from diana.model.facts import Facts, JobError, Outcome
from diana.model.ids import SiteId

_COLUMNS = (
    "indices",
    "attempts",
    "outcomes",
    "exit_codes",
    "started_s",
    "ended_s",
    "cpu_s",
    "max_rss_bytes",
    "log_segments",
    "log_offsets",
    "log_lengths",
    "log_truncated",
)


def empty(site: SiteId) -> Facts:
    columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    return Facts(site=site, **columns)  # type: ignore[arg-type]


def pick(facts: Facts, rows: Sequence[int]) -> Facts:
    """The given rows, in the given order."""
    columns = {name: [getattr(facts, name)[at] for at in rows] for name in _COLUMNS}
    wanted = set(columns["indices"])
    return Facts(
        site=facts.site,
        outputs=[o for o in facts.outputs if o.index in wanted],
        errors=[e for e in facts.errors if e.index in wanted],
        **columns,
    )


def join(some: Sequence[Facts]) -> Facts:
    """All rows of facts of one site."""
    if len(some) == 1:
        return some[0]
    columns = {name: [value for facts in some for value in getattr(facts, name)] for name in _COLUMNS}
    return Facts(
        site=some[0].site,
        outputs=[o for facts in some for o in facts.outputs],
        errors=[e for facts in some for e in facts.errors],
        **columns,
    )


def staging_failed(site: SiteId, indices: list[int], error: str, now: float) -> Facts:
    """Jobs that never ran because an input could not be brought."""
    count = len(indices)
    return Facts(
        site=site,
        indices=indices,
        attempts=[0] * count,
        outcomes=[int(Outcome.STAGING_FAILED)] * count,
        exit_codes=[0] * count,
        started_s=[now] * count,
        ended_s=[now] * count,
        cpu_s=[0.0] * count,
        max_rss_bytes=[0] * count,
        log_segments=[""] * count,
        log_offsets=[0] * count,
        log_lengths=[0] * count,
        log_truncated=[False] * count,
        errors=[JobError(index, error) for index in indices],
    )
