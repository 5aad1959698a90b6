"""All known sites as one table, kept in step with their summaries: the short list of a placement is a few array
operations over it, however many sites there are (SPEC D1; PERFORMANCE P3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import islice
from math import inf

from diana.engine.messages.messages import Summary
from diana.engine.site.view import PeerView, View
from diana.model.ids import SiteId
from diana.policy.pricing import cost
from diana.policy.pricing.demand import Candidate, Demand, LinkForecast
from diana.policy.pricing.sites import SiteTable

SPARE = 4
"""Factor by which more sites are taken from the table than are wanted: some may have fallen silent."""


class Roster:
    """The table of all known sites. Volatile, like the view it is made from. Whoever changes what is known of a peer
    says so by `touch`."""

    def __init__(self, home: SiteId, view: View, default_bytes_per_s: Callable[[], float]) -> None:
        self._view = view
        self._default_bytes_per_s = default_bytes_per_s
        self._home = home
        self._touched: dict[SiteId, None] = {}
        self._made = False
        """True once the table is made: when it is first asked. From then on it is kept in step."""
        self._datasets: dict[SiteId, tuple[str, ...]] = {}
        self._holders: dict[str, set[SiteId]] = {}
        self._resources: dict[SiteId, tuple[str, ...]] = {}
        """Declared resources of each site that has told any."""
        self._having: Counter[str] = Counter()
        """Declared resource -> sites that have it."""

    @cached_property
    def _table(self) -> SiteTable:
        return SiteTable(self._home)

    def touch(self, site: SiteId) -> None:
        """Note that the site came, left, or told something new."""
        if self._made:
            self._touched[site] = None

    def best(
        self, demand: Demand, count: int, wanted: Callable[[SiteId], bool], *, every: bool = False
    ) -> list[SiteId]:
        """Return at most `count` sites that are wanted; first those where the whole group would end first by the
        summaries. `every`: look at all sites, since few may be wanted."""
        self._settle()
        table = self._table
        # Whoever has the processors in machines too narrow for a job must not take the places of others.
        every = every or bool(((table.widest < demand.processors) & (table.slots >= demand.processors)).any())
        most = len(table) if every else SPARE * count
        found = cost.short_list(table, demand, most) if len(table) else []
        return list(islice((site for site in found if wanted(site)), count))

    def table(self) -> SiteTable:
        """Return the table by the summaries; sites that take nothing have 0 slots. Good until the next event."""
        self._settle()
        return self._table

    def holders(self, datasets: Iterable[str]) -> set[SiteId]:
        """Return the sites that name any of these datasets in their summaries."""
        self._settle()
        return {site for name in datasets for site in self._holders.get(name, ())}

    def has_processors(self, processors: int) -> bool:
        """True if some site that takes work has so many in one machine."""
        self._settle()
        return bool((self._table.widest >= processors).any()) if len(self._table) else False

    def resources(self) -> Mapping[str, int]:
        """Return declared resource -> number of known sites that have any, by their latest words."""
        self._settle()
        return self._having

    def _settle(self) -> None:
        if not self._made:
            self._made = True
            self._touched = dict.fromkeys(self._view.peers)
        while self._touched:
            site, _ = self._touched.popitem()
            peer = self._view.peers.get(site)
            if peer is None:
                self._table.remove(site)
            else:
                self._table.add(_row(site, peer, self._default_bytes_per_s()))
            self._name(site, peer.summary.datasets if peer and peer.here and peer.summary else ())
            self._count(site, peer.summary if peer else None)

    def _name(self, site: SiteId, datasets: tuple[str, ...]) -> None:
        # A peer may name one twice.
        old, datasets = self._datasets.get(site, ()), tuple(dict.fromkeys(datasets))
        if old == datasets:
            return
        for name in old:
            self._holders[name].discard(site)
            if not self._holders[name]:
                del self._holders[name]
        for name in datasets:
            self._holders.setdefault(name, set()).add(site)
        self._datasets[site] = datasets

    def _count(self, site: SiteId, told: Summary | None) -> None:
        # Also of a site that is away: it may come back with what it has.
        old, new = self._resources.pop(site, ()), tuple(told.resources) if told else ()
        if new:
            self._resources[site] = new
        if old == new:
            return
        self._having.update(new)
        for name in old:
            self._having[name] -= 1
            if not self._having[name]:
                del self._having[name]


def _row(site: SiteId, peer: PeerView, default_bytes_per_s: float) -> Candidate:
    told, rtt_s = peer.summary, peer.rtt_s or 0.0
    link = LinkForecast(bytes_per_s=peer.bytes_per_s or default_bytes_per_s, rtt_s=rtt_s)
    sane = told is not None and 0 < told.speed < inf and 0 <= told.work_ahead_s < inf and told.slots > 0
    if told is None or not sane or not told.accepting or not peer.here:
        return Candidate(site=site, alive=peer.here, rejected="takes nothing", link=link)
    return Candidate(
        site=site,
        slots=told.slots,
        speed=told.speed,
        work_ahead_s=told.work_ahead_s,
        queued_jobs=max(0, told.queued_jobs),
        busy_fraction=min(1.0, max(0.0, 1.0 - told.free_slots / told.slots)),
        rtt_s=rtt_s,
        link=link,
        widest=told.widest,
    )
