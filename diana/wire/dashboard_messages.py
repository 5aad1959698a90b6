"""What the client service says of the dashboard, and what it shows that no other call does."""

from __future__ import annotations

from diana.wire.client_base import Base as _Message


class DashboardRequest(_Message, frozen=True):
    scope: str = ""
    """pages, or metrics; empty: pages."""
    for_s: float = 0.0
    """How long it holds; 0: as the site's operator set."""


class DashboardResponse(_Message, frozen=True):
    url: str = ""
    """Of the pages, good once and within two minutes; of the metrics, where they are."""
    token: str = ""
    """For the metrics: to be sent with each request as `Authorization: Bearer TOKEN`."""
    expires_wall_s: float = 0.0


class ActivityRequest(_Message, frozen=True):
    after_wall_s: float = 0.0
    """Only samples after this time of the node's clock; 0: all there are."""


class ActivityResponse(_Message, frozen=True):
    """Columns: entry k of each belongs to `at_wall_s[k]`, oldest first. Jobs, or processors."""

    at_wall_s: tuple[float, ...] = ()
    slots: tuple[int, ...] = ()
    used_slots: tuple[int, ...] = ()
    queued: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    """This and the next two count from the node's start."""
    exported: tuple[int, ...] = ()
    imported: tuple[int, ...] = ()
