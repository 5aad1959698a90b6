"""Which files a group's refs mean and who holds them, put together from the home catalogue and the quotes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diana.engine.context import Context
from diana.engine.messages import Quote
from diana.model.data import DataFile, Dataset
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.spec import GroupSpec
from diana.policy.demand import Need


def files_of(dataset: Dataset, ref: str) -> tuple[DataFile, ...]:
    """The dataset's files that `ref` means: all for `dataset:NAME`, one or none for `dataset:NAME/FILE`."""
    if "/" not in ref:
        return dataset.files
    low, high = 0, len(dataset.files)
    while low < high:
        middle = (low + high) // 2
        if dataset.files[middle].ref < ref:
            low = middle + 1
        else:
            high = middle
    found = low < len(dataset.files) and dataset.files[low].ref == ref
    return (dataset.files[low],) if found else ()


class Manifest:
    """For one draft. `missing` holds the refs nobody who answered has."""

    def __init__(
        self, core: Context, spec: GroupSpec, refs: Iterable[tuple[str, IndexSet]], quotes: Mapping[SiteId, Quote]
    ) -> None:
        self._home = core.site
        self._asked = [core.site, *sorted(quotes)]
        self._silent = sorted(s for s in core.view.peers if s not in quotes)
        self._rates = {s: p.bytes_per_s or 0.0 for s, p in core.view.peers.items()}
        self._entries: list[tuple[tuple[DataFile, ...], frozenset[SiteId], IndexSet]] = []
        self.missing: list[str] = []
        blobs = _blob_sizes(spec)
        held = {site: _by_dataset(quote.files) for site, quote in quotes.items()}
        for ref, readers in refs:
            if ref.startswith("blob:"):
                sha = ref.partition(":")[2]
                self._entries.append(((DataFile(ref, blobs.get(sha, 0), sha),), frozenset([core.site]), readers))
                continue
            files, holders = self._find(core, ref, held)
            if files:
                self._entries.append((files, holders, readers))
            else:
                self.missing.append(ref)

    def _find(
        self, core: Context, ref: str, held: Mapping[SiteId, Mapping[str, Dataset]]
    ) -> tuple[tuple[DataFile, ...], frozenset[SiteId]]:
        """The files of `ref` as the first of home and the quoting sites knows them, and all sites with equal files."""
        name = ref.partition(":")[2].partition("/")[0]
        files: tuple[DataFile, ...] = ()
        holders: set[SiteId] = set()
        for site in self._asked:
            dataset = core.state.datasets.get(name) if site == core.site else held[site].get(name)
            here = files_of(dataset, ref) if dataset else ()
            if here and (not files or here == files):
                files = here
                holders.add(site)
        return files, frozenset(holders)

    def missing_line(self) -> str:
        names = ", ".join(ref.partition(":")[2] for ref in self.missing[:3])
        more = f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
        silent = f" (no answer from {', '.join(self._silent)})" if self._silent else ""
        sites = ", ".join(self._asked)
        return f"dataset {names}{more}: not registered at {sites}{silent}; add it with: diana datasets add NAME PATH"

    def holders(self) -> list[SiteId]:
        return sorted({site for _, holders, _ in self._entries for site in holders})

    def needs(self, indices: IndexSet) -> tuple[Need, ...]:
        return tuple(
            Need(files=files, readers=readers & indices, holders=holders)
            for files, holders, readers in self._entries
            if not readers.isdisjoint(indices)
        )

    def for_part(
        self, site: SiteId, indices: IndexSet
    ) -> tuple[tuple[DataFile, ...], tuple[tuple[SiteId, ...], ...], tuple[IndexSet, ...]]:
        """(files, sources, readers) that a part at `site` needs; sources best first: itself, then by throughput."""
        files: list[DataFile] = []
        sources: list[tuple[SiteId, ...]] = []
        readers: list[IndexSet] = []
        for some, holders, reading in self._entries:
            here = reading & indices
            if here:
                order = tuple(sorted(holders, key=lambda h: (h != site, -self._rates.get(h, 0.0), h)))
                for file in some:
                    files.append(file)
                    sources.append(order)
                    readers.append(here)
        return tuple(files), tuple(sources), tuple(readers)


def _blob_sizes(spec: GroupSpec) -> dict[str, int]:
    sizes = {i.source.partition(":")[2]: i.size_bytes for i in spec.inputs if i.source.startswith("blob:")}
    if spec.sweep.table:
        sizes[spec.sweep.table.blob] = spec.sweep.table.size_bytes
    return sizes


def _by_dataset(files: Iterable[DataFile]) -> dict[str, Dataset]:
    """A quote's files as one sorted dataset per name."""
    names: dict[str, list[DataFile]] = {}
    for file in files:
        names.setdefault(file.ref.partition(":")[2].partition("/")[0], []).append(file)
    return {
        name: Dataset(name=name, files=tuple(sorted(some, key=lambda f: f.ref))) for name, some in sorted(names.items())
    }
