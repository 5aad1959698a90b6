"""The word by which a gang learns which of its components compute (SPEC G6)."""

from __future__ import annotations

import msgspec

from diana.model.ids import SubgroupId


class GangRoster(msgspec.Struct, frozen=True, kw_only=True):
    """Origin to each site of a gang that was let go: these components compute, the others stand by. Said again until
    the components report that they do. Of two words the higher number counts, and the processes agree on one at the
    end of a step, so a word that is lost, late or doubled makes no two of them active in one place."""

    subgroup: SubgroupId
    epoch: int
    number: int
    """Exchanges of the attempt."""
    active: tuple[int, ...]
    """Ranks that compute, by their places."""
