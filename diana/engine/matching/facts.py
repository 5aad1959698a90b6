"""Values of the names that a group's requirements may hold, from what is known of a site. They are the site's own word:
it hurts itself by lying, since it gets jobs that it cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite

from diana.engine.machines.kinds import MOST_KINDS
from diana.engine.messages.messages import LinkEstimate, MachineKind, Quote, Summary
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.job import declared, properties, software
from diana.model.job.declared import MOST_DECLARED
from diana.model.job.resources import GPUS, MEMORY, ResourceOffer, ResourceRequest, amount, fits, offered, shared
from diana.model.job.software import is_build
from diana.policy.requirements.names import ALL_DECLARED, SITE_PROPERTY, SITE_RESOURCE, Value


def of_quote(site: SiteId, quote: Quote, run_s: float) -> dict[str, Value]:
    """Return a site's values by its quote. `run_s`: seconds that one job would run there; 0: not known."""
    told = {
        "site.slots": quote.slots,
        "site.free_slots": quote.free_slots,
        "site.speed": quote.speed,
        "site.gpus": quote.gpus,
        "site.free_gpus": quote.free_gpus,
        "site.queued_jobs": quote.queued_jobs,
        "site.jobs_ahead": quote.jobs_ahead,
        "site.busy_fraction": quote.busy_fraction,
        "site.wait_s": quote.wait_s,
        **_positive({"site.memory_bytes": quote.memory_bytes, "site.widest": quote.widest, "site.run_s": run_s}),
    }
    machines = kinds_of(quote)
    if quote.kinds:
        # Without them all machines would be guessed from what one job can have.
        told.update(_positive({"site.total_memory_bytes": sum(kind.count * kind.memory_bytes for kind in machines)}))
    platforms = tuple(sorted({kind.platform for kind in machines if kind.platform}))
    lists: dict[str, Value] = {"site.platforms": platforms} if platforms else {}
    if quote.offers or quote.lacks:
        lists["site.software"] = tuple(sorted(quote.offers))
    return {
        **_named(site, quote.domain, properties.sane(quote.properties)),
        **{name: float(value) for name, value in told.items()},
        **lists,
    }


