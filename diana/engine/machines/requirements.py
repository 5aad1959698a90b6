"""Requests of jobs to their machine: exact ones, and kinds by which the queue tells jobs apart."""

from __future__ import annotations

from diana.model.job import resources
from diana.model.job.resources import MEMORY, SIZES, Amounts, ResourceRequest
from diana.model.job.spec import GroupSpec

Kind = ResourceRequest
"""Requests that not every machine meets are kinds: jobs that differ in them stand in classes of their own, so that
where one of them can start nowhere, a million like it cost no look each. Sizes are rounded down (`about`)."""


def asked(spec: GroupSpec) -> ResourceRequest:
    """Return what each of the group's jobs asks of the machine that is chosen for it."""
    has = spec.resources
    amounts = resources.of_job(has)
    if not (spec.container or spec.modules or spec.mpi or spec.is_gang) and _is_memory(amounts):
        return ResourceRequest(has.processors, amounts)
    return ResourceRequest(has.processors, amounts, resources.capabilities(spec))


def kind(request: ResourceRequest) -> Kind:
    """Return the kind of jobs with this request. Without more than processors and memory they are plain: nearly every
    machine has the memory they ask."""
    processors, amounts, capabilities, lives_s = request
    if not capabilities and _is_memory(amounts):
        return ResourceRequest(processors) if amounts or lives_s else request
    return ResourceRequest(processors, _about(amounts), capabilities)


def _is_memory(amounts: Amounts) -> bool:
    """True for nothing, or memory alone."""
    return not amounts or (len(amounts) == 1 and amounts[0][0] == MEMORY)


def _about(amounts: Amounts) -> Amounts:
    return tuple((name, about(count) if name in SIZES else count) for name, count in amounts)


def about(size_bytes: int) -> int:
    """Round a size down to one of four steps per doubling, so that sizes make few kinds. It is never rounded up, or
    machines that have enough for the jobs would be left out."""
    below = max(0, size_bytes.bit_length() - 3)
    return size_bytes >> below << below
