"""Jobs that made way for a gang, as both their users are told."""

from __future__ import annotations

import msgspec

from diana.model.indexset import IndexSet


class MadeWay(msgspec.Struct, frozen=True, array_like=True):
    jobs: IndexSet
    """Those that made way, or the components for which others did."""
    line: str
