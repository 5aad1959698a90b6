"""A placement policy that an operator installed, which is not trusted: its answer is held against the request and the
rooms before anything comes of it (SPEC K2)."""

from __future__ import annotations

from diana.errors import one_line, said
from diana.policy.gang.policies import Answer, GangPolicy, History
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    NearestReplicas,
    PlacedComponent,
    Rooms,
    TransferTime,
    Unplaced,
)

MOST_TEXT = 300
"""Characters kept of what a policy says."""


def checked(name: str, policy: GangPolicy) -> GangPolicy:
    """Return the policy with its answers checked: each component once, of its size, at a site that has the room, within
    the bounds of a flexible request. Else, and where it raises, the gang is unplaced with one line that names it. The
    replicas are those of least transfer time, whichever it names."""

    def place(request: GangRequest, rooms: Rooms, transfer_time: TransferTime, history: History) -> Answer:
        asked = request if isinstance(request, FlexibleRequest) else tuple(request)
        try:
            answer = policy(asked, rooms.copy(), transfer_time, history)
            return _checked(asked, answer, rooms, transfer_time, name)
        except (Exception, SystemExit) as fault:  # Whatever a plug-in raises, its answer's own methods included.
            return Unplaced(f"the plug-in {name} failed: {said(fault)}")

    return place


def broken(name: str, why: str) -> GangPolicy:
    """Return the policy of a plug-in that did not load."""
    told = Unplaced(f"the plug-in {name} does not load: {one_line(why)[:MOST_TEXT]}")
    return lambda request, rooms, transfer_time, history: told


def _checked(
    request: GangRequest, answer: object, rooms: Rooms, transfer_time: TransferTime, name: str
) -> GangPlacement | Unplaced:
    if isinstance(answer, Unplaced):
        return Unplaced(f"{name}: {one_line(str(answer.reason))[:MOST_TEXT]}", never=answer.never is True)
    if not isinstance(answer, GangPlacement) or not all(isinstance(part, PlacedComponent) for part in answer.parts):
        return Unplaced(f"the plug-in {name} answered with {type(answer).__name__}, which is no placement")
    kinds = {(type(part.component), type(part.processors), type(part.site)) for part in answer.parts}
    if kinds - {(int, int, str)}:
        return Unplaced(f"the plug-in {name} answered wrongly: a part wants two whole numbers and a site's name")
    parts = sorted(answer.parts, key=lambda part: part.component)
    if why := _wrong(request, parts, len(rooms.names())):
        return Unplaced(f"the plug-in {name} answered wrongly: {why}")
    replicas, left = NearestReplicas(transfer_time), rooms.copy()
    out: list[PlacedComponent] = []
    for at, part in enumerate(parts):
        if isinstance(request, FlexibleRequest):
            component = Component(part.processors, amounts=request.amounts, files=request.read_by(at))
        else:
            component = request[at]
        if not left.fits(part.site, component):
            site = one_line(part.site)[:60]
            return Unplaced(f"the plug-in {name} answered wrongly: {site} has no room for component {at + 1}")
        left.take(part.site, component)
        files = replicas.nearest(component.files, part.site)
        out.append(PlacedComponent(at, component.processors, part.site, files))
    return GangPlacement(tuple(out))


def _wrong(request: GangRequest, parts: list[PlacedComponent], sites: int) -> str:
    """Return why these are not the components that are asked for; empty: they are. Their sites are not looked at."""
    sizes = tuple(part.processors for part in parts)
    if isinstance(request, FlexibleRequest):
        most = request.most_components or sites
        if request.splits:
            if sizes not in request.splits:
                return f"{_sum(sizes)} is none of the splits"
        elif not sizes or len(sizes) > most:
            return f"{len(sizes)} components, where 1 to {most} are allowed"
        elif min(sizes) < request.minimum or sum(sizes) != request.processors:
            return f"{_sum(sizes)} is no division of {request.processors} into {request.minimum} or more each"
    elif sizes != (asked := tuple(each.processors for each in request)):
        return f"components of {_sum(sizes)}, where {_sum(asked)} are asked for"
    if [part.component for part in parts] != list(range(len(parts))):
        return "not every component once"
    return ""


def _sum(sizes: tuple[int, ...]) -> str:
    return one_line("+".join(map(str, sizes[:8])))[:80] + " and more" * (len(sizes) > 8) if sizes else "none"
