"""Workload entries that wait for each other, and those that are submitted together."""

from __future__ import annotations

from collections.abc import Sequence

from diana.sim.specs.work_spec import WorkSpec


def before(work: WorkSpec, workload: Sequence[WorkSpec]) -> tuple[str, ...]:
    """Entries that `work` waits for: those it names, then those that make a dataset it reads."""
    makers = {other.produces: other.name for other in workload if other.produces}
    return tuple(dict.fromkeys([*work.after, *(makers[name] for name in work.inputs if name in makers)]))


def together(workload: Sequence[WorkSpec]) -> list[tuple[str, ...]]:
    """Entries that hang together, in the order written; entries that stand alone are left out."""
    chain = {work.name: work.name for work in workload}
    for work in workload:
        for name in before(work, workload):
            old, new = chain[work.name], chain[name]
            chain = {member: new if head == old else head for member, head in chain.items()}
    found: dict[str, list[str]] = {}
    for member, head in chain.items():
        found.setdefault(head, []).append(member)
    return [tuple(names) for names in found.values() if len(names) > 1]
