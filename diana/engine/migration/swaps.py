"""Running gangs with spares (SPEC G6; papers/grads-scheduling, section 5.4): where a component is slow, the origin has
a spare take its place. It decides by what all components of the gang report of their own part of a step, makes a record
of it, and tells the components until each computes by the new roster; only then does it look again. Reasons why
nothing is exchanged are volatile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from diana.engine.handover.gangs.attempt_book import GangKey
from diana.engine.journal.records import ProcessExchanged
from diana.engine.journal.state import ActiveRanks, Group, Subgroup
from diana.engine.messages.exchange import GangRoster
from diana.engine.messages.messages import JobSteps
from diana.engine.migration import rescheduling
from diana.engine.site.context import Context
from diana.model.ids import GroupId, group_of
from diana.model.job import gang
from diana.policy.grads.swapping import Timed, exchange

MOST_SHOWN = 64
"""Lines on exchanges of a group that are told."""


class SwapBook:
    def __init__(self) -> None:
        self.stays: dict[GangKey, str] = {}
        """Gang -> why nothing of it was exchanged at the last look."""


class HeardComponent(NamedTuple):
    part: Subgroup
    told: JobSteps


def look(core: Context) -> None:
    """Look at each turn at the gangs whose components report."""
    names = {group_of(part) for part, told in core.view.progress.items() if told.steps}
    names.update(group_of(key[0]) for key in rescheduling.reporting_here(core))
    for name in sorted(names):
        group = core.state.groups.get(name)
        if group is not None and group.spec.spares and not group.state:
            for number, components in sorted(_reporting(core, group).items()):
                _look_at(core, group, number, components)


def tidy(core: Context) -> None:
    """Forget groups that are over."""
    book = core.book(SwapBook)
    for key in [key for key in book.stays if (group := core.state.groups.get(key[0])) is None or group.state]:
        del book.stays[key]


def told(core: Context, group: Group) -> tuple[str, ...]:
    """Return a line for each exchange, of the gangs' last attempts, and one for each gang of which nothing is exchanged
    although all of it reports."""
    if not group.spec.spares:
        return ()
    lines = [f"gang {number}: {why}" for number, roster in sorted(group.rosters.items()) for why in roster.reasons]
    if not group.state:
        book = core.book(SwapBook).stays
        lines += [f"gang {number}: {why}" for (name, number), why in sorted(book.items()) if name == group.group]
    return tuple(lines[:MOST_SHOWN])


def note(core: Context, group: Group) -> str:
    """Return a line on the latest exchanges of a group that runs; empty: there were none."""
    count = sum(roster.number for roster in group.rosters.values())
    if not count or group.state:
        return ""
    number, roster = max(group.rosters.items(), key=lambda row: (row[1].number, -row[0]))
    words = "1 process was exchanged for a spare" if count == 1 else f"{count} processes were exchanged for spares"
    return f"{words}, in gang {number}: {roster.reasons[-1]}"


def _reporting(core: Context, group: Group) -> dict[int, dict[int, HeardComponent]]:
    """Return number of a gang -> rank -> its component, of those that report."""
    out: dict[int, dict[int, HeardComponent]] = {}
    for part in group.subgroups.values():
        for row in rescheduling.reported(core, part):
            if row.index in part.indices:
                number, rank = divmod(row.index, group.spec.gang_size)
                out.setdefault(number, {})[rank] = HeardComponent(part, row)
    return out


def _look_at(core: Context, group: Group, number: int, components: Mapping[int, HeardComponent]) -> None:
    epoch = max(one.part.epoch for one in components.values())
    roster = group.rosters.get(number) or ActiveRanks(epoch, 0, gang.first_active(group.spec))
    behind = [one.part for one in components.values() if one.told.roster < roster.number]
    if behind:
        _tell(core, behind, roster)
        return
    heard = len(components) == group.spec.gang_size
    # All of them compute by this roster, or one of them says nonsense.
    if not heard or any(one.told.roster != roster.number or one.told.own_mean_s <= 0 for one in components.values()):
        return
    timed = [
        Timed(rank, one.part.site, one.told.own_last_s, one.told.own_mean_s) for rank, one in sorted(components.items())
    ]
    active = [one for one in timed if one.rank in roster.active]
    spares = [one for one in timed if one.rank not in roster.active]
    steps = min(one.told.total - one.told.done for one in components.values())
    found, why = exchange(active, spares, steps)
    book, key = core.book(SwapBook), (GroupId(group.group), number)
    if found is None or roster.number >= gang.MOST_EXCHANGES:
        book.stays[key] = why
        return
    book.stays.pop(key, None)
    places = tuple(found.spare if rank == found.slow else rank for rank in roster.active)
    core.persist(
        ProcessExchanged(
            group=group.group,
            gang=number,
            epoch=epoch,
            number=roster.number + 1,
            active=places,
            slow=found.slow,
            spare=found.spare,
            reason=why,
            at_s=core.now,
        )
    )
    core.count("processes_exchanged")
    _tell(core, [one.part for one in components.values()], group.rosters[number])
    core.notify(group.group)


def _tell(core: Context, parts: list[Subgroup], roster: ActiveRanks) -> None:
    for part in {one.subgroup: one for one in parts}.values():
        word = GangRoster(subgroup=part.subgroup, epoch=part.epoch, number=roster.number, active=roster.active)
        core.send(part.site, word)
