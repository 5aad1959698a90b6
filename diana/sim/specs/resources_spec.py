"""Resources as scenario files write them, for machines and jobs alike, and as all that counts them has them."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.model.job import declared
from diana.model.job import resources as res


class ResourcesSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of a table for resources other than processors: those that one machine has, or that each job asks for."""

    gpus: int = 0
    """GPUs, of its own machine or for each of its jobs; each is one job's at a time."""
    resources: dict[str, int] = {}
    """Resources that operators declare, by name, and how many of each: of its own machine, as in site.toml, or for each
    of its jobs, as in a job file."""

    @property
    def amounts(self) -> res.Amounts:
        return res.of({**self.resources, res.GPUS: self.gpus})

    def said(self) -> dict[str, Any]:
        """Return the keys of this table with what stands there, for another table of the kind."""
        return {key: getattr(self, key) for key in RESOURCE_KEYS}


RESOURCE_KEYS = ResourcesSpec.__struct_fields__


def check_resources(spec: ResourcesSpec, at: str, most_gpus: int = declared.MOST_AMOUNT) -> None:
    """ValueError names the key, the value and the range."""
    if not 0 <= spec.gpus <= most_gpus:
        raise ValueError(f"{at}: {res.GPUS} = {spec.gpus}: want 0 to {most_gpus:g}")
    declared.check(spec.resources, f"{at}: resources")
