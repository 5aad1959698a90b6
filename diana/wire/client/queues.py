"""Messages of the client service about queues. See `model/views/queue.py` for the fields."""

from __future__ import annotations

from diana.wire.client.base import Base as _Message


class Waiting(_Message, frozen=True):
    site: str
    jobs: int = 0
    note: str = ""
    part: str = ""
    user: str = ""
    processors: int = 0
    queue: str = ""
    level: str = ""
    priority: float = 0.0
    base: float = 0.0
    ageing: float = 0.0
    offset: float = 0.0
    demoted: bool = False
    n: int = 0
    allowance: float = 0.0
    demand: float = 0.0
    quota: float = 0.0
    total_quota: float = 0.0
    ready: int = 0
    job_threshold: int = 0
    rises_to: str = ""
    rises_after_s: float = 0.0
    rises_at_n: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0
    predictions: int = 0
    mode: str = ""


class QueueReadRequest(_Message, frozen=True):
    site: str = ""
    """The site asked about; empty: the node's own."""


class QueueClass(_Message, frozen=True):
    user: str
    processors: int = 0
    queue: str = ""
    level: str = ""
    priority: float = 0.0
    base: float = 0.0
    ageing: float = 0.0
    offset: float = 0.0
    demoted: bool = False
    allowance: float = 0.0
    n: int = 0
    jobs: int = 0
    ready: int = 0
    parts: tuple[str, ...] = ()
    low_s: float = 0.0
    high_s: float = 0.0


class QueueUser(_Message, frozen=True):
    user: str
    quota: float = 0.0
    queued: int = 0
    running: int = 0
    queued_share: float = 0.0
    quota_share: float = 0.0
    served_share: float = 0.0


class LittlesCheck(_Message, frozen=True):
    window_s: float = 0.0
    mean_queued: float = 0.0
    arrivals_per_s: float = 0.0
    mean_wait_s: float = 0.0
    deviation: float = 0.0
    arrived: int = 0
    left: int = 0


class QueueView(_Message, frozen=True):
    site: str
    mode: str = ""
    slots: int = 0
    running: int = 0
    claimed: int = 0
    queued: int = 0
    total_processors: int = 0
    total_quota: float = 0.0
    classes: tuple[QueueClass, ...] = ()
    classes_left_out: int = 0
    users: tuple[QueueUser, ...] = ()
    littles: LittlesCheck = LittlesCheck()
    error_low: float = 0.0
    error_high: float = 0.0
    predictions: int = 0
