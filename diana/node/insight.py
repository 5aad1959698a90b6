"""The running node's knowledge of its surroundings beside its engine: streams, tunnels, its standby. For `diana peers`
and `diana doctor`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.views.peers import MachineStanding, Peers, PeerStanding
from diana.node.config.site_file import SiteConfig
from diana.node.doctor.names import both, by_reason, told_apart
from diana.wire.client.peers import CheckResult, Count, MachineRow, PeerRow, PeersResponse

if TYPE_CHECKING:
    from diana.node.linking import Links
    from diana.node.pair.replication import Replication

_COUNTS = {
    "bad_envelopes": "messages that made no sense",
    "dropped_unlinked": "messages dropped, no stream",
    "dropped_full": "messages dropped, queue full",
    "dropped_unreached": "messages dropped, not reached in time",
    "slowed": "times a peer was read no further for a while",
    "retries_sent": "told to send less",
    "retries_received": "asked to send less",
    "refused_peers": "peers refused",
    "failed_dials": "dials that failed",
}
"""Names of the `grpc_transport.Counters`, as people read them."""


class NodeInsight:
    """`distrust_site` says why a site is revoked, or nothing. `pair`: where two machines keep the journal."""

    def __init__(
        self,
        paths: DataDir,
        config: SiteConfig,
        links: Links,
        pair: Replication | None,
        distrust_site: Callable[[str], str],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._config = config
        self._links = links
        self._pair = pair
        self._distrust_site = distrust_site
        self._wall_s = wall_s

    def describe(self, found: Peers) -> PeersResponse:
        """The engine's view with what this side adds to it."""
        counters = msgspec.structs.asdict(self._links.transport.counters)
        notes = self.notes()
        return PeersResponse(
            site=self._config.site,
            peers=tuple(self._peer(row, notes.get(row.site, "")) for row in found.peers),
            machines=self._machines(found),
            counts=(
                *(Count(what=what, count=counters[name]) for name, what in _COUNTS.items()),
                Count(what="words refused", count=found.nonsense),
                Count(what="words of what is over", count=found.late_words),
            ),
            witness=self._pair.pair.witness.partition("@")[0] if self._pair else "",
            relayed_by=self._links.offering.standing(),
            relays_to=self._links.offers.sites(),
            to_lead=found.to_lead,
            why_to_lead=found.why_to_lead,
            to_stand_by=found.to_stand_by,
            forecast_error=found.forecast_error,
            forecasts=found.forecasts,
            ranges_held=found.ranges_held,
            ranges=found.ranges,
            elects=found.elects,
        )

    async def examine(self, found: Peers) -> tuple[CheckResult, ...]:
        """Takes at most about 3 s."""
        from diana.node.doctor.running import examine, journal

        links = self._links
        rows = await examine(
            self._config,
            self._paths.keys,
            self.describe(found),
            channel_for=lambda site: links.channel_for(SiteId(site)),
            distrusted=self._distrust_site(self._config.site),
            twins=links.transport.noticed.twins(),
            rumoured=found.twins,
            refusals=self._refusals(),
            announced=links.discovery.announced,
            discovery_problem=links.discovery.problem,
            wall_s=self._wall_s,
        )
        rows += journal(found, self._pair.pair.other if self._pair else "")
        if found.maintenance:
            rows.append(CheckResult(name="maintenance", state="ok", found=found.maintenance))
        return tuple(rows)

    def notes(self) -> dict[str, str]:
        """Notes on sites, this one included, that the engine does not know; no entry for a site without a note."""
        refusals, own = self._refusals(), self._config.site
        found = {site: f"refuses us: {why}" for site, why in refusals.items()}
        if refusals:
            told = (f"by {', '.join(by)}: {why}" for why, by in by_reason(refusals).items())
            found[own] = f"refused: {'; '.join(told)}"
        for site, twin in self._links.transport.noticed.twins().items():
            found[site] = f"two nodes: {told_apart(own, site, twin)}; stop one of them"
        return found

    def _refusals(self) -> dict[str, str]:
        """Reasons of the sites that refuse this one and are not linked: a machine that follows refuses, and its site is
        linked all the same."""
        transport = self._links.transport
        return {site: why for site, why in transport.noticed.refusals().items() if transport.link(SiteId(site)) is None}

    def _peer(self, row: PeerStanding, more: str) -> PeerRow:
        reach = self._links.transport.reach
        link = self._links.transport.links().get(row.site)
        held = {(True, True): "both", (True, False): "here", (False, True): "there"}
        return PeerRow(
            site=row.site,
            state=row.state,
            note=both(row.note, more),
            age_s=row.age_s,
            summary_age_s=row.summary_age_s,
            address=row.address,
            via=row.via,
            release=row.release,
            rtt_s=row.rtt_s,
            held=held.get((row.held_here, row.held_there), "") if link else "",
            link=self._way(row.site),
            streams=1 + (row.site in reach.data_sites()) if link else 0,
            dials_out_only=reach.dials_out_only(row.site),
        )

    def _way(self, site: SiteId) -> str:
        link = self._links.transport.links().get(site)
        if link is None:
            return ""
        if link.dialler != self._config.site:
            return "in"
        if not link.tunnel:
            return "out"
        through = self._links.doors.through(site)
        return "via its own offer" if through in (None, self._config.site) else f"via {through}"

    def _machines(self, found: Peers) -> tuple[MachineRow, ...]:
        """This one first. A standby that never came to work is shown all the same."""
        rows = [self._machine(row) for row in sorted(found.machines, key=lambda m: (not m.own, m.machine))]
        other = self._pair.pair.other if self._pair else ""
        if other and all(row.machine != other for row in rows):
            rows.append(MachineRow(machine=other, role="standby", state="away", note=self._beside()))
        return tuple(rows)

    def _beside(self) -> str:
        return "in sync" if self._pair is not None and self._pair.durability == 2 else "not in sync"

    def _machine(self, row: MachineStanding) -> MachineRow:
        role, note = "RootGrid" if row.own else "member", row.trouble
        if self._pair is not None and row.machine == self._pair.pair.other:
            role, note = "standby", self._beside()
        return MachineRow(
            machine=row.machine,
            role=role,
            state="here" if row.here else "away",
            away_s=row.away_s,
            slots=row.slots,
            used_slots=row.used_slots,
            jobs=row.jobs,
            note=note,
            scratch_bytes=row.scratch_bytes,
            scratch_free_bytes=row.scratch_free_bytes,
            availability=max(0.0, row.availability),
            known_s=row.known_s,
            here_s=row.here_s,
            goings=row.goings,
            has=tuple(Count(what=name, count=count) for name, count in row.has),
        )
