"""Claims of this site: components that may take their processors, and those that stand at the barrier (SPEC K5)."""

from __future__ import annotations

from collections.abc import Callable

from diana.engine.journal.state import Custody, CustodyKey, SiteState
from diana.model.ids import SiteId, group_of
from diana.model.indexset import IndexSet

Rank = tuple[float, str, int]
"""(submission, group, number of the gang within it): the lesser is the better, and it is the same in all tries."""

NO_SHARE = "other gangs of its origin hold all that they may here"
_LEAST_S = 1e-3


class ClaimBook:
    """Volatile: an origin asks for its claims again, and a machine tells again what stands at its barrier."""

    def __init__(self) -> None:
        self.host = ""
        """Address at which this site's components are reached; empty: not known."""
        self.until_s: dict[CustodyKey, float] = {}
        """Claims that are asked for: when each lapses, unless it is asked for again. Also those that were claimed
        since, until they are let go."""
        self.hold_s: dict[CustodyKey, float] = {}
        """Seconds for which the processors of a claim are held at most."""
        self.held_until_s: dict[CustodyKey, float] = {}
        """When the processors of a claim are free again that has some of them."""
        self.older: set[CustodyKey] = set()
        """Claims that had processors before this boot of the node, which does not know for how long."""
        self.at_barrier: dict[CustodyKey, IndexSet] = {}
        self.reached: dict[CustodyKey, dict[int, tuple[str, int]]] = {}
        """By index what was told with the barrier: the address of its machine, empty for this site's, and a port that
        is free there for the gang's own use."""
        self.best: CustodyKey | None = None
        """The best of the claims that wait for processors here; no lesser one begins before it."""
        self.lacks = ""
        """Why it may not begin, though it is the best; empty: it may."""
        self.stale = False
        """True if it is to be looked anew which is the best."""
        self.met: dict[CustodyKey, tuple[tuple[str, ...], str | None]] = {}
        """Claims of which the origin asked whether the hosts of the others are reached: these hosts, and the first of
        them that is not, empty if there is none; None while they are looked for."""
        self.ending: dict[CustodyKey, str] = {}
        """Claims that come to nothing once the last of their runs has ended: why."""
        self.unrestored: set[CustodyKey] = set()
        """Those of them whose checkpoint is not as it was saved."""
        self.unable: set[CustodyKey] = set()
        """Those of them that a machine could not begin."""

    def forget(self, key: CustodyKey) -> None:
        for book in (
            *(self.until_s, self.hold_s, self.held_until_s),
            *(self.at_barrier, self.reached, self.met, self.ending),
        ):
            book.pop(key, None)
        self.older.discard(key)
        self.unrestored.discard(key)
        self.unable.discard(key)

    def begins(self, custody: Custody) -> bool:
        """True if runs of this claim may be given to machines now."""
        return custody.key == self.best and not self.lacks

    def held_until(self, custody: Custody, now: float) -> float:
        """Return when runs that begin now leave the barrier by themselves: all of the claim at one time, which counts
        from the first of them. 0: it is no component, or was let go."""
        if custody.runnable or not custody.spec.is_gang:
            return 0.0
        return self.held_until_s.setdefault(custody.key, now + self.hold_s.get(custody.key, 0.0))

    def left_s(self, key: CustodyKey, now: float) -> float:
        """Return the seconds for which the claim's processors are held yet; 0: it is not known."""
        return 0.0 if key in self.older else max(_LEAST_S, self.held_until_s.get(key, 0.0) - now)

    def look(
        self,
        state: SiteState,
        now: float,
        home: SiteId,
        most: float,
        quota: Callable[[Custody], str],
        stays: Callable[[Custody], bool],
    ) -> set[CustodyKey]:
        """Find the best claim anew; return those that may begin now, or no more. `most`: processors that the gangs of
        one site other than `home` may hold here before they are let go; a gang alone may hold more. `quota`: says why
        a claim may not begin by what all gangs hold here. `stays`: true for a claim that would not begin whatever came
        free; none waits for it.

        A claim that better gangs of its origin leave no share is passed over. One that lesser ones leave none is the
        best all the same, and has them asked to yield before it begins."""
        before, self.best, self.stale = self.best, None, False
        held: dict[SiteId, dict[Rank, int]] = {}
        for one in map(state.custodies.get, self.until_s):
            if one is not None and one.origin != home and stands(one):
                gangs = held.setdefault(one.origin, {})
                gangs[rank(one)] = gangs.get(rank(one), 0) + len(one.running) * one.spec.resources.processors

        def within(one: Custody, *, lesser: bool) -> bool:
            mine, gangs = rank(one), held.get(one.origin, {})
            others = sum(many for of, many in gangs.items() if of < mine or (lesser and of > mine))
            return not others or others + len(one.indices) * one.spec.resources.processors <= most

        waiting = [
            (rank(one), key)
            for key, until_s in self.until_s.items()
            if until_s > now and key not in self.ending and (one := state.custodies.get(key)) is not None
            if waits(one) and not stays(one) and within(one, lesser=False)
        ]
        self.lacks = ""
        if waiting:
            self.best = min(waiting)[1]
            best = state.custodies[self.best]
            self.lacks = quota(best) if within(best, lesser=True) else NO_SHARE
        return {key for key in (before, self.best) if key is not None}


def waits(custody: Custody | None) -> bool:
    """True for a component of which some is not at the barrier yet."""
    return custody is not None and not custody.runnable and bool(custody.pending)


def rank(custody: Custody) -> Rank:
    first = custody.indices.bounds[0] if custody.indices else 0
    return custody.submitted_s, group_of(custody.subgroup), first // custody.gang_size


def stands(custody: Custody) -> bool:
    """True for a component that holds processors and was not let go."""
    return not custody.runnable and bool(custody.running) and custody.spec.is_gang
