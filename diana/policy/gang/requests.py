"""Requests for gangs, the sites they may use, and the answer of a placement policy (SPEC K1, K2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from diana.model.job import resources
from diana.model.job.resources import Amounts, Lack, ResourceOffer, ResourceRequest, countable

TransferTime = Callable[[str, str, float], float]
"""Seconds that a number of bytes need from one site (first) to another (second); 0 within a site, infinite where no way
is known."""


class NeededFile(NamedTuple):
    """A file that a component reads, whole, and the sites that hold a replica of it."""

    name: str
    bytes: float
    sites: tuple[str, ...]


class Component(NamedTuple):
    """One component of a gang: so many processors of one site, and what it asks beside them, at one time with those of
    the others."""

    processors: int
    site: str = ""
    """The site it has to run at (a fixed request); empty: any."""
    amounts: Amounts = ()
    """Beside processors. Sizes are bounds, all else it has for itself."""
    files: tuple[NeededFile, ...] = ()
    sites: frozenset[str] | None = None
    """The only sites that meet its requirements; None: it has none."""

    @property
    def request(self) -> ResourceRequest:
        return ResourceRequest(self.processors, self.amounts)


@dataclass(frozen=True, slots=True)
class FlexibleRequest:
    """So many processors in all, which the policy may divide into components."""

    processors: int
    minimum: int = 1
    """Least processors of a component."""
    most_components: int = 0
    """0: as many as there are sites."""
    files: tuple[NeededFile, ...] = ()
    """Read by each component."""
    splits: tuple[tuple[int, ...], ...] = ()
    """The only divisions allowed, the preferred ones first; none: any within the bounds."""
    amounts: Amounts = ()
    """Asked by each component beside processors."""
    own_files: Mapping[int, tuple[NeededFile, ...]] = field(default_factory=dict)
    """Number of a component -> what it reads beside `files`, should there be so many."""

    def read_by(self, component: int) -> tuple[NeededFile, ...]:
        """Return the files that the component of this number reads."""
        own = self.own_files.get(component, ())
        return (*self.files, *own) if own else self.files


class GangQuota(NamedTuple):
    """Bound of a site on what components of gangs hold there at one time, so that its own users are not starved (Sonmez
    et al., section 4.1)."""

    left: int
    """Processors that gangs may get beside those that they hold."""
    most: int
    """Processors that they may have when the site is idle."""


@dataclass(frozen=True, slots=True)
class SiteRoom:
    """The room that a site has for components."""

    name: str
    idle: int
    """Processors that are idle, or will be at the time the gang starts."""
    total: int
    widest: int = 0
    """Processors one component may have there; 0: all of them."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Resource -> how much of it is there then beside processors, for all components together; of sizes, for one. Of
    sizes that are left out nothing is known, of others there is none."""
    whole: Mapping[str, int] = field(default_factory=dict)
    """The same when the site is idle."""
    home: bool = False
    """True for the gang's origin, which comes before others that are as good."""
    quota: GangQuota | None = None
    """None: gangs may have the whole site."""

    @property
    def usable(self) -> int:
        """Return the idle processors that gangs may get."""
        return self.idle if self.quota is None else max(0, min(self.idle, self.quota.left))

    @property
    def most(self) -> int:
        """Return the processors that gangs may get when the site is idle."""
        return self.total if self.quota is None else min(self.total, self.quota.most)

    def emptied(self) -> SiteRoom:
        """Return the room of the site when it is idle."""
        return replace(self, idle=self.total, left=self.whole, quota=self.quota and GangQuota(self.most, self.most))


class PlacedFile(NamedTuple):
    name: str
    source: str
    transfer_s: float
    bytes: float = 0.0


class PlacedComponent(NamedTuple):
    """A component's place."""

    component: int
    """Its number in the request, from 0; in a flexible request, its number among those that were made."""
    processors: int
    site: str
    files: tuple[PlacedFile, ...] = ()

    @property
    def transfer_s(self) -> float:
        """Estimated seconds until its inputs are at its site, one file after the other."""
        return sum(file.transfer_s for file in self.files)


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """A place for each component, in the order of the request."""

    parts: tuple[PlacedComponent, ...]

    @property
    def transfer_s(self) -> float:
        """The gang's file transfer time (FTT): that of its slowest component (Mohamed & Epema, section 6.1)."""
        return max((part.transfer_s for part in self.parts), default=0.0)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites in use, each once, in the order of the components."""
        return tuple(dict.fromkeys(part.site for part in self.parts))

    @property
    def spread(self) -> float:
        """Sites over components (section 7.8), in (0, 1]."""
        return len(self.sites) / len(self.parts)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No place for the gang now."""

    reason: str
    """A line with the component, what it wants and the nearest there is."""
    component: int = -1
    """The component that found none; -1: the request as a whole."""
    never: bool = False
    """True if idle sites would not do either."""

    def told(self, name: str) -> str:
        """Return the line with the component called by its name; empty: it has none."""
        return self.reason.replace(f"component {self.component + 1}", f"component {name}", 1) if name else self.reason


