"""Sums over a group's results: outcome, site and time of each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from diana.wire.client.messages import ResultsChunk


class ResultTally:
    """Takes chunks of results of a group of `jobs`. Times are seconds after `submitted_s`; the demo's sites share one
    clock."""

    def __init__(self, jobs: int, submitted_s: float) -> None:
        self._jobs = jobs
        self._submitted_s = submitted_s
        self._ends: Counter[int] = Counter()
        self._done_at: dict[int, str] = {}
        self._output_bytes: Counter[str] = Counter()
        self._times: dict[str, list[tuple[float, float]]] = {}
        self.wait_s: list[float] = []
        self.run_s: list[float] = []
        self.turnaround_s: list[float] = []

    def add(self, chunk: ResultsChunk) -> None:
        for file in chunk.outputs:
            if file.index < self._jobs:
                self._output_bytes[chunk.site] += file.size_bytes
        for index, outcome, started, ended in zip(
            chunk.indices, chunk.outcomes, chunk.started_s, chunk.ended_s, strict=True
        ):
            if index >= self._jobs:
                # The merge command, which runs as one job more.
                continue
            self._ends[index] += 1
            if outcome != "done":
                continue
            self._done_at[index] = chunk.site
            start_s, end_s = started - self._submitted_s, ended - self._submitted_s
            self._times.setdefault(chunk.site, []).append((start_s, end_s))
            self.wait_s.append(max(0.0, start_s))
            self.run_s.append(ended - started)
            self.turnaround_s.append(max(0.0, end_s))

    def done(self) -> int:
        """Jobs that were done and have one result only."""
        return sum(self._ends[index] == 1 for index in self._done_at)

    def repeated(self) -> int:
        return sum(count > 1 for count in self._ends.values())

    def bytes_moved(self, home: str, inputs: Sequence[tuple[str, int]], program_bytes: int) -> int:
        """Bytes that had to cross from site to site: input files read elsewhere than where they live (`inputs`: site
        and size of each job's), the program for every other site, and the outputs on their way home."""
        away = {site for site in self._done_at.values() if site != home}
        staged = sum(inputs[index][1] for index, site in self._done_at.items() if inputs[index][0] != site)
        gathered = sum(size for site, size in self._output_bytes.items() if site != home)
        return staged + len(away) * program_bytes + gathered

    def jobs_at(self) -> dict[str, int]:
        return dict(Counter(self._done_at.values()))

    def by_site(self) -> dict[str, dict[str, Any]]:
        return {
            site: {
                "jobs": len(times),
                "mean_run_s": round(sum(end - start for start, end in times) / len(times), 4),
                "first_start_s": round(min(start for start, _ in times), 3),
                "last_end_s": round(max(end for _, end in times), 3),
            }
            for site, times in sorted(self._times.items())
        }


def spread(values: list[float]) -> dict[str, float]:
    """Mean, median, 95 % and maximum; zeros for no values."""
    ranked = sorted(values) or [0.0]

    def at(part: float) -> float:
        return ranked[min(len(ranked) - 1, int(part * len(ranked)))]

    named = {"mean": sum(ranked) / len(ranked), "p50": at(0.5), "p95": at(0.95), "max": ranked[-1]}
    return {name: round(value, 4) for name, value in named.items()}
