"""Tasks of an array as batch systems write them. Pure."""

from __future__ import annotations

from diana.adapters.batch.systems.system import BatchUnreachable
from diana.model.indexset import IndexSet

MOST_TASKS = 10_000_000
"""Largest number of a task that is believed; those of a stride are counted out."""


def read(text: str, who: str, first_task: int = 0) -> IndexSet:
    """`7`, `0-99`, `0-9,20`, `1-9:2`; `first_task`: the number task 0 has there. Unreachable, naming `who`, where it is
    none of these."""
    out: list[IndexSet] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, dash, last = span.partition("-")
        try:
            start, stop = int(first) - first_task, int(last if dash else first) + 1 - first_task
            stride = int(step or 1)
            if not 0 <= start < stop <= MOST_TASKS or stride < 1:
                raise ValueError
            out.append(IndexSet.span(start, stop) if stride == 1 else IndexSet.of(range(start, stop, stride)))
        except ValueError:
            raise BatchUnreachable(f"{who} shows the tasks {text[:100]!r}") from None
    return IndexSet.union(out)


def write(tasks: IndexSet, most: int, first_task: int = 0) -> list[str]:
    """Lists of at most `most` ranges each, for a command line has a length."""
    ranges = [f"{a + first_task}-{b - 1 + first_task}" if b - a > 1 else str(a + first_task) for a, b in tasks.ranges()]
    return [",".join(ranges[at : at + most]) for at in range(0, len(ranges), most)]
