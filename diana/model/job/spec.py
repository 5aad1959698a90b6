"""The spec of a bulk group: a template, a sweep, and the needs of its jobs. One value, however many jobs.

Text fields marked *template* may hold `{name}` placeholders, filled per job from the sweep and from
`{index}` and `{group}`; `{{` and `}}` stand for braces (see `model/job/template.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from diana.model.job.counts import Counts, least, with_own
from diana.model.job.grace import GRACE_S
from diana.model.job.patterns import is_found
from diana.model.job.urls import is_url

OnCrash = Literal["hold", "rerun"]
Bind = Literal["", "late", "early"]
OnSiteLost = Literal["hold", "rerun"]
JobClass = Literal["", "compute", "data", "both"]
MapperKind = Literal["equal", "time-balance"]
SearchKind = Literal["", "annealing"]
GangLevelName = Literal["", "super-high", "high", "low", "super-low"]


class Resources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources of one job. Zero: no limit is asked and none imposed; `work_s` zero: unknown."""

    processors: int = 1
    memory_bytes: int = 0
    time_limit_s: float = 0.0
    gpus: int = 0
    scratch_bytes: int = 0
    licences: Counts = ()
    """(name, how many), by name (`model/job/licences.py`)."""
    others: Counts = ()
    """(name, how many) of resources that operators declare, by name (`model/job/declared.py`)."""
    work_s: float = 0.0
    """Estimated run time in seconds at reference speed (a site of speed 1.0)."""


class InputFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file or dataset a job reads.

    `source` is a template: `dataset:NAME` (all its files, as a directory), `dataset:NAME/FILE`,
    `blob:SHA256` (content the submitter uploaded), or `url:URL` (each executing site reads it itself). `path` is a
    template, relative to the job's directory.
    """

    source: str
    path: str
    size_bytes: int = 0
    """Known for blobs only."""
    executable: bool = False
    link: bool = False
    """True: jobs get a link to what the site keeps for all of them, however small it is; a site of an earlier release
    gives them nothing else."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    collect: tuple[str, ...] = ()
    """Templates of paths below the job's directory; each must exist when the job has exited 0."""
    kept: bool = False
    """True: what of `collect` is there is kept whatever became of the job, and an item of `collect` may be a pattern or
    a folder (`model/job/patterns.py`). False: as the group's origin was, of a release that knew neither."""
    to: str = ""
    """Absolute folder at the submitter's site; empty: the group's own folder there, read with `fetch`. A URL: outputs
    go to that own folder, and a copy of each from there to below the URL."""
    merge: tuple[str, ...] = ()
    """Command run once, in the folder of the gathered outputs, when every job is done."""
    dataset: str = ""
    """Name under which the gathered (and merged) outputs are registered before the group counts as done; empty: they
    are not."""
    size_bytes: int = 0
    """Estimated bytes of one job's outputs; 0: not known."""

    @property
    def finds(self) -> bool:
        """True if the names of some outputs are found when the job has ended."""
        return self.kept and any(map(is_found, self.collect))

    @property
    def folder(self) -> str:
        """The folder the user named; empty: the group's own."""
        return "" if is_url(self.to) else self.to


class Axis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One swept name: either the integers start, start+step, ... < stop, or the listed values."""

    name: str
    start: int = 0
    stop: int = 0
    step: int = 1
    values: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Explicit rows, kept apart as a blob: UTF-8, one JSON array of strings per line."""

    columns: tuple[str, ...]
    rows: int
    blob: str
    """SHA-256 of the blob, hex."""
    size_bytes: int


class Sweep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The product of the axes (the last one varies fastest), times the table's rows if there is one
    (which then vary slowest). No axis and no table: one job."""

    axes: tuple[Axis, ...] = ()
    table: Table | None = None


class ComponentSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Components of a gang that are alike: each takes so many processors of one site, at one time with all others."""

    name: str = ""
    count: int = 1
    processors: int = 1
    gpus: int = 0
    """For the component, not for each processor."""
    site: str = ""
    """The site it has to run at; empty: any."""
    memory_bytes: int = 0
    """0: as the group says for each job. So it is with `scratch_bytes`."""
    scratch_bytes: int = 0
    licences: Counts = ()
    """(name, how many), by name, in place of what the group says of that name; all others are as it says. So it is with
    `others`."""
    others: Counts = ()
    inputs: tuple[InputFile, ...] = ()
    """Read beside those of the group."""
    argv: tuple[str, ...] = ()
    """Empty: the group's."""
    requirements: tuple[str, ...] = ()
    """Expressions that hold at its site, beside those of the group."""
    link_requirements: tuple[str, ...] = ()
    """The same for the links of its site to the site of submission and to each other site of the gang."""
    set_requirements: tuple[str, ...] = ()
    """The same for the sites of all components that are alike in everything, together."""

    @property
    def requires(self) -> bool:
        """True if it has expressions of its own."""
        return bool(self.requirements or self.link_requirements or self.set_requirements)

    def anywhere(self) -> ComponentSpec:
        """Return one such component without its name and without what it says of sites."""
        return msgspec.structs.replace(
            self, name="", count=1, site="", requirements=(), link_requirements=(), set_requirements=()
        )


