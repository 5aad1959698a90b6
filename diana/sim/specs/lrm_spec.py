"""The batch system of a scenario's site, and the jobs of others in it."""

from __future__ import annotations

from typing import Literal

import msgspec

LrmKind = Literal["slots", "fcfs", "easy"]


class BackgroundSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that others submit to a site's batch system, past diana. They take processors and places in its queue."""

    trace: str = ""
    """A log in the Standard Workload Format, from the scenario's folder; its usable jobs come as they came then. Empty:
    they are drawn, by the seed of the run and the site's name."""
    from_s: float = 0.0
    """Second of the log, after its first submission, that is the site's `begin_s`."""
    load: float = 0.0
    """Offered work over the site's capacity. With a trace all gaps are stretched alike to give it; 0: as logged."""
    sizes: Literal["lublin", "given"] = "lublin"
    """lublin: processors and run times as Lublin and Feitelson's model says for a machine of this size; given:
    `processors`, and run times exponential with mean `run_s`. They come by a Poisson process."""
    processors: int = 1
    """Processors of each of these jobs, with `sizes = "given"`."""
    run_s: float = 3600.0
    """Mean run time of these jobs, with `sizes = "given"`."""
    request_factor: float = 2.0
    """Time they ask for over the time they take, which is all that EASY knows of them; a trace says its own."""
    begin_s: float = 0.0
    """Time from which on they come."""
    until_s: float = 0.0
    """Time from which on nobody submits any more; 0: they go on as long as the run."""
