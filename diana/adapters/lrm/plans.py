"""Compiled groups, kept while their jobs are being started."""

from __future__ import annotations

import threading
from collections import OrderedDict

from diana.adapters.lrm.render import Renderer
from diana.adapters.lrm.rows import TableRows
from diana.adapters.lrm.software import Software, here
from diana.engine.journal.effects import Start
from diana.model.ids import SubgroupId, group_of
from diana.model.layout import DataDir

_MOST = 64


class Plans:
    def __init__(self, data: DataDir, software: Software | None = None) -> None:
        """`software`: the software there is here for the jobs; None: they do not run here."""
        self._data = data
        self._software = software
        self._lock = threading.Lock()
        """Lock around `_kept`: orders are prepared in a thread of their own."""
        self._kept: OrderedDict[tuple[SubgroupId, str], Renderer] = OrderedDict()

    def use(self, software: Software) -> None:
        """Use this software from now on, for jobs that have no order yet."""
        with self._lock:
            if software != self._software:
                self._software = software
                self._kept.clear()

    def offered(self) -> tuple[str, ...]:
        return (*self._software.offered(), here()) if self._software is not None else ()

    @staticmethod
    def needs_disk(order: Start) -> bool:
        """True if starting these jobs takes more than sending them to the spawner."""
        spec = order.spec
        return bool(spec.script or spec.sweep.table or (spec.needs_directory() and not order.directory))

    def renderer(self, order: Start) -> Renderer:
        """Return the order's renderer. ValueError: a template cannot be compiled, or software that its jobs need is
        not to be had here."""
        name = (order.subgroup, order.directory)
        found = self._kept.get(name)
        if found is None or (found.spec is not order.spec and found.spec != order.spec):
            table, here = order.spec.sweep.table, self._software
            rows = TableRows(self._data.staged(order.subgroup) / "blob" / table.blob, table.rows) if table else None
            if here is None and order.spec.cwd:
                here = Software()
            before = here.before(order.spec, order.subgroup, self._data) if here is not None else []
            found = Renderer(order.spec, group_of(order.subgroup), rows, before)
            with self._lock:
                if self._software in (here, None):
                    self._kept[name] = found
                if len(self._kept) > _MOST:
                    self._kept.popitem(last=False)
        return found
