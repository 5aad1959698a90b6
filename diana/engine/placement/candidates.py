"""The candidates of a placement: each site as the cost models want it, from its quote, its links and past runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from math import inf
from statistics import median
from typing import NamedTuple

import msgspec

from diana.engine.dispatch import quote_answer
from diana.engine.guard import guard
from diana.engine.matching import facts
from diana.engine.matching.match import Match, allowed, in_words
from diana.engine.messages.messages import LinkEstimate, Quote
from diana.engine.placement.draft import Draft, quote_request
from diana.engine.placement.manifest import Manifest, is_url
from diana.engine.site.context import Context
from diana.engine.site.harm import HarmBook
from diana.model.ids import SiteId
from diana.model.job.resources import PROCESSORS, lacking, request_of
from diana.model.job.spec import GroupSpec
from diana.model.sketch import Quantiles
from diana.model.views.decision import FailedRequirement
from diana.policy.grads.metascheduling import refused
from diana.policy.grads.models import LEAST_SEEN
from diana.policy.pricing.demand import Candidate, LinkForecast
from diana.policy.requirements.expressions import Untold
from diana.policy.requirements.names import Value

MOST_NAMED = 64
"""Known sites that were not asked are named as candidates up to this many sites in all; beyond, only counted."""

MOST_FAILED = 16
"""Requirements that are told of one site, beside the number of all that fail there."""

MOST_TEXT = 200
"""Characters kept of a text that a peer sent."""

NO_WAY = LinkForecast()
"""A link over which nothing comes."""

NOT_ALLOWED = "not among the sites the group allows"
NOT_ASKED = "others promised to be done earlier; not asked"
NOT_MEANT = "not the site these jobs are to be moved to"

MOST_SPEED = 1e6
LEAST_TOLD, MOST_TOLD = 1e-9, 1e18
"""Bounds of what a quote says: a speed, and times and rates that are not 0. Costs divide by them and stay finite."""


SiteValues = dict[str, Value]
"""Values of one site, by the names of requirements."""


class Field(NamedTuple):
    """All sites that might take a group."""

    candidates: list[Candidate]
    """Home first, then by site id, so that home wins ties."""
    run_from: dict[SiteId, str]
    """Source of each site's run time: model (the group's own), here (learned there), elsewhere (learned at other
    sites), declared, guess."""
    near: dict[SiteId, str]
    """Change to the group that would let the site take it, if one change would do; else empty."""
    not_asked: Counter[str]
    """Number of known sites that were left out, by reason."""
    startable: dict[SiteId, int]
    """Jobs that would start at once at each site that answered."""
    reserving: frozenset[SiteId]
    """Sites that take reservations."""
    quotes: dict[SiteId, Quote]
    """The answer of each site that answered, this one's own too."""
    values: dict[SiteId, SiteValues]
    """Values of each of them that requirements are judged by; empty where the group has none."""
    failed: dict[SiteId, tuple[FailedRequirement, ...]]
    """Requirements of the group that do not hold at a site; sites that meet all are left out."""
    ranks: dict[SiteId, float]
    """Rank of each of them that has one by the group's own expression."""
    unranked: dict[SiteId, FailedRequirement]
    """Why each of the others has none."""
    model_s: dict[SiteId, float]
    """Seconds of one job at each of them by the equations of the group's model; empty: it has none."""
    no_set: str = ""
    """Why no set of sites will do, where the group wants something of all its sites together; empty: it does not come
    to that."""
    nearest: tuple[SiteId, ...] = ()
    """The set that came nearest then, sorted."""

    def without(self, sites: AbstractSet[SiteId], why: str) -> Field:
        """Return the field in which these sites do not take the group."""
        rows = [msgspec.structs.replace(c, rejected=why) if c.site in sites else c for c in self.candidates]
        return self._replace(candidates=rows)


class LearnedRun(NamedTuple):
    """Seconds per job at one site; `source` as in `Field.run_from`."""

    mean_s: float
    low_s: float
    high_s: float
    seen: int
    source: str


