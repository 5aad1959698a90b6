"""Datasets as they stand at sites, for those who look."""

from __future__ import annotations

from diana.model.views.shown import Shown


class Dataset(Shown, frozen=True):
    name: str
    site: str = ""
    """Empty: the site that answers."""
    files: int = 0
    """Number of files; -1: not counted, or known by name only, from the site's summary."""
    size_bytes: int = 0
    version: int = 0
    """Number of these contents among those registered at that site under the name, from 1; 0: a replica of another
    site's, or not known."""
    state: str = ""
    """registered; changed (since it was registered); cached (a replica that may be evicted); partial (the same, not
    whole yet)."""
    digest: str = ""
    """SHA-256 of its list of files; empty: not known."""
