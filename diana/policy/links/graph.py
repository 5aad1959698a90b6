"""The links of a grid as a graph: distances between sites, and shortest and widest paths over them (SPEC D10).

networkx is imported when a graph is made, not before: a node that is never asked does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from typing import Any

import msgspec

from diana.model.ids import SiteId
from diana.model.views.link import LinkView, NearSite


class Way(msgspec.Struct, frozen=True):
    """Path of sites from one end to the other, and its worth: seconds, or bytes per second of its narrowest link."""

    sites: tuple[SiteId, ...] = ()
    worth: float = -1.0


class GridGraph:
    """Graphs of round trips, which count both ways, and of throughput, from `source` to `target` only. Among several
    rows for one pair the youngest counts; negative figures of a row are ignored."""

    def __init__(self, rows: Iterable[LinkView]) -> None:
        import networkx as nx

        self._nx: Any = nx
        self._rtt: Any = nx.Graph()
        self._rate: Any = nx.DiGraph()
        for row in sorted(rows, key=lambda r: (r.age_s, r.source, r.target)):
            if row.source == row.target:
                continue
            for graph in (self._rtt, self._rate):
                graph.add_nodes_from((row.source, row.target))
            if row.rtt_s >= 0 and not self._rtt.has_edge(row.source, row.target):
                self._rtt.add_edge(row.source, row.target, rtt_s=row.rtt_s)
            if row.bytes_per_s > 0 and not self._rate.has_edge(row.source, row.target):
                self._rate.add_edge(row.source, row.target, bytes_per_s=row.bytes_per_s)

    def sites(self) -> list[SiteId]:
        return sorted(self._rtt)

    def rtt(self, one: SiteId, other: SiteId) -> tuple[float, bool]:
        """(round trip in seconds, True if it is an estimate); negative: nothing is known.

        An unmeasured pair lies between the bounds the triangle inequality gives over every common neighbour c,
        |one c| - |c other| and |one c| + |c other|; the middle of the tightest two is the triangulated heuristic of
        Ng and Zhang ("Predicting Internet Network Distance", INFOCOM 2002, section II).
        """
        if self._rtt.has_edge(one, other):
            return self._rtt.edges[one, other]["rtt_s"], False
        if one not in self._rtt or other not in self._rtt:
            return -1.0, True
        low, high = 0.0, inf
        for common in self._nx.common_neighbors(self._rtt, one, other):
            there = self._rtt.edges[one, common]["rtt_s"]
            back = self._rtt.edges[common, other]["rtt_s"]
            low, high = max(low, abs(there - back)), min(high, there + back)
        return ((low + high) / 2 if low <= high else high, True) if high < inf else (-1.0, True)

    def near(self, site: SiteId) -> list[NearSite]:
        """All other sites, nearest first by round trip, measured or estimated; sites without either last."""
        if site not in self._rtt:
            return []
        reach = self._nx.single_source_dijkstra(self._rtt, site, weight="rtt_s")
        wide = self._widest_to(site)
        rows = []
        for other in self.sites():
            if other == site:
                continue
            rtt_s, estimated = self.rtt(site, other)
            direct = self._rate.has_edge(other, site)
            rows.append(
                NearSite(
                    site=other,
                    rtt_s=rtt_s,
                    estimated=estimated,
                    bytes_per_s=self._rate.edges[other, site]["bytes_per_s"] if direct else -1.0,
                    shortest=tuple(reach[1].get(other, ())),
                    shortest_s=reach[0].get(other, -1.0),
                    widest=wide[other].sites if other in wide else (),
                    widest_bytes_per_s=wide[other].worth if other in wide else -1.0,
                )
            )
        return sorted(rows, key=lambda r: (r.rtt_s < 0, r.rtt_s, r.site))

    def shortest(self, one: SiteId, other: SiteId) -> Way:
        """Path with the least sum of measured round trips; an empty path: there is none."""
        if one not in self._rtt or other not in self._rtt or not self._nx.has_path(self._rtt, one, other):
            return Way()
        worth, sites = self._nx.single_source_dijkstra(self._rtt, one, other, weight="rtt_s")
        return Way(tuple(sites), float(worth))

    def widest(self, source: SiteId, target: SiteId) -> Way:
        """Path for data from `source` to `target` whose narrowest measured link is widest; an empty path: there is
        none."""
        return self._widest_to(target).get(source, Way())

    def _widest_to(self, target: SiteId) -> dict[SiteId, Way]:
        """Widest path from every site to `target`, by Dijkstra's search from the end with the narrowest link in place
        of the sum. Among equally wide paths, the one over fewest sites wins, then the first by name."""
        found: dict[SiteId, Way] = {}
        if target not in self._rate:
            return found
        heap: list[tuple[float, int, tuple[SiteId, ...]]] = [(-inf, 1, (target,))]
        while heap:
            narrowest, length, sites = heappop(heap)
            if sites[0] in found:
                continue
            found[sites[0]] = Way(sites, -narrowest)
            for before in self._rate.predecessors(sites[0]):
                if before not in found:
                    width = self._rate.edges[before, sites[0]]["bytes_per_s"]
                    heappush(heap, (max(narrowest, -width), length + 1, (before, *sites)))
        del found[target]
        return found
