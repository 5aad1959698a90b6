"""Where the control groups of this process lie, by /proc/self/cgroup and /proc/self/mountinfo (cgroups(7))."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
UNIFIED = ""
"""Name that stands for version 2, which has one hierarchy for all controllers."""
_OCTAL = re.compile(r"\\([0-7]{3})")


class GroupPlace(NamedTuple):
    """A process's control group in one hierarchy."""

    folder: Path
    top: Path
    """Where the hierarchy is mounted: nothing above it can be seen."""

    def upwards(self) -> Iterator[Path]:
        """The group and all above it that can be seen."""
        at = self.folder
        while True:
            yield at
            if at == self.top or at == at.parent:
                return
            at = at.parent


def place(controller: str, root: Path = ROOT) -> GroupPlace | None:
    """Return the place of this process in the hierarchy of a controller of version 1, or of `UNIFIED`; None: there is
    none, or it is mounted nowhere. Never raises."""
    try:
        own = _own(controller, (root / "proc/self/cgroup").read_text(errors="replace"))
        mounts = (root / "proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return None
    if own is None:
        return None
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or not _is_of(controller, kind[0], kind[2]):
            continue
        shown, top = _plain(fields[3]), root / _plain(fields[4]).lstrip("/")
        # A part of the hierarchy is mounted in a container that has no namespace of its own for groups.
        below = own.removeprefix(shown.rstrip("/")) if _within(own, shown) else "/"
        if ".." not in below.split("/") and (folder := top / below.lstrip("/")).is_dir():
            return GroupPlace(folder, top)
    return None


def _own(controller: str, text: str) -> str | None:
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if (number == "0" and not names) if controller == UNIFIED else controller in names.split(","):
            return path.removesuffix(" (deleted)")
    return None


def _is_of(controller: str, kind: str, options: str) -> bool:
    if controller == UNIFIED:
        return kind == "cgroup2"
    return kind == "cgroup" and controller in options.split(",")


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _plain(text: str) -> str:
    """Undo mountinfo's octal escapes of blanks."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
