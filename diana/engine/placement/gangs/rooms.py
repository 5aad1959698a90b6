"""Words of sites on themselves and on their links, as rooms in which the components of a gang are placed (SPEC
K1-K3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf

from diana.engine.messages.messages import ComingRoom, Quote
from diana.engine.placement.draft import Draft
from diana.engine.placement.manifest import Manifest, is_url
from diana.model.ids import SiteId
from diana.model.job import gang, software
from diana.model.job.declared import MOST_AMOUNT
from diana.model.job.resources import GPUS, PROCESSORS, countable, counts_in
from diana.model.views.decision import GangSite
from diana.policy.gang.requests import (
    FlexibleRequest,
    GangQuota,
    GangRequest,
    NeededFile,
    SiteRoom,
    TransferTime,
)
from diana.policy.gang.soonest import GrowingRoom, LaterRoom, growing
from diana.policy.pricing.demand import Candidate
from diana.policy.pricing.sites import throughput_bytes_per_s

NONE = Counter[str]()
MOST_FILES = 32
"""Sets of holders that are looked at, those of most bytes; what the others hold counts for nothing."""


def site_of(candidate: Candidate, quote: Quote | None, claiming: Counter[str]) -> GangSite:
    """`claiming`: what gangs of this origin have yet to claim there."""
    if quote is None or candidate.rejected:
        return GangSite(site=candidate.site, rejected=candidate.rejected or "gave no quote in time")
    idle, widest = max(0, min(quote.free_slots, quote.slots) - claiming[PROCESSORS]), max(0, quote.widest)
    return GangSite(site=candidate.site, idle=idle, slots=quote.slots, widest=widest, age_s=float(candidate.age_s))


def names_of(wanted: GangRequest) -> frozenset[str]:
    """Return the resources that any component takes from its site."""
    every = {wanted.amounts} if isinstance(wanted, FlexibleRequest) else {each.amounts for each in wanted}
    return frozenset(name for amounts in every for name, _ in countable(amounts))


def room_of(site: GangSite, quote: Quote, claiming: Counter[str], names: frozenset[str], *, home: bool) -> GrowingRoom:
    """`names`: resources that are looked at beside processors; sizes are bounds that the site judges itself."""
    # A release that tells no figures says which of the asked amounts it has.
    had = counts_in(software.asked(quote.software)) if names - quote.free.keys() else {}
    left = {name: _bounded_count(quote.free.get(name, had.get(name, 0))) for name in names}
    whole = {name: max(left[name], _bounded_count(quote.whole.get(name, MOST_AMOUNT))) for name in names}
    if GPUS in names:
        left[GPUS] = _bounded_count(quote.free_gpus)
        whole[GPUS] = max(left[GPUS], _bounded_count(quote.gpus))
    # What this origin's other gangs wait for there comes to them first.
    quota = None
    if (most := min(quote.gang_most, site.slots)) > 0:
        free = most - max(0, quote.gang_held) - claiming[PROCESSORS]
        quota = GangQuota(max(0, free), most)
    now = SiteRoom(site.site, site.idle, site.slots, site.widest, _less(left, claiming), whole, home, quota)
    steps = (
        LaterRoom(one.after_s, one.processors - claiming[PROCESSORS], _less(_later(one, names), claiming))
        for one in quote.coming
    )
    return growing(now, steps)


def _later(coming: ComingRoom, names: frozenset[str]) -> dict[str, int]:
    told = {**coming.free, GPUS: coming.gpus}
    return {name: _bounded_count(told.get(name, 0)) for name in names}


def _less(left: Mapping[str, int], claiming: Counter[str]) -> dict[str, int]:
    return {name: max(0, count - claiming[name]) for name, count in left.items()}


def _bounded_count(told: int) -> int:
    return max(0, min(told, MOST_AMOUNT))


_Found = dict[tuple[SiteId, ...], tuple[str, float]]
"""Holders -> first name and bytes of what they hold."""


def files_of(draft: Draft, manifest: Manifest) -> tuple[tuple[NeededFile, ...], dict[int, tuple[NeededFile, ...]]]:
    """Return the files that each component of the first gang reads, and those that only some read, by their numbers;
    those that the same sites hold are as one. What everybody reads by URL is near to nobody."""
    first = draft.indices.bounds[0] // draft.spec.gang_size
    members = gang.members(draft.spec, first)
    every: _Found = {}
    some: dict[int, _Found] = {}
    for need in manifest.needs(members):
        holders = tuple(sorted(holder for holder in need.holders if not is_url(holder)))
        if not holders:
            continue
        whole = members.issubset(need.readers)
        for found in (every,) if whole else (some.setdefault(index, {}) for index in need.readers):
            name, size = found.get(holders, (need.files[0].ref, 0.0))
            found[holders] = (name, size + need.files[0].size_bytes)
    start = members.bounds[0]
    return _largest(every), {index - start: _largest(found) for index, found in some.items()}


def _largest(found: _Found) -> tuple[NeededFile, ...]:
    some = sorted(found.items(), key=lambda each: -each[1][1])[:MOST_FILES]
    return tuple(NeededFile(name, size, holders) for holders, (name, size) in some)


def transfer_time(field: list[Candidate]) -> TransferTime:
    to = {str(each.site): each for each in field}

    def seconds(source: str, site: str, size: float) -> float:
        if source == site:
            return 0.0
        there = to[site]
        link = there.links.get(SiteId(source), there.link)
        rate = there.fetch_bytes_per_s.get(SiteId(source), 0.0) if SiteId(source) not in there.links else 0.0
        rate = rate or throughput_bytes_per_s(link)
        return link.rtt_s + size / rate if rate > 0 else inf

    return seconds
