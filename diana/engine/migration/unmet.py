"""Sites that no longer meet the requirements of a group whose jobs wait there (SPEC G1). What a site tells of itself
for long has changed, such as the memory of its machines; its origin calls the waiting jobs back and places them anew.

What changes from minute to minute calls nothing back. Sites are looked at when their lasting values changed, and then
the groups that have open parts there, never each job.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from diana.engine.journal.state import Group
from diana.engine.matching import facts
from diana.engine.matching.match import Match
from diana.engine.messages.messages import Summary
from diana.engine.placement import pull_back
from diana.engine.site.context import Context
from diana.model.ids import SiteId, group_of
from diana.policy.requirements.choice import named
from diana.policy.requirements.names import Value

SETTLED_S = 3.0
"""Seconds for which new values stand before anything is called back by them: a site that starts tells first figures."""
AGAIN_S = 60.0
"""Seconds until a site is looked at again where a group was called back from it a short while ago."""
MOST_GROUPS, LEAST_GROUPS = 256, 8
"""Groups that are judged at one turn, of all changed sites together and of one: each takes half a millisecond, and
thousands may wait at a site. The others follow at the next turns."""
SiteValues = dict[str, Value]


class SeenSite(NamedTuple):
    """A site as it was seen at the last turns."""

    values: SiteValues
    since_s: float
    """Site time since when it tells these."""
    judged: SiteValues | None
    """Values by which its groups were judged last; None: they were not since this node started."""
    summary: Summary | None = None
    """The summary that the values are from; None: they are this site's own."""
    after: str = ""
    """The last group that was judged by these values; empty: none yet."""
    left: bool = False
    """One of those was called back from there a short while ago, and stays for now."""


class Unmet:
    """Lasting values of sites that have work of this one's. Volatile."""

    def __init__(self) -> None:
        self.seen: dict[SiteId, SeenSite] = {}


def look(core: Context) -> None:
    """Note at each turn whose waiting jobs are to be called back, by the sites that have other values than before."""
    book, before = core.book(Unmet), core.book(Unmet).seen
    book.seen = {site: seen for site in _sites(core) if (seen := _seen(core, site, before.get(site))) is not None}
    due = [site for site, seen in book.seen.items() if _is_due(core, seen)]
    for site in due:
        book.seen[site] = _judged(core, site, book.seen[site], max(LEAST_GROUPS, MOST_GROUPS // len(due)))


def _sites(core: Context) -> list[SiteId]:
    return [*([core.site] if core.state.custodies else []), *sorted(core.parties.sites())]


def _seen(core: Context, site: SiteId, before: SeenSite | None) -> SeenSite | None:
    """Return the site as it is now; None: it told nothing yet."""
    peer = core.view.peers.get(site)
    summary = peer.summary if peer is not None else None
    if summary is None and site != core.site:
        return before
    if before is not None and summary is not None and before.summary is summary:
        return before
    values = _values(core, site)
    if before is None:
        return SeenSite(values, core.now, None, summary)
    if before.values == values:
        return before._replace(summary=summary)
    return SeenSite(values, core.now, before.judged, summary)


def _values(core: Context, site: SiteId) -> SiteValues:
    if site == core.site:
        return facts.of_home(core)
    peer = core.view.peers.get(site)
    return facts.of_summary(peer.summary) if peer is not None and peer.summary is not None else {}


def _is_due(core: Context, seen: SeenSite) -> bool:
    return seen.judged != seen.values and core.now - seen.since_s >= _patience_s(seen)


def _judged(core: Context, site: SiteId, seen: SeenSite, most: int) -> SeenSite:
    """Judge the next groups that are open at the site by its values of now."""
    left = seen.left
    groups = list(islice((group for group in _groups(core, site) if group.group > seen.after), most))
    for group in groups:
        why = _why(core, group, site, seen)
        left = left or bool(why and not pull_back.unmet(core, group, site, why))
    if len(groups) == most:
        return seen._replace(after=groups[-1].group, left=left)
    seen = seen._replace(after="", left=False)
    # A group that was called back just now is left; its site is as if not judged.
    return seen._replace(since_s=core.now + AGAIN_S) if left else seen._replace(judged=seen.values)


def _patience_s(seen: SeenSite) -> float:
    """Return how long new values stand before they count. With fewer slots a machine may be away, and come back."""
    slots, before = seen.values.get("site.slots"), (seen.judged or {}).get("site.slots")
    fewer = isinstance(slots, float) and isinstance(before, float) and slots < before
    return pull_back.NO_SLOTS_S if fewer else SETTLED_S


def _groups(core: Context, site: SiteId) -> Iterator[Group]:
    """Yield the groups of this site with requirements that have open parts there, each once. What a gang waits for is
    claimed for a while only, and it is placed anew then."""
    if site == core.site:
        mine = (group_of(key[0]) for key, one in core.state.custodies.items() if one.origin == core.site)
        found = [group for name in mine if (group := core.state.groups.get(name)) is not None]
    else:
        found = [group for group, _ in core.parties.handed_to(site)]
    some = {group.group: group for group in found if group.spec.requirements or group.spec.set_requirements}
    return (group for _, group in sorted(some.items()) if not (group.state or group.spec.is_gang))


def _why(core: Context, group: Group, site: SiteId, seen: SeenSite) -> str:
    """Return in words what the site surely meets no more, by itself or with the group's other sites; empty: nothing."""
    wants = Match(core, group.spec).requirements
    if wants is None:
        return ""
    if failed := wants.surely_failed(seen.values):
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return f"{site} no longer meets {failed[0].text}{more}" + (f": {failed[0].found}" if failed[0].found else "")
    if not wants.sets or seen.judged is None:
        return ""
    # A set loses those of its sites that are through with their jobs: only what this site changed counts.
    held = sorted({part.site for part in group.subgroups.values() if part.open_jobs()})
    now: dict[str, SiteValues] = {one: _values(core, one) for one in held}
    if wants.set_may_hold(now) or not wants.set_may_hold({**now, site: seen.judged}):
        return ""
    text = wants.surely_failed_by_set(now)[0].text
    return f"{named(held)} no longer meet together {text}, as {site} has changed"
