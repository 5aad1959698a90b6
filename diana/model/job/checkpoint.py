"""Checkpoints of jobs: the files from which a later attempt goes on where an earlier one stopped.

A checkpoint is one version of a job's state. It counts only when every file of it is registered at the job's origin: a
part of it is none.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from diana.model.indexset import IndexSet

FOLDER = ".checkpoint"
"""First component of the names under which saved files travel; no output of a group begins with it."""
EXIT = 85
"""Exit code of a job that saved its state after it was asked to, and stopped."""
SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP")
"""Signals that may ask a job to save its state."""
MOST_WAIT_S = 86400.0
LEAST_EVERY_S = 2.0
"""Least seconds that a job runs before its site asks it to save."""
MOST_PATHS = 64
"""Files that a job may save."""


class SavedFile(msgspec.Struct, frozen=True, array_like=True):
    path: str
    """Path below the job's directory."""
    size_bytes: int
    sha256: str


class SavedJob(msgspec.Struct, frozen=True, array_like=True):
    """A job's checkpoint."""

    index: int
    attempt: int
    """The attempt that wrote it: the number of the version."""
    files: tuple[SavedFile, ...] = ()
    """Empty: that attempt stopped without a whole checkpoint."""


def reference(file: SavedFile) -> str:
    """Return the reference under which home has a saved file."""
    return f"blob:{file.sha256}"


def readers(saved: Iterable[SavedJob], ref: str) -> IndexSet:
    """Return the jobs of which a checkpoint has the file of that reference; an empty one is of none."""
    return IndexSet.of(job.index for job in saved if ref and any(ref == reference(file) for file in job.files))


def folder_of(index: int, attempt: int) -> str:
    """Return the folder in which one version's files travel."""
    return f"{FOLDER}/{index}/{attempt}"
