"""Batch systems by the name a site file gives them: those that come with diana, and plug-ins (SPEC U7)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.gridengine import GridEngine
from diana.adapters.batch.systems.htcondor import HTCondor
from diana.adapters.batch.systems.pbs import Pbs
from diana.adapters.batch.systems.slurm import Slurm
from diana.adapters.batch.systems.system import BatchSystem
from diana.errors import UsageError

PLUGINS = "diana.batch_systems"
"""Group of entry points: callables from `ClusterSettings` to a `BatchSystem`."""

_OWN: dict[str, Callable[[ClusterSettings], BatchSystem]] = {
    "slurm": Slurm,
    "gridengine": GridEngine,
    "pbs": Pbs,
    "htcondor": HTCondor,
}
EXPERIMENTAL = {
    "htcondor": "this kind has met a real pool of one machine alone in our tests",
    "pbs": "this kind has met no real one in our tests",
}
"""Warnings for users of a kind."""


def known() -> list[str]:
    return sorted({*_OWN, *entry_points(group=PLUGINS).names})


def make(settings: ClusterSettings, where: str) -> BatchSystem:
    """Make the batch system. `where`: the key of the site file, for the error line. UsageError."""
    if own := _OWN.get(settings.kind):
        try:
            return own(settings)
        except ValueError as fault:
            raise UsageError(f"{where}.{fault}") from None
    found = entry_points(group=PLUGINS, name=settings.kind)
    for point in found:
        try:
            return point.load()(settings)  # type: ignore[no-any-return]
        except Exception as fault:
            raise UsageError(f"{where}.kind: plug-in {settings.kind!r} does not load: {fault!r}; mend it") from None
    raise UsageError(f"{where}.kind: {settings.kind!r} is no batch system; known are {', '.join(known())}")
