"""Settings of a site, made by its operator or the VO. Each is checked when the value is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from diana.model.job import licences, properties

COST_WEIGHTS = (
    "wait", "stage_in", "run", "stage_out", "network_s",
    "queue", "all_queues", "load", "network", "computation", "transfer",
)  # fmt: skip
"""Terms that can be weighed: the turnaround model's five, then the paper's W5, W6, W7 and three costs (SPEC D1)."""

QUICK_S = 5.0
"""Longest run time of a job claimed ahead. A longer job loses nothing by being claimed when its slot is free, and can
be moved until then."""

Placement = Literal["diana", "random", "round-robin", "fastest", "least-queue", "two-choices", "data-local", "greedy"]

MOST_BYTES_PER_S = 1e13
"""Highest rate accepted in a setting; no link is faster."""


_DOMAIN = re.compile(r"[A-Za-z0-9.-]{0,253}")

MOST_SLOTS = 1_000_000
"""Slots of a site, or of one of its machines."""
MOST_TURN_S = 3600.0
GANG_SCANS = ("super-high", "high", "low", "super-low", "higher", "lower")
"""Names in `gang_scans`."""
MOST_SCANS = 100
SILENT_TURNS = 6
"""Number of turns (`summary_every_s`) within which every peer that is not gone reports on itself."""


def following(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with those that were left out and follow from the others. Values may be of any type: they are
    checked later."""
    every_s, usual_s = values.get("summary_every_s"), Settings().suspect_after_s
    if "suspect_after_s" in values or not isinstance(every_s, int | float):
        return dict(values)
    rarely = usual_s / SILENT_TURNS < every_s <= MOST_TURN_S
    return {**values, "suspect_after_s": float(every_s * SILENT_TURNS)} if rarely else dict(values)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    slots: int = 1
    """Processors jobs may hold here at once; 0: this site only submits."""
    memory_bytes: int = 0
    """Memory one job may ask for at most; 0: not known, jobs are not refused for it."""
    domain: str = ""
    """Name that requirements know this site by, such as cs.example.edu; empty: none."""
    properties: dict[str, str] = {}
    """Name -> text of what requirements may ask of this site; `[properties]` of the file."""
    speed: float = 1.0
    """Speed of a processor here relative to the reference: 2.0 runs a job in half the time."""
    claim_ahead: int = 0
    """Jobs given to the LRM beyond the free slots; 0: twice the slots, of jobs of at most `QUICK_S`, and half a
    second's work of those that were seen to be shorter (`machines.py`). A claimed job starts there, unless it is called
    back before it began."""
    accept_remote: bool = True
    history_for: Literal["nobody", "operators", "users"] = "nobody"
    """Role of those at other sites who are told this site's history: operators get everybody's groups; with users, a
    user gets their own as well."""
    max_queued_jobs: int = 50_000_000
    """Jobs this site holds for others and itself before it refuses more."""
    user_max_queued: int = 0
    """Jobs one user may have waiting here, held ones included; 0: no limit."""
    user_max_running: int = 0
    """Jobs one user may have running here; 0: no limit."""
    package_users: tuple[str, ...] = ("*",)
    """VO principals whose packages run here, programs with builds of their own; "*": everybody's."""
    licences: dict[str, int] = {}
    """Name -> number of licences that jobs on this site's machines, clusters left out, may have at once."""
    default_work_s: float = 1.0
    """Assumed run time of a job whose spec does not say."""
    default_bytes_per_s: float = 12.5e6
    """Assumed throughput of a link nobody has measured."""
    ping_every_s: float = 5.0
    """Seconds between two measurements of the round trip to a peer; more where there are many peers or nothing is
    sent."""
    probe_every_s: float = 600.0
    """A link over which nothing was moved for this long is probed for its throughput."""
    probe_bytes_per_hour: int = 256 * 2**20
    """Bytes per hour that such probes may fetch, all links together; 0: no probes, only real transfers are measured."""
    link_history_every_s: float = 60.0
    """Least seconds between two records of link measurements in the journal."""
    uplink_bytes_per_s: float = 0.0
    """Throughput that all transfers of this site share; 0: not known."""
    priority_mode: Literal["default", "paper"] = "default"
    """`paper`: queued shares alone, to the digit; `default`: the same until service was given, then shares by quota."""
    quotas: dict[str, float] = {}
    """VO principal -> its weight against the others'."""
    default_quota: float = 1.0
    time_threshold_s: float = 1800.0
    """Seconds of waiting that lift a job by half a level, each time anew; 0: no ageing."""
    job_threshold: int = 10_000
    """Number of a user's queued jobs beyond which further ones stand one level lower; 0: none do."""
    site_job_threshold: int = 0
    """The same for jobs submitted at one site, this one or another."""
    work_threshold_s: float = 0.0
    """Declared work of a group, all its jobs together, in seconds at reference speed, beyond which it stands half a
    level lower; 0: none does."""
    bytes_threshold: int = 0
    """The same for its bytes: inputs as they are known, and declared outputs of all its jobs."""
    service_half_life: float = 4000.0
    """Number of job starts after which past service counts half, in the default mode."""
    max_subgroup: int = 1_000_000
    division: int = 0
    """Least number of subgroups of a group that is split, unless its job file says otherwise; 0: as many as pay, or
    `PAPER_SUBGROUPS` under the paper's cost model; 1: no number."""
    placement: Placement = "diana"
    """Placement policy of groups submitted here: `diana` plans by cost; the others do as simpler brokers, for
    comparison (policy/allocation/baselines.py). With another than `diana` nothing migrates from here or to here."""
    split: bool = True
    """True: groups may be split over sites where that ends earlier; False: only where no site can take them whole."""
    cost_model: Literal["turnaround", "paper"] = "turnaround"
    """Cost model that ranks sites: seconds until the group is done, or the paper's cost."""
    cost_raw: bool = False
    """True: the paper's terms are added as they are, though their units do not add; False: each is first divided by its
    mean over the sites."""
    cost_weights: dict[str, float] = {}
    """Weights of cost terms, where not 1; for the names see `COST_WEIGHTS`."""
    binding: Literal["late", "early"] = "late"
    """`late`: jobs that cannot start at once stay at their origin and wait for their turn at several sites; `early`:
    jobs are handed over when they are placed. Reservations are taken from others under `late` only."""
    migration: Literal["default", "paper", "off"] = "default"
    """Rule by which work that waits here is offered to other sites: `paper`: Q4, while arrivals outrun starts;
    `default`: the lowest level that has work, also whenever it ends earlier elsewhere. The same rule decides where work
    submitted here moves."""
    migration_threshold: float = 0.2
    """Thrs: share of the arrivals by which they may outrun starts; higher means less migration, 1 none."""
    migration_window_s: float = 300.0
    """Seconds over which arrivals and starts are counted."""
    migration_gain_s: float = 10.0
    """Least seconds a move must save."""
    moves_per_minute: float = 60.0
    """Moves this site starts for its groups, of any number of jobs each, and as many at once after a rest; 0: none."""
    invite_work_s: float = 10.0
    """Seconds between two invitations of one peer, while this site has idle slots and nothing waits here; 0: it invites
    nobody."""
    elect: bool = False
    """True: the leading machine hands over by itself to a standby that is more available; False: it proposes that."""
    guard_jobs: int = 10
    """Jobs of a group that may fail fast at a site before it gets no more of them (SPEC U10); 0: no guard, it gets more
    whatever fails."""
    guard_share: float = 0.02
    """The same for large groups, as a share of their jobs, where that is more."""
    guard_pause_s: float = 60.0
    """Seconds until such a site is tried with one more job; twice as long each time that job fails."""
    quote_wait_s: float = 2.0
    """Seconds a placement waits for quotes before it decides with those it has."""
    offer_wait_s: float = 10.0
    """Seconds an offer may stay unanswered before it is taken back."""
    claim_wait_s: float = 120.0
    """Seconds for which a gang holds processors in its first try while components lack theirs; then it gives them up,
    and tries again later, each time for twice as long."""
    gang_placement: str = ""
    """Placement policy of gangs submitted here whose group names none; empty: as the request suggests."""
    claim_share: float = 0.5
    """Share of this site's processors that gangs of one other site may hold while they wait for components elsewhere.
    One gang may always hold what it needs."""
    gang_quota: float = 1.0
    """Share of this site's processors that components of gangs hold at one time, all gangs together."""
    gang_scan_s: float = 5.0
    """Seconds between two scans of the placement queues, where several groups of gangs wait here for a place (SPEC
    K4)."""
    gang_scans: dict[str, int] = {}
    """Number of scans in a round, where not the usual one: of each queue within its half of the round (`super-high` 1,
    `high` 2, `low` 1, `super-low` 1), and of the halves (`higher` 1, `lower` 1)."""
    gang_promote_tries: int = 0
    """Tries without a place after which a group of gangs rises by one queue; 0: none does."""
    resend_first_s: float = 0.5
    resend_most_s: float = 15.0
    result_batch_s: float = 0.05
    """Seconds for which results are gathered into one message."""
    summary_every_s: float = 1.0
    """Seconds of one turn. At each turn every stream is told of this site, or at every few turns while nothing happens
    to it."""
    suspect_after_s: float = 6.0
    """Age of a peer's summary, in seconds, beyond which the peer is no candidate. Left out of a file: at least
    `SILENT_TURNS` turns."""
    lease_s: float = 60.0
    """Lease in seconds: jobs of `on_site_lost = "rerun"` submitted here run on at another site for so long after that
    site was last heard of."""
    network: Literal["lan", "wan"] = "lan"
    """Kind of network; it sets how long this site waits for a silent peer before it tells the others."""
    active_peers: int = 16
    """Approximate number of streams held to other sites; those dialled when there is work come on top."""
    gossip_peers: int = 3
    """Number of these peers told of the other sites in each `summary_every_s`."""
    gossip_bytes: int = 4096
    """Most bytes each of those peers is told per turn; newcomers are told more."""
    known_sites: int = 20_000
    """Number of other sites a site keeps a table of in a larger VO: those near it on a ring of hashed names. Those it
    works with come on top; it places work at the sites of its table."""
    keep_s: float = 30 * 86400.0
    """Finished groups expire after this; their outputs are never deleted unasked."""
    tombstone_s: float = 30 * 86400.0

    def __post_init__(self) -> None:
        ranges: tuple[tuple[str, float, float], ...] = (
            ("slots", 0, MOST_SLOTS),
            ("memory_bytes", 0, 2**60),
            ("speed", 1e-3, 1e3),
            ("claim_ahead", 0, 1_000_000),
            ("max_queued_jobs", 1, 10**12),
            ("user_max_queued", 0, 10**12),
            ("user_max_running", 0, 10**12),
            ("default_work_s", 1e-6, 1e9),
            ("default_bytes_per_s", 1.0, MOST_BYTES_PER_S),
            ("ping_every_s", 0.1, 3600),
            ("probe_every_s", 1.0, 1e7),
            ("probe_bytes_per_hour", 0, 2**50),
            ("link_history_every_s", 1.0, 86400),
            ("uplink_bytes_per_s", 0, MOST_BYTES_PER_S),
            ("default_quota", 1e-6, 1e12),
            ("time_threshold_s", 0, 1e9),
            ("job_threshold", 0, 10**12),
            ("site_job_threshold", 0, 10**12),
            ("work_threshold_s", 0, 1e15),
            ("bytes_threshold", 0, 10**18),
            ("service_half_life", 1, 1e12),
            ("max_subgroup", 1, 10**12),
            ("division", 0, 1_000_000),
            ("migration_threshold", 0, 1),
            ("migration_window_s", 1.0, 86400),
            ("migration_gain_s", 0, 1e9),
            ("moves_per_minute", 0, 1e6),
            ("invite_work_s", 0, 86400),
            ("guard_jobs", 0, 1_000_000),
            ("guard_share", 0, 1),
            ("guard_pause_s", 1.0, 86400),
            ("quote_wait_s", 0.01, 3600),
            ("offer_wait_s", 0.1, 86400),
            ("claim_wait_s", 1.0, 86400),
            ("claim_share", 0, 1),
            ("gang_quota", 0.001, 1),
            ("gang_scan_s", 0.1, 86400),
            ("gang_promote_tries", 0, 1_000_000),
            ("resend_first_s", 0.01, 3600),
            ("resend_most_s", 0.01, 86400),
            ("result_batch_s", 0.0, 60),
            ("summary_every_s", 0.05, MOST_TURN_S),
            ("suspect_after_s", 0.1, 86400),
            ("lease_s", 1.0, 86400),
            ("active_peers", 2, 1000),
            ("gossip_peers", 1, 100),
            ("gossip_bytes", 512, 2**20),
            ("known_sites", 16, 20_000),
            ("keep_s", 0, 1e10),
            ("tombstone_s", 0, 1e10),
        )
        for key, low, high in ranges:
            value = getattr(self, key)
            if not low <= value <= high:
                raise ValueError(f"{key} = {value}: want {low:g} to {high:g}")
        if not _DOMAIN.fullmatch(self.domain):
            raise ValueError(
                f"domain = {self.domain[:60]!r}: want letters, digits, '-' and '.', such as cs.example.edu"
            )
        properties.check(self.properties)
        if self.placement not in get_args(Placement):
            raise ValueError(f"placement = {self.placement!r}: want one of {', '.join(get_args(Placement))}")
        if self.cost_model not in ("turnaround", "paper"):
            raise ValueError(f"cost_model = {self.cost_model!r}: want turnaround or paper")
        if self.binding not in ("late", "early"):
            raise ValueError(f"binding = {self.binding!r}: want late or early")
        if self.migration not in ("default", "paper", "off"):
            raise ValueError(f"migration = {self.migration!r}: want default, paper or off")
        if self.network not in ("lan", "wan"):
            raise ValueError(f"network = {self.network!r}: want lan or wan")
        for name, weight in self.cost_weights.items():
            if name not in COST_WEIGHTS:
                raise ValueError(f"cost_weights.{name}: no such weight; want one of {', '.join(COST_WEIGHTS)}")
            # Without its seconds a turnaround has no meaning; a term of the paper's may count nothing.
            least = 1e-9 if name in COST_WEIGHTS[:5] else 0.0
            if not least <= weight < 1e9:
                raise ValueError(f"cost_weights.{name} = {weight}: want {least:g} to 1e+09")
        for user in self.package_users:
            if user != "*" and not 0 < user.find("@") < len(user) - 1:
                raise ValueError(f'package_users = {user[:60]!r}: want NAME@VO, or "*" for everybody')
        for name, scans in self.gang_scans.items():
            if name not in GANG_SCANS:
                raise ValueError(f"gang_scans.{name}: no such queue; want one of {', '.join(GANG_SCANS)}")
            if not 1 <= scans <= MOST_SCANS:
                raise ValueError(f"gang_scans.{name} = {scans}: want 1 to {MOST_SCANS}; a queue is never left out")
        licences.check(self.licences, "licences", least=0)
        for user, quota in self.quotas.items():
            if not 1e-6 <= quota <= 1e12:
                raise ValueError(f"quotas.{user} = {quota}: want 1e-06 to 1e+12")

    def contradiction(self) -> str:
        """Name two settings that contradict each other, and the mend; empty: none do. Readers of a settings file ask
        this; settings in a journal were accepted once and are read as they are."""
        if self.suspect_after_s > self.summary_every_s:
            return ""
        return (
            f"suspect_after_s = {self.suspect_after_s:g}: sites that speak every summary_every_s = "
            f"{self.summary_every_s:g} would count as lost in between; want more, as "
            f"{SILENT_TURNS * self.summary_every_s:g}, or leave it out"
        )

    def migrates(self) -> bool:
        """True if work that waits here may be offered to others, and work that waits there may come."""
        return self.migration != "off" and self.placement == "diana"

    def quota_of(self, user: str) -> float:
        return self.quotas.get(user, self.default_quota)

    def feed(self) -> int:
        """Processors' worth of jobs the LRM may hold, running and claimed ahead."""
        return self.slots + self.ahead_of(self.slots)

    def ahead_of(self, slots: int) -> int:
        """Processors' worth of jobs that a machine of `slots` slots may claim beyond them."""
        return self.claim_ahead or 2 * slots

    def claims_ahead(self, run_s: float) -> bool:
        """True if jobs of run time `run_s` are given to a machine whose slots are all taken."""
        return self.claim_ahead > 0 or run_s <= QUICK_S
