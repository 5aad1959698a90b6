"""A group's outputs become a dataset (SPEC J4): in the catalogue, durably, before the group is called done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from diana.engine.journal.effects import RegisterOutputs
from diana.engine.journal.events import OutputsInCatalogue
from diana.engine.journal.records import DatasetAdded, OutputsRegistered
from diana.engine.journal.state import Group
from diana.engine.site.context import Context
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet


class Registrations:
    """Registrations under way. Volatile: a restart registers again."""

    def __init__(self) -> None:
        self.open: dict[int, GroupId] = {}
        """Ticket -> the group whose outputs are being registered as a dataset."""


def due(group: Group) -> bool:
    """True if its outputs are still to become a dataset, once everything else of it is done."""
    return bool(group.spec.outputs.dataset) and not group.registered


def taken(core: Context, owner: str, name: str) -> str:
    """Return why groups of this owner may not make a dataset of that name, in one line; empty: they may. A dataset that
    others registered, here or at a site in sight, is not given another meaning under its readers."""
    if core.state.produced.get(name) == owner:
        return ""
    sites = [core.site] if name in core.state.datasets else []
    sites += [s for s, peer in sorted(core.view.peers.items()) if peer.summary and name in peer.summary.datasets]
    return f"outputs.dataset = {name}: stands for data of others at {sites[0]}; use another name" if sites else ""


def begin(core: Context, group: Group) -> None:
    """Order the registration once. After a crash the order is given again, which changes nothing where it was carried
    out."""
    if group.group in core.book(Registrations).open.values():
        return
    ticket = core.ticket()
    core.book(Registrations).open[ticket] = group.group
    outputs = group.spec.outputs
    superseded = tuple((part, s.superseded) for part, s in sorted(group.subgroups.items()) if s.superseded)
    core.emit(
        RegisterOutputs(
            ticket=ticket,
            group=group.group,
            dataset=outputs.dataset,
            to=outputs.to,
            superseded=superseded,
            new_version=outputs.dataset in core.state.produced or _under_way(core, group),
        )
    )
    core.notify(group.group)


def _under_way(core: Context, group: Group) -> bool:
    """True if another group of that owner is about to give the name its first content; stagers register one after the
    other."""
    others = (core.state.groups.get(name) for name in core.book(Registrations).open.values() if name != group.group)
    mine = (group.owner, group.spec.outputs.dataset)
    return any(other is not None and (other.owner, other.spec.outputs.dataset) == mine for other in others)


def named(order: RegisterOutputs, chunks: Iterable[tuple[FactsKey, Facts]]) -> Iterator[OutputFile]:
    """Yield the outputs that results of the group name, without jobs that were retried since; drivers pass its
    facts."""
    superseded = dict(order.superseded)
    for key, facts in chunks:
        old = superseded.get(key.subgroup, IndexSet())
        yield from (output for output in facts.outputs if output.index not in old)


def finished(core: Context, event: OutputsInCatalogue) -> tuple[Group, str] | None:
    """Take the catalogue's answer. Return the group, and why it has to be called failed (empty: it has not); None:
    nobody waits for this answer."""
    name = core.book(Registrations).open.pop(event.ticket, None)
    group = core.state.groups.get(name) if name else None
    if group is None or group.state:
        return None
    if event.dataset is None:
        return group, f"dataset {group.spec.outputs.dataset}: {event.error or 'not registered'}"
    if core.state.datasets.get(event.dataset.name) != event.dataset:
        core.persist(DatasetAdded(dataset=event.dataset))
    core.persist(OutputsRegistered(group=group.group, dataset=event.dataset.name))
    core.to_check.add(group.group)
    return group, ""
