"""Facts made, picked and joined, column by column."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import fields

from diana.model.facts import Facts, JobError, Outcome
from diana.model.ids import SiteId

_COLUMNS = tuple(f.name for f in fields(Facts) if f.name not in ("site", "outputs", "errors", "signals"))


def empty(site: SiteId) -> Facts:
    columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    return Facts(site=site, **columns)  # type: ignore[arg-type]


def pick(facts: Facts, rows: Sequence[int]) -> Facts:
    """Return the given rows, in the given order."""
    columns = {name: [getattr(facts, name)[at] for at in rows] for name in _COLUMNS}
    wanted = set(columns["indices"])
    return Facts(
        site=facts.site,
        outputs=[o for o in facts.outputs if o.index in wanted],
        errors=[e for e in facts.errors if e.index in wanted],
        signals=told_signals([facts.signals[at] for at in rows] if facts.signals else []),
        **columns,
    )


def join(some: Sequence[Facts]) -> Facts:
    """Return all rows of facts of one site as one."""
    if len(some) == 1:
        return some[0]
    columns = {name: [value for facts in some for value in getattr(facts, name)] for name in _COLUMNS}
    return Facts(
        site=some[0].site,
        outputs=[o for facts in some for o in facts.outputs],
        errors=[e for facts in some for e in facts.errors],
        signals=told_signals([number for facts in some for number in facts.signals or [0] * len(facts.indices)]),
        **columns,
    )


def told_signals(signals: list[int]) -> list[int]:
    """Return the column of signals; empty where it tells of none."""
    return signals if any(signals) else []


_ROW_BYTES, _OUTPUT_BYTES = 100, 110
"""At most what a job's columns take in a message, and what an output or an error does beside its text."""


def pieces(facts: Facts, most_bytes: int, most_rows: int = 1 << 62) -> list[range]:
    """Return ranges of at most so many rows; in a message each takes at most so many bytes with its outputs and errors,
    or is of one row."""
    of_row = dict.fromkeys(facts.indices, _ROW_BYTES)
    for output in facts.outputs:
        of_row[output.index] = of_row.get(output.index, 0) + _OUTPUT_BYTES + len(output.name.encode(errors="replace"))
    for error in facts.errors:
        of_row[error.index] = of_row.get(error.index, 0) + _OUTPUT_BYTES + len(error.text.encode(errors="replace"))
    out, first, size_bytes = [], 0, 0
    for at, index in enumerate(facts.indices):
        if at > first and (size_bytes + of_row[index] > most_bytes or at - first >= most_rows):
            out.append(range(first, at))
            first, size_bytes = at, 0
        size_bytes += of_row[index]
    out.append(range(first, len(facts.indices)))
    return out


def in_order(facts: Facts) -> Facts:
    """Return the same rows by rising index."""
    return pick(facts, sorted(range(len(facts.indices)), key=facts.indices.__getitem__))


def not_staged(site: SiteId, indices: list[int], outcome: Outcome, error: str, now: float) -> Facts:
    """Return the facts of jobs that never ran because an input could not be brought, or a checkpoint's file."""
    count = len(indices)
    errors = [JobError(index, error) for index in indices]
    return never_ran(site, indices, [0] * count, [int(outcome)] * count, 0, errors, now)


def never_ran(
    site: SiteId,
    indices: list[int],
    attempts: list[int],
    outcomes: list[int],
    exit_code: int,
    errors: list[JobError],
    now: float,
) -> Facts:
    """Return the facts of jobs for which no process was made: there is nothing to tell but why."""
    count = len(indices)
    return Facts(
        site=site,
        indices=indices,
        attempts=attempts,
        outcomes=outcomes,
        exit_codes=[exit_code] * count,
        started_s=[now] * count,
        ended_s=[now] * count,
        cpu_s=[0.0] * count,
        max_rss_bytes=[0] * count,
        log_segments=[""] * count,
        log_offsets=[0] * count,
        log_lengths=[0] * count,
        log_truncated=[False] * count,
        errors=errors,
    )
