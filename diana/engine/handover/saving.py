"""Checkpoints that the site of a running job asks of it (SPEC G6): at its origin's word; now and then
(`checkpoint.every`), so that a lost site costs no more than the time since; and before its machines close, so that the
job has stopped by then. It stops, and its origin places it anew. What a site asks for by itself is volatile: after a
restart of the site the time counts anew.
"""

from __future__ import annotations

from diana.engine.dispatch import maintenance, start
from diana.engine.journal.effects import SaveRuns
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.timers import CustodyTimer
from diana.model.indexset import IndexSet

_SOON_S = 1.0
"""Least seconds between two looks at the same jobs."""


def begin(core: Context) -> None:
    """Take up the jobs that run, at start."""
    for custody in core.state.custodies.values():
        if custody.running:
            start.save_later(core, custody)


def due(core: Context, key: CustodyKey) -> None:
    """Ask the jobs to save that have run for long enough, and look again when the next have."""
    custody = core.state.custodies.get(key)
    checkpoint = custody.spec.checkpoint if custody is not None else None
    if custody is None or checkpoint is None or not checkpoint.every_s or not custody.running:
        return
    every_s = checkpoint.every_s
    began = core.run_book.started_s.get(key, {})
    left_s = {index: began.get(index, core.now - every_s) + every_s - core.now for index in custody.running}
    ask(core, custody, IndexSet.of(index for index, some_s in left_s.items() if some_s <= 0))
    core.after(CustodyTimer("save", *key), max(_SOON_S, min([every_s, *(s for s in left_s.values() if s > 0)])))


def closing(core: Context, key: CustodyKey) -> None:
    """Ask the jobs to save whose machines close soon, each once, but for those that are expected to end before that."""
    custody = core.state.custodies.get(key)
    checkpoint = custody.spec.checkpoint if custody is not None else None
    if custody is None or checkpoint is None or not custody.running:
        return
    takes_s, began = core.run_book.expected_s(custody), core.run_book.started_s.get(key, {})
    asked = core.run_book.asked.setdefault(key, {})
    wanted = []
    for machine, indices in custody.by_machine(custody.running).items():
        closes_s = core.calendar.closes_of(machine)
        if core.now < closes_s - maintenance.saves_s(checkpoint):
            continue
        for index in indices:
            ends_s = began.get(index, core.now) + takes_s
            if asked.get(index) != custody.running[index] and not core.now < ends_s <= closes_s:
                wanted.append(index)
    asked.update((index, custody.running[index]) for index in wanted)
    ask(core, custody, IndexSet.of(wanted))
    maintenance.ask_in_time(core, custody)


def save(core: Context, custody: Custody) -> None:
    """Ask running jobs that are to go elsewhere with their state to save it and stop."""
    if custody.saving:
        ask(core, custody, custody.saving)


def ask(core: Context, custody: Custody, indices: IndexSet) -> None:
    """Ask those of the jobs that run to save their state and stop."""
    checkpoint = custody.spec.checkpoint
    wanted = (indices & IndexSet.of(custody.running)) - custody.cancelled
    if not wanted or checkpoint is None or journal_doubt.stays(core, custody):
        return
    for machine, some in custody.by_machine(wanted).items():
        core.emit(
            SaveRuns(
                worker=machine,
                subgroup=custody.subgroup,
                epoch=custody.epoch,
                indices=IndexSet.of(some),
                signal=checkpoint.signal,
                wait_s=checkpoint.wait_s,
            )
        )
