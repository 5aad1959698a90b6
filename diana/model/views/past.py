"""Groups of the past as a history tells them: demand, orders and outcome, never the command or its environment."""

from __future__ import annotations

import msgspec

from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.shown import Shown


class PastOrder(Shown, frozen=True):
    """An order of a user about jobs of a group, that was obeyed."""

    after_s: float = 0.0
    """Seconds after the submission."""
    kind: str = ""
    """cancel, hold, release, move or retry."""
    whole: bool = False
    """True if it was about the whole group."""
    indices: str = ""
    """Jobs it was about, as ranges from 0."""
    to: str = ""
    """The site of a move; empty: wherever it was best."""


class PastGroup(Shown, frozen=True):
    """One group that was submitted at the site that tells."""

    group: GroupId
    owner: str = ""
    jobs: int = 0
    submitted_wall_s: float = 0.0
    """Time of its submission, in seconds since 1970."""
    submitted_s: float = 0.0
    """The same in site time, as its results have theirs."""
    final: bool = False
    """True if it is over: done, failed or cancelled as a whole."""
    cancelled: int = 0
    """Jobs that were cancelled."""
    retried: int = 0
    """Jobs that ran more than once."""
    work_s: float = 0.0
    """Declared run time at speed 1.0; 0: nothing was declared."""
    processors: int = 0
    components: str = ""
    """Components of each job, as `--components` takes them; empty: it is no gang."""
    gpus: int = 0
    memory_bytes: int = 0
    datasets: tuple[str, ...] = ()
    """Names of the datasets that its jobs read."""
    file_per_job: bool = False
    """True: each job reads some files of these alone, not all of them."""
    output_bytes: int = 0
    """Bytes of outputs as declared, per job; 0: nothing was declared."""
    bytes_in: int = 0
    """Bytes staged to where its jobs ran."""
    sites: tuple[str, ...] = ()
    """The only sites allowed; empty: any."""
    max_subgroup: int = 0
    max_parallel: int = 0
    on_crash: str = ""
    on_site_lost: str = ""
    after: tuple[str, ...] = ()
    """Groups it waited for."""
    orders: tuple[PastOrder, ...] = ()
    foretold_after_s: float = 0.0
    """Seconds after the submission when its end was foretold first."""
    foretold_end_s: float = 0.0
    """The end as it was foretold then, in seconds from then; 0: it was not."""
    foretold_low_s: float = 0.0
    """`foretold_low_s` and `foretold_high_s`: the range told with it."""
    foretold_high_s: float = 0.0
    resources: dict[str, int] = msgspec.field(default_factory=dict)
    """Declared resources that each job asked for, by name. An older release tells none."""


class PastRows(Shown, frozen=True):
    """Columns: entry k of each belongs to job `indices[k]`. The last attempt of each job counts, and of one attempt
    what came last."""

    site: SiteId
    """Where they ran."""
    indices: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = ()
    """DONE, FAILED, ... as with Results."""
    started_s: tuple[float, ...] = ()
    """`started_s` and `ended_s` in site time of `site`: seconds since 1970, as far as its clock was right when its
    node started."""
    ended_s: tuple[float, ...] = ()
    cpu_s: tuple[float, ...] = ()
    max_rss_bytes: tuple[int, ...] = ()
    output_bytes: tuple[int, ...] = ()
    earlier: bool = False
    """True: attempts that count no more, since their jobs were tried again."""


class PastMachine(Shown, frozen=True):
    """A machine or cluster that the site had."""

    name: str
    slots: int = 0
    gpus: int = 0
    gone: bool = False
    """True if an operator has given it up."""
    resources: dict[str, int] = msgspec.field(default_factory=dict)
    """Resources that its operator declares for jobs, by name."""


class PastWindow(Shown, frozen=True):
    """A maintenance window that was announced. Times in seconds since 1970."""

    from_wall_s: float = 0.0
    to_wall_s: float = 0.0
    machines: tuple[str, ...] = ()
    """Machines it concerned; empty: the whole site."""
    reason: str = ""


class PastMoment(Shown, frozen=True):
    """How the site stood from then on, until the next moment."""

    wall_s: float = 0.0
    """Seconds since 1970."""
    slots: int = 0
    speed: float = 0.0
    drained: bool = False


class PastSite(Shown, frozen=True):
    """The site that tells, as it stands now."""

    site: SiteId
    wall_s: float = 0.0
    """The moment of this answer, in seconds since 1970."""
    keep_s: float = 0.0
    """Seconds after their end for which groups are remembered."""
    slots: int = 0
    """Slots of its own machine."""
    speed: float = 0.0
    settings: str = ""
    """JSON object of the settings that differ from the defaults; to operators alone, else empty."""
    machines: tuple[PastMachine, ...] = ()
    """Its other machines."""
    maintenance: tuple[PastWindow, ...] = ()
    moments: tuple[PastMoment, ...] = ()
    """Changes of the site that it remembers, oldest first."""
    gpus: int = 0
    """`gpus` and `resources`: those of its own machine. An older release tells none."""
    resources: dict[str, int] = msgspec.field(default_factory=dict)


class PastGroups(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the groups that were submitted here, in order of submission. For the node's own use."""

    groups: tuple[PastGroup, ...]
    superseded: tuple[tuple[tuple[SubgroupId, IndexSet], ...], ...]
    """Jobs of each of `groups`, by part, whose results count no more, since they were tried again."""
    next: int = -1
    """Place where the next page begins; negative: there is none."""
    last: GroupId | None = None
    """The group before that place; None: there is none."""
