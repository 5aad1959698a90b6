"""The log of a scenario whose jobs are its workload: which of them, how fast, from where, in which groups; and the
history of a site, which says all of that itself."""

from __future__ import annotations

from typing import Literal

import msgspec


class TraceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs of a log in the Standard Workload Format, with the run times it has for each of them (at speed 1.0).

    Usable are those of `docs/traces.md`; the first that is taken comes at the entry's `submit_s`. Their users are
    ENTRY-uNUMBER@VO."""

    file: str
    """Path from the scenario's folder; .swf or .swf.gz."""
    partition: int = -1
    """The partition whose jobs are taken (field 16); negative: all."""
    from_s: float = 0.0
    """Time in the log from which on jobs are taken, in seconds."""
    to_s: float = 0.0
    """Time in the log before which jobs are taken, in seconds; 0: to the end."""
    first: int = 0
    """Number of jobs taken, by submission; 0: all."""
    cut: Literal["", "drawn"] = ""
    """drawn: `first` jobs in succession, or those of `span_s` seconds, from a place in the log that the seed draws."""
    span_s: float = 0.0
    """Seconds of a drawn cut, all of whose jobs are taken; 0: `first` jobs."""
    time_scale: float = 1.0
    """Factor on all times between jobs."""
    load: float = 0.0
    """Load to scale to, instead of `time_scale`: run time x processors of the jobs taken, over what the sites they may
    run at can do in the time the jobs take to come. 0: not scaled."""
    home: dict[str, str] | Literal["", "site", "partition", "partition-most-used", "user"] = ""
    """Home of a job, where it is submitted. site: all at the entry's `site`; partition: where it ran;
    partition-most-used: where most of its user's jobs ran; user: each user at a site that the seed draws by slots; a
    table: user number -> site, others at `site`. Empty: `site` if the entry has one, else partition-most-used."""
    partitions: dict[str, str] = {}
    """Partition number -> site. Without it a site is found by the name that the header gives the partition (whatever
    a site's name cannot hold being a hyphen), or by its number."""
    elsewhere: Literal["refuse", "leave-out", "drawn"] = "refuse"
    """Treatment of jobs whose home is none of the sites. drawn: as `home = "user"` has it. With the latter two
    partition-most-used looks only among those that are sites, as long as a user has one."""
    bulk_gap_s: float = 0.0
    """Jobs of one user, home and number of processors, each at most so long after the one before, are one group, that
    comes with the first of them. 0: each job is a group."""
    bulk_span_s: float = 0.0
    """No job of a group came later than this after its first; 0: no limit."""
    bulk_jobs: int = 0
    """Most jobs of a group; 0: no limit."""
    estimate: Literal["requested", "history", "true-mean"] = "requested"
    """The work that is declared for each job of a group. requested: the mean of their requested times, where there is
    none as history; history: the mean run time of its user's earlier jobs that can have ended by then, or else of
    everybody's, or else the entry's `work_s`; true-mean: that of the group itself."""


class HistorySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The groups that one site remembers, each with its users' wishes and the run time of each job that ran
    (`docs/history.md` has the format). Submitted at the entry's `site`, the times counted from its `submit_s`."""

    file: str
    """Path from the scenario's folder."""
    time_scale: float = 1.0
    """Factor on all times of submission."""
    shuffle_days: bool = False
    """True: the days come in another order, drawn by the seed."""
