"""Attempts to start gangs, as their origin follows them (`attempts.py`)."""

from __future__ import annotations

from math import inf

from diana.engine.journal.state import Group, Subgroup
from diana.engine.site.context import Context
from diana.engine.site.timers import GangTimer
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet

SAVE_S = 60.0
"""Seconds by which components of a gang may stop at a checkpoint later than the first of them, beside `wait_s`."""

GangKey = tuple[GroupId, int]
"""(group, number of the gang within it)."""


class ComponentClaim:
    """Words of a site about one part of an attempt."""

    def __init__(self) -> None:
        self.db_uuid = ""
        """Database its PREPARED stands in; empty: it has not answered."""
        self.staged = False
        self.host = ""
        """Address of the component; empty: it is not claimed."""
        self.port = 0
        self.expected_s = 0.0
        """Seconds from its placement on in which its processors were expected to come free."""
        self.asked_s = 0.0
        """When its claim was asked for first; 0: it was not yet."""
        self.hosts: tuple[str, ...] = ()
        """Address of each of its indices; empty: all are at `host`."""
        self.made_way = ""
        """Who made way for it at its site, in words; empty: nobody."""
        self.looks = False
        """True if its site looks whether it reaches the hosts of the others."""
        self.meets = False
        """True if it was asked to."""
        self.met = False
        """True if it does."""
        self.since_s = 0.0
        """When `state` became what it is."""

    @property
    def state(self) -> str:
        """offered, staging, later (asked for later), waits (for processors) or holds (them)."""
        if self.host:
            return "holds"
        if self.asked_s:
            return "waits"
        if self.staged:
            return "later"
        return "staging" if self.db_uuid else "offered"


class GangAttempts:
    """Attempts to start gangs. Volatile: after a restart of this site each part is offered and claimed again."""

    def __init__(self) -> None:
        self.parts: dict[GangKey, tuple[SubgroupId, ...]] = {}
        """The parts of each gang that is placed and not over."""
        self.claiming: set[GangKey] = set()
        """Those of them that were not let go."""
        self.claims: dict[SubgroupId, ComponentClaim] = {}
        self.over_s: dict[GangKey, float] = {}
        """When an attempt is given up whose components are being claimed."""
        self.placed_s: dict[GangKey, float] = {}
        self.begun_s: dict[GangKey, float] = {}
        """When the first claim of an attempt was asked for."""
        self.holds_s: dict[GangKey, float] = {}
        """Since when an attempt holds processors, by the first word of it."""
        self.gone_s: dict[GangKey, float] = {}
        """When a gang was let go that is not over."""
        self.failed: dict[GangKey, frozenset[SiteId]] = {}
        """Sites at which the last attempt came to nothing: the next prefers others."""
        self.tries: dict[GangKey, int] = {}
        """Attempts that were given up."""
        self.in_vain: dict[GangKey, int] = {}
        """Those of them that had waited for processors, and did not just make way for another gang."""
        self.not_before_s: dict[GangKey, float] = {}
        """When each gang that was given up may be tried again."""
        self.look_s: dict[GangKey, float] = {}
        """When it is looked whether one that pauses has room for all of it at once."""
        self.early: set[GangKey] = set()
        """Attempts that were begun in a pause."""
        self.unable: dict[GangKey, tuple[SiteId, ...]] = {}
        """Sites at which a component could not begin, one for each attempt."""
        self.unmet: dict[GangKey, dict[SiteId, int]] = {}
        """How often each site was one of two that do not reach each other."""
        self.broken: dict[GangKey, tuple[str, frozenset[SiteId]]] = {}
        """Gangs that were let go and of which a component came to nothing: why, and at which sites."""

    def claim(self, part: SubgroupId) -> ComponentClaim:
        return self.claims.setdefault(part, ComponentClaim())

    def forget(self, key: GangKey) -> None:
        for part in self.parts.pop(key, ()):
            self.claims.pop(part, None)
        self.claiming.discard(key)
        self.early.discard(key)
        for book in (self.over_s, self.placed_s, self.begun_s, self.holds_s, self.gone_s):
            book.pop(key, None)

    def looked_at_s(self, key: GangKey) -> float:
        """Return when the gang is looked at again."""
        return min(self.not_before_s.get(key, 0.0), self.look_s.get(key, inf))

    def avoided(self, key: GangKey) -> tuple[frozenset[SiteId], ...]:
        """Return the sites that its next attempt leaves out: those that failed the last one or cannot begin a
        component; where the others would not do, the latter alone."""
        unable = frozenset(self.unable.get(key, ()))
        return self.failed.get(key, frozenset()) | unable, unable

    def again(self, key: GangKey, failed: frozenset[SiteId], at_s: float) -> None:
        """Note that the gang is tried anew from then on, at other sites than those where it can."""
        self.failed[key], self.not_before_s[key] = failed, at_s

    def forget_tries(self, key: GangKey) -> None:
        for book in (self.tries, self.in_vain, self.not_before_s, self.look_s, self.failed, self.unable, self.unmet):
            book.pop(key, None)


def key_of(group: Group, subgroup: Subgroup) -> GangKey:
    """Return the gang of a part that has jobs."""
    return group.group, subgroup.indices.bounds[0] // group.spec.gang_size


def is_of_gang(group: Group, subgroup: Subgroup) -> bool:
    """True if the part has components of a gang. That of the group's merge command has none."""
    return group.spec.is_gang and bool(subgroup.indices) and subgroup.indices.bounds[0] < group.jobs


def over(core: Context, group: Group, key: GangKey) -> None:
    """Forget a gang once all its components have a result."""
    parts = (group.subgroups.get(part) for part in core.book(GangAttempts).parts.get(key, ()))
    if not any(one is not None and one.open_jobs() for one in parts):
        core.book(GangAttempts).forget(key)


def stopping(core: Context, group: Group, key: GangKey) -> None:
    """Note that a component stopped at a checkpoint: those that have not done so in time are ended, since none of them
    can go on without it."""
    checkpoint, book = group.spec.checkpoint, core.book(GangAttempts)
    parts = (group.subgroups.get(part) for part in book.parts.get(key, ()))
    if checkpoint is None or not any(one is not None and one.open_jobs() for one in parts):
        core.timers.cancel(GangTimer("save-over", *key))
    elif GangTimer("save-over", *key) not in core.timers:
        core.after(GangTimer("save-over", *key), checkpoint.wait_s + SAVE_S)


def closed(core: Context, group: Group) -> None:
    """Forget all gangs of a group that is over."""
    book = core.book(GangAttempts)
    # A gang that was let go and broke has no tries.
    some = (*book.parts, *book.tries, *book.not_before_s, *book.look_s)
    for key in [key for key in some if key[0] == group.group]:
        book.forget(key)
        book.forget_tries(key)


def pause(core: Context, group: Group, indices: IndexSet, seconds: float) -> None:
    """Have the gang of these components not be tried before so much time has passed."""
    book, key = core.book(GangAttempts), (group.group, indices.bounds[0] // group.spec.gang_size)
    book.not_before_s[key] = max(book.not_before_s.get(key, 0.0), core.now + seconds)
    book.look_s.pop(key, None)


def broke(core: Context, key: GangKey, why: str, *sites: SiteId) -> None:
    """Note that a gang that was let go came to nothing, at these sites: the next attempt prefers others."""
    core.book(GangAttempts).broken.setdefault(key, (why, frozenset(sites)))
