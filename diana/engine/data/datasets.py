"""The datasets this site tells of: name, newest content, size. Their files stand in the catalogue alone."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import AddDataset, RemoveDataset
from diana.engine.journal.records import DatasetAdded, DatasetRemoved
from diana.engine.site.context import Context
from diana.model.data import RegisteredDataset
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action, authorise

_SELF = Principal(Role.OPERATOR, "")


def add(core: Context, event: AddDataset) -> None:
    name = event.dataset.name
    why = authorise(event.principal, Action.ADD_DATASET)
    known = core.state.datasets.get(name)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
    elif known is not None and known.version == event.dataset.version and known != event.dataset:
        text = f"dataset {name} is registered here with other content; use another name, or add it as a new version"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
    else:
        if known != event.dataset:
            core.persist(DatasetAdded(dataset=event.dataset))
        core.reply(Reply(event.request, Ok(event.dataset.files)))


def remove(core: Context, event: RemoveDataset) -> None:
    why = authorise(event.principal, Action.ADD_DATASET)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    known = event.name in core.state.datasets
    if known:
        core.persist(DatasetRemoved(name=event.name))
    core.reply(Reply(event.request, Ok(int(known))))


def missed(core: Context, newest: Iterable[RegisteredDataset]) -> list[AddDataset | RemoveDataset]:
    """Return events that bring the datasets told of into step with the catalogue, at start: the catalogue is written
    first, and a crash may have come between. `newest`: the datasets in it. Nobody waits for the answers (request 0)."""
    told = core.state.datasets
    there = {dataset.name: dataset for dataset in newest}
    # A group that is about to register its outputs again tells of them itself: then it is known whose they are.
    coming = {g.spec.outputs.dataset for g in core.state.groups.values() if not g.state} - told.keys()
    out: list[AddDataset | RemoveDataset] = []
    for name in sorted(told.keys() | there.keys()):
        dataset, known = there.get(name), told.get(name)
        if dataset == known or name in coming:
            continue
        if known is not None and (dataset is None or dataset.version == known.version):
            out.append(RemoveDataset(request=0, principal=_SELF, name=name))
        if dataset is not None:
            out.append(AddDataset(request=0, principal=_SELF, dataset=dataset))
    return out


def nearest(core: Context, name: str) -> list[str]:
    """Return the names of datasets known here or told by peers that are spelled much like this one."""
    told = (p.summary.datasets for p in core.view.peers.values() if p.summary is not None)
    return near(name, {*core.state.datasets, *(other for names in told for other in names)})


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three of the names spelled like this one, the likest first."""
    return get_close_matches(name, sorted(known), 3, 0.6)
