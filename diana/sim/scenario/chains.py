"""Workload entries that wait for each other: which are submitted together, and what makes sense to write."""

from __future__ import annotations

import graphlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diana.sim.scenario.scenario import Scenario, WorkSpec


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


def check(scenario: Scenario) -> None:
    """ValueError for what cannot be submitted together."""
    works = {work.name: work for work in scenario.workload}
    produced: set[str] = {dataset.name for dataset in scenario.datasets}
    for work in scenario.workload:
        at = f"workload {work.name}"
        for name in work.after:
            if name not in works:
                raise ValueError(f"{at}: after: no entry {name!r} in the workload; name one of it")
        if work.produces in produced:
            raise ValueError(f"{at}: produces = {work.produces!r} is made twice; use another name")
        if work.produces and work.output_bytes < 1:
            raise ValueError(f"{at}: produces wants outputs; set output_bytes to 1 or more")
        produced |= {work.produces} - {""}
    for names in together(scenario.workload):
        some = [works[name] for name in names]
        several = any(work.repeat != 1 or work.generate for work in some)
        if several or len({(work.site, work.user) for work in some}) > 1:
            raise ValueError(
                f"workload {', '.join(names)}: wait for each other, so want one site, one user, no repeat, no generate"
            )
    try:
        graphlib.TopologicalSorter({n: before(w, scenario.workload) for n, w in works.items()}).prepare()
    except graphlib.CycleError as error:
        raise ValueError(f"workload: entries wait for each other in a circle: {' -> '.join(error.args[1])}") from None
