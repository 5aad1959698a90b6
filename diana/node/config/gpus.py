"""`gpus` of `site.toml`: those of the node's own machine, as its operator declares and as the machine shows them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diana.errors import UsageError
from diana.model.job import devices

Wanted = int | Literal["auto"] | None
"""The value of `--gpus`: how many, or "auto" for those the machine shows; None: not given, so there are none."""

PATIENCE_S = 1.5
"""Seconds given to nvidia-smi, which takes tenths of one; with a driver that hangs it never ends."""
_NVIDIA = re.compile(r"nvidia\d+")
_LISTED = re.compile(r"^\s*(?:GPU \d+|MIG ).*\(UUID: ((?:GPU|MIG)-[^)\s]+)\)", re.MULTILINE)
_COMPUTES = re.compile(r"^simd_count [1-9]", re.MULTILINE)
"""Marks a GPU among the nodes of AMD's topology; a processor has no such line."""


class VisibleGpus(NamedTuple):
    """The GPUs of a machine, by whichever of its drivers tells."""

    names: tuple[str, ...]
    """Names as jobs are told them: indices from 0, or UUIDs where a GPU is cut into parts, each of which then counts.
    """
    uuids: tuple[str, ...]
    """Their UUIDs, where they are told."""
    by: str

    @property
    def devices(self) -> int:
        """Number of whole GPUs, however they are cut: a number in the site file counts these."""
        return sum(uuid.startswith("GPU-") for uuid in self.uuids) or len(self.names)


def declared(value: Any, name: str) -> tuple[str, ...]:
    """As `model/job/devices.py` reads it. UsageError: `FILE:gpus: ...`."""
    try:
        return devices.declared(value)
    except ValueError as error:
        raise UsageError(f"{name}:gpus: {error}") from None


def own(asked: Wanted) -> tuple[str, ...]:
    """The names that go into the site file. UsageError for a number out of range."""
    if asked == "auto":
        return shown().names[: devices.MOST]
    try:
        return devices.declared(asked or 0)
    except ValueError as error:
        raise UsageError(f"--gpus {error}") from None


def shown(dev: Path = Path("/dev"), kfd: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> VisibleGpus:
    """NVIDIA's own listing, else its device files, else those AMD's driver counts. Blocks for `PATIENCE_S` at most."""
    if (listed := _listed()) is not None:
        return listed
    found = sum(bool(_NVIDIA.fullmatch(name)) for name in _names(dev))
    if found:
        return _counted(found, f"{dev}/nvidia*")
    found = sum(_computes(kfd / name / "properties") for name in _names(kfd))
    return _counted(found, "AMD's driver") if found else VisibleGpus((), (), "")


def _counted(found: int, by: str) -> VisibleGpus:
    # Programs count from 0 what is there for them, whatever number a device file has.
    return VisibleGpus(tuple(map(str, range(found))), (), by)


def _listed() -> VisibleGpus | None:
    """None: there is no such program, or it reaches no driver."""
    if (program := shutil.which("nvidia-smi")) is None:
        return None
    try:
        done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    parts: dict[str, list[str]] = {}
    for uuid in _LISTED.findall(done.stdout):
        if uuid.startswith("GPU-"):
            parts[uuid] = []
        elif parts:
            # Listed below the one it is a part of.
            parts[next(reversed(parts))].append(uuid)
    named = tuple(name for whole, some in parts.items() for name in some or [whole])
    numbered = tuple(map(str, range(len(parts))))
    every = tuple(name for whole, some in parts.items() for name in (whole, *some))
    return VisibleGpus(named if any(parts.values()) else numbered, every, "nvidia-smi -L")


def missing(names: tuple[str, ...], has: VisibleGpus) -> list[str]:
    """Declared GPUs that the machine does not show. One that cannot be known here, a UUID without a listing of them,
    counts as there as long as there are devices enough."""
    gone = [name for name in names if name.isdecimal() and int(name) >= has.devices]
    others = [name for name in names if not name.isdecimal()]
    if has.uuids:
        return gone + [name for name in others if not any(uuid.startswith(name) for uuid in has.uuids)]
    return gone + others[max(0, len(has.names) - (len(names) - len(others))) :]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _computes(properties: Path) -> bool:
    try:
        return bool(_COMPUTES.search(properties.read_text()))
    except OSError:
        return False
