"""The manifest of a draft: which units of data a group's refs mean and who holds them, put together from home's look-up
and the quotes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diana.engine.data import checkpoints
from diana.engine.data.datasets import nearest
from diana.engine.placement.draft import Draft, blob_sizes
from diana.engine.site.context import Context
from diana.model.data import DataFile, dataset_of
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.urls import place_of
from diana.policy.pricing.demand import Need

_SEE = "see: diana datasets show"


class Manifest:
    """The units of data of one draft. `missing` holds the refs that nobody who answered has."""

    def __init__(self, core: Context, draft: Draft) -> None:
        self._core = core
        quotes = {site: quote for site, (quote, _) in sorted(draft.quotes.items())}
        self._asked = [core.site, *quotes]
        self._told_rates = {s: {link.site: link.bytes_per_s for link in q.links} for s, q in quotes.items()}
        self._entries: list[tuple[DataFile, frozenset[SiteId], IndexSet]] = []
        self.missing: list[str] = []
        self.trouble = dict(draft.held.failed) if draft.held else {}
        """Ref that should be at home -> why it cannot be had there."""
        blobs = blob_sizes(draft.spec)
        registered = {core.site: draft.held.found if draft.held else (), **{s: q.files for s, q in quotes.items()}}
        cached = {core.site: draft.held.cached if draft.held else (), **{s: q.cached for s, q in quotes.items()}}
        units = _first_known(registered)
        self._known_of_old(core, draft, units)
        holders = _holders(units, registered, cached)
        for ref, readers in draft.refs:
            if ref.startswith("blob:"):
                sha = ref.partition(":")[2]
                self._entries.append((DataFile(ref, blobs.get(ref, 0), sha), frozenset([core.site]), readers))
            elif ref in units and ref.startswith("url:"):
                # Everybody reads it there, this site too; nobody fetches it from a site.
                self._entries.append((units[ref], frozenset([url_host(ref)]), readers))
            elif ref in units:
                self._entries.append((units[ref], frozenset(holders[ref]), readers))
            else:
                self.missing.append(ref)
        for unit, readers in checkpoints.units(core, draft.group, draft.indices):
            self._entries.append((unit, frozenset([core.site]), readers))
        self._holders = sorted({site for _, some, _ in self._entries for site in some})

    def _known_of_old(self, core: Context, draft: Draft, units: dict[str, DataFile]) -> None:
        """Add units that only this site's own replicas describe, where a site that told of their dataset cannot be
        reached: the replica was fetched from there, and whoever holds the same content serves it."""
        lacking = [unit for unit in (draft.held.cached if draft.held else ()) if unit.ref not in units]
        if not lacking:
            return
        away = (peer.summary for peer in core.view.peers.values() if not peer.here)
        names = {name for told in away if told is not None for name in told.datasets}
        units.update((unit.ref, unit) for unit in lacking if dataset_of(unit.ref) in names)

    def missing_line(self) -> str:
        troubled = [ref for ref in self.missing if ref in self.trouble]
        if troubled:
            return self.trouble[troubled[0]]
        for ref in self.missing[:3]:
            line = self._not_in_dataset(ref)
            if line:
                return line
        named = {dataset_of(ref) for ref in self.missing[:3]}
        likely = sorted({near for name in named for near in nearest(self._core, name)} - named)
        hint = f"did you mean {' or '.join(likely[:3])}? else " if likely else ""
        names = _some([ref.partition(":")[2] for ref in self.missing])
        sites = ", ".join(self._asked)
        mend = f"{hint}add it with: diana datasets add NAME PATH"
        return f"dataset {names}: not registered at {sites}{self._silent()}; {mend}"

    def held_by_silent(self) -> tuple[str, list[SiteId]]:
        """Return a missing dataset and the sites that say they have it and did not answer; none: nobody says so."""
        for name in dict.fromkeys(dataset_of(ref) for ref in self.missing):
            if silent := sorted(set(self._core.roster.holders([name])) - set(self._asked)):
                return name, silent
        return "", []

    def _not_in_dataset(self, ref: str) -> str:
        """Return what is wrong with the ref, if those who answered have other files or versions of its dataset; else
        empty."""
        name = dataset_of(ref)
        known = self._core.roster.holders([name])
        where = [s for s in self._asked if s in known or (s == self._core.site and name in self._core.state.datasets)]
        if not where:
            return ""
        version, _, file = ref.removeprefix(f"dataset:{name}").partition("/")
        whole = f"dataset:{name}{version}"
        if not file:
            return f"dataset {name}: no version {version[1:]} of it at {_some(where)}{self._silent()}; {_SEE} {name}"
        files = [other.removeprefix(f"{whole}/") for other in self.missing if other.startswith(f"{whole}/")]
        what = f"no file {_some(files)} in it" + (f", or no version {version[1:]}" if version else "")
        return f"dataset {name}{version}: {what}, at {_some(where)}{self._silent()}; {_SEE} {name} --files"

    def _silent(self) -> str:
        """Name the peers that did not answer and may know better; empty: there are none."""
        silent = sorted(s for s in self._core.view.peers if s not in self._asked)
        return f" (no answer from {_some(silent)})" if silent else ""

    def _rates(self, site: SiteId, holders: Iterable[SiteId]) -> dict[SiteId, float]:
        """Return bytes per second at which `site` would fetch from each of these, by its own forecast; 0: not known."""
        if site != self._core.site:
            told = self._told_rates.get(site, {})
            return {holder: told.get(holder, 0.0) for holder in holders}
        met = self._core.view.peers
        return {h: (met[h].bytes_per_s or 0.0) if h in met else 0.0 for h in holders}

    def holders(self) -> list[SiteId]:
        return self._holders

    def needs(self, indices: IndexSet) -> tuple[Need, ...]:
        return tuple(
            Need(files=(unit,), readers=readers & indices, holders=holders)
            for unit, holders, readers in self._entries
            if not readers.isdisjoint(indices)
        )

    def held(self, indices: IndexSet) -> tuple[int, dict[SiteId, int]]:
        """Return (bytes of the inputs of these jobs, bytes of them that each site holds), each input counted once."""
        total, at = 0, dict.fromkeys(self._asked, 0)
        seen = set[str]()
        for unit, holders, readers in self._entries:
            if unit.ref in seen or readers.isdisjoint(indices):
                continue
            seen.add(unit.ref)
            total += unit.size_bytes
            for site in holders:
                at[site] = at.get(site, 0) + unit.size_bytes
        return total, at

    def for_part(
        self, site: SiteId, indices: IndexSet
    ) -> tuple[tuple[DataFile, ...], tuple[tuple[SiteId, ...], ...], tuple[IndexSet, ...]]:
        """Return (files, sources, readers) that a part at `site` needs. Sources stand best first: the site itself, then
        the others by its forecasts of its links. Data read by URL has no source."""
        rates = self._rates(site, self._holders)
        files: list[DataFile] = []
        sources: list[tuple[SiteId, ...]] = []
        readers: list[IndexSet] = []
        for unit, holders, reading in self._entries:
            here = reading & indices
            if here:
                known = (h for h in holders if not is_url(h))
                order = tuple(sorted(known, key=lambda h: (h != site, -rates[h], h)))
                files.append(unit)
                sources.append(order)
                readers.append(here)
        return tuple(files), tuple(sources), tuple(readers)


def url_host(ref: str) -> SiteId:
    """The pseudo-site that holds what a `url:` ref names: `url:SCHEME://HOST`."""
    return SiteId(f"url:{place_of(ref.partition(':')[2])}")


def is_url(holder: SiteId) -> bool:
    """True if the holder is the pseudo-site of a URL. No site's id has a colon."""
    return holder.startswith("url:")


def _some(names: Sequence[str]) -> str:
    """Join at most three of the names, and count the rest."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _first_known(registered: Mapping[SiteId, Iterable[DataFile]]) -> dict[str, DataFile]:
    """Return each ref's unit as the first site that has it registered describes it; home comes first."""
    units: dict[str, DataFile] = {}
    for some in registered.values():
        for unit in some:
            units.setdefault(unit.ref, unit)
    return units


def _holders(units: Mapping[str, DataFile], *held: Mapping[SiteId, Iterable[DataFile]]) -> dict[str, set[SiteId]]:
    """Return ref -> all sites with that very content, registered or cached."""
    holders: dict[str, set[SiteId]] = {ref: set() for ref in units}
    for kind in held:
        for site, some in kind.items():
            for unit in some:
                if units.get(unit.ref) == unit:
                    holders[unit.ref].add(site)
    return holders
