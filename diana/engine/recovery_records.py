"""Records of a site whose store is an older one than it had (`recovery.py`)."""

from __future__ import annotations

import msgspec

from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    pass


class PartReported(_Record, frozen=True, kw_only=True):
    """O: how a transfer stands at its destination, which outlived this site's own memory of it."""

    subgroup: SubgroupId
    epoch: int
    site: SiteId
    db_uuid: str
    open: IndexSet = IndexSet()
    told: IndexSet = IndexSet()
    """Their results were given to the database that is gone: held."""
    revoked: IndexSet = IndexSet()
    dropped: bool = False
    control_seq: int = 0
    """Number of the standing order that is obeyed there."""
    cancelled: IndexSet = IndexSet()
    holding: IndexSet = IndexSet()
    recalled: IndexSet = IndexSet()


class PeerReported(_Record, frozen=True, kw_only=True):
    """O: that site has told all that it holds; or, `waived`, an operator waits for it no longer."""

    site: SiteId
    waived: bool = False


class HoldLifted(_Record, frozen=True, kw_only=True):
    """O: its user lets a group of a restored store go on; what of it may have run since may run again."""

    group: GroupId


RecoveryRecord = PartReported | PeerReported | HoldLifted
