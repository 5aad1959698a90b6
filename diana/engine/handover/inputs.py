"""Bring a custody's inputs here; jobs become ready as their own files arrive, while others still move."""

from __future__ import annotations

from diana.engine.data.stage_book import StageBook
from diana.engine.handover import execution
from diana.engine.journal.effects import CancelStage, StageIn
from diana.engine.journal.events import StageDone
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.site import links
from diana.engine.site.context import Context
from diana.engine.site.timers import BatchTimer
from diana.errors import one_line
from diana.model.ids import SubgroupId, group_of
from diana.model.job.checkpoint import readers
from diana.model.job.software import platforms_in
from diana.model.job.spec import build_path

TRIES = 5
"""Tries to stage one unit before its jobs fail staging; each goes through all sources. One is enough where the stager
says that trying again would not help."""
MOST_NOTE = 200
"""Characters of a note on a try that failed."""


def begin(core: Context, custody: Custody) -> None:
    """Order the inputs of a custody that became runnable (or that the node restarted with)."""
    for number in core.book(StageBook).open(custody, _builds_for_others(core, custody)):
        _order(core, custody.key, number)
    core.requeue.add(custody.key)


def platforms_changed(core: Context) -> None:
    """Bring the builds that only a machine which is new here can use, before it is given a job of theirs."""
    book = core.book(StageBook)
    for key, left_out in list(book.left_out.items()):
        custody = core.state.custodies.get(key)
        if custody is None or _builds_for_others(core, custody) == left_out:
            continue
        for ticket in book.drop(key):
            links.settled(core, ticket)
            core.emit(CancelStage(ticket))
        begin(core, custody)


def _builds_for_others(core: Context, custody: Custody) -> frozenset[str]:
    """Return the refs of a package's builds for platforms that no machine here has; empty: nothing can be left out."""
    spec = custody.spec
    if not spec.builds:
        return frozenset()
    here = platforms_in(core.workers.offer().capabilities)
    useless = {build_path(name, spec.program) for name in spec.builds if name not in here}
    if len(useless) == len(spec.builds):
        return frozenset()
    used = {each.source for each in spec.inputs if each.path not in useless}
    return frozenset(each.source for each in spec.inputs if each.path in useless) - used


def _order(core: Context, key: CustodyKey, number: int) -> None:
    ticket = core.ticket()
    core.book(StageBook).tickets[ticket] = (key, number)
    files, owner = core.book(StageBook).units[key][number].files, core.state.custodies[key].owner
    order = StageIn(ticket=ticket, subgroup=key[0], files=files, owner=owner)
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
    if readers(custody.saved, event.spoilt):
        lost = core.book(StageBook).without(custody, number, event.spoilt)
        if number in core.book(StageBook).units.get(key, {}):
            _order(core, key, number)
        if lost := lost & custody.pending:
            execution.never_ran(core, custody, lost, event.error, event.spoilt)
        return
    halves = core.book(StageBook).halve(custody, number) if event.final else []
    if halves:
        for half in halves:
            _order(core, key, half)
        return
    lost = unit.readers & custody.pending
    core.book(StageBook).close_unit(key, number)
    if lost:
        execution.never_ran(core, custody, lost, event.error)


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
