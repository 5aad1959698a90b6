"""The work of a scenario: one entry of `[[workload]]`, and the moves its user asks for."""

from __future__ import annotations

import msgspec

from diana.model.job import resources as res
from diana.model.job.spec import GangLevelName, OnCrash, OnSiteLost, Resources
from diana.sim.specs.data_spec import DataSpec
from diana.sim.specs.demand_spec import GenerateSpec
from diana.sim.specs.resources_spec import ResourcesSpec
from diana.sim.specs.trace_spec import HistorySpec, TraceSpec


class MoveSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An order of the user that waiting jobs, and running ones with `checkpoint`, run elsewhere."""

    to: str
    """The site they go to; empty: running jobs with `checkpoint` stop at one, and go on wherever it is best."""
    at_s: float
    """Time when it is asked for."""
    first: int = 0
    """The first job that moves, counted from 0."""
    jobs: int = 0
    """Number of jobs, from the first on; 0: all."""


class WorkSpec(ResourcesSpec, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bulk group."""

    name: str
    """Name for the report, and for `after`."""
    site: str = ""
    """Site where it is submitted."""
    jobs: int = 0
    """Jobs of each group; with `trace` the log says it."""
    user: str = ""
    """User who submits; empty: the first user."""
    work_s: float = 1.0
    """Run time at speed 1.0, as declared in the job file."""
    true_work_s: float = 0.0
    """True run time of its jobs where the declaration is wrong; 0: as declared."""
    spread: float = 0.0
    """True run times lie evenly in w * (1 - spread) .. w * (1 + spread), w being true_work_s or else work_s."""
    fail_fraction: float = 0.0
    """Share of jobs that exit 1."""
    processors: int = 1
    """Processors per job."""
    components: str = ""
    """Components of each job, which is a gang then, as `3x8` or `2x16+1x8@SITE`, or `flexible 24`; empty: it is an
    ordinary one."""
    gang_placement: str = ""
    """Policy that places the components: worst-fit, close-to-files, cluster-min or flexible-min; empty: as for users
    who name none."""
    gang_level: GangLevelName = ""
    """Queue in which its gangs wait for a place: super-high, high, low or super-low; empty: low."""
    communication: str = ""
    """Application of `[communication]` by whose factors its gangs run; empty: by those of all gangs."""
    gang_slowdown: tuple[float, ...] = ()
    """Factors over 1, 2, 3, ... sites that its job file declares, where these are not the true ones; none: the true
    ones."""
    container: str = ""
    """The image its jobs run in; empty: none."""
    modules: tuple[str, ...] = ()
    """Modules that are made ready before each job, by name."""
    requirements: tuple[str, ...] = ()
    """Expressions that hold at each site that gets jobs, as in a job file."""
    link_requirements: tuple[str, ...] = ()
    """Expressions that hold for the link to each of these sites."""
    set_requirements: tuple[str, ...] = ()
    """Expressions that hold for all these sites together."""
    rank: str = ""
    """Number by which sites are ordered; empty: they are not."""
    inputs: tuple[str, ...] = ()
    """Datasets; with `file_per_job`, job k reads file k of their files laid end to end, else all of them."""
    file_per_job: bool = False
    """True: each job reads one file of its inputs, see there."""
    output_bytes: int = 0
    """Bytes of output per job, gathered at the submitter's site; 0: none."""
    merge: bool = False
    """True: a command is run once in the end, in the folder of the gathered outputs."""
    after: tuple[str, ...] = ()
    """Entries to wait for, beside those that produce its `inputs`. Entries that hang together are one submission, made
    when the first of them is due."""
    produces: str = ""
    """Name of the dataset that the outputs become, its files `0.out`, `1.out`, ..."""
    sites: tuple[str, ...] = ()
    """Sites it may run at; none named: any."""
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
    checkpoint: bool = False
    """True: running jobs save their state when they are moved or their site drains, and go on from it elsewhere."""
    contract: bool = False
    """True: running jobs report their steps, and one with `checkpoint` that is too slow goes where it ends sooner."""
    yields: bool = False
    """True: with both, a running job may be stopped where a shorter one of its site of submission waits."""
    preemptible: bool = False
    """True: running jobs may be ended for gangs, and run again."""
    submit_s: float = 0.0
    """Time when it comes."""
    cancel_s: float = -1.0
    """Site time of a cancel; negative: never."""
    hold_s: float = -1.0
    """Time when it is held; negative: never."""
    release_s: float = -1.0
    """Time when it is released, after the hold was answered; negative: never."""
    retry_s: float = -1.0
    """Time when the jobs that have failed by then are tried again, with another luck; negative: never."""
    moves: tuple[MoveSpec, ...] = ()
    repeat: int = 1
    """This many such groups, `every_s` apart, named NAME, NAME-2, ..."""
    every_s: float = 0.0
    """Seconds between two of them."""
    generate: GenerateSpec | None = None
    """Model that its groups are drawn from."""
    trace: TraceSpec | None = None
    """Log whose jobs its groups are."""
    history: HistorySpec | None = None
    """History of a site, as `diana history export` wrote it, whose groups its groups are."""
    data: DataSpec | None = None
    """Draw of a dataset for each of its groups to read."""

    @property
    def each(self) -> Resources:
        """Resources of each of its jobs."""
        others = res.of(self.resources)
        return Resources(processors=self.processors, gpus=self.gpus, others=others, work_s=self.work_s)


def home_of(work: WorkSpec, spec: TraceSpec) -> dict[str, str] | str:
    return spec.home or ("site" if work.site else "partition-most-used")
