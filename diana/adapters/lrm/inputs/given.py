"""Tells what a job made of its inputs: those that are as they were given are no outputs.

An input that is a file of the job's own is as old as the file it was made from, and of its size; what a job writes
is not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from diana.adapters.lrm.inputs.placing import staged_at
from diana.model.job.output_names import OWN_NAMES

_STEPS_NS = (1, 100, 1000, 1_000_000, 1_000_000_000, 2_000_000_000)
"""Nanoseconds in which file systems count times."""


class GivenFiles:
    """`given`: place in the job's directory -> source; empty: its machine makes it. `staged`: what was staged for the
    job's subgroup."""

    def __init__(self, given: Mapping[str, str], staged: Path) -> None:
        self._given = given
        self._staged = staged

    def passed_over(self, path: str, entry: os.DirEntry[str]) -> bool:
        """True if this path in the job's directory is an input as it was given, or diana's own. OSError."""
        if path.startswith(OWN_NAMES):
            return True
        parts = path.split("/")
        for depth in range(len(parts), 0, -1):
            source = self._given.get("/".join(parts[:depth]))
            if source is not None:
                return self._as_given(source, parts[depth:], entry)
        return False

    def _as_given(self, source: str, below: list[str], entry: os.DirEntry[str]) -> bool:
        if entry.is_dir(follow_symlinks=False):
            # It may hold what the job made.
            return False
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            # A link that the site made, or that a registered folder has.
            return not below or self._is_link(source, below)
        if not source:
            return False
        try:
            was = os.stat(staged_at(self._staged, source).joinpath(*below))
        except (OSError, ValueError):
            return not below
        return status.st_size == was.st_size and any(
            status.st_mtime_ns == was.st_mtime_ns // step * step for step in _STEPS_NS
        )

    def _is_link(self, source: str, below: list[str]) -> bool:
        try:
            return staged_at(self._staged, source).joinpath(*below).is_symlink()
        except (OSError, ValueError):
            return False
