"""The assignment: jobs of a group given to one site under an epoch. Every class that holds one inherits its fields, so
that a field that travels from the origin to the machine stands here alone (PROMISES section 2)."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.model.data import DataFile
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import SavedJob


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that a placement's record, the offer of it, the origin's state, and the record and state of the site
    that takes it have in common. Their classes inherit from this one; `assigned` hands the fields on."""

    subgroup: SubgroupId
    epoch: int
    indices: IndexSet
    files: tuple[DataFile, ...] = ()
    """Manifest of the inputs that these jobs touch."""
    sources: tuple[tuple[SiteId, ...], ...] = ()
    """Per file of `files`: sites with a replica, best first."""
    readers: tuple[IndexSet, ...] = ()
    """Per file of `files`: the jobs that read it."""
    max_parallel: int = 0
    """Jobs of these that may run at once, of the group's `max_parallel`; 0: no limit."""
    attempt_base: int = 0
    """Attempts these jobs may have used elsewhere: theirs here count on from there."""
    exported: bool = False
    """True if they come from a congested site: they are not let go again."""
    behind: bool = False
    """True if a move gives them a site without a raise: they wait there as work that comes now, however old it is."""
    unguarded: bool = False
    """True if they are run however many fail at once: their failures are their own, or nobody else takes them."""
    processors: int = 0
    """Processors of each of these components, as a flexible gang was divided; 0: as the spec says."""

    saved: tuple[SavedJob, ...] = ()
    """Checkpoints from which some of these jobs go on; their files are among `files`."""
    memory_bytes: int = 0
    """Memory of each job in place of its spec's: they ran out of that before. 0: as the spec says."""

    def assigned(self, *without: str) -> dict[str, Any]:
        """Return the fields of the assignment by name, `without` some, for another class that holds it."""
        return {name: getattr(self, name) for name in FIELDS if name not in without}


FIELDS = tuple(field.name for field in msgspec.structs.fields(Assignment))
