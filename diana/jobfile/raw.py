"""The job file as written: the one typed model that TOML, YAML, JSON and scripts share, and the source of its schema.

Names follow PSI/J (`executable`, `arguments`, `environment`) and GA4GH TES (`inputs`: `url`, `path`) where they have
one.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from diana.model.job.components import MOST_COMPONENTS, MOST_PROCESSORS
from diana.model.job.declared import MOST_AMOUNT
from diana.model.job.licences import MOST_OF_ONE

Scalar = str | int | float | bool
MOST_COUNTED = 1_000_000_000
"""Jobs, or parts of one, that any key may speak of: what is larger does not travel."""
Count = Annotated[int, Meta(ge=1, le=MOST_PROCESSORS)]
Cpus = Annotated[int, Meta(ge=1, le=MOST_AMOUNT)]
Size = Annotated[
    str | int,
    Meta(description='Bytes, or text with a unit: "500M", "8G". K, M, G, T are powers of 1024, KB.. of 1000.'),
]
Duration = Annotated[
    str | int | float, Meta(description='Seconds, or text: "90", "90s", "30m", "1h30m", "2d", "1:30:00".')
]


class RawRetries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often failed jobs are tried again by themselves, by how they failed."""

    failed: Annotated[int, Meta(ge=0, le=100, description="Those that failed otherwise than by the two below.")] = 0
    timed_out: Annotated[int, Meta(ge=0, le=100, description="Those that took longer than `time`.")] = 0
    out_of_memory: Annotated[
        int, Meta(ge=0, le=100, description="Those that used more than `memory`; they get `factor` times as much.")
    ] = 0
    factor: Annotated[float, Meta(gt=1, le=1000, description="What their memory is multiplied by, each time.")] = 2.0
    pause: Annotated[
        Duration, Meta(description="Before the first time; twice as long before each further one, an hour at most.")
    ] = 0


class RawGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The group: the command of its jobs and the rules for the whole."""

    name: Annotated[str, Meta(description="For people; any short text. Each of several groups has its own.")] = ""
    after: Annotated[
        list[str],
        Meta(description="Start when these are done: names of groups in this file, or ids of earlier groups."),
    ] = []
    command: Annotated[
        str | list[str],
        Meta(description="Program and arguments. Text is split as a shell splits words, but no shell runs. Template."),
    ] = ""
    executable: Annotated[str, Meta(description="The program, when it is not written in `command`. Template.")] = ""
    arguments: Annotated[list[Scalar], Meta(description="Arguments of `executable` or of `script`. Templates.")] = []
    script: Annotated[
        str, Meta(description="A script: its text (first line `#!...`), or the path of a local file. No template.")
    ] = ""
    environment: Annotated[
        dict[str, Scalar], Meta(description="Variables set for each job. Values are templates.")
    ] = {}
    container: Annotated[
        str,
        Meta(description="The image each job runs in: a name its sites can fetch, or a path that is the same there."),
    ] = ""
    modules: Annotated[
        list[str], Meta(description="What the site makes ready before each job, by names its operators gave.")
    ] = []
    mpi: Annotated[
        bool,
        Meta(description="Each is an MPI job: the site's launcher starts it once per processor, as one parallel job."),
    ] = False
    directory: Annotated[
        bool, Meta(description="Give each job a directory of its own even when it has neither inputs nor outputs.")
    ] = False
    cwd: Annotated[
        str,
        Meta(
            description="Absolute path of a folder that is at the sites already, in which each command begins. Such"
            " jobs have no inputs and outputs here."
        ),
    ] = ""
    stdout: Annotated[str, Meta(description="A file of its own, below the job's directory. Template.")] = ""
    stderr: Annotated[str, Meta(description="A file of its own, below the job's directory. Template.")] = ""
    retries: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | RawRetries,
        Meta(
            description="How often jobs that failed are tried again by themselves, once the others have ended: a"
            " number, or a table by how they failed."
        ),
    ] = 0
    notify: Annotated[
        str | list[str],
        Meta(description="Told when the group is over: https://HOST/PATH, mail:NAME@HOST, or several of them."),
    ] = ""
    max_parallel: Annotated[
        int, Meta(ge=0, le=MOST_COUNTED, description="Jobs running at once over all sites; 0: no limit.")
    ] = 0
    on_crash: Annotated[
        Literal["hold", "rerun"],
        Meta(description="A job whose machine went down while it ran: wait for you, or run again."),
    ] = "hold"
    on_site_lost: Annotated[
        Literal["hold", "rerun"],
        Meta(description="Jobs at a site that fell silent: wait for it or for you, or run again elsewhere."),
    ] = "hold"
    preemptible: Annotated[
        bool,
        Meta(
            description="A running job may be ended for a gang that waits for its processors; it goes on from its"
            " checkpoint, or begins anew."
        ),
    ] = False
    sites: Annotated[list[str], Meta(description="Only these sites.")] = []
    not_sites: Annotated[list[str], Meta(description="None of these sites.")] = []
    requirements: Annotated[
        str | list[str],
        Meta(description='Expressions that hold at each site that gets jobs, such as "site.memory_bytes >= 8e9".'),
    ] = []
    link_requirements: Annotated[
        str | list[str],
        Meta(description='Expressions that hold for the link from the site of submission: "link.rtt_s < 0.05".'),
    ] = []
    set_requirements: Annotated[
        str | list[str],
        Meta(description='Expressions that hold for all sites with jobs of the group together: "size(set) <= 4".'),
    ] = []
    rank: Annotated[
        str,
        Meta(description="A number: sites where it is highest get the jobs that can start at once."),
    ] = ""
    job_class: Annotated[
        Literal["", "compute", "data", "both"],
        Meta(description="What the jobs mostly need; left out: judged from their inputs and work."),
    ] = field(default="", name="class")
    max_subgroup: Annotated[
        int, Meta(ge=0, le=MOST_COUNTED, description="Largest part given to one site, in jobs; 0: the VO's rule.")
    ] = 0
    division: Annotated[
        int, Meta(ge=0, le=1_000_000, description="If it is split, into at least so many parts; 0: the VO's rule.")
    ] = 0
    bind: Annotated[
        Literal["", "late", "early"],
        Meta(
            description="When jobs are bound to a site: `late`, as their turn comes there, or `early`, when they are"
            " placed, so that they run on while the site of submission is away; left out: as that site's `binding`."
        ),
    ] = ""
    log_limit: Annotated[Size, Meta(description="Log bytes kept per job, half of its beginning, half of its end.")] = (
        "1M"
    )
    grace: Annotated[
        Duration,
        Meta(
            description="Time between SIGTERM and SIGKILL of a job that is cancelled or comes to its time limit, 1 s to"
            " a day; a site may allow less."
        ),
    ] = "5s"


_MEMORY = (
    'Memory that a job may use with all its children: bytes, or text with a unit such as "500M" or "8G"; 0: no limit. '
    "A job that uses more is ended, with the outcome out_of_memory."
)


class RawResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources of each job. Any other key with a whole number asks for a resource that sites declare by that name."""

    cpus: Annotated[Cpus | None, Meta(description="Processors per job.")] = None
    processors: Annotated[Cpus | None, Meta(description="The same as `cpus`.")] = None
    memory: Annotated[Size, Meta(description=_MEMORY)] = 0
    time: Annotated[Duration, Meta(description="Limit; a job that runs longer is ended.")] = 0
    gpus: Annotated[int, Meta(ge=0, le=MOST_AMOUNT, description="GPUs per job, which it has for itself.")] = 0
    licences: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=MOST_OF_ONE)]],
        Meta(description="Licences per job, by the name its site's operators gave, and how many."),
    ] = {}
    scratch: Annotated[Size, Meta(description="Room on the local disk.")] = 0
    work: Annotated[Duration, Meta(description="Estimated run time at a site of speed 1; helps the placement.")] = 0


class RawInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file or dataset that each job reads."""

    url: Annotated[
        str,
        Meta(
            description="`dataset:NAME`, `dataset:NAME/FILE`, a URL of https, http, s3, sftp or file that each site"
            " reads itself (templates), or a local path (also `file:PATH`), which is uploaded."
        ),
    ]
    path: Annotated[
        str, Meta(description="Where the job finds it, below its directory. Default: the last name. Template.")
    ] = ""
    executable: Annotated[bool | None, Meta(description="Default: as the local file is.")] = None
    mode: Annotated[
        Literal["copy", "link"],
        Meta(
            description="`copy`: a file of the job's own, unless it is too large. `link`: a link to one file for all"
            " jobs; a job that changes it fails."
        ),
    ] = "copy"
    split: Annotated[
        bool | Literal["lines"],
        Meta(
            description="Of an uploaded file each component gets one chunk: its share of the bytes, or with `lines` of"
            " the lines."
        ),
    ] = False


def raw_input(item: str | RawInput) -> RawInput:
    return RawInput(url=item) if isinstance(item, str) else item


class RawOutputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outputs of each job, and the place where they are gathered."""

    collect: Annotated[
        str | list[str],
        Meta(
            description="Files below the job's directory, a different name for every job; patterns such as *.csv, and"
            " folders as out/, of which each job's files lie in a folder of its own. Templates."
        ),
    ] = []
    to: Annotated[
        str,
        Meta(
            description="Absolute folder at the submitter's site, or a URL of s3, sftp or file below which they are put"
            " as well; left out: kept for `diana fetch`."
        ),
    ] = ""
    merge: Annotated[
        str | list[str],
        Meta(description="Command run once in the folder of the gathered outputs, when all jobs are done. Template."),
    ] = ""
    dataset: Annotated[
        str, Meta(description="Register what was gathered (and merged) under this name, for `dataset:NAME` of others.")
    ] = ""
    size: Annotated[Size, Meta(description="Estimated size of what one job leaves; helps the placement.")] = 0


