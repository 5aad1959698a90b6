"""What a scenario may say of its work: one entry of `[[workload]]`, and the moves its user asks for."""

from __future__ import annotations

import msgspec

from diana.model.spec import OnCrash, OnSiteLost
from diana.sim.data_spec import DataSpec
from diana.sim.demand_spec import GenerateSpec
from diana.sim.trace_spec import TraceSpec


class MoveSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user has jobs that wait run elsewhere."""

    to: str
    """The site."""
    at_s: float
    """When it is asked for."""
    first: int = 0
    """The first job that moves, counted from 0."""
    jobs: int = 0
    """From the first on; 0: all."""


class WorkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bulk group."""

    name: str
    """For the report, and for `after`."""
    site: str = ""
    """Where it is submitted."""
    jobs: int = 0
    """Of each group; with `trace` the log says it."""
    user: str = ""
    """Empty: the first user."""
    work_s: float = 1.0
    """Run time at speed 1.0, as declared in the job file."""
    true_work_s: float = 0.0
    """What its jobs take where the declaration is wrong; 0: as declared."""
    spread: float = 0.0
    """True run times lie evenly in w * (1 - spread) .. w * (1 + spread), w being true_work_s or else work_s."""
    fail_fraction: float = 0.0
    """Share of jobs that exit 1."""
    processors: int = 1
    """Per job."""
    gpus: int = 0
    """Per job."""
    container: str = ""
    """The image its jobs run in; empty: none."""
    modules: tuple[str, ...] = ()
    """What is made ready before each job, by name."""
    inputs: tuple[str, ...] = ()
    """Datasets; with `file_per_job`, job k reads file k of their files laid end to end, else all of them."""
    file_per_job: bool = False
    """Each job reads one file of its inputs, see there."""
    output_bytes: int = 0
    """Per job, gathered at the submitter's site; 0: none."""
    merge: bool = False
    """A command is run once in the end, in the folder of the gathered outputs."""
    after: tuple[str, ...] = ()
    """Entries to wait for; with `inputs` that another one produces too. What hangs together is one submission, made
    when the first of it is due."""
    produces: str = ""
    """The outputs become a dataset of this name, its files `0.out`, `1.out`, ..."""
    sites: tuple[str, ...] = ()
    """Only these; none named: any."""
    forced: dict[str, int] = {}
    """Site -> jobs: this plan instead of the planner's, as one group per site that may run nowhere else. Jobs, with
    their files, are dealt out in the order written. Reported as one entry."""
    max_subgroup: int = 0
    """Largest part given to one site, in jobs; 0: as the settings say."""
    max_parallel: int = 0
    """Jobs running at once over all sites; 0: no limit."""
    on_crash: OnCrash = "hold"
    """A job whose machine went down while it ran: held, or run again."""
    on_site_lost: OnSiteLost = "hold"
    """Jobs at a site that fell silent: they wait for it, or run again elsewhere."""
    submit_s: float = 0.0
    """When it comes."""
    cancel_s: float = -1.0
    """Site time of a cancel; negative: never."""
    hold_s: float = -1.0
    """When it is held; negative: never."""
    release_s: float = -1.0
    """After the hold was answered."""
    retry_s: float = -1.0
    """Of what has failed by then; another attempt has another luck."""
    moves: tuple[MoveSpec, ...] = ()
    repeat: int = 1
    """This many such groups, `every_s` apart, named NAME, NAME-2, ..."""
    every_s: float = 0.0
    """Between two of them."""
    generate: GenerateSpec | None = None
    """They are drawn from a model."""
    trace: TraceSpec | None = None
    """They are the jobs of a log."""
    data: DataSpec | None = None
    """Each of its groups reads a dataset that is drawn."""
