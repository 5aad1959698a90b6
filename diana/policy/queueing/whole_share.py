"""A user's share over all sites, added up from the sites' own views of their queues (SPEC D11). n, T and Q stay per
site: no priority depends on anything here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from diana.model.views.queue import QueueView


class SiteAnswer(NamedTuple):
    """One site's view, and how old it is."""

    queue: QueueView
    age_s: float


class UserShare(NamedTuple):
    user: str
    sites: int
    """Sites where the user has jobs waiting or running."""
    queued: int
    """Waiting jobs, summed over these sites; a job that waits for its turn at several counts by its share at each."""
    running: int
    queued_share: float
    """Share of the processors that all queued jobs of all sites want; 0 to 1."""
    running_share: float
    """Share of the jobs that run; 0 to 1."""
    age_s: float
    """Age of the oldest view that the figures were taken from."""


def shares(answers: Iterable[SiteAnswer]) -> tuple[UserShare, ...]:
    """Return one row per user, the largest share of what is queued first, then by name. Costs by the rows of all
    views."""
    sites: dict[str, int] = {}
    queued: dict[str, int] = {}
    running: dict[str, int] = {}
    wanted: dict[str, float] = {}
    ages: dict[str, float] = {}
    for queue, age_s in answers:
        for one in queue.users:
            name = one.user
            sites[name] = sites.get(name, 0) + 1
            queued[name] = queued.get(name, 0) + one.queued
            running[name] = running.get(name, 0) + one.running
            wanted[name] = wanted.get(name, 0.0) + one.queued_share * queue.total_processors
            ages[name] = max(ages.get(name, 0.0), age_s)
    total, runs = sum(wanted.values()), sum(running.values())
    rows = (
        UserShare(
            user=name,
            sites=sites[name],
            queued=queued[name],
            running=running[name],
            queued_share=wanted[name] / total if total > 0 else 0.0,
            running_share=running[name] / runs if runs else 0.0,
            age_s=ages[name],
        )
        for name in sites
    )
    return tuple(sorted(rows, key=lambda row: (-row.queued_share, -row.running_share, row.user)))
