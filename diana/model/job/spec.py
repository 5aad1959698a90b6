"""The spec of a bulk group: a template, a sweep, and the needs of its jobs. One value, however many jobs.

Text fields marked *template* may hold `{name}` placeholders, filled per job from the sweep and from
`{index}` and `{group}`; `{{` and `}}` stand for braces (see `model/job/template.py`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from diana.model.job.urls import is_url

OnCrash = Literal["hold", "rerun"]
Bind = Literal["", "late", "early"]
OnSiteLost = Literal["hold", "rerun"]
JobClass = Literal["", "compute", "data", "both"]


class Resources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources of one job. Zero: no limit is asked and none imposed; `work_s` zero: unknown."""

    processors: int = 1
    memory_bytes: int = 0
    time_limit_s: float = 0.0
    gpus: int = 0
    scratch_bytes: int = 0
    licences: tuple[tuple[str, int], ...] = ()
    """(name, how many), by name (`model/job/licences.py`)."""
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


class Outputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    collect: tuple[str, ...] = ()
    """Templates of paths below the job's directory; each must exist when the job has exited 0."""
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

    def needs_directory(self) -> bool:
        """True if each job needs a directory of its own. An MPI job does, since its processes on other machines begin
        in the directory of the first."""
        own = self.own_directory or self.mpi
        return bool(own or self.inputs or self.outputs.collect or self.stdout or self.stderr)


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
