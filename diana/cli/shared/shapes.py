"""Types of the verbs' JSON output that no message of the client service is."""

from __future__ import annotations

from typing import Any

import msgspec


class _Shape(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Said(_Shape, frozen=True):
    text: str
    """Report of what was done, in a line or several."""


class ServiceShown(_Shape, frozen=True):
    """A node as a service of systemd."""

    unit: str
    file: str
    """Empty: there is none."""
    data: str
    scope: str
    """user or system."""
    enabled: bool
    active: bool
    current: bool
    """Whether the file is as this installation would write it."""
    linger: bool
    """Whether the user's systemd runs without a login; false for a service of the system."""


class OutputRow(_Shape, frozen=True, rename="camel"):
    name: str
    size_bytes: int
    sha256: str


class JobRow(_Shape, frozen=True, rename="camel"):
    """A job that has ended. Times are seconds of its site's clock; outcome is done, failed, timed_out, ..."""

    job: str
    index: int
    site: str
    """Empty: it was given to none."""
    attempt: int
    outcome: str
    exit_code: int
    started_s: float
    ended_s: float
    cpu_s: float
    max_rss_bytes: int
    outputs: tuple[OutputRow, ...]
    error: str
    signal: int
    """Number of the signal that ended its process (9 is SIGKILL), and exitCode is 128 and that number. 0: none did, or
    nobody knows."""


class Fetched(_Shape, frozen=True):
    folder: str
    """Absolute."""
    files: tuple[str, ...]


class Exported(_Shape, frozen=True):
    """Output of history export."""

    folder: str
    groups: int
    jobs: int
    """Jobs that ended."""
    going_on: int
    """Groups that are not over."""
    without_jobs: int
    """Groups none of whose jobs has ended."""
    clock_back: int
    """Jobs that began before they were submitted, by the clocks of their sites."""
    size_bytes: int
    """Size of the log."""
    missing: int = 0
    """Groups of the span that the site has forgotten already."""
    restored: int = 0
    """Times that a journal was put back within the span."""
    sites: tuple[str, ...] = ()
    """Sites whose histories are in that of a grid."""
    untold: tuple[str, ...] = ()
    """Sites that told none to that of a grid, each with the reason."""


class Merged(_Shape, frozen=True):
    """Output of history merge."""

    folder: str
    sites: tuple[str, ...]


class Copied(_Shape, frozen=True):
    """Output of backup and restore."""

    folder: str
    files: int
    bytes: int


class MadeSite(_Shape, frozen=True):
    site: str
    vo: str
    listen: str
    data: str


class MadeCredential(_Shape, frozen=True):
    user: str
    credential: str
    """The folder that holds it."""


class DistanceOfSite(_Shape, frozen=True):
    site: str
    rtt_s: float
    """Negative: it cannot be reached."""
    why: str
    """Why not."""


class Joined(_Shape, frozen=True):
    kind: str
    """site, member or standby."""
    vo: str
    site: str
    name: str
    listen: str
    """Empty: it dials its site."""
    data: str
    measured: tuple[DistanceOfSite, ...] = ()
    """With --or: the sites that invited, nearest first."""


class JoinedUser(_Shape, frozen=True):
    user: str
    vo: str
    site: str
    """Name of the site that invited."""
    credential: str


class Checked(_Shape, frozen=True, omit_defaults=True):
    """Check of a scenario's file. `error` and no numbers where `ok` is false."""

    file: str
    ok: bool
    sites: int = 0
    entries: int = 0
    groups: int = 0
    jobs: int = 0
    error: str = ""


class Spread(_Shape, frozen=True):
    mean: float
    p50: float
    p95: float
    max: float


class DemoSite(_Shape, frozen=True):
    jobs: int
    mean_run_s: float
    first_start_s: float
    last_end_s: float


class DemoResult(_Shape, frozen=True):
    """The content of result.json."""

    jobs: int
    done: int
    sites: dict[str, int]
    bytes_moved: int
    histogram_matches: bool
    makespan_s: float
    wait_s: Spread
    run_s: Spread
    turnaround_s: Spread
    decision: dict[str, Any] | None
    """The decision, with the names of the Python client, not the JSON ones."""
    group: str
    state: str
    note: str
    started_more_than_once: int
    events: int
    pairs_in_histogram: int
    by_site: dict[str, DemoSite]
    check_s: float


class TraceFigures(_Shape, frozen=True):
    """Figures of `simulate --trace`. Times in seconds."""

    trace: str
    lrm: str
    processors: int
    jobs: int
    jobs_in_trace: int
    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: float
    max_wait_s: float
    last_end: float
    mean_bounded_slowdown: float
    utilisation: float
    left_out: dict[str, int]
    noticed: dict[str, int]


class UserRow(_Shape, frozen=True):
    """A user's jobs over all sites that answered; shares 0 to 1."""

    user: str
    sites: int
    queued: int
    running: int
    queued_share: float
    running_share: float
    age_s: float


class UsersShown(_Shape, frozen=True):
    users: tuple[UserRow, ...]
    asked: tuple[str, ...]
    """Sites that answered."""
    silent: tuple[str, ...]
    """Sites that did not: nothing of them is counted."""
    unasked_sites: int
    """Sites left out, since others have more jobs."""
    unasked_jobs: int
