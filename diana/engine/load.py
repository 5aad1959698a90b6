"""How much work stands at this site, and the quote that follows from it."""

from __future__ import annotations

from diana.engine.context import Context
from diana.engine.events import LookedUp
from diana.engine.messages import Quote, QuoteRequest
from diana.engine.state import Custody, CustodyKey
from diana.policy import limits


def work_s(core: Context, custody: Custody) -> float:
    """Processor-seconds of one of its jobs at reference speed."""
    need = custody.spec.resources
    return (need.work_s or core.state.settings.default_work_s) * need.processors


def expected_s(core: Context, custody: Custody) -> float:
    """Run time of one of its jobs here: as seen, else as declared, else the default."""
    seen = core.run_s.get(custody.key)
    if seen is not None:
        return seen
    settings = core.state.settings
    return (custody.spec.resources.work_s or settings.default_work_s) / settings.speed


def given(core: Context) -> list[tuple[float, float, float, int]]:
    """(given at, expected run time, of that expected still to come, processors) of each job the LRM holds; what is
    overdue is expected to end now."""
    out: list[tuple[float, float, float, int]] = []
    for key, custody in core.state.custodies.items():
        if custody.running:
            run_s, width = expected_s(core, custody), custody.spec.resources.processors
            began, told = core.started_s.get(key, {}), core.ended[key].indices if key in core.ended else ()
            for index in custody.running:
                if index not in told:
                    at = began.get(index, core.now)
                    out.append((at, run_s, max(0.0, at + run_s - core.now), width))
    return out


def queued_jobs(core: Context) -> int:
    """Jobs this site holds that have no slot yet, prepared and claimed ones included."""
    claimed = sum(len(c.running) for c in core.state.custodies.values()) - running_jobs(core)
    return claimed + sum(len(c.pending if c.runnable else c.indices) for c in core.state.custodies.values())


def on_slots(core: Context) -> dict[CustodyKey, int]:
    """Jobs of each custody that have a slot; what was claimed ahead waits in the LRM, which starts jobs in the order
    it is given them."""
    told = {key: len(ended.indices) for key, ended in core.ended.items()}
    busy = {key: c for key, c in core.state.custodies.items() if c.running}
    if core.lrm_load <= core.state.settings.slots:
        return {key: len(c.running) for key, c in busy.items()}
    given: list[tuple[float, CustodyKey, int]] = []
    for key, custody in busy.items():
        began, ended = core.started_s.get(key, {}), core.ended[key].indices if key in told else ()
        width = custody.spec.resources.processors
        given += [(began.get(index, 0.0), key, width) for index in custody.running if index not in ended]
    free, out = core.state.settings.slots, {key: told.get(key, 0) for key in busy}
    for _, key, width in sorted(given):
        if width > free:
            break
        free -= width
        out[key] += 1
    return out


def running_jobs(core: Context) -> int:
    return sum(on_slots(core).values())


def queued_of(core: Context, user: str) -> int:
    """The user's part of `queued_jobs`."""
    mine = (c for c in core.state.custodies.values() if c.owner == user)
    return sum(len(c.pending if c.runnable else c.indices) for c in mine)


def unplaced_of(core: Context, user: str) -> int:
    """Jobs the user submitted here that no site has."""
    return sum(len(g.unplaced) for g in core.state.groups.values() if g.owner == user)


def running_of(core: Context) -> dict[str, int]:
    """User -> jobs running here, claimed ones included."""
    out: dict[str, int] = {}
    for custody in core.state.custodies.values():
        if custody.running:
            out[custody.owner] = out.get(custody.owner, 0) + len(custody.running)
    return out


def work_ahead_s(core: Context) -> float:
    total, slots = 0.0, on_slots(core)
    for custody in core.state.custodies.values():
        waiting = len(custody.startable() if custody.runnable else custody.indices - custody.held)
        # A running job is half done on average.
        running = slots.get(custody.key, 0)
        total += work_s(core, custody) * (waiting + len(custody.running) - 0.5 * running)
    return total


def free_slots(core: Context) -> int:
    """Slots nothing running or claimed ahead wants."""
    return max(0, core.state.settings.slots - core.lrm_load)


def quote(core: Context, asked: QuoteRequest, held: LookedUp | None = None, *, for_peer: bool = True) -> Quote:
    """`held`: what this site holds of the asked refs."""
    settings = core.state.settings
    return Quote(
        quote=asked.quote,
        rejected=_rejected(core, asked, for_peer),
        slots=settings.slots,
        free_slots=free_slots(core),
        speed=settings.speed,
        work_ahead_s=work_ahead_s(core),
        files=held.found if held else (),
        cached=held.cached if held else (),
        unknown_refs=held.unknown if held else (),
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
    return limits.queued(settings, asked.jobs, queued_of(core, asked.owner) if settings.user_max_queued else 0)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.1f} GiB"
