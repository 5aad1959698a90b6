"""Records of work that was placed anew because its site is silent (`handover/leases.py`)."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet


class _OfTransfer(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    subgroup: SubgroupId
    epoch: int


class PartDisowned(_OfTransfer, frozen=True, kw_only=True):
    """O: these jobs, which have no result, no longer belong to the part's site; they are unplaced again. The standing
    order that cancels them there was issued with this."""

    indices: IndexSet
    held: IndexSet = IndexSet()
    """The disowned jobs that are not to start until released."""


class PartDropped(_OfTransfer, frozen=True, kw_only=True):
    """O: the site has said that it starts none of the part's disowned jobs."""

    site: SiteId


LeaseRecord = PartDisowned | PartDropped