class RawComponent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Components of each job that are alike; all components of a job run at one time, wherever they are. Any other key
    with a whole number asks for a resource that sites declare by that name."""

    name: Annotated[str, Meta(description="For people and for other components.")] = ""
    count: Annotated[int, Meta(ge=1, le=MOST_COMPONENTS, description="So many of them.")] = 1
    cpus: Annotated[Count, Meta(description="Processors of each, at one site.")] = 1
    gpus: Annotated[int, Meta(ge=0, le=MOST_AMOUNT, description="GPUs of each.")] = 0
    memory: Annotated[Size, Meta(description="Memory of each; left out: as [resources] says.")] = 0
    scratch: Annotated[Size, Meta(description="Room on the local disk for each; left out: as [resources] says.")] = 0
    licences: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=MOST_OF_ONE)]],
        Meta(description="Licences of each, by name, beside those that [resources] names."),
    ] = {}
    site: Annotated[str, Meta(description="The site it has to run at; left out: any.")] = ""
    inputs: Annotated[
        list[str | RawInput], Meta(description="Files and datasets that only these components read.")
    ] = []
    requirements: Annotated[
        str | list[str], Meta(description="Expressions that hold at its site, beside those of the group.")
    ] = []
    link_requirements: Annotated[
        str | list[str],
        Meta(description="The same for the links of its site to the site of submission and to the job's other sites."),
    ] = []
    set_requirements: Annotated[
        str | list[str], Meta(description="The same for the sites of this table's components together.")
    ] = []
    command: Annotated[
        str | list[str], Meta(description="Words to run in place of the group's command. Templates.")
    ] = ""


class RawFlexible(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job of so many processors that may be divided into components."""

    cpus: Annotated[Count, Meta(description="Processors in all.")]
    min_cpus: Annotated[Count, Meta(description="Least processors of a component.")] = 1
    max_components: Annotated[int, Meta(ge=0, le=MOST_COMPONENTS, description="Most components; 0: 8.")] = 0
    splits: Annotated[
        list[list[int]], Meta(description="The only divisions allowed, the preferred ones first: [[48, 24], [36, 36]].")
    ] = []


