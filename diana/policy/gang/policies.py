"""The papers' placement policies for gangs by their names (SPEC K2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from diana.model.job.components import request_of
from diana.model.job.resources import of_job
from diana.model.job.spec import ComponentSpec, FlexibleSpec, GroupSpec
from diana.policy.gang.close_to_files import PairHistory, close_to_files
from diana.policy.gang.cluster_min import cluster_minimisation
from diana.policy.gang.flexible_min import flexible_minimisation
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    Rooms,
    TransferTime,
    Unplaced,
)
from diana.policy.gang.worst_fit import worst_fit

Answer = GangPlacement | Unplaced
History = PairHistory | None
"""None: all pairs."""

GangPolicy = Callable[[GangRequest, Rooms, TransferTime, History], Answer]
"""A policy: a request, the rooms of the sites (which it may use up), transfer times and the history of pairs."""

_Placing = Callable[[Sequence[Component], Rooms, TransferTime, History], Answer]
_Dividing = Callable[[FlexibleRequest, Rooms, TransferTime], Answer]


def _policy(placing: _Placing, dividing: _Dividing | None = None) -> GangPolicy:
    """Return the policy that places components in this way. A flexible request is tried by the divisions that it lists,
    else divided, and by a policy that divides nothing it is one component."""

    def place(request: GangRequest, rooms: Rooms, time: TransferTime, history: History) -> Answer:
        if not isinstance(request, FlexibleRequest):
            return placing(request, rooms, time, history)
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


_PLAIN = GroupSpec()


def request_for(asked: Sequence[ComponentSpec] | FlexibleSpec, group: GroupSpec = _PLAIN) -> GangRequest:
    """Return the request that components or a flexible table of a job ask for, without their files. `group`: theirs."""
    if isinstance(asked, FlexibleSpec):
        least, most = asked.min_processors, asked.max_components
        return FlexibleRequest(asked.processors, least, most, splits=asked.splits, amounts=of_job(group.resources))
    return [
        component
        for each in asked
        for component in [Component(each.processors, each.site, of_job(group.of_component(each)))] * each.count
    ]


def request_in(text: str) -> GangRequest:
    """Return the request that a word like `3x8` or `flexible 24` asks for. ValueError is one line."""
    return request_for(request_of(text))


def _cluster_min(components: Sequence[Component], rooms: Rooms, time: TransferTime, _: History) -> Answer:
    return cluster_minimisation(components, rooms, time)


POLICIES: dict[str, GangPolicy] = {
    "worst-fit": _policy(lambda components, rooms, time, _: worst_fit(components, rooms, time)),
    "close-to-files": _policy(close_to_files),
    "cluster-min": _policy(_cluster_min),
    "flexible-min": _policy(_cluster_min, flexible_minimisation),
}
"""The policies of the papers."""

SHORT = {"WF": "worst-fit", "CF": "close-to-files", "CM": "cluster-min", "FCM": "flexible-min"}
"""Their names in the papers."""
