"""Flexible Cluster Minimisation: a request for so many processors is cut to the idle processors of as few sites as will
do (Sonmez et al., Figure 3)."""

from __future__ import annotations

from diana.model.job.resources import amounts_shown
from diana.policy.gang.requests import (
    FlexibleRequest,
    GangPlacement,
    NearestReplicas,
    PlacedComponent,
    Rooms,
    TransferTime,
    Unplaced,
)


def flexible_minimisation(
    request: FlexibleRequest, rooms: Rooms, transfer_time: TransferTime
) -> GangPlacement | Unplaced:
    """Fill the sites in decreasing order of idle processors until the request is met.

    The papers' greedy cut may leave a last component below the request's minimum; here earlier ones give up as much as
    it lacks. A division is found whenever there is one: with sites in this order, the fewest whose room reaches the
    request are the only number that can do, for more sites ask for more in minima and give less each.
    """
    order = [
        name for name in rooms.by_idle() if rooms.widest(name) >= request.minimum and rooms.has(name, request.amounts)
    ]
    order.sort(key=lambda name: -rooms.widest(name))
    most = request.most_components or len(order)
    wanted, used, room = request.processors, 0, 0
    while used < min(most, len(order)) and room < wanted:
        room += rooms.widest(order[used])
        used += 1
    if room < wanted or used == 0:
        return _too_little(request, rooms, order, most)
    if used * request.minimum > wanted:
        return Unplaced(
            f"{wanted} processors in components of at least {request.minimum} would need one site with {wanted} idle; "
            f"the most is {rooms.widest(order[0])} at {order[0]}"
        )
    replicas = NearestReplicas(transfer_time)
    parts: list[PlacedComponent] = []
    for index, site in enumerate(order[:used]):
        others = request.minimum * (used - index - 1)
        take = min(rooms.widest(site), wanted - others)
        wanted -= take
        parts.append(PlacedComponent(index, take, site, replicas.nearest(request.read_by(index), site)))
    return GangPlacement(tuple(parts))


def _too_little(request: FlexibleRequest, rooms: Rooms, order: list[str], most: int) -> Unplaced:
    room = sum(rooms.widest(name) for name in order[:most])
    sites = f"the {most} emptiest sites" if most < len(order) else "all sites together"
    least = f" in pieces of {request.minimum} or more" if request.minimum > 1 else ""
    least += f" beside {' and '.join(amounts_shown(request.amounts))} for each" if request.amounts else ""
    whole = rooms.largest(most, request.minimum, request.amounts)
    never = whole < request.processors
    have = f"have {room} idle{least}" + (f" and {whole} in all" if never else "")
    have += ", by their gang_quota" if rooms.is_bound(never=never) else ""
    return Unplaced(f"{request.processors} processors are wanted; {sites} {have}", never=never)
