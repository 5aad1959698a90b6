"""The files that the jobs of an order read, and which of them a member machine may therefore fetch.

The stage-in orders of a site say what its subgroups read in all; the files that the jobs of one order read follow
from their template. A member is granted the files of the orders it was given, nothing else (PROMISES 5.3).
"""

from __future__ import annotations

from diana.adapters.lrm.plans import Plans
from diana.adapters.staging.refs import BlobRef, DatasetRef, ManifestRef, Ref
from diana.engine.journal.effects import StageIn, Start
from diana.model.data import DataFile, dataset_of
from diana.model.ids import SubgroupId
from diana.model.job.spec import build_path
from diana.model.layout import DataDir


class InputBook:
    """`note` and `drop` belong to the loop; `files_of` may be called from another thread."""

    def __init__(self, data: DataDir) -> None:
        self._plans = Plans(data)
        self._orders: dict[SubgroupId, list[StageIn]] = {}
        self._indexed: dict[SubgroupId, tuple[int, dict[str, DataFile]]] = {}

    def note(self, order: StageIn) -> None:
        """Note that the site stages these: keep a reference to the order, and make an index only if a member wants
        it."""
        self._orders.setdefault(order.subgroup, []).append(order)

    def drop(self, subgroup: SubgroupId) -> None:
        self._orders.pop(subgroup, None)
        self._indexed.pop(subgroup, None)

    @staticmethod
    def has_inputs(order: Start) -> bool:
        return bool(order.spec.inputs or order.spec.sweep.table or order.saved)

    def files_of(self, order: Start, indices: list[int]) -> list[DataFile]:
        """Return the files that these jobs read, each once, in order of first use. ValueError, LookupError, OSError:
        the template or the sweep's table cannot be used, or a file is none that was staged."""
        spec = order.spec
        known = self._index(order.subgroup)
        found: dict[str, DataFile] = {}
        if spec.sweep.table:
            self._take(f"blob:{spec.sweep.table.blob}", known, found)
        if spec.inputs:
            renderer = self._plans.renderer(order)
            builds = {build_path(name, spec.program) for name in spec.builds}
            for index in indices:
                for each in renderer.inputs(index):
                    # A build that no machine of the site can use is not brought here.
                    if each.path not in builds or each.source in known:
                        self._take(each.source, known, found)
        if order.saved:
            mine = set(indices)
            for job in order.saved:
                for file in job.files if job.index in mine else ():
                    self._take(f"blob:{file.sha256}", known, found)
        return list(found.values())

    @staticmethod
    def _take(ref: str, known: dict[str, DataFile], found: dict[str, DataFile]) -> None:
        if ref in found:
            return
        whole = ref.partition("/")[0]
        file = known.get(ref) or (known.get(whole) if dataset_of(ref) else None)
        if file is None:
            raise LookupError(f"input {ref} was not staged; submit again")
        found[file.ref] = file

    def _index(self, subgroup: SubgroupId) -> dict[str, DataFile]:
        orders = self._orders.get(subgroup, [])
        count, index = self._indexed.get(subgroup, (0, {}))
        if count < len(orders):
            for order in orders[count:]:
                index.update((fetch.file.ref, fetch.file) for fetch in order.files)
            self._indexed[subgroup] = (len(orders), index)
        return index


class Grants:
    """The files that one machine may read, by the orders it was given."""

    def __init__(self) -> None:
        self._files: dict[str, set[SubgroupId]] = {}
        """Content hash, or `dataset NAME@VERSION` for whole ones -> subgroups for which it was granted."""
        self._names: dict[SubgroupId, set[str]] = {}

    def give(self, subgroup: SubgroupId, files: list[DataFile]) -> None:
        for file in files:
            self._give(subgroup, file.sha256)
            head, _, rest = file.ref.partition(":")
            if head == "dataset" and "/" not in rest:
                self._give(subgroup, f"dataset {rest}")

    def _give(self, subgroup: SubgroupId, name: str) -> None:
        self._files.setdefault(name, set()).add(subgroup)
        self._names.setdefault(subgroup, set()).add(name)

    def drop(self, subgroup: SubgroupId) -> None:
        for name in self._names.pop(subgroup, ()):
            self._files[name].discard(subgroup)
            if not self._files[name]:
                del self._files[name]

    def allow(self, ref: Ref, sha256: str) -> bool:
        """True if the machine may read this; `sha256` is the content it asks for, empty where it names none."""
        match ref:
            case BlobRef(named) | ManifestRef(named):
                return named in self._files
            case DatasetRef(name, _, version):
                whole = f"dataset {name}@{version}" if version else f"dataset {name}"
                return (bool(sha256) and sha256 in self._files) or whole in self._files
            case _:
                return False
