"""Whether a job changed an input that it shared with others: what was found whole lately may not be so any more."""

from __future__ import annotations

import os
from contextlib import suppress

from diana.model.layout import DataDir


class SpoiltMark:
    """Reads the mark that `adapters/lrm/inputs/links.py` leaves. Each has a memory of its own."""

    def __init__(self, data: DataDir) -> None:
        self._path = data.changed_inputs
        self._seen_ns = 0

    def lately(self) -> bool:
        """True if it happened since this was asked last. Blocks on the disk."""
        before_ns = self._seen_ns
        with suppress(OSError):
            self._seen_ns = os.stat(self._path).st_mtime_ns
        return self._seen_ns != before_ns
