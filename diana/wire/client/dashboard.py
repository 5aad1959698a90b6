"""Messages of the client service for the dashboard: access to it, and the activity that only it shows."""

from __future__ import annotations

from diana.wire.client.base import Message


class DashboardRequest(Message, frozen=True):
    scope: str = ""
    """Scope of the access: pages or metrics; empty: pages."""
    for_s: float = 0.0
    """Seconds the access holds; 0: as the site's operator set."""


class DashboardResponse(Message, frozen=True):
    url: str = ""
    """URL of the pages, good once and within two minutes; or of the metrics."""
    token: str = ""
    """Token for the metrics, to be sent with each request as `Authorization: Bearer TOKEN`."""
    expires_wall_s: float = 0.0


class ActivityRequest(Message, frozen=True):
    after_wall_s: float = 0.0
    """Time of the node's clock after which samples are wanted; 0: all there are."""


class ActivityResponse(Message, frozen=True):
    """Columns: entry k of each belongs to `at_wall_s[k]`, oldest first. Jobs, or processors."""

    at_wall_s: tuple[float, ...] = ()
    slots: tuple[int, ...] = ()
    used_slots: tuple[int, ...] = ()
    queued: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    """Jobs done since the node's start; the next two count from then, too."""
    exported: tuple[int, ...] = ()
    imported: tuple[int, ...] = ()
    queue_wait_s: tuple[float, ...] = ()
    """Mean wait of jobs that left the queue."""
    cpu_share: tuple[float, ...] = ()
    """Part of the node's machine that is in use, 0 to 1: processors since the sample before, then memory and disk."""
    memory_share: tuple[float, ...] = ()
    disk_share: tuple[float, ...] = ()
