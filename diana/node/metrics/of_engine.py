"""The engine's counts, as metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from diana.engine.journal.events import Ask
from diana.errors import DianaError
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.model.views.figures import NodeFigures, SiteFigures
from diana.model.views.views import Ok
from diana.node.metrics.samples import Reader, Samples

if TYPE_CHECKING:
    from diana.node.ways_in.door import EngineDoor

ANSWER_S = 5.0
"""Seconds the engine may take: a node that is behind, or whose standby is silent, is watched all the same."""
_ASKER = Principal(Role.OPERATOR, "metrics")

_COUNTERS: dict[str, tuple[str, ...]] = {
    "jobs_started": ("diana_jobs_started_total",),
    "jobs_ended": ("diana_jobs_ended_total",),
    "bytes_staged": ("diana_staged_bytes_total",),
    "jobs_imported": ("diana_jobs_imported_total",),
    "jobs_exported": ("diana_jobs_exported_total",),
    "moves_refused": ("diana_moves_refused_total",),
    "jobs_checkpointed": ("diana_jobs_checkpointed_total",),
    "jobs_rescheduled": ("diana_jobs_rescheduled_total",),
    "jobs_yielded": ("diana_jobs_yielded_total",),
    "jobs_made_way": ("diana_jobs_made_way_total",),
    "contracts_violated": ("diana_contracts_violated_total",),
    "contracts_relaxed": ("diana_contracts_relaxed_total",),
    "processes_exchanged": ("diana_processes_exchanged_total",),
    "groups_stopped": ("diana_groups_stopped_total",),
    "groups_submitted": ("diana_groups_submitted_total",),
    "groups_done": ("diana_groups_finished_total", "done"),
    "groups_failed": ("diana_groups_finished_total", "failed"),
    "groups_cancelled": ("diana_groups_finished_total", "cancelled"),
    "groups_held": ("diana_groups_finished_total", "held"),
    "jobs_done": ("diana_results_total", "done"),
    "jobs_failed": ("diana_results_total", "failed"),
    "jobs_cancelled": ("diana_results_total", "cancelled"),
    "jobs_unknown": ("diana_results_total", "unknown"),
    "gangs_started": ("diana_gangs_started_total",),
    "gang_wait_s": ("diana_gang_wait_seconds_total",),
    "gangs_given_up": ("diana_gangs_given_up_total",),
    "gangs_broken": ("diana_gangs_broken_total",),
    "claims_asked_to_yield": ("diana_gang_yields_total",),
    "jobs_retried": ("diana_jobs_retried_total",),
    "jobs_placed_anew": ("diana_jobs_placed_anew_total",),
    "stale_results": ("diana_results_stale_total",),
    "batches_not_gathered": ("diana_outputs_given_up_total",),
    "nonsense": ("diana_peer_nonsense_total",),
    "late_words": ("diana_peer_late_words_total",),
}
"""Name in the engine -> metric and its label."""
_PEER_STATES = ("alive", "suspect", "unreachable", "lost", "left", "banned")


def engine(site: SiteId, door: EngineDoor) -> Reader:
    async def read(samples: Samples) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await _ask(door)
        except (DianaError, TimeoutError):
            found = None
        samples.put("diana_engine_up", found is not None)
        if found is not None:
            _here(samples, found)
            _origin(samples, found, site)
            _peers(samples, found)
            for name, (metric, *labels) in _COUNTERS.items():
                samples.put(metric, found.counters.get(name, 0), *labels)

    return read


async def _ask(door: EngineDoor) -> NodeFigures | None:
    """Ask the engine. It looks at some groups and sites for each question, so that nobody waits for this one."""
    while True:
        body = await door.request(lambda number: Ask(request=number, principal=_ASKER, what="figures"))
        if not isinstance(body, Ok):
            return body if isinstance(body, NodeFigures) else None


def _here(samples: Samples, found: NodeFigures) -> None:
    put = samples.put
    put("diana_node_starts_total", found.generation)
    put("diana_journal_records_total", found.records)
    put("diana_slots", found.slots)
    put("diana_slots_free", found.free_slots)
    put("diana_drained", found.drained)
    put("diana_disk_low", found.low_room)
    put("diana_congestion_ratio", found.congested)
    put("diana_work_ahead_seconds", found.work_ahead_s)
    put("diana_queue_mean_jobs", found.queue_mean_jobs)
    put("diana_queue_mean_wait_seconds", found.queue_mean_wait_s)
    put("diana_queue_arrivals_per_second", found.queue_arrivals_per_s)
    put("diana_queue_deviation_jobs", found.queue_deviation_jobs)
    put("diana_staging_units", found.transfers)
    put("diana_groups_barred", found.stopped_groups)
    put("diana_sites_on_probation", found.sites_on_probation)
    for state, count in found.machines.items():
        put("diana_machines", count, state)
    for state, count in found.jobs.items():
        put("diana_jobs", count, state)
    for state, count in found.gang_processors.items():
        put("diana_gang_processors", count, state)
    for (queue, level), count in found.levels.items():
        put("diana_queue_jobs", count, queue, level)


def _origin(samples: Samples, found: NodeFigures, site: SiteId) -> None:
    for state, count in found.groups.items():
        samples.put("diana_groups", count, state)
    for state, count in found.group_jobs.items():
        samples.put("diana_group_jobs", count, state)
    for state, count in found.gangs.items():
        samples.put("diana_gangs", count, state)
    samples.put("diana_groups_blocked", found.blocked_groups)
    if found.past_ends.groups:
        samples.put("diana_forecast_error_ratio", found.past_ends.median)
    if found.past_ends.ranges:
        samples.put("diana_forecast_ranges_held_ratio", found.past_ends.held)
    samples.put("diana_placed_jobs", found.placed_here, site)


def _peers(samples: Samples, found: NodeFigures) -> None:
    for state in _PEER_STATES:
        samples.put("diana_peers", found.peers.get(state, 0), state)
    for row in found.sites:
        _adds_up(samples, row)
        samples.put("diana_peer_linked", row.linked, row.site)
        for name, value in (
            ("diana_peer_silence_seconds", row.silence_s),
            ("diana_peer_word_age_seconds", row.summary_age_s),
            ("diana_peer_round_trip_seconds", row.rtt_s),
            ("diana_peer_bytes_per_second", row.bytes_per_s),
        ):
            if value >= 0:
                samples.put(name, value, row.site)
    if found.others is not None:
        _adds_up(samples, found.others)


def _adds_up(samples: Samples, row: SiteFigures) -> None:
    samples.put("diana_placed_jobs", row.placed_jobs, row.site)
    samples.put("diana_peer_slots", row.slots, row.site)
    samples.put("diana_peer_slots_free", row.free_slots, row.site)
    samples.put("diana_peer_jobs_queued", row.queued_jobs, row.site)
    samples.put("diana_peer_jobs_running", row.running_jobs, row.site)
    samples.put("diana_peer_work_ahead_seconds", row.work_ahead_s, row.site)
