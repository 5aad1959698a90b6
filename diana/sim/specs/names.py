"""Names in a scenario: a wrong one is answered with the nearest that is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches


def known(name: str, names: Sequence[str], at: str) -> None:
    """Check a name: ValueError when it is none of the known ones."""
    if name not in names:
        near = get_close_matches(name, names, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names[:8]) or 'none'}"
        raise ValueError(f"{at}: {name!r} is not known; {hint}")


def unique(names: Sequence[str], key: str) -> tuple[str, ...]:
    """Check names: ValueError when one stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{key}: {name!r} stands twice; names must differ")
        seen.add(name)
    return tuple(names)


def as_site_name(text: str) -> str:
    """Small letters, digits and inner hyphens, at most 40: what a site can be called, but that a letter is to come
    first (`model/ids.py`)."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