class RawGang(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for jobs of several components."""

    placement: Annotated[
        str,
        Meta(
            description="Where the components go: `worst-fit` (the emptiest sites), `close-to-files`, `cluster-min`"
            " (few sites), `flexible-min` (the same, and divides), `grads` (where `package.model` foretells the first"
            " end), `turnaround` (where claims, files, speeds and `slowdown` let it end first), or one that the"
            " operator of the site installed. Left out: as the site's `gang_placement` says; else `grads` for jobs with"
            " a model, `flexible-min` for flexible ones, `close-to-files` for those with inputs, and `worst-fit`.",
        ),
    ] = ""
    slowdown: Annotated[
        list[float],
        Meta(
            description="How much longer the program runs over 1, 2, 3.. sites: `[1.0, 1.1, 1.25]`; the last factor"
            " stands for all more. `turnaround` weighs it. Left out: no longer."
        ),
    ] = []
    runner: Annotated[
        str,
        Meta(
            description="`env`: each component runs the command, and finds the others by its environment. `mpi`: the"
            " command is one MPI job over all components, with a process on each of their processors. `none`: as `env`,"
            " for components that do not talk to each other: nobody looks whether they could. Any other: a runner that"
            " the operators of the sites installed."
        ),
    ] = "env"
    level: Annotated[
        Literal["", "super-high", "high", "low", "super-low"],
        Meta(description="Queue in which they wait for a place beside other gangs of their origin. Left out: `low`."),
    ] = ""
    spares: Annotated[
        int,
        Meta(
            description="Components that are started beside those named and stand by: where a component is slow, its"
            " program exchanges it for one of them. Components are alike then; at most one spare for each."
        ),
    ] = 0


class RawMapper(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The division of a job's data among its components."""

    kind: Annotated[
        Literal["equal", "time-balance"],
        Meta(
            description="`equal`: each processor has as much as any other; `time-balance`: all components end at one"
            " time, by the model, as far as memory lets them."
        ),
    ] = "equal"
    items: Annotated[str | int, Meta(description="Items of data in all: a number, or an expression such as `nx * ny`.")]
    item_bytes: Annotated[
        str | int, Meta(description="Memory that one item takes, bytes; the same. 0: none that counts.")
    ] = 0


class RawPackage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program of one's own that has a build for each kind of machine."""

    builds: Annotated[
        dict[str, str],
        Meta(description="Local file by platform, as `uname -m` names it: x86_64, aarch64. Each is uploaded."),
    ] = {}
    program: Annotated[
        str,
        Meta(description="Name of the build in the job's directory; left out: the command's first word, without `./`."),
    ] = ""
    model: Annotated[
        dict[str, str | bool],
        Meta(
            description="Equations: `time_s`, the last, is the seconds one job runs at a site; it may use those before."
            " Or `plugin`: the name of a model that the operator of the site of submission installed. Or `learned`:"
            " true, to fit one over processors and sites to past runs of the program. Of jobs with"
            " components: the seconds one component runs, by its `component.share` of the data and more."
        ),
    ] = {}
    mapper: RawMapper | None = None
    search: Annotated[
        Literal["", "annealing"],
        Meta(
            description="`annealing`: the machines of a job with components are sought by annealing, too, which"
            " supposes nothing of the program; left out: by the resource-aware search alone."
        ),
    ] = ""


class RawCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The way in which each job saves its state when it is asked to, and goes on from it elsewhere."""

    paths: Annotated[
        str | list[str],
        Meta(
            description="Files below the job's directory that are its whole state; all of them, or it saved none. In a"
            " gang each names {component}."
        ),
    ] = []
    signal: Annotated[
        Literal["USR1", "USR2", "TERM", "INT", "HUP"],
        Meta(description="Signal that asks it: it writes its files and ends with exit code 85."),
    ] = "USR1"
    restart: Annotated[
        str | list[str],
        Meta(
            description="Command that goes on from the files, which lie where they were saved; left out: the group's"
            " own, which finds DIANA_CHECKPOINT in its environment. Template."
        ),
    ] = ""
    wait: Annotated[
        Duration,
        Meta(description="A job that does not heed the signal for so long, such as in its first moments, runs on."),
    ] = 60
    every: Annotated[
        Duration,
        Meta(
            description="A job that has run for so long is asked by its site, so that a lost site costs no more; 0: it"
            " is asked only when it is to go elsewhere."
        ),
    ] = 0


class RawContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The progress that each job reports (`diana report`) is held against the run time that was foretold of it."""

    tolerance: Annotated[
        tuple[float, float],
        Meta(description="Achieved over foretold time, least and most: beyond, the contract is violated."),
    ] = (0.7, 1.3)
    window: Annotated[int, Meta(ge=1, le=100, description="Reports that the mean is taken over.")] = 5
    move: Annotated[
        bool, Meta(description="A job too slow goes, with its [checkpoint], where it would end sooner by enough.")
    ] = True
    yields: Annotated[
        bool,
        Meta(
            description="A job may be stopped, with its [checkpoint], where a shorter one that was submitted at the"
            " same site waits for its processors; it goes on after that."
        ),
    ] = False


class RawMember(RawGroup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several groups of a job file, its sections inside it. It serves the published schema only: each group that
    is read is checked as a `RawJob`."""

    sweep: Annotated[
        dict[str, str | list[Scalar | dict[str, Scalar]]], Meta(description="As in a file of one group.")
    ] = {}
    resources: RawResources = RawResources()
    inputs: list[str | RawInput] = []
    outputs: RawOutputs = RawOutputs()
    components: Annotated[str | list[RawComponent], Meta(description="As in a file of one group.")] = []
    flexible: Annotated[
        Annotated[int, Meta(ge=1)] | RawFlexible | None, Meta(description="As in a file of one group.")
    ] = None
    gang: RawGang = RawGang()
    package: RawPackage = RawPackage()
    checkpoint: RawCheckpoint | None = None
    contract: RawContract | None = None


class RawFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A diana job file of several groups."""

    group: Annotated[list[RawMember], Meta(min_length=1)]


class RawJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A diana job file."""

    group: RawGroup = RawGroup()
    sweep: Annotated[
        dict[str, str | list[Scalar | dict[str, Scalar]]],
        Meta(
            description='One name each: a list, or a range "1-5000", "0-100:5". Jobs are the product, the last name'
            " varies fastest. `from`: a local CSV file whose columns are names; `rows`: the same, written here;"
            ' `array`: as Slurm writes it, "1-100%10".'
        ),
    ] = {}
    resources: RawResources = RawResources()
    inputs: list[str | RawInput] = []
    outputs: RawOutputs = RawOutputs()
    components: Annotated[
        str | list[RawComponent],
        Meta(description='Components of each job, which run at one time or not at all: "3x8", or tables.'),
    ] = []
    flexible: Annotated[
        Annotated[int, Meta(ge=1)] | RawFlexible | None,
        Meta(description="Instead of components: processors in all, which the placement divides."),
    ] = None
    gang: RawGang = RawGang()
    package: RawPackage = RawPackage()
    checkpoint: RawCheckpoint | None = None
    contract: RawContract | None = None
