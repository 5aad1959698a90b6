"""Sites as they are shown: this one by what it holds, others by their newest summary."""

from __future__ import annotations

from diana import __version__
from diana.engine.dispatch import capacity
from diana.engine.guard import guard
from diana.engine.handover import machine_events
from diana.engine.membership import hearsay, trust_ledger, twins
from diana.engine.messages.messages import Summary
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.view import standing
from diana.model.ids import SiteId
from diana.model.job import declared
from diana.model.job.resources import GPUS, MEMORY
from diana.model.views.site import Site


def home(core: Context) -> Site:
    settings = core.state.settings
    return Site(
        site=core.site,
        home=True,
        state="alive",
        age_s=0.0,
        slots=core.workers.slots(),
        free_slots=capacity.free_slots(core),
        speed=settings.speed,
        queued_jobs=capacity.queued_jobs(core),
        running_jobs=capacity.running_jobs(core),
        work_ahead_s=capacity.work_ahead_s(core),
        rtt_s=0.0,
        bytes_per_s=-1.0,
        release=__version__,
        datasets=tuple(sorted(core.state.datasets)),
        note=journal_doubt.waiting_for(core)
        or twins.note(core, core.site)
        or (f"drained: {here}" if (here := core.drained()) else "")
        or guard.note(core, core.site)
        or core.workers.trouble()
        or core.calendar.notice,
        machines=machine_events.count(core),
        domain=settings.domain,
        properties=settings.properties,
        memory_bytes=core.workers.offer().most.get(MEMORY, 0),
        gpus=core.workers.whole(GPUS),
        resources=dict(declared.sane(core.workers.offer().most.items())),
    )


def _note(core: Context, site: SiteId, told: Summary | None) -> str:
    if site in core.view.banned:
        return f"banned: {trust_ledger.why_banned(core, site)}"
    if two := twins.note(core, site):
        return two
    if told and told.drained:
        return f"drained: {told.drained}"
    return guard.note(core, site) or (told.notice if told else "")


def met_first(core: Context) -> list[SiteId]:
    """Return the other sites, those that were met before those known by others' word alone, each in order of the
    name: whoever is told a part of them is told of those that are sure to be there."""
    peers = core.view.peers
    return sorted(peers, key=lambda site: (hearsay.is_hearsay(core, peers[site]), site))


def peer(core: Context, site: SiteId) -> Site:
    """Return a site by its newest summary, with the age of the last word: never an error (PROMISES section 3)."""
    peer = core.view.peers[site]
    told = peer.summary
    age = max(0.0, core.now - peer.last_heard_s)
    state = standing(peer, age, core.state.settings.suspect_after_s)
    return Site(
        site=site,
        home=False,
        state=state,
        age_s=age,
        slots=told.slots if told else 0,
        free_slots=told.free_slots if told else 0,
        speed=told.speed if told else 0.0,
        queued_jobs=told.queued_jobs if told else 0,
        running_jobs=told.running_jobs if told else 0,
        work_ahead_s=told.work_ahead_s if told else 0.0,
        rtt_s=-1.0 if peer.rtt_s is None else peer.rtt_s,
        bytes_per_s=peer.bytes_per_s or -1.0,
        release=peer.release,
        datasets=told.datasets if told else (),
        note=_note(core, site, told),
        machines=told.machines if told else 0,
        domain=told.domain if told else "",
        properties=told.properties if told else {},
        memory_bytes=told.memory_bytes if told else 0,
        gpus=told.gpus if told else 0,
        resources=told.resources if told else {},
    )
