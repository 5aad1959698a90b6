"""Room that is made at this site for the best of the claims that wait: jobs that may be ended for it are, and nobody
else gets the processors that they leave (SPEC D4, K5; docs/decisions/gangs.md)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.queue.entries import QueueEntry
from diana.engine.site.context import Context
from diana.model.facts import Facts, JobError, Outcome


class WayBook:
    """Volatile: jobs that are to end are known to the journal, and a claim that is asked for again finds them."""

    def __init__(self) -> None:
        self.due = False
        """True if it is to be looked who may make way."""
        self.key: CustodyKey | None = None
        """The claim for which room is made; None: for none."""
        self.rooms: dict[str, int] = {}
        """Machine -> processors that are kept there for it."""
        self.told: dict[CustodyKey, str] = {}
        """Claims for which jobs ended: which, in words."""
        self.note = ""
        """Why nobody makes way for the best claim; empty: somebody does, or nobody was looked for."""


def entry(core: Context) -> QueueEntry | None:
    """Return the claim for which room is made, in the queue: it is the first to be given what comes free."""
    book = core.book(WayBook)
    return core.queues.entries.get(book.key) if book.key is not None and book.rooms else None


def caps(core: Context, custody: Custody, processors: int, others: Mapping[str, int]) -> Mapping[str, int]:
    """Return machine -> the most jobs of this width it may be given beside the room that is kept there; `others` are
    the caps that hold anyhow."""
    book = core.book(WayBook)
    if not book.rooms or custody.key == book.key:
        return others
    out = dict(others)
    for name, kept in book.rooms.items():
        worker = core.workers.find(name)
        free = worker.lane.slots - worker.lane.load if worker is not None else 0
        beside = max(0, free - kept) // processors
        out[name] = min(out.get(name, beside), beside)
    return out


def gave(core: Context, custody: Custody, shares: Mapping[str, int]) -> None:
    """Note that runs of the claim have got their room."""
    book = core.book(WayBook)
    if custody.key != book.key:
        return
    for name, jobs in shares.items():
        left = book.rooms.get(name, 0) - jobs * custody.spec.resources.processors
        if left > 0:
            book.rooms[name] = left
        else:
            book.rooms.pop(name, None)


def as_ended(custody: Custody, facts: Facts) -> Facts:
    """Return the ends of jobs as their origin is told them: those that were ended for a gang, and by nobody else, made
    way, each with the reason. One that was done first is done."""
    if not custody.making_way:
        return facts
    why = {index: text for text, some in custody.making_way.items() for index in some - custody.cancelled}
    outcomes, errors = list(facts.outcomes), list(facts.errors)
    for at, index in enumerate(facts.indices):
        if index in why and outcomes[at] in (Outcome.CANCELLED, Outcome.CHECKPOINTED):
            if outcomes[at] == Outcome.CANCELLED:
                outcomes[at] = Outcome.MADE_WAY
            errors.append(JobError(index, why[index]))
    return structs.replace(facts, outcomes=outcomes, errors=errors)
