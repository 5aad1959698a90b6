"""One placement in the making: what is to be placed, and what was heard about it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from diana.engine.journal.effects import Refusal
from diana.engine.journal.events import LookedUp, SubmitChain, SubmitGroup
from diana.engine.journal.state import Group
from diana.engine.messages.messages import Quote, QuoteRequest
from diana.model.history import template_key
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job import software
from diana.model.job.spec import GroupSpec
from diana.model.job.urls import beginnings
from diana.model.settings import Settings
from diana.policy.pricing.demand import Demand

MAX_ASKED_REFS = 2000
"""Refs asked for in one message; more are asked for one stretch after the other."""
MAX_ASKED_CHARACTERS = 256 * 1024
"""Characters of refs in one message: names may be long, and each comes back up to twice with size and hash."""


class Draft:
    """Quotes being gathered for one placement."""

    def __init__(self, number: int, spec: GroupSpec, indices: IndexSet, refs: Iterable[tuple[str, IndexSet]]) -> None:
        self.number = number
        self.spec = spec
        self.indices = indices
        self.refs = tuple(refs)
        self.owner = ""
        self.submit: SubmitGroup | None = None
        self.requests: list[int] = []
        self.group: GroupId | None = None
        self.to: SiteId | None = None
        """The one site these jobs are to go to; None: any."""
        self.unguarded = False
        """True if also sites that failed the group may have it."""
        self.raised = False
        """True if the jobs would stand a level higher elsewhere, for they leave a congested site."""
        self.meant: frozenset[SiteId] = frozenset()
        """Sites that are asked, beside those that hold data; empty: those that look best."""
        self.decided: Callable[[Draft], None] | None = None
        """Called when the quotes are in, instead of a placement."""
        self.waiting: set[SiteId] = set()
        """Sites whose quotes are still to come; this one while it looks what data it holds itself."""
        self.asked: set[SiteId] = set()
        """Peers a quote was asked of."""
        self.rounds = 0
        """Number of times quotes were asked for."""
        self.quotes: dict[SiteId, tuple[Quote, float]] = {}
        self.probe: Callable[[Refusal | None], None] | None = None
        """Called with the plan's verdict (None: it can be placed) instead of anything being placed."""
        self.turns: tuple[SiteId, ...] = ()
        """Sites in the order of their turns, where jobs are dealt out one by one."""
        self._told: dict[SiteId, list[Quote]] = {}
        """Answers of a site that is still asked for the rest."""
        self.stretches = _stretches(sorted({ref for ref, _ in self.refs if ref.startswith("dataset:")}))
        """Refs that peers are asked for, in stretches that fit a message each; at least one, though it may be empty."""
        self.urls = beginnings(ref.partition(":")[2] for ref, _ in self.refs if ref.startswith("url:"))
        """Beginnings of the URLs that the jobs would read, which every site is asked about."""
        self.held: LookedUp | None = None
        """This site's own answer, what it holds of the refs; None: it has not looked."""

    def demand(self, settings: Settings) -> Demand:
        """Return the demand by what is known before anybody was asked: without the group's data."""
        need = self.spec.resources
        return Demand(
            indices=self.indices,
            processors=need.processors,
            work_s=need.work_s or settings.default_work_s,
            max_subgroup=settings.max_subgroup,
            max_parallel=self.spec.max_parallel,
        )

    def sought(self) -> tuple[str, ...]:
        """Return the refs somebody must be asked for; what the submitter uploaded lies at the origin."""
        return tuple(sorted({ref for ref, _ in self.refs if not ref.startswith("blob:")}))

    def take(self, site: SiteId, quote: Quote, now: float) -> int | None:
        """Take a site's answer for one stretch. Return the number of the stretch to ask for next; None: the site has
        answered all, or answers what it was not asked."""
        told = self._told.setdefault(site, [])
        if quote.part != len(told):
            return None
        told.append(quote)
        if len(told) < len(self.stretches):
            return len(told)
        whole = msgspec.structs.replace(
            quote,
            files=tuple(file for part in told for file in part.files),
            cached=tuple(file for part in told for file in part.cached),
            unknown_refs=tuple(ref for part in told for ref in part.unknown_refs),
            links=tuple({link.site: link for part in told for link in part.links}.values()),
        )
        self.quotes[site] = (whole, now)
        del self._told[site]
        return None

    def forget(self, sites: Iterable[SiteId]) -> None:
        """Drop these sites' partial answers: they are asked anew."""
        for site in sites:
            self._told.pop(site, None)


class Chain:
    """A submission whose members are still being looked at."""

    def __init__(self, event: SubmitChain) -> None:
        self.event = event
        self.requests = [event.request]
        self.asking: set[int] = set()
        """Numbers of the drafts under way."""
        self.over = False


class Drafts:
    """Placements and submissions in the making. Volatile: after a crash groups with unplaced jobs are drafted anew, and
    a submission that was not answered yet never was."""

    def __init__(self) -> None:
        self.open: dict[int, Draft] = {}
        self.groups: set[GroupId] = set()
        """Accepted groups of which a draft is open."""
        self.chains: list[Chain] = []
        """Submissions of several groups that are looked at and not accepted yet."""


def _stretches(refs: list[str]) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    some: list[str] = []
    characters = 0
    for ref in refs:
        if some and (len(some) >= MAX_ASKED_REFS or characters + len(ref) > MAX_ASKED_CHARACTERS):
            out.append(tuple(some))
            some, characters = [], 0
        some.append(ref)
        characters += len(ref)
    return [*out, tuple(some)]


def quote_request(draft: Draft, part: int = 0) -> QuoteRequest:
    need = draft.spec.resources
    return QuoteRequest(
        quote=draft.number,
        processors=need.processors,
        memory_bytes=need.memory_bytes,
        gpus=need.gpus,
        jobs=len(draft.indices),
        refs=draft.stretches[part],
        part=part,
        owner=draft.owner,
        template=template_key(draft.spec),
        work_s=need.work_s,
        time_limit_s=need.time_limit_s,
        urls=draft.urls,
        raised=draft.raised,
        software=software.needed(draft.spec),
    )


def allowed(spec: GroupSpec, site: SiteId) -> bool:
    return (not spec.sites or site in spec.sites) and site not in spec.not_sites


def parallel_left(group: Group | None, spec: GroupSpec) -> int:
    """Return how many jobs may yet run at once beside those of the parts that stand; 1 if there is no limit."""
    if not spec.max_parallel:
        return 1
    held = sum(s.max_parallel for s in group.subgroups.values() if s.open_jobs()) if group else 0
    return max(0, spec.max_parallel - held)
