"""The peers that a placement asks for quotes where its policy is not the planner's (`policy.baselines`), and its draws.

In a large grid the planner's short list would decide for the policy, so each policy makes its own from the summaries:
the sites whose turn it is, those that look best by its rule, those that hold the data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import log

from diana.engine.placement.draft import Draft
from diana.engine.site.context import Context
from diana.model.arrays import Floats, np
from diana.model.ids import SiteId, group_id
from diana.model.job.resources import request_of
from diana.policy.allocation import baselines, chance
from diana.policy.pricing.sites import SiteTable, in_order

LEAST_ASKED = 16
"""Sites asked; where jobs are dealt out one by one, as many as there are jobs, if that is more; two for each where it
goes to the better of two."""
SPARE = 4
"""Factor by which more sites are looked at than are wanted: some may have fallen silent."""


def lot(core: Context, draft: Draft) -> str:
    """Return the name from which chance draws for this placement. Another placement of the group draws anew."""
    group = core.state.groups.get(draft.group) if draft.group else None
    return f"{_name(core, draft)}/{group.next_number if group else 0}"


def asked(core: Context, draft: Draft, holding: Iterable[SiteId]) -> list[SiteId]:
    """Return the peers to ask for quotes, by id. Sites that are dealt jobs in turn are noted in `draft.turns`.
    `holding`: sites that have data of the group."""
    policy, settings = core.state.settings.placement, core.state.settings
    table, match = core.roster.table(), draft.match(core)

    def wanted(site: SiteId) -> bool:
        if site == core.site:
            return match.may_take(site)
        peer = core.view.peers.get(site)
        alive = peer is not None and peer.answers(core.now, settings.suspect_after_s)
        return alive and match.may_take(site)

    if policy in baselines.LOOKED_UP:
        draft.turns = tuple(_turns(core, draft, table, wanted))
        some = [site for site in draft.turns if site != core.site]
    elif policy == "greedy":
        some = core.roster.best(draft.demand(settings), LEAST_ASKED, wanted, every=match.picks)
    else:
        policy = "fastest" if policy == "fastest" else "least-queue"
        some = _best(table, policy, draft, wanted, every=match.picks)
    return sorted({*some, *holding})


def _best(
    table: SiteTable, policy: baselines.Baseline, draft: Draft, wanted: Callable[[SiteId], bool], *, every: bool
) -> list[SiteId]:
    processors = draft.spec.resources.processors
    order = in_order(baselines.standing(policy, table, processors), table) if len(table) else np.zeros(0, dtype=int)
    order = order[_widths(table, draft)[order] >= processors]
    if not every:
        order = order[: SPARE * LEAST_ASKED]
    return list(islice((site for row in order.tolist() if wanted(site := table.sites[row])), LEAST_ASKED))


def _turns(core: Context, draft: Draft, table: SiteTable, wanted: Callable[[SiteId], bool]) -> list[SiteId]:
    """Return the sites that look as if they could take jobs, this one among them, in the order of their turns. Round
    robin begins one site further, in the ring of all sites by id, than the group of the number before began."""
    at = np.empty(len(table), dtype=np.int64)
    at[table.ranks()] = np.arange(len(table))
    home = bisect_left(range(len(table)), core.site, key=lambda place: table.sites[at[place]])
    sites, processors = len(table) + 1, draft.spec.resources.processors
    policy = core.state.settings.placement
    most = max(LEAST_ASKED, min(len(draft.indices) * (2 if policy == "two-choices" else 1), sites))
    name, widest = lot(core, draft), core.workers.widest(request_of(draft.spec))
    places: Iterable[int]
    if policy == "random":
        places = _drawn(name, sites, most)
    elif policy == "two-choices":
        places = _by_size(name, np.insert(table.slots[at], home, core.workers.slots()))
    else:
        group, _, moved = name.partition("/")
        first = home + int(group.rpartition("-")[2]) + int(moved)
        places = ((first + step) % sites for step in range(sites))
    out, widths = list[SiteId](), _widths(table, draft)
    for place in places:
        if place == home:
            fits, site = widest >= processors, core.site
        else:
            row = at[place - (place > home)]
            fits, site = bool(widths[row] >= processors), table.sites[row]
        if fits and wanted(site):
            out.append(site)
            if len(out) == most:
                break
    return out


def _widths(table: SiteTable, draft: Draft) -> Floats:
    """Return the processors of one job at each site, by row."""
    return table.slots if request_of(draft.spec).spreads else table.widest


def _drawn(name: str, sites: int, most: int) -> Iterator[int]:
    """Yield all places in random order; every order is as likely."""
    seen: set[int] = set()
    for number in range(SPARE * most):
        place = chance.draw(name, number) % sites
        if place not in seen:
            seen.add(place)
            yield place
    yield from sorted((place for place in range(sites) if place not in seen), key=lambda p: (chance.draw(name, ~p), p))


def _by_size(name: str, slots: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[int]:
    """Return all places that have slots, drawn one after the other without return, each by its share of the slots (P.
    Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97, 2006)."""
    keys = [(-log(chance.fraction(name, place)) / many, place) for place, many in enumerate(slots.tolist()) if many > 0]
    return [place for _, place in sorted(keys)]


def _name(core: Context, draft: Draft) -> str:
    """Return the name of the group, or of the group that a submission makes next."""
    return draft.group or group_id(core.site, core.state.next_group)
