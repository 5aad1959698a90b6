"""Every metric a node tells, with its meaning: the one place where names are given. docs/metrics.md says the same."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["gauge", "counter", "histogram"]


class Metric(NamedTuple):
    name: str
    """The name as it is queried; a histogram's without `_bucket`, `_sum` and `_count`."""
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    """Names of the labels. The values of each are bounded: words of the program, or at most a hundred sites."""

    @property
    def unit(self) -> str:
        """Prometheus's base unit, as the name ends; empty: a number of things."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in ("seconds", "bytes", "ratio") and "_per_" not in self.name else ""


NODE = (
    Metric(
        "diana_node_info", "gauge", "Identity of this node; always 1.", ("site", "vo", "machine", "role", "release")
    ),
    Metric("diana_node_starts_total", "counter", "Starts of the node with this journal."),
    Metric("diana_engine_up", "gauge", "1: the engine answered within 5 s; 0: all that is the engine's is left out."),
    Metric("diana_event_backlog", "gauge", "Events that wait for the engine."),
    Metric("diana_release_backlog", "gauge", "Rounds of events whose effects wait for the disk or the standby."),
    Metric("diana_journal_records_total", "counter", "Records written to the journal, ever."),
    Metric("diana_journal_bytes", "gauge", "Size of the journal and its write-ahead log."),
    Metric("diana_journal_commit_seconds", "histogram", "How long a transaction of the journal took, fsync included."),
    Metric("diana_disk_free_bytes", "gauge", "Free where the data directory lies."),
    Metric("diana_disk_size_bytes", "gauge", "Size of that file system."),
    Metric("diana_disk_low", "gauge", "1: no new work is taken for lack of room on the disk."),
    Metric("diana_certificate_expiry_timestamp_seconds", "gauge", "When this machine's certificate runs out."),
    Metric("diana_spawner_up", "gauge", "1: the process that starts jobs is there."),
    Metric("diana_durability", "gauge", "Disks with every acknowledged entry: 2 with a standby in sync; 0: follows."),
    Metric("diana_leader_term", "gauge", "Term in which the site is led; 0 without a standby."),
    Metric(
        "diana_client_calls_total",
        "counter",
        "Calls of the client API, by what was decided: allowed, denied, or refused (a mistake, too many, not now).",
        ("call", "decision"),
    ),
)

HERE = (
    Metric("diana_slots", "gauge", "Processors that jobs may hold at this site."),
    Metric("diana_slots_free", "gauge", "Slots that no job holds and that are to be had at once."),
    Metric("diana_machines", "gauge", "Machines of this site: here or away.", ("state",)),
    Metric("diana_drained", "gauge", "1: the site takes no new work, by its operator's word."),
    Metric(
        "diana_jobs",
        "gauge",
        "Jobs held at this site: queued, kept (held, or not committed), claimed (with a machine, no slot) or running.",
        ("state",),
    ),
    Metric("diana_queue_jobs", "gauge", "Queued jobs by queue and level.", ("queue", "level")),
    Metric("diana_jobs_started_total", "counter", "Jobs given to a machine here."),
    Metric("diana_jobs_ended_total", "counter", "Jobs that ended here, those that could not start included."),
    Metric("diana_work_ahead_seconds", "gauge", "Processor time at reference speed of all that runs or waits here."),
    Metric("diana_queue_mean_jobs", "gauge", "N of Little's law: mean length of the queue, at most the last hour."),
    Metric("diana_queue_mean_wait_seconds", "gauge", "W of Little's law: mean wait of jobs that left it meanwhile."),
    Metric("diana_queue_arrivals_per_second", "gauge", "R of Little's law: jobs that came to it meanwhile."),
    Metric("diana_queue_deviation_jobs", "gauge", "N - R W: 0 when as many leave as come."),
    Metric("diana_congestion_ratio", "gauge", "(A - S) / A: how far arrivals outran starts in the migration window."),
    Metric("diana_jobs_imported_total", "counter", "Jobs taken from congested sites."),
    Metric("diana_jobs_exported_total", "counter", "Jobs of this site's groups that it moved to another site."),
    Metric("diana_moves_refused_total", "counter", "Moves of jobs that another site or their origin refused."),
    Metric("diana_jobs_checkpointed_total", "counter", "Jobs of this site's groups that stopped to go on elsewhere."),
    Metric("diana_jobs_rescheduled_total", "counter", "Running jobs told to go where they would end sooner."),
    Metric("diana_jobs_yielded_total", "counter", "Running jobs that made way for a shorter one that waited."),
    Metric("diana_jobs_made_way_total", "counter", "Running jobs that this site ended for a gang."),
    Metric(
        "diana_gang_processors",
        "gauge",
        "Processors of components here: held (idle until their gang is let go) or running.",
        ("state",),
    ),
    Metric("diana_gang_yields_total", "counter", "Times that this site asked a claim to yield to a better gang."),
    Metric("diana_contracts_violated_total", "counter", "Attempts that were slower than their contract allows."),
    Metric("diana_processes_exchanged_total", "counter", "Slow processes of gangs that were exchanged for spares."),
    Metric("diana_contracts_relaxed_total", "counter", "Contracts made anew since no move would have paid."),
    Metric("diana_groups_stopped_total", "counter", "Groups that this site failed and stopped by itself."),
    Metric("diana_groups_barred", "gauge", "Groups that get nothing here just now because they failed here."),
    Metric("diana_sites_on_probation", "gauge", "Other sites that fail what they get, by what came back from them."),
    Metric("diana_staging_units", "gauge", "Units of inputs on their way here."),
    Metric("diana_staged_bytes_total", "counter", "Bytes brought here for jobs that ended."),
    Metric("diana_received_bytes_total", "counter", "Bytes of files fetched from other sites and machines."),
    Metric("diana_sent_bytes_total", "counter", "Bytes of files sent to other sites and machines."),
    Metric("diana_url_bytes_total", "counter", "Bytes of files read from URLs and written to them."),
    Metric("diana_cache_bytes", "gauge", "Size of what was fetched and is kept; at most two minutes old."),
)

ORIGIN = (
    Metric(
        "diana_groups",
        "gauge",
        "Groups submitted here: placing (nothing placed yet), open, merging, held, or final and remembered.",
        ("state",),
    ),
    Metric("diana_groups_blocked", "gauge", "Groups that wait for a group that did not end well."),
    Metric(
        "diana_group_jobs",
        "gauge",
        "Jobs of the groups that are not final: unplaced, held, placed, or ended and how (unknown: nobody can tell).",
        ("state",),
    ),
    Metric("diana_gangs", "gauge", "Gangs of these groups: waiting to be let go, or running.", ("state",)),
    Metric("diana_gangs_started_total", "counter", "Gangs that were let go."),
    Metric(
        "diana_gang_wait_seconds_total",
        "counter",
        "Seconds from the submission of their groups until gangs were let go, summed.",
    ),
    Metric("diana_gangs_given_up_total", "counter", "Attempts to start a gang that were given up before it began."),
    Metric("diana_gangs_broken_total", "counter", "Gangs that were let go, ended and begun anew."),
    Metric(
        "diana_forecast_error_ratio",
        "gauge",
        "Median relative error of the ends foretold to the groups scored last.",
    ),
    Metric(
        "diana_forecast_ranges_held_ratio",
        "gauge",
        "Share of foretold ranges that held the true end; 0.8 is meant.",
    ),
    Metric("diana_placed_jobs", "gauge", "Jobs of this site's groups that are open at a site.", ("site",)),
    Metric("diana_groups_submitted_total", "counter", "Groups accepted from users."),
    Metric("diana_groups_finished_total", "counter", "Groups that became final, by state.", ("state",)),
    Metric("diana_results_total", "counter", "Results of jobs submitted here, by outcome.", ("outcome",)),
    Metric("diana_jobs_retried_total", "counter", "Jobs that were tried again."),
    Metric("diana_jobs_placed_anew_total", "counter", "Jobs placed anew because their site was lost."),
    Metric("diana_results_stale_total", "counter", "Results that came too late to count."),
    Metric("diana_outputs_given_up_total", "counter", "Batches of outputs that could not be brought home."),
)

OTHERS = (
    Metric("diana_peers", "gauge", "Other sites by how they stand.", ("state",)),
    Metric("diana_peer_linked", "gauge", "1: a stream to the site stands, which a large VO does without.", ("site",)),
    Metric("diana_peer_slots", "gauge", "Slots of the site, as it says.", ("site",)),
    Metric("diana_peer_slots_free", "gauge", "Free slots of the site, as it says.", ("site",)),
    Metric("diana_peer_jobs_queued", "gauge", "Jobs that wait at the site, as it says.", ("site",)),
    Metric("diana_peer_jobs_running", "gauge", "Jobs that run at the site, as it says.", ("site",)),
    Metric("diana_peer_work_ahead_seconds", "gauge", "Processor time of what runs or waits there.", ("site",)),
    Metric("diana_peer_silence_seconds", "gauge", "Since anything was heard of the site.", ("site",)),
    Metric("diana_peer_word_age_seconds", "gauge", "Age of what it said of itself last.", ("site",)),
    Metric("diana_peer_round_trip_seconds", "gauge", "Round trip to the site, as forecast.", ("site",)),
    Metric("diana_peer_bytes_per_second", "gauge", "Throughput from the site to here, as forecast.", ("site",)),
    Metric(
        "diana_peer_messages_dropped_total",
        "counter",
        "Messages to sites that were dropped: no stream, its queue full, or the site not reached in time.",
        ("reason",),
    ),
    Metric("diana_peer_bad_messages_total", "counter", "Messages of sites that made no sense."),
    Metric("diana_peer_nonsense_total", "counter", "Words of sites that were refused for what they say."),
    Metric("diana_peer_late_words_total", "counter", "Words about placements that count no more."),
    Metric("diana_peer_retries_total", "counter", "Requests to send less, sent or received.", ("direction",)),
    Metric("diana_peers_refused_total", "counter", "Sites that were turned away."),
    Metric("diana_peer_dials_failed_total", "counter", "Dials of other sites that failed."),
)

MEMBER = (
    Metric("diana_member_attached", "gauge", "1: this machine works for who leads its site."),
    Metric("diana_member_slots", "gauge", "Processors that jobs may hold on this machine."),
    Metric(
        "diana_member_jobs",
        "gauge",
        "Jobs of this machine: given, or staging (inputs on their way).",
        ("state",),
    ),
)


def _of_process(prefix: str, whose: str) -> tuple[Metric, ...]:
    return (
        Metric(f"{prefix}_process_cpu_seconds_total", "counter", f"Processor time of {whose}, user and system."),
        Metric(f"{prefix}_process_resident_memory_bytes", "gauge", f"Memory of {whose}."),
        Metric(f"{prefix}_process_virtual_memory_bytes", "gauge", f"Address space of {whose}."),
        Metric(f"{prefix}_process_open_fds", "gauge", f"Open file descriptors of {whose}."),
        Metric(f"{prefix}_process_max_fds", "gauge", f"Most file descriptors of {whose}."),
        Metric(f"{prefix}_process_start_time_seconds", "gauge", f"When {whose} started, in Unix time."),
    )


PROCESSES = (*_of_process("diana", "the node"), *_of_process("diana_spawner", "the process that starts jobs"))
"""Named unlike Prometheus's own `process_...`: a text file collector would refuse those, having them itself."""

TABLES: dict[str, tuple[Metric, ...]] = {
    "The node": NODE,
    "This site": HERE,
    "Groups submitted here": ORIGIN,
    "Other sites": OTHERS,
    "Machines that only run jobs": MEMBER,
    "Processes": PROCESSES,
}
"""Metrics by their headings in docs/metrics.md."""

METRICS: dict[str, Metric] = {metric.name: metric for table in TABLES.values() for metric in table}
