"""Counts as people read them: one way to write a number of things, so that no line says `1 jobs`."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 job`, `2 jobs`, `1,200 jobs`. `many`: the plural where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
