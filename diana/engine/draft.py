"""One placement in the making: what is to be placed, and what was heard about it so far."""

from __future__ import annotations

from collections.abc import Iterable

from diana.engine.events import LookedUp, SubmitGroup
from diana.engine.messages import Quote, QuoteRequest
from diana.engine.state import Group
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.spec import GroupSpec

MAX_ASKED_REFS = 5000
"""Beyond this many file refs a quote is asked by dataset."""


class Draft:
    """Quotes being gathered for one placement."""

    def __init__(self, number: int, spec: GroupSpec, indices: IndexSet, refs: Iterable[tuple[str, IndexSet]]) -> None:
        self.number = number
        self.spec = spec
        self.indices = indices
        self.refs = tuple(refs)
        self.owner = ""
        self.submit: SubmitGroup | None = None
        self.requests: list[int] = []
        self.group: GroupId | None = None
        self.waiting: set[SiteId] = set()
        """Sites whose quotes are still to come; this one while it looks what data it holds itself."""
        self.quotes: dict[SiteId, tuple[Quote, float]] = {}
        self.held: LookedUp | None = None
        """What this site itself holds of the refs."""

    def sought(self) -> tuple[str, ...]:
        """Refs somebody must be asked for; what the submitter uploaded lies at the origin."""
        return tuple(sorted({ref for ref, _ in self.refs if not ref.startswith("blob:")}))


def quote_request(draft: Draft) -> QuoteRequest:
    refs = sorted({ref for ref, _ in draft.refs if ref.startswith("dataset:")})
    if len(refs) > MAX_ASKED_REFS:
        refs = sorted({ref.partition("/")[0] for ref in refs})
    need = draft.spec.resources
    return QuoteRequest(
        quote=draft.number,
        processors=need.processors,
        memory_bytes=need.memory_bytes,
        gpus=need.gpus,
        jobs=len(draft.indices),
        refs=tuple(refs),
        owner=draft.owner,
    )


def allowed(spec: GroupSpec, site: SiteId) -> bool:
    return (not spec.sites or site in spec.sites) and site not in spec.not_sites


def parallel_left(group: Group | None, spec: GroupSpec) -> int:
    """How many jobs may yet run at once beside those of the parts that stand; 1 where there is no limit."""
    if not spec.max_parallel:
        return 1
    held = sum(s.max_parallel for s in group.subgroups.values() if s.open_jobs()) if group else 0
    return max(0, spec.max_parallel - held)
