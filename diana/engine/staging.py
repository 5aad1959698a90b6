"""Bring a custody's inputs here; jobs become ready as their own files arrive, while others still move."""

from __future__ import annotations

from diana.engine import execution, links
from diana.engine.context import Context
from diana.engine.effects import StageIn
from diana.engine.events import StageDone
from diana.engine.state import Custody, CustodyKey
from diana.model.ids import SubgroupId

TRIES = 5
"""To stage one unit before its jobs fail staging; each try goes through all sources. Once is enough where the stager
says that trying again would not help."""


def begin(core: Context, custody: Custody) -> None:
    """A custody became runnable (or the node restarted with it)."""
    for number in core.staging.open(custody):
        _order(core, custody.key, number)
    core.requeue.add(custody.key)


def _order(core: Context, key: CustodyKey, number: int) -> None:
    ticket = core.ticket()
    core.staging.tickets[ticket] = (key, number)
    order = StageIn(ticket=ticket, subgroup=key[0], files=core.staging.units[key][number].files)
    links.ordered(core, order)
    core.emit(order)


def on_staged(core: Context, event: StageDone) -> None:
    key, number = core.staging.tickets.pop(event.ticket)
    links.settled(core, event.ticket)
    unit = core.staging.units.get(key, {}).get(number)
    custody = core.state.custodies.get(key)
    if unit is None or custody is None:
        return
    core.staged_bytes[key] = core.staged_bytes.get(key, 0) + event.bytes_moved
    if not event.error:
        core.staging.close_unit(key, number)
        core.requeue.add(key)
        return
    unit.tries += 1
    if unit.tries < TRIES and not event.final:
        core.after(("stage", key[0], str(key[1]), str(number)), 0.5 * 2.0**unit.tries)
        return
    halves = core.staging.halve(custody, number) if event.final else []
    if halves:
        for half in halves:
            _order(core, key, half)
        return
    lost = unit.readers & custody.pending
    core.staging.close_unit(key, number)
    if lost:
        execution.never_ran(core, custody, list(lost), event.error)


def stage_again(core: Context, subgroup: SubgroupId, epoch: str, number: str) -> None:
    key = (subgroup, int(epoch))
    if int(number) in core.staging.units.get(key, {}):
        _order(core, key, int(number))
