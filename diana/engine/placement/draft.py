"""One placement in the making: what is to be placed, what for, and what was heard about it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from diana.engine.dispatch import maintenance
from diana.engine.journal.effects import Refusal
from diana.engine.journal.events import LookedUp, SubmitChain, SubmitGroup
from diana.engine.journal.state import Group
from diana.engine.matching.match import Match, with_model
from diana.engine.messages.messages import MOST_COMPONENT_KINDS, ComponentKind, Quote, QuoteRequest
from diana.engine.messages.wanted import carried, wanted_of
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job.resources import of_job
from diana.model.job.spec import GroupSpec
from diana.model.job.urls import beginnings
from diana.model.settings import Settings
from diana.model.views.decision import Decision
from diana.policy.pricing.demand import Demand
from diana.policy.queueing.heavy import NO_LOAD, GroupLoad, load_of
from diana.policy.requirements.software import names_of_software

MAX_ASKED_REFS = 2000
"""Refs asked for in one message; more are asked for one stretch after the other."""
MOST_REFUSED = 64
"""Waiting groups of which the last look for a place is kept."""
MOST_BYTES = 1 << 62
"""A sum of sizes that peers told stays within what a message carries."""
MAX_ASKED_CHARACTERS = 256 * 1024
"""Characters of refs in one message: names may be long, and each comes back up to twice with size and hash."""


@dataclass(frozen=True)
class NewGroup:
    """Purpose of a draft: a submission is accepted if its first placement is found, and refused if not."""

    event: SubmitGroup
    requests: list[int]
    """Requests to be answered: the same submission may be repeated meanwhile."""


@dataclass(frozen=True)
class PlanOnly:
    """Purpose of a draft: the answer to a submission is the plan, and nothing is kept."""

    event: SubmitGroup


@dataclass(frozen=True)
class Probe:
    """Purpose of a draft: to find out whether a group among several of one submission can be placed."""

    told: Callable[[Refusal | None], None]
    """Called with the verdict; None: it can."""


@dataclass(frozen=True)
class Placement:
    """Purpose of a draft: unplaced jobs of an accepted group are placed."""

    group: GroupId
    to: SiteId | None = None
    """The one site they are to go to; None: any."""


@dataclass(frozen=True)
class Pricing:
    """Purpose of a draft: jobs that wait at a site are priced there and elsewhere."""

    group: GroupId
    sites: frozenset[SiteId]
    """Sites that are asked, beside those that hold data."""
    decided: Callable[[Draft], None]
    """Called when the quotes are in."""
    behind: bool
    """True if they would get no raise there; False: they stand a level higher, as in paper mode."""


Purpose = NewGroup | PlanOnly | Probe | Placement | Pricing


class Draft:
    """Quotes being gathered for one purpose."""

    def __init__(
        self,
        number: int,
        spec: GroupSpec,
        indices: IndexSet,
        refs: Iterable[tuple[str, IndexSet]],
        *,
        owner: str,
        purpose: Purpose,
    ) -> None:
        self.number = number
        self.spec = spec
        self.indices = indices
        self.refs = tuple(refs)
        self.owner = owner
        self.purpose = purpose
        self.unguarded = False
        """True if also sites that failed the group may have it."""
        self.looked = ""
        """In words, what came out where its ways were rolled forward; empty: they were not."""
        self.waiting: set[SiteId] = set()
        """Sites whose quotes are still to come; this one while it looks what data it holds itself."""
        self.asked: set[SiteId] = set()
        """Peers a quote was asked of."""
        self.rounds = 0
        """Number of times quotes were asked for."""
        self.quotes: dict[SiteId, tuple[Quote, float]] = {}
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
        self.offers = names_of_software(spec)
        """Names that requirements ask of `site.software`."""
        self._match: Match | None = None
        self._load: tuple[int, GroupLoad] = (-1, NO_LOAD)
        """(number of answers that it was added up from, load of the group)."""

    @property
    def group(self) -> GroupId | None:
        """The group whose jobs they are; None: it is not accepted yet."""
        return self.purpose.group if isinstance(self.purpose, Placement | Pricing) else None

    @property
    def to(self) -> SiteId | None:
        """The one site the jobs are to go to; None: any."""
        return self.purpose.to if isinstance(self.purpose, Placement) else None

    @property
    def meant(self) -> frozenset[SiteId]:
        """Sites that are asked, beside those that hold data; empty: those that look best."""
        if isinstance(self.purpose, Pricing):
            return self.purpose.sites
        return frozenset() if self.to is None else frozenset((self.to,))

    def match(self, core: Context) -> Match:
        """Return which sites the group may have."""
        if self._match is None:
            self._match = Match(core, with_model(core, self.spec, self.owner))
        return self._match

    def decided(self) -> None:
        """Let go of what is told once, with the decision: a group may wait for its turn for days, and in a large grid
        the sites that it passes over are many."""
        if self._match is not None:
            self._match.passed_over.clear()

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

    def load(self) -> GroupLoad:
        """Return the load of the group, by the sizes of inputs that were told so far."""
        answers = len(self.quotes) + (self.held is not None)
        if self._load[0] != answers:
            sizes = blob_sizes(self.spec)
            told = [quote.files for quote, _ in self.quotes.values()]
            for some in (*told, self.held.found if self.held else ()):
                sizes.update((unit.ref, unit.size_bytes) for unit in some)
            total = sum(max(0, sizes.get(ref, 0)) for ref, _ in self.refs)
            self._load = (answers, load_of(self.spec, min(total, MOST_BYTES)))
        return self._load[1]

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


class Refused(NamedTuple):
    """A look for a place that found none."""

    why: str
    decision: Decision


class Drafts:
    """Placements and submissions in the making. Volatile: after a crash groups with unplaced jobs are drafted anew, and
    a submission that was not answered yet never was."""

    def __init__(self) -> None:
        self.open: dict[int, Draft] = {}
        self.groups: set[GroupId] = set()
        """Accepted groups of which a draft is open."""
        self.chains: list[Chain] = []
        """Submissions of several groups that are looked at and not accepted yet."""
        self._refused: dict[GroupId, Refused] = {}

    def refuse(self, group: GroupId, why: str, decision: Decision) -> None:
        """Keep the last look for a place for a waiting group, of `MOST_REFUSED` groups the latest."""
        self._refused.pop(group, None)
        self._refused[group] = Refused(why, decision)
        if len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def refused(self, group: GroupId, why: str) -> Decision | None:
        """Return that look, where it is still why the group waits."""
        found = self._refused.get(group)
        return found.decision if found is not None and found.why == why else None


def blob_sizes(spec: GroupSpec) -> dict[str, int]:
    """Return ref -> bytes of what the submitter uploaded."""
    sizes = {i.source: i.size_bytes for i in spec.every_input() if i.source.startswith("blob:")}
    if spec.sweep.table:
        sizes[f"blob:{spec.sweep.table.blob}"] = spec.sweep.table.size_bytes
    return sizes


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
    spec, load = draft.spec, draft.load()
    wanted = wanted_of(
        spec,
        # Gangs are placed one by one.
        jobs=min(len(draft.indices), spec.gang_size) if spec.is_gang else len(draft.indices),
        owner=draft.owner,
        group=draft.group or "",
        begins_before_s=maintenance.begins_before_s(spec),
        group_work_s=load.work_s,
        group_bytes=load.size_bytes,
        urls=draft.urls,
    )
    return carried(
        QuoteRequest,
        wanted,
        quote=draft.number,
        refs=draft.stretches[part],
        part=part,
        raised=isinstance(draft.purpose, Pricing) and not draft.purpose.behind,
        behind=isinstance(draft.purpose, Pricing) and draft.purpose.behind,
        coming=spec.is_gang,
        kinds=spec.is_gang or spec.requires or bool(spec.builds) or bool(spec.model),
        components=tuple(
            ComponentKind(each.processors, dict(of_job(each))) for each in spec.component_kinds()[:MOST_COMPONENT_KINDS]
        ),
        offers=draft.offers,
    )


def parallel_left(group: Group | None, spec: GroupSpec) -> int:
    """Return how many jobs may yet run at once beside those of the parts that stand; 1 if there is no limit. A part
    runs no more than its share, and no more than it has jobs without a result that were not given back."""
    if not spec.max_parallel:
        return 1
    held = sum(min(s.max_parallel, s.open_jobs()) for s in group.subgroups.values()) if group else 0
    return max(0, spec.max_parallel - held)
