"""Bring a custody's inputs here; jobs become ready as their own files arrive, while others still move."""

from __future__ import annotations

from diana.engine.data.stage_book import StageBook
from diana.engine.handover import execution
from diana.engine.journal.effects import StageIn
from diana.engine.journal.events import StageDone
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.site import links
from diana.engine.site.context import Context
from diana.engine.site.timers import BatchTimer
from diana.errors import one_line
from diana.model.ids import SubgroupId, group_of

TRIES = 5
"""Tries to stage one unit before its jobs fail staging; each goes through all sources. One is enough where the stager
says that trying again would not help."""
MOST_NOTE = 200
"""Characters of a note on a try that failed."""


def begin(core: Context, custody: Custody) -> None:
    """Order the inputs of a custody that became runnable (or that the node restarted with)."""
    for number in core.book(StageBook).open(custody):
        _order(core, custody.key, number)
    core.requeue.add(custody.key)


def _order(core: Context, key: CustodyKey, number: int) -> None:
    ticket = core.ticket()
    core.book(StageBook).tickets[ticket] = (key, number)
    order = StageIn(ticket=ticket, subgroup=key[0], files=core.book(StageBook).units[key][number].files)
    links.ordered(core, order)
    core.emit(order)


def on_staged(core: Context, event: StageDone) -> None:
    key, number = core.book(StageBook).tickets.pop(event.ticket)
    links.settled(core, event.ticket)
    unit = core.book(StageBook).units.get(key, {}).get(number)
    custody = core.state.custodies.get(key)
    if unit is None or custody is None:
        return
    core.book(StageBook).moved_bytes[key] = core.book(StageBook).moved_bytes.get(key, 0) + event.bytes_moved
    if not event.error:
        core.book(StageBook).close_unit(key, number)
        core.requeue.add(key)
        if unit.error:
            _say(core, custody)
        return
    unit.tries += 1
    if unit.tries < TRIES and not event.final:
        unit.error = event.error
        _say(core, custody)
        core.after(BatchTimer("stage", *key, number), 0.5 * 2.0**unit.tries)
        return
    halves = core.book(StageBook).halve(custody, number) if event.final else []
    if halves:
        for half in halves:
            _order(core, key, half)
        return
    lost = unit.readers & custody.pending
    core.book(StageBook).close_unit(key, number)
    if lost:
        execution.never_ran(core, custody, list(lost), event.error)


def note(core: Context, key: CustodyKey) -> str:
    """Return why jobs of the custody wait for their inputs longer than they should, in one line; empty: they do not."""
    unit = core.book(StageBook).troubled(key)
    if unit is None:
        return ""
    return clipped(f"inputs do not arrive, try {unit.tries + 1} of {TRIES}: {unit.error}")


def clipped(text: str) -> str:
    """Return the text as one line of at most `MOST_NOTE` characters; words of other sites go through here too."""
    line = one_line(text[: 4 * MOST_NOTE])
    return line if len(line) <= MOST_NOTE else f"{line[: MOST_NOTE - 3]}..."


def _say(core: Context, custody: Custody) -> None:
    """Tell the origin that the custody's note changed."""
    if custody.origin == core.site:
        core.notify(group_of(custody.subgroup))
    else:
        core.moved.add(custody.key)


def stage_again(core: Context, subgroup: SubgroupId, epoch: int, number: int) -> None:
    key = (subgroup, epoch)
    if number in core.book(StageBook).units.get(key, {}):
        _order(core, key, number)
