"""Close-to-Files: components go to the sites that hold their files, or else where fetching them takes least (Mohamed &
Epema, section 5.1, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diana.policy.gang.requests import (
    Component,
    GangPlacement,
    NearestReplicas,
    NeededFile,
    PlacedComponent,
    PlacedFile,
    Rooms,
    TransferTime,
    Unplaced,
    in_order,
)

MOST_PAIRS = 4096
"""Pairs a history keeps; the ones that were of no use for longest are forgotten first."""


class PairHistory:
    """The history table H: pairs of an execution site and a file site that were worth a look before. It spares a large
    grid the pricing of all pairs. Oldest first, at most `MOST_PAIRS`."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs: dict[tuple[str, str], None] = {}
        self.insert(pairs)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def insert(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            self._pairs.pop(pair, None)
            self._pairs[pair] = None
        while len(self._pairs) > MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]


def close_to_files(
    components: Sequence[Component], rooms: Rooms, transfer_time: TransferTime, history: PairHistory | None = None
) -> GangPlacement | Unplaced:
    """Place components in decreasing order of size. A component goes to a site that holds all its files and has room,
    the first by name; else to the site of the pair of least transfer time among those of the history (None: among all
    pairs), of equal ones to home, then to the first by name; else the gang has no place. The history learns the chosen
    site with all file sites of the gang.

    Components without files are close everywhere; the emptiest site is theirs, as in Worst-Fit.
    """
    file_sites = sorted({site for component in components for file in component.files for site in file.sites})
    near = _Near(NearestReplicas(transfer_time), history)
    parts: list[PlacedComponent] = []
    for index, component in in_order(components):
        roomy = [name for name in rooms.names() if rooms.fits(name, component)]
        if not roomy:
            return rooms.none_for(index, component)
        if not component.files:
            site, files = max(roomy, key=rooms.left), tuple[PlacedFile, ...]()
        elif holders := sorted(name for name in roomy if all(name in file.sites for file in component.files)):
            site, files = (
                holders[0],
                tuple(PlacedFile(file.name, holders[0], 0.0, file.bytes) for file in component.files),
            )
        else:
            pairs = [(each, found) for each in roomy if (found := near.sources(component, each))]
            if not pairs:
                return Unplaced(
                    f"component {index + 1}: no site with room for it is known to be near its files "
                    f"({', '.join(file.name for file in component.files[:3])})",
                    index,
                )
            site, files = min(pairs, key=lambda pair: sum(file.transfer_s for file in pair[1]))
            if history is not None:
                history.insert((site, source) for source in file_sites)
        rooms.take(site, component)
        parts.append(PlacedComponent(index, component.processors, site, files))
    return GangPlacement(tuple(sorted(parts)))


class _Near:
    """Replicas among the pairs of the history."""

    def __init__(self, replicas: NearestReplicas, history: PairHistory | None) -> None:
        self._replicas = replicas
        self._history = history

    def sources(self, component: Component, site: str) -> tuple[PlacedFile, ...]:
        """Return the cheapest replica of each file; empty if a file has none. Where the request names the site, all
        pairs with it are looked at."""
        if self._history is None or component.site:
            found = self._replicas.nearest(component.files, site)
        else:
            found = tuple(self._among(self._history, file, site) for file in component.files)
        return () if any(file.transfer_s == float("inf") for file in found) else found

    def _among(self, history: PairHistory, file: NeededFile, site: str) -> PlacedFile:
        known = (source for source in file.sites if source == site or (site, source) in history)
        return self._replicas.of_file(file, site, known)