MOST_BY_ITSELF = 8
"""Components that a flexible gang may have where it names no number."""


class FlexibleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gang of so many processors that may be divided into components."""

    processors: int
    min_processors: int = 1
    """Least processors of a component."""
    max_components: int = 0
    """0: `MOST_BY_ITSELF`."""
    splits: tuple[tuple[int, ...], ...] = ()
    """The only divisions allowed, the preferred ones first; none: any within the bounds."""

    @property
    def most(self) -> int:
        """Return the components that a gang may have at most: so many indices are kept for it."""
        if self.splits:
            return max(1, *map(len, self.splits))
        return min(self.max_components or MOST_BY_ITSELF, max(1, self.processors // max(1, self.min_processors)))

    def allows(self, processors: int) -> bool:
        """True if a component may have so many processors."""
        if self.splits:
            return any(processors in split for split in self.splits)
        return self.min_processors <= processors <= self.processors


class MapperSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The division of a gang's data among its components (`policy/grads/mappers.py`)."""

    kind: MapperKind = "equal"
    items: str
    """Expression of the number of items in all, by the group's own values."""
    item_bytes: str = "0"
    """Expression of the memory that one takes, in bytes; 0: none that counts."""


class CheckpointSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The way in which each job saves its state and goes on from it."""

    paths: tuple[str, ...]
    """Templates of the files below the job's directory that are its whole state."""
    signal: str = "USR1"
    """Signal that asks it to save them and to end with `checkpoint.EXIT`."""
    restart: tuple[str, ...] = ()
    """Templates of the command that goes on from them; empty: the group's own."""
    wait_s: float = 60.0
    """Seconds that a job has to come to heed the signal; after that it runs on."""
    every_s: float = 0.0
    """Seconds of running after which a job is asked to save of the site's own accord; 0: it never is."""


class ContractSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress that its jobs report is held against the run time that was foretold of them."""

    tolerance: tuple[float, float] = (0.7, 1.3)
    """Ratios of achieved to foretold time between which the contract is kept."""
    window: int = 5
    """Reports that the mean is taken over."""
    move: bool = True
    """True: a job that can save its state goes where it ends sooner, if it breaks its contract."""
    yields: bool = False
    """True: one that can save its state may be stopped so that a shorter one of its origin's begins."""


class RetryRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often jobs are tried again by themselves, by how they failed, all together once the others have ended."""

    failed: int = 0
    """Times for those that failed otherwise than by the two below."""
    timed_out: int = 0
    out_of_memory: int = 0
    factor: float = 2.0
    """Factor by which the memory of jobs that ran out of it grows, each time."""
    pause_s: float = 0.0
    """Seconds before the first time; twice as long before each further one."""


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bulk group as its origin keeps it and a destination receives it (SPEC J1-J6).

    Its canonical bytes (`encode`) are what is signed and hashed.
    """

    name: str = ""
    argv: tuple[str, ...] = ()
    """Templates. With `script` set: arguments to the script."""
    script: str = ""
    """Text of a script, first line `#!`; no placeholders."""
    environment: tuple[tuple[str, str], ...] = ()
    """Sorted by name; values are templates."""
    container: str = ""
    """The image each job runs in, as the site's program for containers names it; empty: none."""
    modules: tuple[str, ...] = ()
    """Modules the site makes ready before each job, in this order, by names its operator gave."""
    mpi: bool = False
    """True: the site's launcher starts each job as many times as it has processors, as one parallel job."""
    own_directory: bool = False
    """True: each job gets a directory of its own even without inputs or outputs."""
    stdout: str = ""
    """Template of a path below the job's directory; empty: the shared, capped log segment."""
    stderr: str = ""
    resources: Resources = Resources()
    sweep: Sweep = Sweep()
    inputs: tuple[InputFile, ...] = ()
    outputs: Outputs = Outputs()
    sites: tuple[str, ...] = ()
    """The only sites allowed; empty: any."""
    not_sites: tuple[str, ...] = ()
    on_crash: OnCrash = "hold"
    on_site_lost: OnSiteLost = "hold"
    """Fate of jobs at a site that fell silent: `hold`: they stay there, out of reach; `rerun`: they run under leases
    and are placed anew when those are over."""
    preemptible: bool = False
    """True: a running job may be ended for a gang that waits for its processors, and runs anew."""
    retries: int = 0
    """Times that jobs which failed are tried again by themselves, once all others have ended."""
    max_parallel: int = 0
    job_class: JobClass = ""
    max_subgroup: int = 0
    """Largest subgroup in jobs; 0: the VO's."""
    division: int = 0
    """Least number of subgroups if the group is split; 0: the VO's."""
    bind: Bind = ""
    """`early`: all jobs are handed over when they are placed, so that they run on while their origin is away; `late`:
    those that cannot start at once wait at the origin for their turn. Empty: as the origin's settings say."""
    log_limit_bytes: int = 1 << 20
    """Log bytes kept per job."""
    grace_s: float = GRACE_S
    """Seconds between SIGTERM and SIGKILL of a job that is cancelled, makes way or has come to its time limit; the site
    may allow fewer. A site of an earlier release gives `GRACE_S`."""
    components: tuple[ComponentSpec, ...] = ()
    """Components of each job, which is a gang then; none: it is an ordinary one."""
    flexible: FlexibleSpec | None = None
    """The same, where the placement may choose the components."""
    gang_placement: str = ""
    """Placement policy of the gangs, by its name in `policy/gang/policies.py` or that of a plug-in; empty: as its
    site says, else as the request suggests."""
    slowdown: tuple[float, ...] = ()
    """How much longer its gangs run over 1, 2, 3.. sites, the last factor for all more; none: not at all. The placement
    `turnaround` weighs it."""
    gang_level: GangLevelName = ""
    """Queue in which its gangs wait for a place at their origin; empty: `low`."""
    runner: str = ""
    """The way a gang's processes start: `mpi`: one MPI world over all components, a process on each processor. Empty:
    each component runs its own command, and finds the others by its environment. `none`: the same, and nobody looks
    whether they reach each other. Any other name: a runner that operators installed."""
    builds: tuple[str, ...] = ()
    """Platforms that the package has a build for, as `uname -m` names them. Each lies among the inputs, at
    `build_path`; a machine puts its own in place before a job begins. Empty: there is no package."""
    program: str = ""
    """Name that the build has in the job's directory."""
    requirements: tuple[str, ...] = ()
    """Expressions that hold at each site that gets jobs (`policy/requirements/names.py`)."""
    link_requirements: tuple[str, ...] = ()
    """Expressions that hold for the link between the origin and each site that gets jobs."""
    set_requirements: tuple[str, ...] = ()
    """Expressions that hold for all sites together that have jobs of the group."""
    model: tuple[tuple[str, str], ...] = ()
    """Equations, (name, expression): the last gives the seconds that one job runs at a site
    (`policy/grads/models.py`)."""
    learned: bool = False
    """True: its model is fitted by the origin to past runs of the program (`model/learned.py`)."""
    mapper: MapperSpec | None = None
    """Division of a gang's data; None: it has none that its model knows of."""
    search: SearchKind = ""
    """`annealing`: the placement of its gangs by their model anneals, beside the resource-aware search."""
    rank: str = ""
    """Expression of a number: sites where it is highest get the jobs that can start at once. Empty: the first end
    decides."""
    checkpoint: CheckpointSpec | None = None
    """None: its jobs cannot be stopped and go on elsewhere."""
    contract: ContractSpec | None = None
    """None: its jobs report nothing, but for the components of a gang with spares."""
    spares: int = 0
    """Components of each gang, the last ones, that stand by until one of them takes the place of a slow one."""
    retry: RetryRules | None = None
    """In place of `retries`."""
    cwd: str = ""
    """Absolute path of a folder that is at the executing sites already, in which each command begins; empty: the job's
    own directory, or its scratch."""

    def with_memory(self, memory_bytes: int) -> GroupSpec:
        """The same for jobs that get so much memory each, and components that say more themselves get that; 0: as it
        says itself."""
        if not memory_bytes:
            return self
        more = msgspec.structs.replace(self.resources, memory_bytes=memory_bytes)
        components = tuple(
            msgspec.structs.replace(each, memory_bytes=max(each.memory_bytes, memory_bytes))
            if each.memory_bytes
            else each
            for each in self.components
        )
        return msgspec.structs.replace(self, resources=more, components=components)

    @property
    def requires(self) -> bool:
        """True if any expression limits or ranks the sites."""
        return bool(self.requirements or self.link_requirements or self.set_requirements or self.rank)

    @property
    def is_gang(self) -> bool:
        return bool(self.components) or self.flexible is not None

    @property
    def gang_size(self) -> int:
        """Indices of each gang, which follow one another: one for each component, or for each that a flexible one may
        have at most; 1 for ordinary jobs."""
        if self.flexible is not None:
            return self.flexible.most
        return sum(each.count for each in self.components) or 1

    def component(self, index: int) -> ComponentSpec:
        """Return the component that an index of a gang's group stands for."""
        rank = index % self.gang_size
        for each in self.components:
            if rank < each.count:
                return each
            rank -= each.count
        raise IndexError(f"{index}: the group has no components")

    def by_rank(self) -> list[ComponentSpec]:
        """Return the component that each rank of its gangs stands for; none for flexible gangs."""
        return [each for each in self.components for _ in range(each.count)]

    def of_component(self, own: ComponentSpec) -> Resources:
        """Return what such a component of its gangs asks: what it says itself, and all else as the group says for each
        job."""
        group = self.resources
        return msgspec.structs.replace(
            group,
            processors=own.processors,
            gpus=own.gpus,
            memory_bytes=own.memory_bytes or group.memory_bytes,
            scratch_bytes=own.scratch_bytes or group.scratch_bytes,
            licences=with_own(group.licences, own.licences),
            others=with_own(group.others, own.others),
        )

    def component_kinds(self) -> tuple[Resources, ...]:
        """Return what the components of its gangs ask, each different one once, in their order; none: they are alike,
        or it has none."""
        kinds = tuple(dict.fromkeys(map(self.of_component, self.components)))
        return kinds if len(kinds) > 1 else ()

    def least_of_site(self) -> Resources:
        """Return what a site must have to take a job, or any component of one."""
        if self.components:
            some = [self.of_component(each) for each in self.components]
            return msgspec.structs.replace(
                some[0],
                processors=min(each.processors for each in some),
                gpus=min(each.gpus for each in some),
                memory_bytes=min(each.memory_bytes for each in some),
                scratch_bytes=min(each.scratch_bytes for each in some),
                licences=least([each.licences for each in some]),
                others=least([each.others for each in some]),
            )
        if self.flexible is not None:
            splits = self.flexible.splits
            least_width = min((min(split) for split in splits), default=self.flexible.min_processors)
            return msgspec.structs.replace(self.resources, processors=least_width)
        return self.resources

    @property
    def reports(self) -> bool:
        """True if its jobs are listened to while they run."""
        return self.contract is not None or self.spares > 0

    def every_input(self) -> Iterator[InputFile]:
        """Yield what any of its jobs reads, also what some components read alone."""
        yield from self.inputs
        for each in self.components:
            yield from each.inputs

    def needs_directory(self) -> bool:
        """True if each job needs a directory of its own. An MPI job does, since its processes on other machines begin
        in the directory of the first, and a component of a gang with spares, which is told there who computes."""
        own = self.own_directory or self.mpi or self.checkpoint is not None or self.spares > 0
        return bool(own or any(self.every_input()) or self.outputs.collect or self.stdout or self.stderr)


