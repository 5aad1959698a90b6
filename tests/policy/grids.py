"""Candidates, needs and demands for tests of the policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.pricing.demand import Candidate, Demand, Need


def site(
    name: str,
    slots: int = 1,
    *,
    speed: float = 1.0,
    ahead: float = 0.0,
    rtt: float = 0.0,
    rates: Mapping[str, float] | None = None,
    rejected: str = "",
) -> Candidate:
    return Candidate(
        site=SiteId(name),
        slots=slots,
        speed=speed,
        work_ahead_s=ahead,
        rtt_s=rtt,
        fetch_bytes_per_s={SiteId(k): v for k, v in (rates or {}).items()},
        rejected=rejected,
    )


def need(name: str, size_bytes: int, readers: IndexSet, *holders: str) -> Need:
    file = DataFile(f"dataset:{name}/f", size_bytes, "0" * 64)
    return Need(files=(file,), readers=readers, holders=frozenset(SiteId(h) for h in holders))


def demand(
    jobs: int | IndexSet,
    *,
    work_s: float = 1.0,
    processors: int = 1,
    needs: Iterable[Need] = (),
    max_subgroup: int = 1_000_000,
    max_parallel: int = 0,
    division: int = 0,
) -> Demand:
    return Demand(
        indices=IndexSet.span(0, jobs) if isinstance(jobs, int) else jobs,
        processors=processors,
        work_s=work_s,
        needs=tuple(needs),
        max_subgroup=max_subgroup,
        max_parallel=max_parallel,
        division=division,
    )


def jobs_by_site(parts: Sequence[object]) -> dict[str, int]:
    out: dict[str, int] = {}
    for part in parts:
        name, indices = part.site, part.indices  # type: ignore[attr-defined]
        out[name] = out.get(name, 0) + len(indices)
    return out