class Rooms:
    """The rooms of the sites while one gang is placed: each component that finds a place leaves less. Sites stand in
    one order however they are given, home first, then by name, so that ties are decided alike."""

    def __init__(self, sites: Sequence[SiteRoom]) -> None:
        self._sites = {site.name: site for site in sorted(sites, key=lambda one: (not one.home, one.name))}
        self._left = {name: site.usable for name, site in self._sites.items()}
        self._amounts = {name: dict(site.left) for name, site in self._sites.items()}

    def copy(self) -> Rooms:
        """Return the same rooms; what one takes the other keeps."""
        other = Rooms(())
        other._sites, other._left = self._sites, dict(self._left)
        other._amounts = {name: dict(left) for name, left in self._amounts.items()}
        return other

    def only(self, names: Iterable[str]) -> Rooms:
        """Return the rooms of these sites alone, in their order here; what one takes the other keeps."""
        other, kept = Rooms(()), frozenset(names)
        other._sites = {name: site for name, site in self._sites.items() if name in kept}
        other._left = {name: left for name, left in self._left.items() if name in kept}
        other._amounts = {name: dict(left) for name, left in self._amounts.items() if name in kept}
        return other

    def shared_out(self, request: GangRequest) -> Rooms:
        """Return the rooms with no more processors at each site than its share of the gang, so that it needs them all;
        what one takes the other keeps."""
        other, sites = self.copy(), max(1, len(self._left))
        if isinstance(request, Sequence):
            most = -(-len(request) // sites) * max((each.processors for each in request), default=0)
        else:
            most = -(-request.processors // sites)
        other._left = {name: min(left, most) for name, left in self._left.items()}
        return other

    def left(self, site: str) -> int:
        """Return the processors that the site still has for this gang."""
        return self._left[site]

    def widest(self, site: str) -> int:
        """Return the processors that one more component may have there."""
        most = self._sites[site].widest
        return min(self._left[site], most) if most else self._left[site]

    def widest_of(self, site: str) -> int:
        """Return the processors that one component may have there when the site is idle."""
        return self._most(self._sites[site])

    def fits(self, site: str, component: Component) -> bool:
        return (
            site in self._left
            and self.widest(site) >= component.processors
            and self.has(site, component.amounts)
            and component.site in ("", site)
            and (component.sites is None or site in component.sites)
        )

    def has(self, site: str, amounts: Amounts) -> bool:
        """True if what the site has left beside processors will do for one more component."""
        return not amounts or _covers(self._amounts[site], amounts)

    def take(self, site: str, component: Component) -> None:
        self._left[site] -= component.processors
        resources.take(self._amounts[site], countable(component.amounts))

    def by_idle(self) -> list[str]:
        """Return the sites by decreasing room; of those with equal room, home first, then by name."""
        return sorted(self._left, key=lambda name: -self._left[name])

    def names(self) -> list[str]:
        """Return the sites, home first, then by name."""
        return list(self._left)

    def none_for(self, index: int, component: Component) -> Unplaced:
        """Return the line for a component that fits nowhere."""
        wanted = resources.shown(component.request)
        if component.site:
            known = self._sites.get(component.site)
            if known is None:
                return Unplaced(f"component {index + 1} has to run at {component.site}, which takes none now", index)
            never = not self._ever(known, component)
            roomy = (self._most(known) if never else self._left[known.name]) >= component.processors
            why = self._short([known.name], component, never=never) if roomy else ""
            left = self._left[known.name]
            taken = not never and left < known.usable
            if not why and self._is_bound(known, never=never):
                rest = "" if never else f", {left} left now"
                why = f"{known.name} gives gangs {known.most} of its {known.total} at most (its gang_quota){rest}"
            why = why or f"{known.name} has {left} {'left' if taken else 'idle'} of {known.total}"
            return Unplaced(f"component {index + 1} wants {wanted}; {why}", index, never)
        if not self._sites:
            return Unplaced(f"component {index + 1} wants {wanted}; no site may run it", index, True)
        name = max(self._sites, key=self.widest)
        never = not any(self._ever(site, component) for site in self._sites.values())
        some = (
            [site.name for site in self._sites.values() if self._most(site) >= component.processors]
            if never
            else [site for site in self._left if self.widest(site) >= component.processors]
        )
        allowed = [site for site in some if component.sites is None or site in component.sites]
        if short := self._short(allowed, component, never=never):
            why = short
        elif never:
            largest = max(self._sites.values(), key=self._most)
            quota = " by its gang_quota" if self._is_bound(largest, never=True) else ""
            why = f"the largest site, {largest.name}, gives {self._most(largest)} at most{quota}"
        else:
            # The components before this one hold some, wherever the sites are looked at as idle.
            quota = ", by its gang_quota" if self._is_bound(self._sites[name], never=False) else ""
            why = f"the most that is {'left' if index else 'idle'} is {self.widest(name)} at {name}{quota}"
        return Unplaced(f"component {index + 1} wants {wanted}; {why}", index, never)

    @staticmethod
    def _is_bound(site: SiteRoom, *, never: bool) -> bool:
        """True if its quota leaves gangs less than there is. `never`: when the site is idle."""
        return site.most < site.total if never else site.usable < site.idle

    def is_bound(self, *, never: bool) -> bool:
        """True if the quota of any site leaves gangs less than there is. `never`: when the sites are idle."""
        return any(self._is_bound(site, never=never) for site in self._sites.values())

    def _short(self, sites: Sequence[str], component: Component, *, never: bool) -> str:
        """Return which of these sites, whose processors would do, is the nearest, and what it has of a resource that it
        lacks; empty: none lacks any. `never`: by what they have when they are idle."""
        there = {site: self._sites[site].whole if never else self._amounts[site] for site in sites}
        lacks = {site: found for site, left in there.items() if (found := _lacking(left, component.amounts))}
        if not lacks:
            return ""
        site = min(lacks, key=lambda name: (len(lacks[name]), -lacks[name][0].had))
        lack = lacks[site][0]
        nearest = f"the nearest, {site}," if len(self._sites) > 1 and not component.site else site
        return f"{nearest} has {resources.count_shown(lack.resource, lack.had)} {'in all' if never else 'left'}"

    def _ever(self, site: SiteRoom, component: Component) -> bool:
        """True if the site holds such a component when it is idle."""
        return self._most(site) >= component.processors and _covers(site.whole, component.amounts)

    def largest(self, sites: int, minimum: int, amounts: Amounts = ()) -> int:
        """Return the processors that the largest sites, so many, have together when they are idle; those that cannot
        hold a component of the minimum with these amounts are left out."""
        some = (site for site in self._sites.values() if _covers(site.whole, amounts))
        sizes = sorted((self._most(site) for site in some), reverse=True)
        return sum(size for size in sizes[:sites] if size >= minimum)

    def _most(self, site: SiteRoom) -> int:
        return min(site.most, site.widest) if site.widest else site.most


def _covers(left: Mapping[str, int], amounts: Amounts) -> bool:
    return resources.fits(ResourceRequest(0, amounts), ResourceOffer(0, left))


def _lacking(left: Mapping[str, int], amounts: Amounts) -> tuple[Lack, ...]:
    return resources.lacking(ResourceRequest(0, amounts), ResourceOffer(0, left))


GangRequest = Sequence[Component] | FlexibleRequest


def with_files(
    request: GangRequest, files: tuple[NeededFile, ...], own: Mapping[int, tuple[NeededFile, ...]] | None = None
) -> GangRequest:
    """Return the request with files that each component reads. `own`: number of a component -> those that not all
    read."""
    own = own or {}
    if not (files or own):
        return request
    if isinstance(request, FlexibleRequest):
        return replace(request, files=files, own_files=own)
    # One value for all that read the same: places look it up by that.
    return [
        each._replace(files=(*files, *own[number]) if number in own else files) for number, each in enumerate(request)
    ]


def in_order(components: Sequence[Component]) -> list[tuple[int, Component]]:
    """Return the components with their numbers in the order of placement: those whose site is given first, for the
    others cannot be let take their room; then by decreasing size, which raises the chance of the large ones."""
    return sorted(enumerate(components), key=lambda each: (not each[1].site, -each[1].processors))


class NearestReplicas:
    """Replicas of least transfer time (SPEC K3). A site is looked at once for a set of files, however many components
    read it."""

    def __init__(self, transfer_time: TransferTime) -> None:
        self._time = transfer_time
        self._known: dict[tuple[NeededFile, ...], dict[str, tuple[PlacedFile, ...]]] = {}

    def nearest(self, files: tuple[NeededFile, ...], site: str) -> tuple[PlacedFile, ...]:
        """Return the replica of each file with the smallest transfer time to the site, ties by name."""
        known = self._known.setdefault(files, {})
        if site not in known:
            known[site] = tuple(self.of_file(file, site, file.sites) for file in files)
        return known[site]

    def of_file(self, file: NeededFile, site: str, sources: Iterable[str]) -> PlacedFile:
        """Return the best of these replicas; infinitely far where there is none."""
        times = [(self._time(source, site, file.bytes), source) for source in sorted(sources)]
        seconds, source = min(times, default=(float("inf"), ""))
        return PlacedFile(file.name, source, seconds, file.bytes)


def one_by_one(
    components: Sequence[Component], rooms: Rooms, transfer_time: TransferTime, order: Callable[[], Sequence[str]]
) -> GangPlacement | Unplaced:
    """Place components in decreasing order of size, each at the first site with room in the order of the moment."""
    replicas = NearestReplicas(transfer_time)
    parts: list[PlacedComponent] = []
    for index, component in in_order(components):
        site = next((name for name in order() if rooms.fits(name, component)), None)
        if site is None:
            return rooms.none_for(index, component)
        rooms.take(site, component)
        files = replicas.nearest(component.files, site)
        parts.append(PlacedComponent(index, component.processors, site, files))
    return GangPlacement(tuple(sorted(parts)))
