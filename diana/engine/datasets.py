"""What this site tells of its datasets: name, newest content, size. Their files stand in the catalogue alone."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from diana.engine.context import Context
from diana.engine.effects import Refusal, Reply
from diana.engine.events import AddDataset, RemoveDataset
from diana.engine.records import DatasetAdded, DatasetRemoved
from diana.model.views import Ok
from diana.policy.authorise import Action, authorise


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


def nearest(core: Context, name: str) -> list[str]:
    """Names of datasets known here or told by peers that are spelled much like this one."""
    told = (p.summary.datasets for p in core.view.peers.values() if p.summary is not None)
    return near(name, {*core.state.datasets, *(other for names in told for other in names)})


def near(name: str, known: Iterable[str]) -> list[str]:
    """At most three, the likest first."""
    return get_close_matches(name, sorted(known), 3, 0.6)
