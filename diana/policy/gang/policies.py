"""The placement policies for gangs: their one interface, and those of the papers by their names (SPEC K2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from math import inf
from typing import Protocol

from diana.errors import one_line
from diana.model.job.components import request_of
from diana.model.job.resources import of_job
from diana.model.job.spec import FlexibleSpec, GroupSpec
from diana.policy.gang.close_to_files import PairHistory, close_to_files
from diana.policy.gang.cluster_min import cluster_minimisation
from diana.policy.gang.flexible_min import flexible_minimisation
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    PlacedComponent,
    Rooms,
    TransferTime,
    Unplaced,
)
from diana.policy.gang.turnaround import TURNAROUND
from diana.policy.gang.worst_fit import worst_fit

Answer = GangPlacement | Unplaced
History = PairHistory | None
"""None: all pairs."""


class GangPolicy(Protocol):
    """A placement policy: a pure function of what it is given, without clock, chance or memory, so that two plans of
    one grid are equal. An operator's own is installed under the entry-point group `diana.gang_policies`."""

    def __call__(self, request: GangRequest, rooms: Rooms, transfer_time: TransferTime, history: History, /) -> Answer:
        """Place all components of one gang, or none.

        `request`: the components, each with processors, what it asks beside them, its files and the sites it may have;
        or a `FlexibleRequest`, which the policy divides within its bounds or by one of its splits. `rooms`: what each
        site has, which the policy may use up (`fits`, then `take`, for each component); the caller gives it rooms of
        its own each time, those of now and those of times to come. `transfer_time`: seconds for bytes from one site to
        another. `history`: pairs of sites that Close-to-Files looks at; the others pass it over.

        Return a `GangPlacement` whose parts are in the order of the request, of a flexible one numbered from 0, or an
        `Unplaced` whose reason is one line: what is wanted, and the nearest there is. `never` is for what idle sites
        would not hold either. Among equals home comes first, then the first by name, as `rooms` has them.
        """
        ...


_Placing = Callable[[Sequence[Component], Rooms, TransferTime, History], Answer]
_Dividing = Callable[[FlexibleRequest, Rooms, TransferTime], Answer]


def _policy(placing: _Placing, dividing: _Dividing | None = None) -> GangPolicy:
    """Return the policy that places components in this way. A flexible request is tried by the divisions that it lists,
    else divided, and by a policy that divides nothing it is one component."""

    def place(request: GangRequest, rooms: Rooms, time: TransferTime, history: History) -> Answer:
        if not isinstance(request, FlexibleRequest):
            answer = placing(request, rooms.copy(), time, history)
            if isinstance(answer, GangPlacement) or not any(each.sites is not None for each in request):
                return answer
            picky_first = _picky_first(placing, request, rooms, time, history)
            return picky_first if isinstance(picky_first, GangPlacement) else answer
        if dividing is not None and not request.splits:
            return dividing(request, rooms, time)
        refused: list[Unplaced] = []
        for split in request.splits or ((request.processors,),):
            components = [
                Component(size, amounts=request.amounts, files=request.read_by(at)) for at, size in enumerate(split)
            ]
            answer = placing(components, rooms.copy(), time, history)
            if isinstance(answer, GangPlacement):
                return answer
            refused.append(answer)
        last, count = refused[-1], len(refused)
        reason = f"none of the {count} splits finds a place; the last: {last.reason}" if count > 1 else last.reason
        return replace(last, reason=reason, never=all(each.never for each in refused))

    return place


def _picky_first(
    placing: _Placing, request: Sequence[Component], rooms: Rooms, time: TransferTime, history: History
) -> Answer:
    """Place the components that few sites can run before those that more can, which may take their room; before all of
    them those whose site is given."""
    turns: dict[float, list[int]] = {}
    for at, each in enumerate(request):
        turns.setdefault(0 if each.site else inf if each.sites is None else len(each.sites), []).append(at)
    parts: list[PlacedComponent] = []
    for _, some in sorted(turns.items()):
        answer = placing([request[at] for at in some], rooms, time, history)
        if isinstance(answer, Unplaced):
            return answer
        parts += (part._replace(component=some[part.component]) for part in answer.parts)
    return GangPlacement(tuple(sorted(parts)))


def request_for(spec: GroupSpec) -> GangRequest:
    """Return the request of one gang of the group, without its files. A flexible one has no more components than
    indices are kept for."""
    if (asked := spec.flexible) is not None:
        amounts = of_job(spec.resources)
        return FlexibleRequest(asked.processors, asked.min_processors, asked.most, splits=asked.splits, amounts=amounts)
    return [
        component
        for each in spec.components
        for component in [Component(each.processors, each.site, of_job(spec.of_component(each)))] * each.count
    ]


def request_in(text: str) -> GangRequest:
    """Return the request of `3x8`, `2x16+1x8@vu` or `flexible 72`. ValueError is one line with the mend."""
    asked = request_of(text)
    return request_for(GroupSpec(flexible=asked) if isinstance(asked, FlexibleSpec) else GroupSpec(components=asked))


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the words that refuse a policy's name, with the nearest of the known ones."""
    names = sorted(known)
    near = [SHORT[name.upper()]] if name.upper() in SHORT else get_close_matches(name[:60].lower(), names, 1, 0.5)
    hint = f"did you mean {near[0]}? Known" if near else "known"
    return f"{one_line(name)[:60]!r}: no such placement; {hint} here: {', '.join(names[:16])}"


def _cluster_min(components: Sequence[Component], rooms: Rooms, time: TransferTime, _: History) -> Answer:
    return cluster_minimisation(components, rooms, time)


POLICIES: dict[str, GangPolicy] = {
    "worst-fit": _policy(lambda components, rooms, time, _: worst_fit(components, rooms, time)),
    "close-to-files": _policy(close_to_files),
    "cluster-min": _policy(_cluster_min),
    "flexible-min": _policy(_cluster_min, flexible_minimisation),
}
"""The policies of the papers."""

UNDIVIDING = frozenset({"worst-fit", "close-to-files", "cluster-min"})
"""Those that take a flexible request without splits for one component."""

GRADS = "grads"
"""Placement by a model of the run, which it wants beside the rooms (`policy/grads/placing.py`)."""

OWN_NAMES = (*sorted(POLICIES), GRADS, TURNAROUND)
"""All names that are diana's own; the last two are no `GangPolicy`."""

SHORT = {"WF": "worst-fit", "CF": "close-to-files", "CM": "cluster-min", "FCM": "flexible-min"}
"""Their names in the papers."""
