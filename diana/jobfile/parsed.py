"""A job file as it is after it was checked: its groups, and the groups that each waits for."""

from __future__ import annotations

from typing import Protocol

import msgspec

from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec


class SentFile(Protocol):
    """A local file the client has sent, as the wire's `UploadedFile`."""

    @property
    def sha256(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def executable(self) -> bool: ...


class Waits(msgspec.Struct, frozen=True):
    """The groups that a group waits for."""

    members: tuple[int, ...] = ()
    """Groups of the same file, by their place."""
    groups: tuple[GroupId, ...] = ()
    """Groups of earlier submissions."""


class ParsedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a job file, checked."""

    spec: GroupSpec
    jobs: int
    refs: tuple[tuple[str, IndexSet], ...]
    """The `dataset:`, `url:` and `blob:` refs its inputs render to, each with the jobs that read it; sorted."""
    needs_files: tuple[str, ...] = ()
    """Local files, as written, whose content is needed first; the other fields then mean nothing."""
    after: tuple[str, ...] = ()
    """Groups it is to come after, as written."""
    notify: tuple[str, ...] = ()
    """Targets that are told when it is over."""
    notes: tuple[str, ...] = ()
    """Notes to its author, a line each."""


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A job file's groups in the order written."""

    groups: tuple[ParsedJob, ...]
    waits: tuple[Waits, ...] = ()
    needs_files: tuple[str, ...] = ()
    """Local files needed first, as in `ParsedJob`, of all groups."""
    notes: tuple[str, ...] = ()
    """Notes to its author, a line each, those of all groups among them."""