def field(core: Context, draft: Draft, manifest: Manifest) -> Field:
    heard: dict[SiteId, tuple[Quote, float]] = dict(draft.quotes)
    own = quote_answer.quote(core, quote_request(draft), for_peer=False, holders=manifest.holders())
    heard[core.site] = (own, core.now)
    known = core.view.peers
    named = sorted(known) if len(known) <= MOST_NAMED else sorted(draft.asked & known.keys())
    elsewhere_s, elsewhere = _elsewhere(core, draft, (quote for quote, _ in heard.values()))
    candidates, run_from, model_s, match = [], dict[SiteId, str](), dict[SiteId, float](), draft.match(core)
    data = manifest.held(draft.indices) if match.asks else (0, {})
    values: dict[SiteId, dict[str, Value]] = {}
    failed: dict[SiteId, tuple[FailedRequirement, ...]] = {}
    for site in (core.site, *named):
        runs = _runs(core, draft.spec, heard[site][0], elsewhere_s, elsewhere) if site in heard else None
        why = ""
        if match.asks and site in heard:
            foretold = match.foretold(
                site, match.values(site, heard[site][0], 0.0, data), past_ratios(core, draft, site)
            )
            if isinstance(foretold, Untold):
                why = f"its model gives no time there: {foretold.why}"
            elif foretold is not None and runs is not None:
                model_s[site] = foretold.model_s
                runs = LearnedRun(foretold.mean_s, foretold.low_s, foretold.high_s, foretold.seen, "model")
            known_s = runs.mean_s if runs and runs.source != "guess" else 0.0
            values[site] = match.values(site, heard[site][0], known_s, data)
            if lacks := match.failed(site, values[site]):
                failed[site], why = lacks[:MOST_FAILED], why or in_words(lacks)
        found = _candidate(core, draft, site, heard.get(site), runs, manifest)
        candidates.append(msgspec.structs.replace(found, rejected=found.rejected or why) if why else found)
        run_from[site] = runs.source if runs else ""
    if harm := core.book(HarmBook).sites:
        able = [c.site for c in candidates if not c.rejected and c.alive]
        kept_from = refused(harm, able)
        candidates = [_kept_from(c, kept_from) for c in candidates]
    near = {c.site: _near(heard[c.site][0], c, failed.get(c.site, ())) for c in candidates if c.site in heard}
    processors = draft.spec.resources.processors
    startable = {
        site: max(0, min(q.startable if q.reserves else q.free_slots // processors, len(draft.indices)))
        for site, (q, _) in heard.items()
    }
    reserving = frozenset(site for site, (q, _) in heard.items() if q.reserves)
    quotes = {site: quote for site, (quote, _) in heard.items()}
    ranked = {site: match.rank(told) for site, told in values.items()}
    return Field(
        candidates,
        run_from,
        near,
        not_asked=_not_asked(match, known.keys() - set(named)) if len(named) < len(known) else Counter(),
        startable=startable,
        reserving=reserving,
        quotes=quotes,
        values=values,
        failed=failed,
        ranks={site: rank for site, rank in ranked.items() if isinstance(rank, float)},
        unranked={site: why for site, why in ranked.items() if isinstance(why, FailedRequirement)},
        model_s=model_s,
    )


def _not_asked(match: Match, sites: Collection[SiteId]) -> Counter[str]:
    """Return why sites were not asked: by what they tell everybody they lack something, or others promised more."""
    if match.requirements is None:
        return Counter({NOT_ASKED: len(sites)})
    failed = (match.passed_over.get(site, "") for site in sites)
    return Counter(f"does not meet: {lacks}" if lacks else NOT_ASKED for lacks in failed)


def _kept_from(candidate: Candidate, harm: dict[SiteId, str]) -> Candidate:
    why = harm.get(candidate.site, "")
    return msgspec.structs.replace(candidate, rejected=why) if why and not candidate.rejected else candidate


def _near(quote: Quote, candidate: Candidate, failed: tuple[FailedRequirement, ...]) -> str:
    """Return the change that would let the site take the group; also for a site that takes only part of it, since the
    group may fail by that where the others take too little."""
    if quote.rejected:
        return "" if failed else quote.near_miss[:MOST_TEXT]
    if failed:
        return failed[0].near if len(failed) == 1 else ""
    return f"jobs <= {candidate.max_jobs}" if candidate.max_jobs and not candidate.rejected else ""


def past_ratios(core: Context, draft: Draft, site: SiteId) -> Quantiles | None:
    """Return achieved over modelled seconds of past jobs like these at a site, else at all sites; None: there were
    none."""
    if not (draft.spec.model or draft.spec.learned):
        return None
    template = quote_request(draft).template
    there = core.state.site_ratios.ratios(f"{template}/{site}", draft.owner)
    if there is not None and there.seen >= LEAST_SEEN:
        return there
    return core.state.model_ratios.ratios(template, draft.owner)


# --- run times -----------------------------------------------------------------------------------------------


def _elsewhere(core: Context, draft: Draft, heard: Iterable[Quote]) -> tuple[float, int]:
    """Return (seconds per job at reference speed, jobs seen): the median of the sites that answered and saw any, else
    what this site remembers of results it accepted; (0, 0) if nobody saw any."""
    seen = [(q.run_mean_s * q.speed, q.runs_seen) for q in heard if q.runs_seen > 0 and not unusable(q, draft.spec)]
    if seen:
        return median(work_s for work_s, _ in seen), sum(n for _, n in seen)
    found = core.state.work_times.find(quote_request(draft).template, draft.owner)
    return (found.mean_s, found.seen) if found else (0.0, 0)


def _runs(core: Context, spec: GroupSpec, quote: Quote, elsewhere_s: float, elsewhere: int) -> LearnedRun | None:
    if unusable(quote, spec):
        return None
    if quote.runs_seen > 0:
        mean_s = quote.run_mean_s
        return LearnedRun(mean_s, min(quote.run_low_s, mean_s), max(quote.run_high_s, mean_s), quote.runs_seen, "here")
    if elsewhere:
        run_s = elsewhere_s / quote.speed
        return LearnedRun(run_s, run_s, run_s, elsewhere, "elsewhere")
    run_s = (spec.resources.work_s or core.state.settings.default_work_s) / quote.speed
    return LearnedRun(run_s, run_s, run_s, 0, "declared" if spec.resources.work_s else "guess")


# --- sites ---------------------------------------------------------------------------------------------------


def _candidate(
    core: Context,
    draft: Draft,
    site: SiteId,
    heard: tuple[Quote, float] | None,
    runs: LearnedRun | None,
    manifest: Manifest,
) -> Candidate:
    home = site == core.site
    if not allowed(draft.spec, site):
        return Candidate(site=site, rejected=NOT_ALLOWED)
    if draft.to not in (None, site):
        return Candidate(site=site, rejected=NOT_MEANT)
    peer = core.view.peers.get(site)
    if site in core.view.banned:
        return Candidate(site=site, rejected="banned by the VO", alive=False)
    if heard is None:
        silent = peer is not None and not peer.here
        why = "gave no quote in time" if site in draft.asked else NOT_ASKED
        if peer and silent:
            why = f"no answer for {core.now - peer.last_heard_s:.0f} s"
        return Candidate(site=site, rejected=why, alive=not silent)
    quote, at_s = heard
    rejected = quote.rejected[:MOST_TEXT] or unusable(quote, draft.spec)
    if draft.group:
        rejected = rejected or core.view.why_avoided(draft.group, site, core.now)
    if not (draft.unguarded or draft.to == site):
        rejected = rejected or guard.why_not(core, draft.group, site)
    default = core.state.settings.default_bytes_per_s
    rtt_s = 0.0 if home or peer is None or peer.rtt_s is None else peer.rtt_s
    links = {link.site: _link(link, default) for link in quote.links if 0 < link.bytes_per_s < inf}
    # A site without a stream to a holder has no way to its data, however well others reach both.
    out_of_reach = {h for h in manifest.holders() if quote.reach and h not in (site, *quote.reach) and not is_url(h)}
    links.update(dict.fromkeys(sorted(out_of_reach), NO_WAY))
    back = core.view.book.estimate(site)
    to_home = LinkForecast() if home else _link(back, default) if back else LinkForecast(bytes_per_s=default)
    return Candidate(
        site=site,
        rejected=rejected,
        slots=quote.slots,
        speed=quote.speed,
        work_ahead_s=quote.work_ahead_s,
        age_s=core.now - at_s,
        rtt_s=rtt_s,
        fetch_bytes_per_s={h: default for h in manifest.holders() if h != site and h not in links},
        links=links,
        link=to_home,
        out_bytes_per_s=to_home.bytes_per_s,
        uplink_bytes_per_s=quote.uplink_bytes_per_s,
        wait_s=quote.wait_s,
        wait_low_s=max(0.0, quote.wait_low_s),
        wait_high_s=max(quote.wait_s, quote.wait_high_s),
        run_s=runs.mean_s if runs else 0.0,
        run_low_s=runs.low_s if runs else 0.0,
        run_high_s=runs.high_s if runs else 0.0,
        runs_seen=runs.seen if runs else 0,
        jobs_ahead=quote.jobs_ahead,
        queued_jobs=quote.queued_jobs,
        busy_fraction=quote.busy_fraction,
        max_jobs=quote.max_jobs,
    )


def _link(told: LinkEstimate, default_bytes_per_s: float) -> LinkForecast:
    """Return the link as the cost models want it; an unmeasured rate is the default, other unmeasured values are 0."""
    return LinkForecast(
        bytes_per_s=told.bytes_per_s if 0 < told.bytes_per_s < inf else default_bytes_per_s,
        rtt_s=told.rtt_s if 0 <= told.rtt_s < inf else 0.0,
        loss=told.loss if 0 <= told.loss <= 1 else 0.0,
        backlog_bytes=float(max(0, told.backlog_bytes)),
        error=told.error if 0 <= told.error < inf else 0.0,
    )


def unusable(quote: Quote, spec: GroupSpec) -> str:
    """Return why the quote cannot be used; empty: it can. It is a peer's word: ask before dividing by any of it."""
    request = request_of(spec)
    lacks = lacking(request, facts.offer_of_quote(quote, request))
    if lacks and lacks[0].resource == PROCESSORS:
        return lacks[0].why
    sane = 1 / MOST_SPEED <= quote.speed <= MOST_SPEED and 0 <= quote.work_ahead_s < inf and 0 <= quote.wait_s < inf
    times = (quote.run_low_s, quote.run_s, quote.run_high_s, quote.run_mean_s, quote.uplink_bytes_per_s)
    counts = (quote.runs_seen, quote.jobs_ahead, quote.queued_jobs, quote.max_jobs)
    sane = sane and all(one == 0 or LEAST_TOLD <= one <= MOST_TOLD for one in times)
    sane = sane and min(counts) >= 0 and 0 <= quote.busy_fraction <= 1
    if not sane:
        return "gave a quote that makes no sense"
    return lacks[0].why if lacks else ""
