"""The destination's side of an exchange of processes (SPEC G6): the components that run here are told who of their gang
computes. Nothing here is durable: the origin keeps the roster, and says it again until the components compute by it."""

from __future__ import annotations

from diana.engine.journal.effects import TellRoster
from diana.engine.journal.state import CustodyKey
from diana.engine.messages.exchange import GangRoster
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job import gang


class RosterBook:
    def __init__(self) -> None:
        self.told: dict[CustodyKey, int] = {}
        """Custody -> number of the roster that its components were told last."""


def on_roster(core: Context, sender: SiteId, message: GangRoster) -> None:
    """Tell the components the roster, unless a later one was told. It is believed of their origin alone."""
    key = (message.subgroup, message.epoch)
    custody = core.state.custodies.get(key)
    if custody is None:
        # It is over here, or of an epoch that never came: nothing runs that could heed it.
        return
    if sender != custody.origin:
        core.warn(f"{sender} says who computes in {message.subgroup}, which is of {custody.origin}")
        return
    if not gang.is_roster(custody.spec, message.number, message.active):
        core.warn(f"{sender} says who computes in {message.subgroup}, and it cannot be so")
        return
    book = core.book(RosterBook)
    if not custody.runnable or not custody.running or message.number < book.told.get(key, 0):
        return
    book.told[key] = message.number
    for machine, some in custody.by_machine(custody.running).items():
        core.emit(
            TellRoster(
                worker=machine,
                subgroup=message.subgroup,
                epoch=message.epoch,
                indices=IndexSet.of(some),
                number=message.number,
                active=message.active,
            )
        )


def tidy(core: Context) -> None:
    """Forget what is over."""
    book = core.book(RosterBook)
    for key in [key for key in book.told if key not in core.state.custodies]:
        del book.told[key]
