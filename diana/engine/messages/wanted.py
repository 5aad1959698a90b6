"""Jobs as one site tells another of them: what they ask, whose they are and how long they run. Built once from a spec,
and carried whole by every message that asks what a site would do with such jobs."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import msgspec

from diana.model.history import group_key, program_key
from diana.model.job import declared, resources, software
from diana.model.job.licences import among
from diana.model.job.resources import GPUS, LICENCE, MEMORY, SCRATCH, ResourceRequest
from diana.model.job.spec import GroupSpec, Resources

_Word = TypeVar("_Word", bound="Wanted")


class Wanted(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Such jobs. What older releases know has fields of its own, all else is told by name in `resources`; `request` is
    all of it."""

    jobs: int
    processors: int
    memory_bytes: int = 0
    gpus: int = 0
    scratch_bytes: int = 0
    """Room on the local disk."""
    software: tuple[str, ...] = ()
    """Capabilities asked of a machine, with licences and declared resources (names of `model/job/software.py`)."""
    resources: dict[str, int] = {}
    """Resource -> amount, of those without a field of their own."""
    time_limit_s: float = 0.0
    """Time limit of one job, in seconds; 0: none."""
    begins_before_s: float = 0.0
    """How long before a window of maintenance one begins at the latest that saves its state and goes on from there, in
    seconds; 0: it has to end before it. An older release does not say."""
    owner: str = ""
    """The user whose jobs they are: sites limit users."""
    group: str = ""
    """Id of their group; empty: it has none yet."""
    template: str = ""
    """Key that they share with jobs that run alike (`model/history.py`, `group_key`)."""
    program: str = ""
    """Key that they share with jobs that run the same program (`model/history.py`, `program_key`), as the guard counts
    them."""
    work_s: float = 0.0
    """Declared run time of one job at reference speed; 0: not declared."""
    group_work_s: float = 0.0
    """Declared work of their whole group, in seconds at reference speed; 0: not declared."""
    group_bytes: int = 0
    """Bytes of the whole group, inputs as far as they are known and declared outputs."""
    urls: tuple[str, ...] = ()
    """Beginnings of the URLs that the jobs read (`model/job/urls.py`, `beginnings`)."""

    @cached_property
    def request(self) -> ResourceRequest:
        """Request of one job to its machine. The only place where the fields of older releases are read."""
        names = software.asked(self.software)
        amounts = dict(self.resources)
        for name, count in chain(declared.among(names), ((LICENCE + one, some) for one, some in among(names))):
            # A name in `software` is what older releases refuse by. It may say more than the map, of a peer that errs.
            amounts[name] = max(count, amounts.get(name, 0))
        amounts |= {MEMORY: self.memory_bytes, GPUS: self.gpus, SCRATCH: self.scratch_bytes}
        return ResourceRequest(
            self.processors, resources.of(amounts), resources.capabilities_in(names), self.time_limit_s
        )

    @property
    def is_sane(self) -> bool:
        """True if nothing is asked for that is less than nothing."""
        counts = (self.memory_bytes, self.gpus, self.scratch_bytes, *self.resources.values())
        return self.processors >= 1 and min(counts) >= 0


def wanted_of(
    spec: GroupSpec,
    each: Resources | None = None,
    *,
    jobs: int,
    owner: str,
    group: str = "",
    begins_before_s: float = 0.0,
    group_work_s: float = 0.0,
    group_bytes: int = 0,
    urls: tuple[str, ...] = (),
) -> Wanted:
    """Return so many jobs of a spec. `each`: what one of them asks; None: as the spec says, of gangs the least
    component."""
    least = spec.least_of_site() if each is None else each
    return Wanted(
        jobs=jobs,
        processors=least.processors,
        memory_bytes=least.memory_bytes,
        gpus=least.gpus,
        scratch_bytes=least.scratch_bytes,
        software=software.needed(spec, least),
        resources=dict(least.others),
        time_limit_s=least.time_limit_s,
        begins_before_s=begins_before_s,
        owner=owner,
        group=group,
        template=group_key(spec),
        program=program_key(spec),
        work_s=least.work_s,
        group_work_s=group_work_s,
        group_bytes=group_bytes,
        urls=urls,
    )


def carried(word: type[_Word], wanted: Wanted, **more: Any) -> _Word:
    """Return a message about these jobs. `more`: its other fields, and those of the jobs that differ."""
    fields = {name: getattr(wanted, name) for name in Wanted.__struct_fields__}
    return word(**{**fields, **more})