def may_be_gang(spec: bytes) -> bool:
    """True for the canonical bytes of each spec of gangs. An ordinary one whose own words look so counts, too."""
    return b'"components":' in spec or b'"flexible":' in spec


def build_path(platform: str, program: str) -> str:
    """Return where a build lies in a job's directory."""
    return f"builds/{platform}/{program}"


def may_have_builds(spec: bytes) -> bool:
    """True for the canonical bytes of each spec with builds, and some others."""
    return b'"builds":' in spec


def may_save(spec: bytes) -> bool:
    """True for the canonical bytes of each spec with checkpoints, and some others."""
    return b'"checkpoint":' in spec


def may_make_way(spec: bytes) -> bool:
    """True for the canonical bytes of each spec whose jobs may be ended for gangs, and some others."""
    return b'"preemptible":' in spec


def may_ask_others(spec: bytes) -> bool:
    """True for the canonical bytes of each spec whose jobs ask for declared resources, and some others."""
    return b'"others":' in spec


def is_newer(spec: bytes) -> bool:
    """True for the canonical bytes of each spec that a site of 0.1.0 would run wrongly, and some others."""
    some = (may_be_gang, may_have_builds, may_save, may_make_way, may_ask_others)
    return any(may(spec) for may in some)


def may_require(spec: bytes) -> bool:
    """True for the canonical bytes of each spec with expressions about sites, and some others."""
    return b'equirements":' in spec or b'"rank":' in spec


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(GroupSpec)


def encode_spec(spec: GroupSpec) -> bytes:
    """Canonical JSON: the same spec gives the same bytes in every process and release."""
    return _encoder.encode(spec)


def decode_spec(data: bytes) -> GroupSpec:
    """Inverse of `encode_spec`; msgspec.ValidationError for bytes that are no spec. Unknown fields are ignored,
    so that a newer origin's spec still reads."""
    try:
        return _decoder.decode(data)
    except RecursionError:
        raise msgspec.ValidationError("nested too deeply") from None
