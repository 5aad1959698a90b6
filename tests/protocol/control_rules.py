"""Invariants of CONTROL, and the harm of leaving out each of its sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.protocol.control import ControlModel, Rules, State


def what_is_shown_cancelled_neither_runs_nor_will(s: State) -> str | None:
    """CANCELLED is said of a tombstone or of a process that is gone."""
    for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
        if job.outcome == "cancelled" and row.epoch == job.epoch and row.phase in ("waiting", "running", "stopping"):
            return f"{i} is shown CANCELLED and is {row.phase}"
    return None


def nothing_is_stopped_that_the_user_did_not_cancel(s: State) -> str | None:
    """A stale cancel, or one of another index, kills nothing."""
    for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
        if row.phase in ("stopping", "cancelled") and row.epoch not in job.cancelled_epochs:
            return f"{i} is {row.phase} in epoch {row.epoch}, which nobody cancelled"
    return None


def no_result_is_lost_to_a_cancel(s: State) -> str | None:
    """A RESULT that arrives first wins: what ran to its end is not shown CANCELLED."""
    for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
        if job.outcome == "cancelled" and row.epoch == job.epoch and row.phase == "done":
            return f"{i} ended by itself in epoch {row.epoch} and is shown CANCELLED"
    return None


def what_was_acknowledged_is_how_it_is(s: State) -> str | None:
    """Shown HELD, nothing starts; shown released, nothing is held back."""
    for i, (job, row) in enumerate(zip(s.jobs, s.rows, strict=True)):
        said = job.control_seq > 0 and job.acknowledged >= job.control_seq and row.epoch == job.epoch
        if said and row.phase in ("unknown", "waiting") and job.verb != "cancel" and row.held != (job.verb == "hold"):
            return f"{i} shows {job.verb}, acknowledged, and is {'held' if row.held else 'free'} at the destination"
    return None


def what_the_user_was_told_is_remembered(s: State) -> str | None:
    """Promise 1 for a CONTROL: accepted is kept."""
    kept = s.controls[-1].control_seq if s.controls else 0
    return f"control_seq {s.told} was accepted, the origin knows {kept}" if s.told > kept else None


HARMS = (
    what_is_shown_cancelled_neither_runs_nor_will,
    nothing_is_stopped_that_the_user_did_not_cancel,
    no_result_is_lost_to_a_cancel,
    what_was_acknowledged_is_how_it_is,
    what_the_user_was_told_is_remembered,
)


def all_ended_or_visibly_held(s: State) -> bool:
    """Promise 4: every job reached an outcome or shows HELD because its user wants it held."""
    return all(
        job.outcome or (job.verb == "hold" and job.acknowledged >= job.control_seq and row.phase == "waiting")
        for job, row in zip(s.jobs, s.rows, strict=True)
    )


@dataclass(frozen=True)
class Mutant:
    """The protocol without one sentence, where that is searched, and what comes of it."""

    without: str
    harm: Callable[[State], str | None] | None
    """None: no harm, but nothing moves any more."""
    controls: int = 2
    epochs: int = 1

    def model(self, users: bool = True) -> ControlModel:
        """The mutant."""
        return ControlModel(self.controls, self.epochs, Rules(**{self.without: False}), users)


MUTANTS = (
    Mutant("persisted_at_origin", what_the_user_was_told_is_remembered),
    Mutant("resent", None),
    Mutant("names_epoch", nothing_is_stopped_that_the_user_did_not_cancel, epochs=2),
    Mutant("names_indices", nothing_is_stopped_that_the_user_did_not_cancel),
    Mutant("highest_seq_wins", what_was_acknowledged_is_how_it_is),
    Mutant("seq_durable", what_was_acknowledged_is_how_it_is),
    Mutant("ack_names_seq", what_was_acknowledged_is_how_it_is),
    Mutant("tombstone", what_is_shown_cancelled_neither_runs_nor_will),
    Mutant("cancelling_until_acknowledged", what_is_shown_cancelled_neither_runs_nor_will),
    Mutant("first_result_wins", no_result_is_lost_to_a_cancel),
)
