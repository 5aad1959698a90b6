"""Run times and sizes of outputs learned from jobs that ended: a site expects as much of the jobs it has, and tells it
of others'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diana.model.facts import Facts, Outcome
from diana.model.history import MOST_TEMPLATES, outputs_key
from diana.model.sketch import Batch, batch_of

if TYPE_CHECKING:
    from diana.engine.journal.state import Custody
    from diana.engine.site.context import Context
    from diana.model.job.spec import GroupSpec

MOST_BYTES = 1 << 62
NOTICED = 0.05
"""Part by which an expected run time must move before waiting work is counted anew."""


def output_bytes(core: Context, spec: GroupSpec, owner: str) -> float:
    """Return the bytes that one such job leaves to be gathered: learned here, else declared; 0: none, or nobody
    knows."""
    if not spec.outputs.collect:
        return 0.0
    learned = core.state.output_sizes.mean_bytes(outputs_key(spec), owner)
    return float(spec.outputs.size_bytes) if learned is None else learned


def left_bytes(facts: Facts, done: list[int]) -> int:
    """Return the bytes of these jobs' outputs; no more than a record can hold, whatever a peer told."""
    good = set(done)
    return min(MOST_BYTES, sum(output.size_bytes for output in facts.outputs if output.index in good))


def took(facts: Facts, speed: float = 1.0) -> Batch:
    """Return the run times of the jobs that ran and ended well, times `speed`. Failed ones say nothing of the next."""
    columns = zip(facts.outcomes, facts.attempts, facts.started_s, facts.ended_s, strict=True)
    done = (end_s - began_s for outcome, attempt, began_s, end_s in columns if outcome == Outcome.DONE and attempt)
    return batch_of(seconds * speed for seconds in done)


def note(core: Context, custody: Custody) -> None:
    """Count waiting work of the custody's template anew, if its run times moved noticeably since the last count."""
    now_s = core.state.run_times.mean_s(custody.template, custody.owner)
    name = f"{custody.template} {custody.owner}"
    used_s = core.run_book.counted_s.get(name)
    if now_s is None or (used_s is not None and abs(now_s - used_s) <= NOTICED * used_s):
        return
    if len(core.run_book.counted_s) >= 2 * MOST_TEMPLATES:
        core.run_book.counted_s.clear()
    core.run_book.counted_s[name] = now_s
    core.requeue.update(key for key in core.totals.relearned(custody.template) if key in core.queues.entries)
