"""Counts as people read them: one way to write a number of things, so that no line says `1 jobs`."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 job`, `2 jobs`, `1,200 jobs`. `many`: the plural where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def with_rest(told: list[str], of: int, one: str) -> str:
    """Join what is told of a longer list: `alpha: full; beta: full; 3 more sites` for two of five. `of`: all there
    are."""
    rest = of - len(told)
    return "; ".join([*told, counted(rest, f"more {one}")] if rest > 0 else told)