def kinds_of(quote: Quote) -> tuple[MachineKind, ...]:
    """Return the kinds of machines that a quote tells, as far as they can be: no more processors than the site's, none
    idle that it does not say to be. A site that tells none, such as one of an older release, has machines as wide as
    its widest job."""
    out: list[MachineKind] = []
    slots, idle = max(0, quote.slots), max(0, min(quote.free_slots, quote.slots))
    for kind in quote.kinds[:MOST_KINDS]:
        if not (kind.processors >= 1 and 0 < kind.speed < inf and min(kind.count, kind.memory_bytes, kind.gpus) >= 0):
            continue
        count = min(kind.count, slots // kind.processors)
        if not count:
            continue
        free = max(0, min(kind.idle, idle, count * kind.processors))
        slots, idle = slots - count * kind.processors, idle - free
        platform = kind.platform if is_build(kind.platform) else ""
        gpus = min(kind.gpus, max(0, quote.gpus))
        out.append(MachineKind(count, kind.processors, kind.speed, kind.memory_bytes, gpus, platform, free))
    if out or not (0 < quote.speed < inf and slots):
        return tuple(out)
    wide = _width(quote.widest, slots)
    return (MachineKind(slots // wide, wide, quote.speed, max(0, quote.memory_bytes), 0, "", min(idle, slots)),)


def of_summary(summary: Summary) -> dict[str, Value]:
    """Return those values that a site of a large grid tells everybody, before it is asked for a quote. What changes
    from minute to minute is left out, so that nobody is passed over by old figures."""
    named = _named(summary.site, summary.domain, summary.properties)
    every: dict[str, Value] = {ALL_DECLARED: "told"} if summary.declares else {}
    lasting = _lasting(summary.speed, summary.slots, summary.memory_bytes, summary.gpus)
    return {**named, **every, **lasting, **_resources(summary.resources.items())}


def of_home(core: Context) -> dict[str, Value]:
    """Return the same of this site."""
    settings, own = core.state.settings, core.workers
    memory_bytes, gpus = own.offer().most.get(MEMORY, 0), own.whole(GPUS)
    named = _named(core.site, settings.domain, settings.properties)
    lasting = _lasting(settings.speed, own.slots(), memory_bytes, gpus)
    return {**named, ALL_DECLARED: "told", **lasting, **_resources(declared.sane(own.offer().most.items()))}


def of_resources(core: Context, site: SiteId) -> dict[str, Value]:
    """Return the declared resources of a site, which its summary tells and its quote does not."""
    if site == core.site:
        return _resources(declared.sane(core.workers.offer().most.items()))
    peer = core.view.peers.get(site)
    return _resources(peer.summary.resources.items()) if peer is not None and peer.summary is not None else {}


def offer_of_quote(quote: Quote, request: ResourceRequest) -> ResourceOffer:
    """Return what one such job may have at a site by its quote. Of what the quote does not tell there is enough."""
    most = _told_sizes(quote.memory_bytes, quote.gpus, request)
    # An older release tells the widest machine, whether or not the job may lie on several.
    widest = quote.slots if request.spreads else _width(quote.widest, quote.slots)
    return offered(software.asked(quote.software), processors=widest, most=most, spread=quote.slots)


def may_fit(told: Summary, request: ResourceRequest) -> bool:
    """True unless a site surely lacks something for such a job by its summary."""
    if request.is_plain:
        return _width(told.widest, told.slots) >= request.processors
    return fits(request, offer_of_summary(told, request))


def offer_of_summary(told: Summary, request: ResourceRequest) -> ResourceOffer:
    """Return the same by a site's summary. One that tells as many resources as it may can have others."""
    most = {**dict(shared(request.amounts)), **_told_sizes(told.memory_bytes, told.gpus, request), **told.resources}
    if len(told.resources) >= MOST_DECLARED:
        most = {**dict(request.amounts), **most}
    return ResourceOffer(_width(told.widest, told.slots), most, request.capabilities, spread=told.slots)


def _told_sizes(memory_bytes: int, gpus: int, request: ResourceRequest) -> dict[str, int]:
    """GPUs are told of all machines together, and an older release tells none."""
    told = {GPUS: gpus if gpus > 0 else amount(request.amounts, GPUS)}
    return {**told, MEMORY: memory_bytes} if memory_bytes > 0 else told


def _width(widest: int, slots: int) -> int:
    return min(widest, slots) if widest > 0 else slots


def _lasting(speed: float, slots: int, memory_bytes: int, gpus: int) -> dict[str, Value]:
    told = {
        "site.speed": speed,
        **_positive({"site.slots": slots, "site.memory_bytes": memory_bytes, "site.gpus": gpus}),
    }
    return {name: float(value) for name, value in told.items()}


def of_link(core: Context, site: SiteId) -> dict[str, Value] | None:
    """Return the values of the link between here and there, as far as it was measured; None: the site is this one."""
    if site == core.site:
        return None
    found = core.view.book.estimate(site)
    return {} if found is None else of_estimate(found)


def of_estimate(found: LinkEstimate) -> dict[str, Value]:
    """Return the values of a link by an estimate; what was not measured is not told."""
    told = {"link.rtt_s": found.rtt_s, "link.bytes_per_s": found.bytes_per_s, "link.loss": found.loss}
    return {name: value for name, value in told.items() if isfinite(value) and value >= 0}


def _named(site: SiteId, domain: str, told: Mapping[str, str]) -> dict[str, Value]:
    own = {f"{SITE_PROPERTY}{name}": text for name, text in told.items()} if told else {}
    return {"site.name": site, **({"site.domain": domain} if domain else {}), **own}


def _resources(told: Iterable[tuple[str, int]]) -> dict[str, Value]:
    return {f"{SITE_RESOURCE}{name}": float(most) for name, most in told}


def _positive(values: dict[str, float]) -> dict[str, float]:
    """Leave out what is 0, and so not told."""
    return {name: value for name, value in values.items() if value > 0}
