"""Views of peers and machines for whoever looks after this site: `diana peers`, `diana doctor`."""

from __future__ import annotations

from diana.engine.handover import availability
from diana.engine.membership import twins
from diana.engine.membership.table import MembershipTable
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.views import sites
from diana.model.ids import SiteId
from diana.model.job import resources
from diana.model.presence import Presence
from diana.model.views.peers import MachineStanding, Peers, PeerStanding
from diana.policy import availability as rule


def peers(core: Context) -> Peers:
    """Return all known sites, those met first, and machines, each in order of its name. Costs by their number:
    people ask, not machines."""
    lead, figures = availability.verdict(core), availability.figures(core)
    past = core.state.past_ends.error()
    return Peers(
        tuple(_peer(core, site) for site in sites.met_first(core)),
        tuple(found for name in core.workers.names() if (found := _machine(core, name, figures.get(name))) is not None),
        tuple((site, note) for site in sorted(core.book(MembershipTable).twins) if (note := twins.note(core, site))),
        nonsense=core.counters.get("nonsense", 0),
        late_words=core.counters.get("late_words", 0),
        fallen=core.book(JournalDoubt).fallen,
        waits_for=journal_doubt.waiting_for(core),
        denied_by=tuple(sorted(core.book(JournalDoubt).denied_by)),
        maintenance=core.calendar.closed or core.calendar.notice,
        to_lead=lead.to,
        why_to_lead=lead.why,
        to_stand_by=availability.stand_in(core),
        elects=core.state.settings.elect,
        forecast_error=past.median,
        forecasts=past.groups,
        ranges_held=past.held,
        ranges=past.ranges,
    )


def _peer(core: Context, site: SiteId) -> PeerStanding:
    peer = core.view.peers[site]
    seen = sites.peer(core, site)
    return PeerStanding(
        site=site,
        state="banned" if site in core.view.banned else seen.state,
        note=seen.note,
        age_s=seen.age_s,
        summary_age_s=-1.0 if peer.summary is None else max(0.0, core.now - peer.summary_s),
        address=peer.address,
        via=peer.summary.via if peer.summary else (),
        release=seen.release,
        rtt_s=seen.rtt_s,
        held_here=not peer.loose,
        held_there=peer.up and not peer.loose_there,
    )


def _machine(core: Context, name: str, figures: Presence | None) -> MachineStanding | None:
    """Return how the machine stands; None: an operator gave it up."""
    worker, known = core.workers.find(name), core.state.machines.get(name)
    own = name == core.workers.own
    if worker is None or (not own and (known is None or known.gone)):
        return None
    here = worker.session is not None
    return MachineStanding(
        machine=name,
        own=own,
        here=here,
        away_s=-1.0 if here else max(0.0, core.now - worker.away_since_s),
        slots=worker.lane.slots,
        used_slots=worker.lane.used,
        jobs=len(worker.lane.on) + len(worker.lane.ahead),
        trouble=worker.trouble,
        scratch_bytes=worker.most.get(resources.SCRATCH, 0),
        scratch_free_bytes=core.workers.free_of(worker, resources.SCRATCH) if worker.scratch_room >= 0 and here else -1,
        availability=-1.0 if figures is None else rule.availability(figures),
        known_s=0.0 if figures is None else figures.known_s,
        here_s=0.0 if figures is None else figures.here_s,
        goings=0.0 if figures is None else figures.goings,
        has=() if known is None else resources.of({resources.GPUS: known.gpus[1], **dict(known.resources)}),
    )
