"""The spawner's columns as `Facts`, its clock as site time."""

from __future__ import annotations

from collections.abc import Sequence

from diana.adapters.lrm.collect import CollectedBatch
from diana.adapters.lrm.prepare import Unready
from diana.adapters.lrm.spawner.launching import NOT_FOUND_EXIT
from diana.adapters.lrm.spawner.protocol import EndedRuns
from diana.engine.journal import columns
from diana.model.facts import Facts, JobError
from diana.model.ids import SiteId


def facts_of(site: SiteId, batch: EndedRuns, kept: CollectedBatch | None, offset_s: float) -> Facts:
    """Return the batch as facts. `offset_s` turns CLOCK_BOOTTIME into site time."""
    errors = [JobError(batch.indices[at], text) for at, text in batch.errors]
    return Facts(
        site=site,
        indices=batch.indices,
        attempts=batch.attempts,
        outcomes=kept.outcomes if kept else batch.outcomes,
        exit_codes=batch.exit_codes,
        started_s=[at_s + offset_s for at_s in batch.started_s],
        ended_s=[at_s + offset_s for at_s in batch.ended_s],
        cpu_s=batch.cpu_s,
        max_rss_bytes=batch.max_rss_bytes,
        log_segments=batch.log_segments,
        log_offsets=batch.log_offsets,
        log_lengths=batch.log_lengths,
        log_truncated=batch.log_truncated,
        outputs=kept.outputs if kept else [],
        errors=errors + (kept.errors if kept else []),
        signals=columns.told_signals(batch.signals),
    )


def failed_facts(site: SiteId, unready: Sequence[Unready], now_s: float) -> Facts:
    """Return facts of runs that never got as far as the spawner."""
    return columns.never_ran(
        site,
        [each.index for each in unready],
        [each.attempt for each in unready],
        [int(each.outcome) for each in unready],
        NOT_FOUND_EXIT,
        [JobError(each.index, each.text) for each in unready],
        now_s,
    )
