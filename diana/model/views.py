"""What reads answer: values made for people and programs outside, never the engine's own state."""

from __future__ import annotations

import msgspec

from diana.model.decision import Decision
from diana.model.ids import GroupId, SiteId


class SiteShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one site has of a group."""

    site: SiteId
    jobs: int
    staging: int
    queued: int
    running: int
    done: int
    failed: int
    state: str
    """local, offered, committed, closed, cancelling or unreachable."""
    age_s: float
    """Since the site was last heard of; 0 at home."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    group: GroupId
    name: str
    owner: str
    state: str
    """placing, queued, running, merging, then done, failed, cancelled or held."""
    jobs: int
    unplaced: int
    staging: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    held: int
    unreachable: int
    gathering: int
    """Batches of outputs still on their way here."""
    final: bool
    """Nothing more will happen by itself."""
    submitted_wall_s: float
    age_s: float
    """Site time since submission."""
    first_start_s: float
    """Seconds after submission; negative: not started."""
    last_end_s: float
    bytes_moved: int
    shares: tuple[SiteShare, ...]
    note: str
    """Why it waits or failed, one line; empty when there is nothing to say."""
    durability: int = 1
    outputs_to: str = ""
    """`Outputs.to` of the spec; empty: the group's own folder. For the node's own use, not shown."""


class SiteView(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    home: bool
    state: str
    """alive, suspect or unreachable."""
    age_s: float
    slots: int
    free_slots: int
    speed: float
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    rtt_s: float
    """Negative: not measured."""
    bytes_per_s: float
    """Negative: not measured."""
    release: str
    datasets: tuple[str, ...]


class DatasetView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    site: SiteId
    files: int
    """-1: known by name only, from the site's summary."""
    size_bytes: int


class Groups(msgspec.Struct, frozen=True):
    groups: tuple[GroupView, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    group: GroupId
    decisions: tuple[Decision, ...]
    """Oldest first; one per placement."""
    achieved_s: float
    """Submission to last end; negative while it runs."""


class Sites(msgspec.Struct, frozen=True):
    sites: tuple[SiteView, ...]


class Datasets(msgspec.Struct, frozen=True):
    datasets: tuple[DatasetView, ...]


class Info(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    db_uuid: str
    generation: int
    groups: int
    queued_jobs: int
    running_jobs: int


class Ok(msgspec.Struct, frozen=True):
    """Done. `count`: jobs concerned, where that means something."""

    count: int = 0


Answer = Groups | GroupView | Explanation | Sites | Datasets | Info | Ok
