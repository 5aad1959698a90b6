"""Sites at which this origin's running jobs break their contracts: more work for them is harm (SPEC G7). Volatile: it
is judged anew by the next reports."""

from __future__ import annotations

from diana.model.ids import SiteId


class HarmBook:
    def __init__(self) -> None:
        self.sites: dict[SiteId, str] = {}
        """Site -> a line on the contracts there."""
