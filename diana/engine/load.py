"""How much work stands at this site, and the quote that follows from it."""

from __future__ import annotations

from diana.engine.context import Context
from diana.engine.manifest import files_of
from diana.engine.messages import Quote, QuoteRequest
from diana.engine.state import Custody
from diana.model.data import DataFile, dataset_of


def work_s(core: Context, custody: Custody) -> float:
    """Processor-seconds of one of its jobs at reference speed."""
    need = custody.spec.resources
    return (need.work_s or core.state.settings.default_work_s) * need.processors


def queued_jobs(core: Context) -> int:
    """Jobs this site holds and has not started, prepared ones included: capacity once promised is taken."""
    return sum(len(c.pending if c.runnable else c.indices) for c in core.state.custodies.values())


def running_jobs(core: Context) -> int:
    return sum(len(c.running) for c in core.state.custodies.values())


def work_ahead_s(core: Context) -> float:
    total = 0.0
    for custody in core.state.custodies.values():
        waiting = len(custody.pending if custody.runnable else custody.indices)
        # A running job is half done on average.
        total += work_s(core, custody) * (waiting + 0.5 * len(custody.running))
    return total


def free_slots(core: Context) -> int:
    """Slots nothing running or claimed ahead wants."""
    return max(0, core.state.settings.slots - core.lrm_load)


def quote(core: Context, asked: QuoteRequest, *, for_peer: bool = True) -> Quote:
    settings = core.state.settings
    files: list[DataFile] = []
    unknown: list[str] = []
    for ref in asked.refs:
        dataset = core.state.datasets.get(dataset_of(ref))
        if dataset is not None:
            found = files_of(dataset, ref)
            files += found
            if not found:
                unknown.append(ref)
    return Quote(
        quote=asked.quote,
        rejected=_rejected(core, asked, for_peer),
        slots=settings.slots,
        free_slots=free_slots(core),
        speed=settings.speed,
        work_ahead_s=work_ahead_s(core),
        files=tuple(files),
        unknown_refs=tuple(unknown),
        links=core.view.links(),
    )


def _rejected(core: Context, asked: QuoteRequest, for_peer: bool) -> str:
    settings = core.state.settings
    if settings.slots == 0:
        return "has no slots"
    if core.low_room:
        return core.low_room
    if asked.processors > settings.slots:
        return f"has {settings.slots} processors, a job needs {asked.processors}"
    if asked.gpus:
        return f"hands out no GPUs, a job needs {asked.gpus}"
    if settings.memory_bytes and asked.memory_bytes > settings.memory_bytes:
        return f"has {_gib(settings.memory_bytes)} of memory, a job needs {_gib(asked.memory_bytes)}"
    if for_peer and not settings.accept_remote:
        return "takes no work from other sites"
    if queued_jobs(core) + asked.jobs > settings.max_queued_jobs:
        return f"holds its limit of {settings.max_queued_jobs} jobs"
    return ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g} GiB"
