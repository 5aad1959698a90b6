"""The links that lie between two sites, and the figures that these amount to.

A pair of sites with a link that no other pair uses has none of the paths here: its bytes move over a pipe of its own
(`twins/pipes.py`). Sites do not carry the traffic of others; routers do, and a route says so by naming the links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import combinations

from diana.model.ids import SiteId
from diana.sim.specs.link_spec import LinkSpec, RouteSpec
from diana.sim.specs.scenario_spec import Scenario

Path = tuple[int, ...]
"""Directed links, by number, each at most once."""
Figures = tuple[float, float, float, float]
"""latency_s one way, bytes_per_s, loss, noise."""

_Pair = tuple[str, str]


class Topology:
    """The topology of one scenario. Link n is numbered 2 n from its first end to its second, 2 n + 1 back. ValueError:
    a route whose links do not hang together, or two sites that no links connect though there are routers."""

    def __init__(self, scenario: Scenario) -> None:
        default = scenario.default_link
        self._default: Figures = (default.latency_s, default.bytes_per_s, default.loss, default.noise)
        self._links: list[LinkSpec] = list(scenario.links)
        self._node = {site.name: site.node or site.name for site in scenario.sites}
        self._routers = frozenset(scenario.routers)
        self._own: dict[_Pair, int] = {}
        # A site may be called like the router where it is: then links of that name are the router's.
        sites = self._node.keys() - self._routers
        for number, link in enumerate(self._links):
            if link.between[0] in sites and link.between[1] in sites:
                self._own[_pair(*link.between)] = number
        self._edges: dict[str, list[tuple[str, int]]] = {}
        for number, link in enumerate(self._links):
            a, b = (self._node.get(end, end) for end in link.between)
            if a != b and {a, b} & self._routers and not (link.between[0] in sites and link.between[1] in sites):
                self._edges.setdefault(a, []).append((b, 2 * number))
                self._edges.setdefault(b, []).append((a, 2 * number + 1))
        self._given: dict[_Pair, Path] = {}
        self._latency_s: dict[_Pair, float] = {}
        for route in scenario.routes:
            self._give(route)
        for one in scenario.transfers:
            self._for_transfer(_pair(one.source, one.to))
        self._shared = {link // 2 for path in self._given.values() for link in path}
        self._trees: dict[str, dict[str, int]] = {}
        self._check_connected(scenario)

    @property
    def bytes_per_s(self) -> list[float]:
        """Rate of each directed link."""
        return [link.bytes_per_s for link in self._links for _ in range(2)]

    def path(self, source: SiteId, to: SiteId) -> Path | None:
        """Directed links from one site to the other; None: a link that is theirs alone."""
        pair = _pair(source, to)
        path = self._given.get(pair)
        if path is None:
            own = self._own.get(pair)
            if own is not None:
                if own not in self._shared:
                    return None
                path = (self._leaving(pair[0], own),)
            elif not self._routers or self._node[source] == self._node[to]:
                return None
            else:
                path = self._found(*pair)
        return path if pair[0] == source else _back(path)

    def figures(self, a: SiteId, b: SiteId) -> Figures:
        """Figures of the way between two sites as a whole: latencies add up, the slowest link limits."""
        pair = _pair(a, b)
        path = self.path(SiteId(pair[0]), SiteId(pair[1]))
        if path is None:
            own = self._own.get(pair)
            link = None if own is None else self._links[own]
            one = (link.latency_s, link.bytes_per_s, link.loss, link.noise) if link is not None else self._default
        else:
            links = [self._links[number // 2] for number in path]
            one = (
                math.fsum(link.latency_s for link in links),
                min(link.bytes_per_s for link in links),
                1.0 - math.prod(1.0 - link.loss for link in links) if any(link.loss for link in links) else 0.0,
                max(link.noise for link in links),
            )
        return (self._latency_s.get(pair, one[0]), *one[1:])

    def named(self, path: Path) -> list[str]:
        return [self._links[number // 2].called() for number in path]

    # --- what the scenario says --------------------------------------------------------------------------

    def _give(self, route: RouteSpec) -> None:
        pair = _pair(*route.between)
        if route.latency_s >= 0:
            self._latency_s[pair] = route.latency_s
        if not route.links:
            return
        numbers = {link.called(): number for number, link in enumerate(self._links)}
        at, path = route.between[0], []
        for name in route.links:
            number = self._leaving(at, numbers[name])
            if number < 0:
                ends = " and ".join(self._links[numbers[name]].between)
                raise ValueError(
                    f"routes {'-'.join(route.between)}: link {name!r} joins {ends}, the route is at {at!r} there; "
                    "list the links from the first site to the second"
                )
            path.append(number)
            at = self._links[number // 2].between[1 - number % 2]
        if self._place(at) != self._place(route.between[1]):
            raise ValueError(
                f"routes {'-'.join(route.between)}: its links end at {at!r}; list them up to {route.between[1]!r}"
            )
        if len({number // 2 for number in path}) < len(path):
            raise ValueError(f"routes {'-'.join(route.between)}: a link stands twice; name each once")
        self._given[pair] = tuple(path) if pair == route.between else _back(tuple(path))

    def _for_transfer(self, pair: _Pair) -> None:
        """Give the pair of a transfer a path, so that the transfer shares its link with what jobs fetch, also where it
        is a link of the pair alone."""
        if pair in self._given:
            return
        own = self._own.get(pair)
        if own is None and not (self._routers and self._place(pair[0]) != self._place(pair[1])):
            own = self._own[pair] = len(self._links)
            self._links.append(LinkSpec(pair, *self._default))
        if own is not None:
            self._given[pair] = (self._leaving(pair[0], own),)

    def _place(self, name: str) -> str:
        return self._node.get(name, name)

    def _leaving(self, at: str, link: int) -> int:
        """This link in the direction away from there; -1: it does not end there."""
        a, b = self._links[link].between
        if at in (a, b):
            return 2 * link + (at == b)
        here = self._place(at)
        return 2 * link + (here == self._place(b)) if here in (self._place(a), self._place(b)) else -1

    # --- the quickest way over routers ------------------------------------------------------------------

    def _found(self, a: str, b: str) -> Path:
        start, end = self._place(a), self._place(b)
        tree = self._trees.get(start)
        if tree is None:
            tree = self._trees[start] = self._tree(start)
        path: list[int] = []
        while end != start:
            path.append(tree[end])
            end = self._place(self._links[tree[end] // 2].between[tree[end] % 2])
        return tuple(reversed(path))

    def _tree(self, start: str) -> dict[str, int]:
        """The link by which each place is reached: least latency, then fewest links, then the one listed first."""
        by: dict[str, int] = {}
        heap: list[tuple[float, int, int, str]] = [(0.0, 0, -1, start)]
        while heap:
            latency_s, hops, link, at = heappop(heap)
            if at in by:
                continue
            by[at] = link
            if at != start and at not in self._routers:
                continue
            for other, number in self._edges.get(at, ()):
                if other not in by:
                    heappush(heap, (latency_s + self._links[number // 2].latency_s, hops + 1, number, other))
        return by

    def _check_connected(self, scenario: Scenario) -> None:
        if not self._routers:
            return
        island = _islands(self._routers, self._edges)
        reach = {
            name: frozenset(island[one] for one in (node, *(o for o, _ in self._edges.get(node, ()))) if one in island)
            for name, node in self._node.items()
        }
        if frozenset.intersection(*reach.values()):
            return
        for a, b in combinations(sorted(reach), 2):
            apart = not reach[a] & reach[b] and self._node[a] != self._node[b]
            if apart and (a, b) not in self._given and (a, b) not in self._own:
                lost = next((one for one in (a, b) if not reach[one]), "")
                why = f"site {lost!r} is at no router" if lost else f"no links connect {a!r} and {b!r}"
                raise ValueError(
                    f"links: {why}, so {a!r} cannot reach {b!r}; add a link, a route, or the `node` where the site is"
                )


def _islands(routers: Iterable[str], edges: dict[str, list[tuple[str, int]]]) -> dict[str, int]:
    """A number per router, the same for those that reach each other over routers."""
    all_, out = sorted(routers), dict[str, int]()
    known = set(all_)
    for number, first in enumerate(all_):
        reached = [first] if first not in out else []
        while reached:
            at = reached.pop()
            if at not in out:
                out[at] = number
                reached += [other for other, _ in edges.get(at, ()) if other in known and other not in out]
    return out


def _pair(a: str, b: str) -> _Pair:
    return (a, b) if a <= b else (b, a)


def _back(path: Path) -> Path:
    return tuple(number ^ 1 for number in reversed(path))
