"""The demand of a scenario: its users, and groups drawn from a model instead of written one by one."""

from __future__ import annotations

from typing import Literal

import msgspec


class UserSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """`NAME@VO`."""
    role: Literal["user", "operator"] = "user"
    """An operator may act on every group."""
    count: int = 1
    """This many such users: NAME@VO, NAME-2@VO, ..."""
    quota: float = 0.0
    """Weight of each at every site that has no `quotas` of its own; 0: the default quota."""


class GenerateSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The draw of an entry's `repeat` groups of `jobs` jobs, by the seed of the run and the entry's name.

    They come from `submit_s` on, `every_s` apart in the mean, and are reported as one entry."""

    arrivals: Literal["poisson", "bursts", "even", "lublin"] = "poisson"
    """lublin: with a daily cycle, as `lublin` says; `every_s` or `load` stretches it, 0: as published."""
    burst: int = 10
    """Groups of a burst; bursts come by a Poisson process."""
    burst_gap_s: float = 0.0
    """Seconds between the groups of a burst."""
    load: float = 0.0
    """Offered work over the capacity of the sites it may run at: all times between groups are scaled to give it. 0: not
    scaled."""
    sizes: Literal["given", "lublin"] = "given"
    """lublin: processors and run time of each group are drawn as `lublin` says, instead of `processors`, `work_s`."""
    lublin: Literal["all", "batch", "interactive"] = "all"
    """Kind of jobs in Lublin and Feitelson's model."""
    max_processors: int = 0
    """Largest size drawn; 0: the largest machine of the sites it may run at."""
    start_hour: float = 0.0
    """Hour of the day at `submit_s`, for the daily cycle."""
    users: tuple[str, ...] = ()
    """Users who submit, the busiest first; the name of an entry with `count` means all of them. Empty: the entry's
    `user`, or else all users."""
    zipf: float = 1.0
    """Exponent of the users' weights: the k-th has weight k ** -zipf; 0: all the same."""
    homes: dict[str, float] | Literal["", "slots", "equal"] = ""
    """Site -> weight of what is submitted there; slots: each as its slots; empty: all at `site`."""
    one_home: bool = False
    """True: a user always submits at one site, drawn by the weights."""
