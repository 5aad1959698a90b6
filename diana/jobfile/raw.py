"""The job file as written: the one typed model that TOML, YAML, JSON and scripts share, and the source of its schema.

Names follow PSI/J (`executable`, `arguments`, `environment`) and GA4GH TES (`inputs`: `url`, `path`) where they have
one.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

Scalar = str | int | float | bool
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[
    str | int,
    Meta(description='Bytes, or text with a unit: "500M", "8G". K, M, G, T are powers of 1024, KB.. of 1000.'),
]
Duration = Annotated[
    str | int | float, Meta(description='Seconds, or text with units: "90s", "30m", "1h30m", "2d", "1:30:00".')
]


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
    stdout: Annotated[str, Meta(description="A file of its own, below the job's directory. Template.")] = ""
    stderr: Annotated[str, Meta(description="A file of its own, below the job's directory. Template.")] = ""
    max_parallel: Annotated[int, Meta(ge=0, description="Jobs running at once over all sites; 0: no limit.")] = 0
    on_crash: Annotated[
        Literal["hold", "rerun"],
        Meta(description="A job whose machine went down while it ran: wait for you, or run again."),
    ] = "hold"
    on_site_lost: Annotated[
        Literal["hold", "rerun"],
        Meta(description="Jobs at a site that fell silent: wait for it or for you, or run again elsewhere."),
    ] = "hold"
    sites: Annotated[list[str], Meta(description="Only these sites.")] = []
    not_sites: Annotated[list[str], Meta(description="None of these sites.")] = []
    job_class: Annotated[
        Literal["", "compute", "data", "both"],
        Meta(description="What the jobs mostly need; left out: judged from their inputs and work."),
    ] = field(default="", name="class")
    max_subgroup: Annotated[
        int, Meta(ge=0, description="Largest part given to one site, in jobs; 0: the VO's rule.")
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
    log_limit: Annotated[Size, Meta(description="Log bytes kept per job.")] = "1M"


class RawResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources of each job."""

    cpus: Annotated[Count | None, Meta(description="Processors per job.")] = None
    processors: Annotated[Count | None, Meta(description="The same as `cpus`.")] = None
    memory: Annotated[Size, Meta(description='Memory per job: bytes, or text with a unit such as "500M" or "8G".')] = 0
    time: Annotated[Duration, Meta(description="Limit; a job that runs longer is ended.")] = 0
    gpus: Annotated[int, Meta(ge=0, description="GPUs per job, which it has for itself.")] = 0
    licences: Annotated[
        dict[str, Count], Meta(description="Licences per job, by the name its site's operators gave, and how many.")
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


class RawOutputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outputs of each job, and the place where they are gathered."""

    collect: Annotated[
        str | list[str], Meta(description="Files below the job's directory; a different name for every job. Templates.")
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


class RawMember(RawGroup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several groups of a job file, its sections inside it. It serves the published schema only: each group that
    is read is checked as a `RawJob`."""

    sweep: Annotated[
        dict[str, str | list[Scalar | dict[str, Scalar]]], Meta(description="As in a file of one group.")
    ] = {}
    resources: RawResources = RawResources()
    inputs: list[str | RawInput] = []
    outputs: RawOutputs = RawOutputs()


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
