"""Whole datasets as jobs of a subgroup see them: checked to be as they were registered, and linked.

One link where that says all; a link per file where the files lie in several folders or beside others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from diana.adapters.file_names import parts_of
from diana.adapters.staging.catalogue.catalogue import Catalogue, Registered
from diana.adapters.staging.catalogue.holdings import LocalData, changed
from diana.adapters.staging.catalogue.manifests import entries
from diana.adapters.staging.catalogue.spoilt import SpoiltMark
from diana.adapters.staging.paths import folder, link, sync_folders
from diana.errors import DianaError
from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.layout import DataDir

FEW = 256
"""Most files that are linked one by one, so that jobs see these alone, whatever is put beside them later."""
_CHECKED_S = 600.0
"""Seconds for which a dataset that was found unchanged is not looked through again."""
_PAGE = 2000


class Wholes:
    """Methods block: call them from a data thread."""

    def __init__(self, data: DataDir, site: SiteId, holdings: LocalData, catalogue: Catalogue, pool: Executor) -> None:
        self._data = data
        self._site = site
        self._holdings = holdings
        self._catalogue = catalogue
        self._pool = pool
        self._checked: dict[int, float] = {}
        self._spoilt = SpoiltMark(data)

    def own(self, unit: DataFile) -> tuple[Registered | None, str]:
        """Our own copy of just that content, or why there is none."""
        found = self._catalogue.by_digest(unit.sha256)
        if found is None:
            return None, ""
        if self._spoilt.lately():
            self._checked.clear()
        if time.monotonic() < self._checked.get(found.number, 0.0):
            return found, ""
        for page in self._catalogue.pages(found.number):
            for file in page:
                try:
                    status = os.lstat(file.path)
                    if (status.st_size, status.st_mtime_ns) == (file.size_bytes, file.mtime_ns):
                        continue
                    trouble: DianaError | None = changed(f"{unit.ref}/{file.name}", self._site)
                except OSError:
                    trouble = self._holdings.trouble_of(file, f"{unit.ref}/{file.name}")
                if trouble is not None:
                    self._catalogue.note_changed(found.number, True)
                    return None, str(trouble)
        if found.dataset.files > FEW:
            self._checked[found.number] = time.monotonic() + _CHECKED_S
        return found, ""

    def link_own(self, own: Registered, unit: DataFile, root: Path) -> None:
        at = self._place(unit, root)
        if own.folder and own.dataset.files > FEW and not at.is_dir():
            self._link_folder(Path(own.folder), at, root)
            return
        for page in self._catalogue.pages(own.number):
            self._link_files(((file.name, file.path) for file in page), at, root)

    def link_replica(self, unit: DataFile, root: Path) -> None:
        at, tree = self._place(unit, root), self._data.replica(unit.sha256)
        if not at.is_dir() or at.is_symlink():
            self._link_folder(tree, at, root)
            return
        for page in entries(self._data.manifest(unit.sha256), _PAGE):
            self._link_files(((entry.name, tree / entry.name) for entry in page), at, root)

    def _place(self, unit: DataFile, root: Path) -> Path:
        return root / "dataset" / unit.ref.partition(":")[2]

    def _link_folder(self, target: Path, at: Path, root: Path) -> None:
        with folder(root, at.relative_to(root).parts[:-1], create=True) as parent:
            link(parent, at.name, target)
        sync_folders(root, [("dataset",)])

    def _link_files(self, files: Iterable[tuple[str, Path]], at: Path, root: Path) -> None:
        below = at.relative_to(root).parts
        if at.is_symlink():
            with suppress(FileNotFoundError):
                at.unlink()
        folders: dict[tuple[str, ...], list[tuple[str, Path]]] = {}
        for name, path in files:
            *parents, last = parts_of(name)
            folders.setdefault((*below, *parents), []).append((last, path))
        for parent in sorted(folders):
            with folder(root, parent, create=True) as here:
                for last, path in folders[parent]:
                    link(here, last, path)
        sync_folders(root, sorted(folders))
