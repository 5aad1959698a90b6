"""Names of sites that users write, where no such site is known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from diana.engine.site.context import Context

LIKE = 0.7
"""Least likeness of a name that is meant, in (0, 1]."""
MOST_SHOWN = 60


def is_known(core: Context, name: str) -> bool:
    return name == core.site or name in core.view.peers


def unknown_sites(core: Context, names: Iterable[str]) -> list[str]:
    """Return the lines on those of the names that no site here has."""
    return [unknown_site(core, name) for name in names if not is_known(core, name)]


def unknown_site(core: Context, name: str) -> str:
    """Return the line on a name that no site here has, with the nearest that one has."""
    near = get_close_matches(name[:MOST_SHOWN], sorted({core.site, *core.view.peers}), 1, LIKE)
    mend = f"did you mean {near[0]}?" if near else "see diana sites"
    return f"{name[:MOST_SHOWN]}: no site known here; {mend}"
